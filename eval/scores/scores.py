"""All scores of a synthetic table, with the names that benchmarks and reports use.

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
from equistrata.eval.scores.tables import ALL_ROWS, Pair, TableLike, code_with_same_schema, sum_weights_of_distinct_rows
from equistrata.eval.scores.weighted import without_weights
from equistrata.eval.scores.workload import workload_by_stratum, workload_error

ALL = tuple(MODELS)
FOREST, OF_FOREST = "random_forest", ("accuracy", "dpr", "fnr_diff")
# The other scores that are a single number, in the order of the fields of `Scores`.
OF_TABLES = (
    "parity_error",
    "maximum_disparity",
    "workload3",
    "workload3_by_stratum",
    "parity_distance",
    "total_variation",
)
MOST_DRAWN, COLOUR = 40, "#1f6f8b"  # the largest number of strata in a plot, and the colour of the bars
OF_WEIGHTS = ("weighted_parity_error", "weighted_workload3")


@dataclass(frozen=True)
class Scores:
    """Exact scores of a synthetic table against real rows. They are internal.

    Attributes
    ----------
    parity_error : float
        The parity error of the means (see `equistrata.eval.scores.parity`). The best value is 0, and there is no upper
        bound. It is computed from codes, so for a nominal column it depends on the order in which the values are
        declared.
    maximum_disparity : float
        The largest relative error of the mean of a column in a stratum. The best value is 0, and there is no upper
        bound.
    parity_distance : float or None
        The parity distance of the distributions (see `equistrata.eval.scores.distances`). The best value is 0, and the
        maximum for k strata is k + 1/k.
    total_variation : float or None
        The mean of the total variation distances of the columns that define no strata, over all rows, in [0, 1].
    wasserstein : mapping of str to float
        The Wasserstein-1 distance of each numeric column over all rows, in the unit of the column.
    workload3 : float
        The 3-way workload error (see `equistrata.eval.scores.workload`), in [0, 2]. The best value is 0.
    workload3_by_stratum : float
        The mean of the 3-way workload errors of the strata, in [0, 2].
    weighted_parity_error, weighted_workload3 : float or None
        The same as `parity_error` and `workload3`, except that each row is counted by its survey weight. None if there
        are no weights.
    accuracy, dpr, fnr_diff : float or None
        The scores of the random forest that is trained on synthetic rows and tested on held-out real rows (see
        `equistrata.eval.scores.fairness`). They are in [0, 1], and the best values are 1, 1 and 0. None if no forest
        was trained.
    parity_by_stratum : mapping of str to float
        The relative error of the mean in each stratum, averaged over the columns that define no strata.
    parity_by_column : mapping of str to float
        The parity error of each column that defines no strata.
    population_by_column : mapping of str to float
        The relative error of the mean over all rows, for each column that defines no strata.
    workload3_strata : mapping of str to float
        The 3-way workload error of each stratum.
    distance_by_stratum, distance_by_column : mapping of str to float
        The same as `parity_by_stratum` and `parity_by_column`, for the parity distance.
    parity_by_group : mapping of str to mapping of str to float
        The relative error of the mean of each column in each stratum and in all rows (`all`). Not in `to_dict`.
    distance_by_group : mapping of str to mapping of str to float
        The distance of the distribution of each column in each stratum and in all rows (`all`), in [0, 1]. Not in
        `to_dict`.
    classifiers : mapping of str to GroupFairness
        The utility of each model that is trained on synthetic rows.
    baseline : mapping of str to GroupFairness
        The utility of each model that is trained on the real rows. Empty if no baseline was computed.
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
        """Return the scores that are a single number as HTML for notebooks."""
        lines = "".join(f"<tr><td>{name}</td><td>{value:.4f}</td></tr>" for name, value in self._single().items())
        return f"<table><caption>exact scores: internal, not private</caption>{lines}</table>"

    def _single(self) -> dict[str, float]:
        """Return the scores that are a single number and were computed."""
        found = {name: getattr(self, name) for name in (*OF_TABLES, *OF_FOREST, *OF_WEIGHTS)}
        return {name: value for name, value in found.items() if value is not None}

    def plot(self, axes: Any = None) -> Any:
        """Plot the distance of the distributions in each stratum, with the largest distance at the top.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            The axes to draw on. If None, a new figure is created.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the plot.
        """
        worst = sorted(self.distance_by_stratum.items(), key=lambda each: each[1])[-MOST_DRAWN:]
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(figsize=(7.2, 1.2 + 0.3 * max(len(worst), 4)), layout="constrained")[1]
        axes.barh([name for name, _ in worst], [error for _, error in worst], color=COLOUR)
        axes.set(xlabel="distance of distributions, averaged over columns (exact: internal)", xlim=(0, None))
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as a dictionary for JSON, with numbers, None and nested mappings.

        The keys are the names of the fields. The weighted scores are included only if there are weights. The entry
        `classifiers` maps each model to its scores when it is trained on "synthetic" rows and, if there is a baseline,
        on "real" rows.
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
    """Score a synthetic table against the real rows from which it was made.

    The strata of the two tables are matched by their values. Strata with less than `min_share` of the real rows are
    left out. A stratum without synthetic rows has the error 1, or 2 for the workload error. If there are no strata, the
    whole table is a single stratum.

    Parameters
    ----------
    real, synthetic : CodedTable or DataFrame
        Coded tables with the same schema, or data frames with the same columns in any order.
    strata : Strata or sequence of str, default=()
        The strata, or the columns that define them.
    held_out : CodedTable or DataFrame, optional
        Real rows that no synthesizer has seen. If None, no classifier is trained.
    target : str, optional
        The column that the classifiers predict. If None, no classifier is trained.
    classifiers : sequence of str
        The models of `equistrata.eval.scores.classifiers.MODELS` that are trained on the synthetic rows.
    baseline : bool, default=True
        If True, the models are also trained on the real rows.
    min_share : float, default=MIN_SHARE
        Strata with a smaller share of the real rows are left out. In [0, 1).
    times : tuple of two ndarray, optional
        The number of times that each real and each synthetic row occurs, if the tables contain distinct rows only.
        Classifiers cannot be trained in this case.
    survey_weight : str, optional
        The column of data frames that contains the number of people for whom a row stands. This column is not scored.
        The weighted scores count each row by its weight. If the synthetic rows do not have this column, each of them is
        counted as one person.

    Returns
    -------
    Scores
        The exact scores.

    Raises
    ------
    InputError
        If the tables cannot be compared, if a named column is missing, if a setting is out of its range, or if a survey
        weight is negative or not a number. The message does not contain the value of a row.

    Privacy
    -------
    Not private. The scores are exact, so they are internal.

    References
    ----------
    Stratification paper, Definitions 11 and 14 and Figures 4 to 9.
    """
    check_models(classifiers)
    columns = strata.columns if isinstance(strata, Strata) else strata
    tables = {"real": real, "synthetic": synthetic} | ({} if held_out is None else {"test": held_out})
    weights = None if survey_weight is None else without_weights(tables, survey_weight)
    coded = code_with_same_schema(tables, columns, [] if target is None else [target])
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
    """Add the scores of classifiers that are trained on `synthetic` rows and tested on `test` rows.

    If the tables contain `real` rows, the classifiers are also trained on these. The function raises InputError under
    the same conditions as `classifier_utility`. The scores are exact, so they are internal and not private.
    """
    trained, baseline = (
        classifier_utility(tables[name], tables["test"], target, columns, models=models) if name in tables else {}
        for name in ("synthetic", "real")
    )
    forest: dict[str, Any] = {name: getattr(trained[FOREST], name) for name in OF_FOREST if FOREST in trained}
    return replace(scores, classifiers=trained, baseline=baseline, **forest)


