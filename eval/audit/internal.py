"""The internal audit: the same questions as the public one, answered exactly from private rows. Never to be published.

`InternalAudit` and `equistrata.eval.audit.public.PublicAudit` are types without a common ancestor: whatever publishes
an audit takes the public one only.

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "MAR", "ESR"])
>>> rng = np.random.default_rng(0)
>>> rows = CodedTable(np.stack([rng.integers(0, size, 900) for size in schema.sizes], axis=1).astype(np.uint8), schema)
>>> audit = internal_audit(rows, rows, Strata.over(schema, ["SEX"]), target="ESR")
>>> audit.scores.parity_error, round(audit.calibration["SEX=1"], 2), audit.to_dict()["mode"]
(0.0, 1.0, 'internal')
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import MIN_SHARE, Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.noisy_number import ByStratum, Grouping, SyntheticSummary, named
from equistrata.eval.scores.classifiers import Classifier, train_classifier, truth_of
from equistrata.eval.scores.fairness import GroupFairness, group_fairness
from equistrata.eval.scores.scores import Scores, table_scores, weighted_scores
from equistrata.eval.scores.tables import ALL_ROWS, Pair, in_bins, numbers_of

ColumnPair = tuple[str, str]
Outcomes = Mapping[str, Mapping[str, npt.ArrayLike]]


@dataclass(frozen=True)
class MeanComparison:
    """The exact mean of private rows (None where there is none), and a published one (its value may be None)."""

    exact: float | None
    value: float | None
    lower: float
    upper: float

    @property
    def relative_error(self) -> float | None:
        """|value − exact| / |exact|; None where either is missing or the exact mean is 0."""
        if self.exact is None or self.value is None or not self.exact:
            return None
        return abs(self.value - self.exact) / abs(self.exact)

    @property
    def covered(self) -> bool:
        """Whether the published interval, which was made to hold the population's mean, holds the exact one."""
        return self.exact is not None and self.lower <= self.exact <= self.upper

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an infinite end is null."""
        end = {"upper": self.upper if math.isfinite(self.upper) else None}
        return asdict(self) | end | {"relative_error": self.relative_error, "covered": self.covered}


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """One column: the words of each of its k values, and their real and synthetic shares, shape (k,)."""

    words: tuple[str, ...]
    real: Floats
    synthetic: Floats


@dataclass(frozen=True, eq=False)
class MarginalComparison:
    """Marginals of one release next to those of the private rows. EXACT, so internal.

    Attributes:
        columns: column → its shares over all rows.
        group: the stratum that is shown too: the one at the largest distance; empty without strata.
        in_group: column that defines no strata → its shares in that stratum.
        pairs: pair → L1 distance of its two marginals, in [0, 2].
    """

    columns: dict[str, ColumnShares]
    group: str
    in_group: dict[str, ColumnShares]
    pairs: dict[ColumnPair, float]

    def to_dict(self) -> dict[str, Any]:
        """For the internal audit's JSON."""
        columns, in_group = (
            {
                name: {"values": list(of.words), "real": of.real.tolist(), "synthetic": of.synthetic.tolist()}
                for name, of in shares.items()
            }
            for shares in (self.columns, self.in_group)
        )
        pairs = {" × ".join(pair): error for pair, error in self.pairs.items()}
        return {"columns": columns, "group": self.group, "in_group": in_group, "pairs": pairs}


@dataclass(frozen=True, eq=False)
class InternalAudit:
    """Exact scores of a release, computed from private rows at no cost: internal.

    Strata go by their labels. Those under `min_share` of the rows are left out of parity and workload scores, those
    under 20 rows out of rates (as everywhere in `eval`); sizes and calibration have every declared one.

    Attributes:
        sizes: stratum → number of rows.
        scores: parity distance and workload error, and the paper's parity error and maximum disparity, which read
            codes (`equistrata.eval.scores.scores`), and weighted ones where rows have weights; without classifiers.
        classifier, target, positive: what was trained on the synthetic rows; empty without a target.
        fairness: of its predictions on the private rows: accuracy, demographic parity ratio, FNR difference, rates by
            stratum; None without a target.
        calibration: stratum (and `all`) → Σ predicted probability / Σ positive rows; None where no row is positive.
        means: column → stratum → a published mean and the exact one.
        marginals: one-way and two-way, real and synthetic.
        synthetic: what a report shows of the synthetic rows. Public; not in `to_dict`, nor are `marginals`.
    """

    WATERMARK: ClassVar[str] = "internal: computed from private rows"

    strata_columns: tuple[str, ...]
    sizes: Mapping[str, int]
    scores: Scores
    classifier: str
    target: str
    positive: str
    fairness: GroupFairness | None
    calibration: Mapping[str, float | None]
    means: Mapping[str, Mapping[str, MeanComparison]]
    marginals: MarginalComparison
    synthetic: SyntheticSummary

    def to_dict(self) -> dict[str, Any]:
        """For an `audit.json` that stays inside: plain numbers, texts and mappings."""
        return {
            "mode": "internal",
            "warning": self.WATERMARK,
            "strata_columns": list(self.strata_columns),
            "sizes": dict(self.sizes),
            "scores": self.scores.to_dict(),
            "distance": {column: dict(of) for column, of in self.scores.distance_by_group.items()},
            "parity": {column: dict(errors) for column, errors in self.scores.parity_by_group.items()},
            "classifier": self.classifier,
            "target": self.target,
            "positive": self.positive,
            "fairness": asdict(self.fairness) if self.fairness is not None else None,
            "calibration": dict(self.calibration),
            "means": {
                column: {label: mean.to_dict() for label, mean in means.items()} for column, means in self.means.items()
            },
        }


