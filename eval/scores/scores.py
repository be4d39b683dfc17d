"""All scores of one synthetic table, under the names that benchmarks and reports use.

>>> import pandas as pd
>>> real = pd.DataFrame({"G": [1, 1, 2, 2], "A": [1, 1, 2, 2], "B": [3, 4, 3, 4], "Y": [0, 1, 0, 1]})
>>> scores = score(real, real.iloc[[0, 0, 2, 3]], ["G"])
>>> round(scores.parity_error, 4), scores.maximum_disparity, scores.workload3, scores.workload3_by_stratum
(0.4762, 1.0, 0.5, 0.5)
>>> scores.accuracy is None
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import MIN_SHARE, Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.classifiers import MODELS, check_models, classifier_utility
from equistrata.eval.scores.distances import parity_distance, total_variation, wasserstein
from equistrata.eval.scores.fairness import GroupFairness
from equistrata.eval.scores.parity import ParityError, parity_error
from equistrata.eval.scores.tables import ALL_ROWS, Pair, TableLike, coded_alike, weighed_rows
from equistrata.eval.scores.weighted import without_weights
from equistrata.eval.scores.workload import workload_by_stratum, workload_error

ALL = tuple(MODELS)
FOREST, OF_FOREST = "random_forest", ("accuracy", "dpr", "fnr_diff")
# The other scores that are one number each, in the order of `Scores`.
OF_TABLES = (
    "parity_error", "maximum_disparity", "workload3", "workload3_by_stratum", "parity_distance", "total_variation"
)  # fmt: skip
MOST_DRAWN, COLOUR = 40, "#1f6f8b"  # strata of a plot
OF_WEIGHTS = ("weighted_parity_error", "weighted_workload3")


@dataclass(frozen=True)
class Scores:
    """Exact, internal scores of a synthetic table against real rows.

    Attributes:
        parity_error: of the means, see `equistrata.eval.scores.parity`; 0 is best, no upper bound.
            It reads codes: of nominal columns it depends on the order in which values are declared.
        maximum_disparity: the largest relative error of a column's mean in a stratum; 0 is best, no upper bound.
        parity_distance: of the columns' distributions, see `equistrata.eval.scores.distances`; 0 is best, k + 1/k the
            most over k strata.
        total_variation: of single columns over all rows, a mean over those that define no strata; in [0, 1].
        wasserstein: numeric column → Wasserstein-1 distance of its values over all rows, in its unit.
        workload3: 3-way workload error, see `equistrata.eval.scores.workload`; in [0, 2], 0 is best.
        workload3_by_stratum: the same within strata, averaged over them; in [0, 2].
        weighted_parity_error, weighted_workload3: as `parity_error` and `workload3`, with each row counted by its
            survey weight; None without weights.
        accuracy, dpr, fnr_diff: of the random forest trained on synthetic rows and tested on held-out real ones, see
            `equistrata.eval.scores.fairness`; each in [0, 1], best 1, 1 and 0. None when no forest was asked for.
        parity_by_stratum: stratum → relative error of the mean, averaged over the columns that define no strata.
        parity_by_column: each such column → its parity error.
        population_by_column: each such column → relative error of its mean over all rows.
        workload3_strata: stratum → its 3-way workload error.
        distance_by_stratum, distance_by_column: as of parity, of `parity_distance`.
        parity_by_group: each such column → stratum (and `all`) → relative error of its mean. Not in `to_dict`.
        distance_by_group: each such column → stratum (and `all`) → distance of its distribution, in [0, 1]. Not in
            `to_dict`.
        classifiers: model → utility when trained on synthetic rows.
        baseline: model → utility when trained on the real rows; empty when not asked for.
    """

    parity_error: float
    maximum_disparity: float
    workload3: float
    workload3_by_stratum: float
    weighted_parity_error: float | None = None
    weighted_workload3: float | None = None
    accuracy: float | None = None
    dpr: float | None = None
    fnr_diff: float | None = None
    parity_by_stratum: Mapping[str, float] = field(default_factory=dict)
    parity_by_column: Mapping[str, float] = field(default_factory=dict)
    population_by_column: Mapping[str, float] = field(default_factory=dict)
    workload3_strata: Mapping[str, float] = field(default_factory=dict)
    parity_distance: float | None = None
    total_variation: float | None = None
    wasserstein: Mapping[str, float] = field(default_factory=dict)
    distance_by_stratum: Mapping[str, float] = field(default_factory=dict)
    distance_by_column: Mapping[str, float] = field(default_factory=dict)
    parity_by_group: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    distance_by_group: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    classifiers: Mapping[str, GroupFairness] = field(default_factory=dict)
    baseline: Mapping[str, GroupFairness] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Scores({', '.join(f'{name}={value:.4g}' for name, value in self._single().items())})"

    def _repr_html_(self) -> str:
        """For notebooks: the scores that are one number each."""
        lines = "".join(f"<tr><td>{name}</td><td>{value:.4f}</td></tr>" for name, value in self._single().items())
        return f"<table><caption>exact scores: internal, not private</caption>{lines}</table>"

    def _single(self) -> dict[str, float]:
        """The scores that are one number each and were asked for."""
        found = {name: getattr(self, name) for name in (*OF_TABLES, *OF_FOREST, *OF_WEIGHTS)}
        return {name: value for name, value in found.items() if value is not None}

    def plot(self, axes: Any = None) -> Any:
        """Draw the distance of each stratum's distributions, the worst on top; matplotlib's axes."""
        worst = sorted(self.distance_by_stratum.items(), key=lambda each: each[1])[-MOST_DRAWN:]
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(figsize=(7.2, 1.2 + 0.3 * max(len(worst), 4)), layout="constrained")[1]
        axes.barh([name for name, _ in worst], [error for _, error in worst], color=COLOUR)
        axes.set(xlabel="distance of distributions, averaged over columns (exact: internal)", xlim=(0, None))
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, None and nested mappings, ready for JSON.

        Scores are at top level under their field names, weighted ones only where there are weights; `classifiers` maps
        each model to its scores when trained on "synthetic" and, if asked for, on "real" rows.
        """
        plain = asdict(self)
        baseline = plain.pop("baseline")
        del plain["parity_by_group"], plain["distance_by_group"]
        for name in OF_WEIGHTS:
            if plain[name] is None:
                del plain[name]
        plain["classifiers"] = {
            model: {"synthetic": utility} | ({"real": baseline[model]} if model in baseline else {})
            for model, utility in plain["classifiers"].items()
        }
        return plain


