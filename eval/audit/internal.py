"""The internal audit, which is computed exactly from the private rows and must not be published.

The internal audit answers the same questions as the public one. `InternalAudit` and
`equistrata.eval.audit.public.PublicAudit` have no common base class, so a function that publishes an audit accepts only
the public type.

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
    """A published mean and the exact mean of the same private rows.

    Attributes
    ----------
    exact : float or None
        The exact mean of the private rows. None if there are no rows.
    value : float or None
        The published mean. None if the noise left no estimate.
    lower, upper : float
        The ends of the published interval.
    """

    exact: float | None
    value: float | None
    lower: float
    upper: float

    @property
    def relative_error(self) -> float | None:
        """Return |value − exact| / |exact|, or None if either number is missing or the exact mean is 0."""
        if self.exact is None or self.value is None or not self.exact:
            return None
        return abs(self.value - self.exact) / abs(self.exact)

    @property
    def covered(self) -> bool:
        """Return True if the published interval contains the exact mean.

        The interval was made to cover the population mean, so the exact mean of the rows may be outside of it.
        """
        return self.exact is not None and self.lower <= self.exact <= self.upper

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON. An infinite upper end is null."""
        end = {"upper": self.upper if math.isfinite(self.upper) else None}
        return asdict(self) | end | {"relative_error": self.relative_error, "covered": self.covered}


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """The real and the synthetic distribution of one column.

    Attributes
    ----------
    words : tuple of str
        The labels of the k values of the column.
    real, synthetic : ndarray of shape (k,)
        The share of each value in the private rows and in the synthetic rows.
    """

    words: tuple[str, ...]
    real: Floats
    synthetic: Floats


@dataclass(frozen=True, eq=False)
class MarginalComparison:
    """The marginals of one release and those of the private rows. The numbers are exact, so they are internal.

    Attributes
    ----------
    columns : dict of str to ColumnShares
        The shares of each column over all rows.
    group : str
        The label of the stratum with the largest distance, which is shown as well. Empty if there are no strata.
    in_group : dict of str to ColumnShares
        The shares in that stratum, for each column that defines no strata.
    pairs : dict of tuple of str to float
        The L1 distance between the real and the synthetic marginal of each pair of columns, in [0, 2].
    """

    columns: dict[str, ColumnShares]
    group: str
    in_group: dict[str, ColumnShares]
    pairs: dict[ColumnPair, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for the JSON file of the internal audit."""
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
    """Exact scores of a release, which are computed from private rows at no cost and are therefore internal.

    Strata are named by their labels. Strata with less than `min_share` of the rows are left out of the parity and
    workload scores. Strata with fewer than 20 rows are left out of the rates, as everywhere in `eval`. The sizes and
    the calibration ratios include every declared stratum.

    Attributes
    ----------
    strata_columns : tuple of str
        The columns that define the strata.
    sizes : mapping of str to int
        The number of private rows in each stratum.
    scores : Scores
        The parity distance and the workload error, together with the parity error and the maximum disparity of the
        paper, which depend on the codes (see `equistrata.eval.scores.scores`). The weighted scores are included if the
        rows have weights. The scores of classifiers are not included.
    classifier, target, positive : str
        The name of the classifier that was trained on the synthetic rows, the column that it predicts, and the positive
        value of that column. Empty if there is no target.
    fairness : GroupFairness or None
        The fairness of the predictions for the private rows: the accuracy, the demographic parity ratio, the difference
        of the false negative rates, and the rates in each stratum. None if there is no target.
    calibration : mapping of str to float or None
        The sum of the predicted probabilities divided by the number of positive rows, in each stratum and in all rows
        (`all`). None if no row is positive.
    means : mapping of str to mapping of str to MeanComparison
        The published and the exact mean of each column in each stratum.
    marginals : MarginalComparison
        The real and the synthetic one-way and two-way marginals. Not in `to_dict`.
    synthetic : SyntheticSummary
        The numbers that a report shows of the synthetic rows, which are public. Not in `to_dict`.
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
        """Return the audit as a dictionary for an `audit.json` that is not published."""
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

    Parameters
    ----------
    private, synthetic : CodedTable
        The coded rows, with the same schema and at least one row each.
    strata : Strata
        The strata, defined over the same schema.
    classifier : Classifier, optional
        The classifier to evaluate, as in `equistrata.eval.audit.public.public_audit`.
    target : str, optional
        The column that the classifier predicts, as in `equistrata.eval.audit.public.public_audit`.
    published : mapping of str to mapping of str to NoisyNumber, optional
        The means that were published (by Coinpress), for each column and each stratum. They are compared with the exact
        means.
    outcomes : mapping of str to mapping of str to array-like, optional
        The values of columns that are averaged but not released. Each stratum of a column has an array of shape (n_i,),
        with one value per row. The published mean of any other column is the mean of its codes, which have the values
        that `equistrata.eval.scores.tables.numbers_of` returns.
    min_share : float, default=MIN_SHARE
        Strata with a smaller share of the private rows are left out of the parity and workload scores. In [0, 1).
    weights : tuple of two ndarray, optional
        The survey weights of the private rows and of the synthetic rows. The weights are not a column of the tables,
        and only `weighted_scores` uses them.

    Returns
    -------
    InternalAudit
        The exact scores of the release.

    Raises
    ------
    InputError
        If the tables cannot be compared, or if a setting is out of its range.

    Privacy
    -------
    Not private. The numbers are exact, so the audit is internal.
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
    """Return the exact mean in each stratum and in all rows. The mean is None if there are no rows."""
    if values is None:
        numbers = numbers_of(private.schema[column])[private.column(column)]
        return grouping.ratios(index, numbers)
    arrays = {label: np.asarray(of, dtype=np.float64) for label, of in values.items()}
    arrays.setdefault(ALL_ROWS, np.concatenate([*arrays.values(), np.empty(0)]))
    return {label: float(array.mean()) if array.size else None for label, array in arrays.items()}


def marginals(pair: Pair, group: str) -> MarginalComparison:
    """Compare the marginals of two tables over all rows and, if a label is given, within that stratum."""
    private, synthetic = in_bins(pair.real, pair.synthetic)
    pairs = pair_errors(private, synthetic)
    within: dict[str, ColumnShares] = {}
    if group:
        rows = pair.rows[group]
        within = _columns(private.take(rows[0]), synthetic.take(rows[1]), pair.columns)
    columns = _columns(private, synthetic, private.schema.names)
    return MarginalComparison(columns, group, within, pairs)


def pair_errors(private: CodedTable, synthetic: CodedTable) -> dict[ColumnPair, float]:
    """Compute the L1 distance between the two-way marginals of two tables.

    Parameters
    ----------
    private, synthetic : CodedTable
        The tables, with the same schema.

    Returns
    -------
    dict of tuple of str to float
        The distance for each pair of columns, in [0, 2].

    Examples
    --------
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