def internal_audit(
    private: CodedTable,
    synthetic: CodedTable,
    strata: Strata,
    *,
    classifier: Classifier | None = None,
    target: str | None = None,
    published: Mapping[str, ByStratum] | None = None,
    outcomes: Outcomes | None = None,
    min_share: float = MIN_SHARE,
    weights: tuple[Floats, Floats] | None = None,
) -> InternalAudit:
    """Audit a release with exact numbers.

    Args:
        private, synthetic: coded rows of one schema, at least one each.
        strata: over that schema.
        classifier, target: as `equistrata.eval.audit.public.public_audit`.
        published: column → stratum → a mean that was published (Coinpress), to compare with the exact one.
        outcomes: for columns that are averaged but not released: column → stratum → its values, each shape (nᵢ,), the
            rows of one stratum. A published mean of any other column is of its codes, as
            `equistrata.eval.scores.tables.numbers_of` counts them.
        min_share: strata with fewer of the private rows are left out of parity and workload scores; in [0, 1).
        weights: the survey weight of each private and synthetic row, which is no column of the tables; for
            `weighted_scores` alone.

    Raises InputError if the tables cannot be compared, or a setting is out of its range.
    Privacy: EXACT, so internal; not private.
    """
    grouping = Grouping(strata)
    index = strata.index(private)
    pair = Pair.of(private, synthetic, strata.columns, min_share=min_share)
    scores = table_scores(pair)
    if weights is not None:
        scores = replace(scores, **weighted_scores(private, synthetic, strata.columns, weights))
    fairness, calibration = None, {}
    if classifier is None and (target or synthetic.schema.target) is not None:
        classifier = train_classifier(synthetic, target)
    if classifier is not None:
        found, truth = classifier.predict(private), truth_of(private, classifier)
        fairness = group_fairness(truth, found.selected, np.array(grouping.labels)[index], positive=True)
        calibration = grouping.ratios(index, found.score, truth)
    compared = {}
    for column, means in (published or {}).items():
        exact = _exact_means(column, (outcomes or {}).get(column), private, grouping, index)
        compared[column] = {
            label: MeanComparison(exact.get(label), mean.value, mean.lower, mean.upper) for label, mean in means.items()
        }
    worst = max(scores.distance_by_stratum, key=scores.distance_by_stratum.__getitem__, default="")
    return InternalAudit(
        strata_columns=strata.columns,
        sizes=grouping.labelled(np.bincount(index, minlength=len(grouping.labels)).tolist()),
        scores=scores,
        **named(classifier),
        fairness=fairness,
        calibration=calibration,
        means=compared,
        marginals=marginals(pair, worst),
        synthetic=SyntheticSummary.of(synthetic, grouping),
    )


def _exact_means(
    column: str, values: Mapping[str, npt.ArrayLike] | None, private: CodedTable, grouping: Grouping, index: Counts
) -> dict[str, float | None]:
    """Stratum (and `all`) → the exact mean of a column, or of these values; None where there is no row."""
    if values is None:
        numbers = numbers_of(private.schema[column])[private.column(column)]
        return grouping.ratios(index, numbers)
    arrays = {label: np.asarray(of, dtype=np.float64) for label, of in values.items()}
    arrays.setdefault(ALL_ROWS, np.concatenate([*arrays.values(), np.empty(0)]))
    return {label: float(array.mean()) if array.size else None for label, array in arrays.items()}


def marginals(pair: Pair, group: str) -> MarginalComparison:
    """Marginals of two tables, over all rows and within the stratum of this label (if any)."""
    private, synthetic = in_bins(pair.real, pair.synthetic)
    pairs = pair_errors(private, synthetic)
    within: dict[str, ColumnShares] = {}
    if group:
        rows = pair.rows[group]
        within = _columns(private.take(rows[0]), synthetic.take(rows[1]), pair.columns)
    columns = _columns(private, synthetic, private.schema.names)
    return MarginalComparison(columns, group, within, pairs)


def pair_errors(private: CodedTable, synthetic: CodedTable) -> dict[ColumnPair, float]:
    """The L1 distance between the 2-way marginals of two tables, for each pair of columns; in [0, 2].

    >>> from equistrata.data.schema import Schema
    >>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
    >>> real, made = (CodedTable(np.array(rows, dtype=np.uint8), schema) for rows in (
    ...     [[0, 0, 0], [1, 1, 1]], [[0, 0, 1], [1, 1, 0]]))
    >>> pair_errors(real, made)[("DIS", "ESR")]
    2.0
    """
    return {
        pair: float(np.abs(_shares(private, pair) - _shares(synthetic, pair)).sum())
        for pair in combinations(private.schema.names, 2)
    }


def _shares(table: CodedTable, names: tuple[str, ...]) -> Floats:
    return table.marginal(names) / max(len(table), 1)


def _columns(private: CodedTable, synthetic: CodedTable, names: tuple[str, ...]) -> dict[str, ColumnShares]:
    columns = [private.schema[name] for name in names]
    words = [tuple(map(column.words, column.keys)) for column in columns]
    shares = ([_shares(table, (name,)) for name in names] for table in (private, synthetic))
    return dict(zip(names, map(ColumnShares, words, *shares), strict=True))
