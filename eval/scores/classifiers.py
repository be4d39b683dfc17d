"""What a classifier trained on synthetic rows is worth on real ones, as a whole and to each stratum.

An EXACT score is a query on private rows at no privacy cost: it is internal, and must not be published.

>>> train = pd.DataFrame({"A": [0, 0, 1, 1] * 10, "G": [1, 2] * 20, "Y": [0, 0, 1, 1] * 10})
>>> test = pd.DataFrame({"A": [0, 1] * 20, "G": [1] * 20 + [2] * 20, "Y": [0, 1] * 18 + [1, 1] * 2})
>>> forest = classifier_utility(train, test, "Y", ["G"], models=["random_forest"])["random_forest"]
>>> forest.accuracy, forest.dpr, round(forest.fnr_diff, 4)
(0.95, 1.0, 0.1667)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.eval.scores.coding import Index, check_tables, combine, joint_codes, joint_numbers, stratum_index
from equistrata.eval.scores.fairness import GroupFairness, group_fairness
from equistrata.extras import need

Fit = Callable[["_Features", Index, int], Callable[["_Features"], Index]]

_ONE_HOT_LEVELS = 50


def classifier_utility(
    train: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    strata_columns: Sequence[str],
    *,
    models: Sequence[str] = ("random_forest", "logistic_regression", "gradient_boosting"),
    positive: float | str | None = None,
    min_rows: int = 20,
    seed: int = 42,
) -> dict[str, GroupFairness]:
    """Train classifiers on one table, the synthetic (or, for comparison, the real training) rows; test on held-out rows.

    Models, each predicting `target` from all other columns, those that define strata included:

    - random_forest: scikit-learn's, 100 trees, otherwise its defaults, on the released numbers row by row.
    - logistic_regression: scikit-learn's defaults; columns of text or of up to 50 values one-hot over the values of
      both tables, the others standardised by the training rows, with a mark for absent cells. Equal training rows are
      collapsed into one with a weight, which leaves the objective as it is.
    - gradient_boosting: scikit-learn's histogram gradient boosting, its defaults, on the same numbers as the forest.

    Text counts by `equistrata.eval.scores.coding.joint_numbers`; absent cells stay absent for the two kinds of trees. Training rows with
    only one value of the target give the constant prediction of it. Equal test rows are predicted once.

    Args:
        train, test: released (coded) rows, with the same columns; the order is that of `test`.
        target: the column to predict, without absent cells.
        strata_columns: the columns that define strata; none for one stratum (then dpr is 1 and fnr_diff 0).
        models: names from the list above.
        positive: the target's value that counts as selected; the greatest one in either table by default.
        min_rows: strata with fewer test rows are left out of the rates (see `equistrata.eval.scores.fairness`).
        seed: the models' random_state.

    Returns:
        Model → accuracy, demographic parity ratio and false negative rate difference, with the rates of each stratum.

    Raises:
        InputError: the tables cannot be compared, a model is unknown, the target has absent cells or is the only
            column, or `positive` is not a value of the target.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Figures 4 and 5 (random forest; the other two models are ours).
    """
    need("audit", "a classifier")
    tables = {"test": test, "train": train}
    check_tables(tables, [target], strata_columns)
    for model in models:
        if model not in MODELS:
            raise InputError(f"unknown classifier {model!r}; choose among {', '.join(MODELS)}")
    (truth, answers), levels = joint_codes(tables, target)
    if max(truth.max(), answers.max()) == len(levels):
        raise InputError(f"target {target!r} has absent cells; give them a value of their own or drop those rows")
    selected = len(levels) - 1 if positive is None else _place(positive, levels, target)
    names = [column for column in test.columns if column != target]
    if not names:
        raise InputError(f"target {target!r} is the only column; give the classifiers another to learn from")
    test_features, train_features = _Features.of(tables, names)
    distinct, place = test_features.distinct()
    labels, (strata, _) = stratum_index(tables, strata_columns)
    stratum_names = np.array(labels)[strata]
    utility = {}
    for model in models:
        if (answers == answers[0]).all():
            predicted = np.full(len(test), answers[0])
        else:
            predicted = MODELS[model](train_features, answers, seed)(test_features.take(distinct))[place]
        utility[model] = group_fairness(truth, predicted, stratum_names, positive=selected, min_rows=min_rows)
    return utility


@dataclass(frozen=True, eq=False)
class _Features:
    """The columns that a classifier learns from: as numbers (absent is NaN) and as codes over all tables' values."""

    numbers: Floats  # (n, d)
    codes: Index  # (n, d)
    sizes: tuple[int, ...]
    text: tuple[bool, ...]

    @classmethod
    def of(cls, tables: Mapping[str, pd.DataFrame], names: Sequence[str]) -> list[_Features]:
        numbers = [joint_numbers(tables, name) for name in names]
        coded = [joint_codes(tables, name) for name in names]
        sizes = tuple(len(levels) + 1 for _, levels in coded)
        text = tuple(levels.dtype == object for _, levels in coded)
        return [
            cls(np.stack([n[i] for n in numbers], axis=1), np.stack([c[i] for c, _ in coded], axis=1), sizes, text)
            for i in range(len(tables))
        ]

    def take(self, rows: Index) -> _Features:
        return _Features(self.numbers[rows], self.codes[rows], self.sizes, self.text)

    def distinct(self, also: Index | None = None) -> tuple[Index, Index]:
        """One row of each kind (told apart by `also` too), and each row's place among these."""
        columns, sizes = list(self.codes.T), list(self.sizes)
        if also is not None:
            columns, sizes = [*columns, also], [*sizes, int(also.max()) + 1]
        place, kinds = pd.factorize(combine(columns, sizes)[0])
        first = np.empty(len(kinds), dtype=np.int64)
        first[place[::-1]] = np.arange(len(place))[::-1]
        return first, place


