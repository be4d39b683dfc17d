"""All scores of one synthetic table, under the names that benchmarks and reports use.

EXACT scores are queries on private rows at no privacy cost: they are internal, and must not be published.

>>> real = pd.DataFrame({"G": [1, 1, 2, 2], "A": [1, 1, 2, 2], "B": [3, 4, 3, 4], "Y": [0, 1, 0, 1]})
>>> scores = score_tables(real, real, real.iloc[[0, 0, 2, 3]], ["G"], "Y", quick=True)
>>> round(scores.parity_error, 4), scores.maximum_disparity, scores.workload3, scores.workload3_by_stratum
(0.4762, 1.0, 0.5, 0.5)
>>> scores.accuracy is None
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from equistrata.errors import InputError
from equistrata.eval.scores.classifiers import MODELS, classifier_utility
from equistrata.eval.scores.coding import Times, check_tables
from equistrata.eval.scores.fairness import GroupFairness
from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.workload import workload_error, workload_error_by_stratum

FOREST = "random_forest"


@dataclass(frozen=True)
class Scores:
    """Exact, internal scores of a synthetic table against real rows.

    Attributes:
        parity_error: of the means, see `equistrata.eval.scores.parity`; 0 is best, no upper bound.
        maximum_disparity: the largest relative error of a column's mean in a stratum; 0 is best, no upper bound.
        workload3: 3-way workload error, see `equistrata.eval.scores.workload`; in [0, 2], 0 is best.
        workload3_by_stratum: the same within strata, averaged over them; in [0, 2].
        accuracy, dpr, fnr_diff: of the random forest trained on synthetic rows and tested on held-out real ones, see
            `equistrata.eval.scores.fairness`; each in [0, 1], best 1, 1 and 0. None when no forest was asked for.
        parity_by_stratum: stratum → relative error of the mean, averaged over the columns that define no strata.
        parity_by_column: each such column → its parity error.
        population_by_column: each such column → relative error of its mean over all rows.
        workload3_strata: stratum → its 3-way workload error.
        classifiers: model → utility when trained on synthetic rows.
        baseline: model → utility when trained on the real rows; empty when not asked for.
    """

    parity_error: float
    maximum_disparity: float
    workload3: float
    workload3_by_stratum: float
    accuracy: float | None = None
    dpr: float | None = None
    fnr_diff: float | None = None
    parity_by_stratum: Mapping[str, float] = field(default_factory=dict)
    parity_by_column: Mapping[str, float] = field(default_factory=dict)
    population_by_column: Mapping[str, float] = field(default_factory=dict)
    workload3_strata: Mapping[str, float] = field(default_factory=dict)
    classifiers: Mapping[str, GroupFairness] = field(default_factory=dict)
    baseline: Mapping[str, GroupFairness] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, None and nested mappings, ready for JSON.

        The seven scores are at top level under their field names; the details beside them are mappings, and
        `classifiers` maps each model to its scores when trained on "synthetic" and, if asked for, on "real" rows.
        """
        return {
            "parity_error": self.parity_error,
            "maximum_disparity": self.maximum_disparity,
            "workload3": self.workload3,
            "workload3_by_stratum": self.workload3_by_stratum,
            "accuracy": self.accuracy,
            "dpr": self.dpr,
            "fnr_diff": self.fnr_diff,
            "parity_by_stratum": dict(self.parity_by_stratum),
            "parity_by_column": dict(self.parity_by_column),
            "population_by_column": dict(self.population_by_column),
            "workload3_strata": dict(self.workload3_strata),
            "classifiers": {
                model: {"synthetic": utility.to_dict()}
                | ({"real": self.baseline[model].to_dict()} if model in self.baseline else {})
                for model, utility in self.classifiers.items()
            },
        }


def score_tables(
    real: pd.DataFrame,
    test: pd.DataFrame | None,
    synthetic: pd.DataFrame,
    strata_columns: Sequence[str],
    target: str | None,
    *,
    min_share: float = 0.001,
    classifiers: Sequence[str] = tuple(MODELS),
    baseline: bool = True,
    quick: bool = False,
    times: Times = None,
) -> Scores:
    """Score a synthetic table against the real rows it was made from and against held-out real rows.

    Every argument but the classifiers' is explained in `equistrata.eval.scores.parity`, `equistrata.eval.scores.workload` and `equistrata.eval.scores.classifiers`, with
    what 0 and 1 mean. The scorer's conventions: strata under `min_share` of the real rows are left out, a lost stratum
    counts as error 1 (2 for workload error), strata are matched by key. Without strata columns the whole table is
    one population and one stratum.

    Args:
        real: the released (coded) form of the rows that the synthetic table was made from.
        test: held-out real rows, which no synthesizer saw; None for no classifiers.
        synthetic: the released table. Columns are matched by name.
        strata_columns: the columns that define strata; may be none.
        target: the column that classifiers predict; None for no classifiers.
        min_share: in [0, 1).
        classifiers: which of `equistrata.eval.scores.classifiers.MODELS` to train.
        baseline: train them on the real rows as well.
        quick: no classifiers.
        times: how often each real and each synthetic row occurs, where the tables hold distinct rows only: the scores
            are those of the whole tables. Without classifiers only.

    Raises:
        InputError: a table is empty, the tables' columns differ, a named column is absent, a column holds numbers in
            one table and text in another, or a setting is out of its range. No row's value is quoted.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definitions 11 and 14 and Figures 4 to 9.
    """
    for name in classifiers:
        if name not in MODELS:
            raise InputError(f"unknown classifier {name!r}; choose among {', '.join(MODELS)}")
    if times is not None and not quick:
        raise InputError("classifiers need whole tables, not their distinct rows; leave out 'times' or ask for quick")
    tables = {"real": real, "synthetic": synthetic} | ({} if test is None else {"test": test})
    check_tables(tables, strata_columns, [] if target is None else [target])
    synthetic = synthetic[list(real.columns)]
    parity = parity_error(real, synthetic, strata_columns, min_share=min_share, times=times)
    strata = workload_error_by_stratum(real, synthetic, strata_columns, min_share, times=times)
    trained: dict[str, GroupFairness] = {}
    reference: dict[str, GroupFairness] = {}
    if test is not None and target is not None and classifiers and not quick:
        test = test[list(real.columns)]
        trained = classifier_utility(synthetic, test, target, strata_columns, models=classifiers)
        if baseline:
            reference = classifier_utility(real, test, target, strata_columns, models=classifiers)
    forest = trained.get(FOREST)
    return Scores(
        parity_error=parity.value,
        maximum_disparity=parity.maximum,
        workload3=workload_error(real, synthetic, times=times),
        workload3_by_stratum=strata.value,
        accuracy=forest.accuracy if forest else None,
        dpr=forest.dpr if forest else None,
        fnr_diff=forest.fnr_diff if forest else None,
        parity_by_stratum=parity.by_stratum,
        parity_by_column=parity.by_column,
        population_by_column=dict(zip(parity.components, parity.population.tolist(), strict=True)),
        workload3_strata=strata.by_stratum,
        classifiers=trained,
        baseline=reference,
    )