def score(
    real: TableLike,
    synthetic: TableLike,
    strata: Strata | Sequence[str] = (),
    *,
    held_out: TableLike | None = None,
    target: str | None = None,
    classifiers: Sequence[str] = ALL,
    baseline: bool = True,
    min_share: float = MIN_SHARE,
    times: tuple[Counts, Counts] | None = None,
    survey_weight: str | None = None,
) -> Scores:
    """Score a synthetic table against the real rows it was made from and, for classifiers, held-out real rows.

    Strata are matched by their values. Those with less than `min_share` of the real rows are left out; a stratum
    without synthetic rows counts as error 1 (2 for workload error). Without strata the whole table is one.

    Args:
        real, synthetic, held_out: coded tables of one schema, or data frames with the same columns in any order. No
            synthesizer saw the held-out rows; without them (or without `target`) no classifier is trained.
        strata: the strata, or the columns that define them.
        target: the column that classifiers predict.
        classifiers: which of `equistrata.eval.scores.classifiers.MODELS` to train on the synthetic rows.
        baseline: train them on the real rows as well.
        min_share: in [0, 1).
        times: how often each real and synthetic row occurs, if tables hold distinct rows only; no classifiers then.
        survey_weight: the column of data frames that says how many people a row stands for. It is not scored; weighted
            scores count each row by it. Synthetic rows without it count once each, as people.

    Raises InputError if the tables cannot be compared, a named column is absent, a setting is out of its range, or a
    survey weight is negative or no number. No
    row's value is quoted.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definitions 11 and 14 and Figures 4 to 9.
    """
    check_models(classifiers)
    columns = strata.columns if isinstance(strata, Strata) else strata
    tables = {"real": real, "synthetic": synthetic} | ({} if held_out is None else {"test": held_out})
    weights = None if survey_weight is None else without_weights(tables, survey_weight)
    coded = coded_alike(tables, columns, [] if target is None else [target])
    pair = Pair.of(coded["real"], coded["synthetic"], columns, min_share=min_share, times=times)
    declared = any(isinstance(table, CodedTable) for table in tables.values())
    scores = table_scores(replace(pair, declared=declared))
    if weights is not None:
        scores = replace(scores, **weighted_scores(coded["real"], coded["synthetic"], columns, weights))
    if "test" not in coded or target is None or not classifiers:
        return scores
    if times is not None:
        raise InputError("classifiers need whole tables, not their distinct rows; leave out 'times' or 'held_out'")
    if not baseline:
        del coded["real"]
    return with_utility(scores, coded, target, columns, classifiers)