def table_scores(pair: Pair) -> Scores:
    """Compute all scores except those of classifiers. The scores are exact, so they are internal and not private."""
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
    """Compute the scores in which each row is counted by its survey weight, so that they measure errors for people.

    Parameters
    ----------
    real, synthetic : CodedTable
        The tables without the column of survey weights.
    strata : sequence of str
        The columns that define the strata.
    weights : tuple of two ndarray
        The survey weights of the real and of the synthetic rows, at least 0. A stratum is covered if its share of the
        real weight is large enough.

    Returns
    -------
    dict of str to float
        The scores in `OF_WEIGHTS`. Empty if all weights of a table are 0.

    Privacy
    -------
    Not private. The scores are exact, so they are internal.
    """
    if not all(each.sum() > 0 for each in weights):
        return {}
    (people, often), (made, stands_for) = map(sum_weights_of_distinct_rows, (real, synthetic), weights)
    pair = Pair.of(people, made, strata, times=(often, stands_for))
    return dict(zip(OF_WEIGHTS, (parity_error(pair).value, workload_error(pair)), strict=True))


def _by_group(parity: ParityError) -> dict[str, dict[str, float]]:
    """Return the error of each column in each stratum and in all rows (`all`)."""
    labels, errors = (*parity.strata, ALL_ROWS), np.vstack([parity.errors, parity.population])
    within = [dict(zip(labels, of, strict=True)) for of in errors.T.tolist()]
    return dict(zip(parity.components, within, strict=True))