def _random_forest(train: _Features, answers: Index, seed: int) -> Callable[[_Features], Index]:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=-1).fit(train.numbers, answers)
    return lambda test: model.predict(test.numbers)


def _gradient_boosting(train: _Features, answers: Index, seed: int) -> Callable[[_Features], Index]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    model = HistGradientBoostingClassifier(random_state=seed)

    def predict(test: _Features) -> Index:
        with threadpool_limits(1):
            return model.predict(test.numbers)

    # Its OpenMP threads wait by spinning: on a machine with other work, 600 rows take a minute in place of 0.1 s.
    with threadpool_limits(1):
        model.fit(train.numbers, answers)
    return predict


def _logistic_regression(train: _Features, answers: Index, seed: int) -> Callable[[_Features], Index]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows, place = train.distinct(answers)
    weights = np.bincount(place).astype(np.float64)
    design = _design(train, rows, weights)
    model = LogisticRegression(max_iter=1000, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a score of what it reached, not a fault of the caller's
        model.fit(design(train.take(rows)), answers[rows], sample_weight=weights)
    return lambda test: model.predict(design(test))


def _design(train: _Features, rows: Index, weights: Floats) -> Callable[[_Features], Any]:
    """The design matrix of a logistic regression, with centre and scale learnt from weighted training rows."""
    from scipy.sparse import csr_matrix, hstack

    few = [train.text[j] or size - 1 <= _ONE_HOT_LEVELS for j, size in enumerate(train.sizes)]
    scaled = {}
    for j in np.flatnonzero(~np.array(few)).tolist():
        values = train.numbers[rows, j]
        present = ~np.isnan(values)
        total = weights[present].sum() or 1.0
        centre = float((values[present] * weights[present]).sum() / total)
        spread = float(np.sqrt(((values[present] - centre) ** 2 * weights[present]).sum() / total))
        scaled[j] = (centre, spread or 1.0)

    def design(features: _Features) -> Any:
        n, blocks = len(features.codes), []
        for j, size in enumerate(features.sizes):
            if few[j]:
                cells = (np.ones(n), (np.arange(n), features.codes[:, j]))
                blocks.append(csr_matrix(cells, shape=(n, size)))
            else:
                absent = np.isnan(features.numbers[:, j])
                z = (np.where(absent, scaled[j][0], features.numbers[:, j]) - scaled[j][0]) / scaled[j][1]
                blocks.append(csr_matrix(np.stack([z, absent.astype(np.float64)], axis=1)))
        return hstack(blocks, format="csr")

    return design


MODELS: dict[str, Fit] = {
    "random_forest": _random_forest,
    "logistic_regression": _logistic_regression,
    "gradient_boosting": _gradient_boosting,
}


def _place(positive: float | str, levels: npt.NDArray[np.generic], target: str) -> int:
    found = np.flatnonzero(levels == positive)
    if not found.size:
        raise InputError(f"positive is {positive!r}, which is not a value of target {target!r}; correct it")
    return int(found[0])