def with_utility(
    scores: Scores, tables: Mapping[str, CodedTable], target: str, columns: Sequence[str], models: Sequence[str] = ALL
) -> Scores:
    """The scores, and those of classifiers trained on `synthetic` rows (and `real` ones, if given), tested on `test`.

    Raises InputError as `classifier_utility`. Privacy: EXACT, so internal; not private.
    """
    trained, baseline = (
        classifier_utility(tables[name], tables["test"], target, columns, models=models) if name in tables else {}
        for name in ("synthetic", "real")
    )
    forest: dict[str, Any] = {name: getattr(trained[FOREST], name) for name in OF_FOREST if FOREST in trained}
    return replace(scores, classifiers=trained, baseline=baseline, **forest)


def table_scores(pair: Pair) -> Scores:
    """The scores without classifiers. Privacy: EXACT, so internal; not private."""
    parity, workload, distance = parity_error(pair), workload_by_stratum(pair), parity_distance(pair)
    by_group = _by_group(parity)
    return Scores(
        parity_error=parity.value,
        maximum_disparity=parity.maximum,
        workload3=workload_error(pair),
        workload3_by_stratum=float(np.mean(list(workload.values()))),
        parity_by_stratum=parity.by_stratum,
        parity_by_column=parity.by_column,
        population_by_column={column: errors[ALL_ROWS] for column, errors in by_group.items()},
        workload3_strata=workload,
        parity_distance=distance.value,
        total_variation=float(np.mean(total_variation(pair).population)),
        wasserstein=wasserstein(pair),
        distance_by_stratum=distance.by_stratum,
        distance_by_column=distance.by_column,
        parity_by_group=by_group,
        distance_by_group=_by_group(distance),
    )


def weighted_scores(
    real: CodedTable, synthetic: CodedTable, strata: Sequence[str], weights: tuple[Floats, Floats]
) -> dict[str, Any]:
    """`OF_WEIGHTS` of two tables without the survey weight: how far estimates of people are off, not of rows.

    Args:
        weights: the survey weight of each real and each synthetic row, at least 0. Strata are covered by their share of
            the real weight. There are no scores where all weights of a table are 0.

    Privacy: EXACT, so internal; not private.
    """
    if not all(each.sum() > 0 for each in weights):
        return {}
    (people, often), (made, stands_for) = map(weighed_rows, (real, synthetic), weights)
    pair = Pair.of(people, made, strata, times=(often, stands_for))
    return dict(zip(OF_WEIGHTS, (parity_error(pair).value, workload_error(pair)), strict=True))


def _by_group(parity: ParityError) -> dict[str, dict[str, float]]:
    """Column → stratum (and `all`) → its error."""
    labels, errors = (*parity.strata, ALL_ROWS), np.vstack([parity.errors, parity.population])
    within = [dict(zip(labels, of, strict=True)) for of in errors.T.tolist()]
    return dict(zip(parity.components, within, strict=True))
