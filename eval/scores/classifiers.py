"""What a classifier trained on synthetic rows is worth on real ones, as a whole and to each stratum.

An EXACT score is a query on private rows at no privacy cost: it is internal, and must not be published.

>>> import pandas as pd
>>> train = pd.DataFrame({"A": [0, 0, 1, 1] * 10, "G": [1, 2] * 20, "Y": [0, 0, 1, 1] * 10})
>>> test = pd.DataFrame({"A": [0, 1] * 20, "G": [1] * 20 + [2] * 20, "Y": [0, 1] * 18 + [1, 1] * 2})
>>> forest = classifier_utility(train, test, "Y", ["G"], models=["random_forest"])["random_forest"]
>>> forest.accuracy, forest.dpr, round(forest.fnr_diff, 4)
(0.95, 1.0, 0.1667)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.schema import Column
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.fairness import GroupFairness, group_fairness
from equistrata.eval.scores.tables import TableLike, coded_alike, first_rows, numbers_of, row_keys, strata_of
from equistrata.extras import need

Training = Callable[["_Features", Counts, int], Callable[["_Features"], Counts]]

_ONE_HOT_LEVELS = 50


def classifier_utility(
    train: TableLike,
    test: TableLike,
    target: str,
    strata_columns: Sequence[str],
    *,
    models: Sequence[str] = ("random_forest", "logistic_regression", "gradient_boosting"),
    positive: float | str | None = None,
    min_rows: int = 20,
    seed: int = 42,
) -> dict[str, GroupFairness]:
    """Train classifiers on one table, the synthetic (or, for comparison, the real training) rows; test on held-out
    rows.

    Models, each predicting `target` from all other columns, those that define strata included:

    - random_forest: scikit-learn's, 100 trees, otherwise its defaults, on the released numbers row by row.
    - logistic_regression: scikit-learn's defaults; columns of text or of up to 50 values one-hot over the values of
      both tables, the others standardised by the training rows, with a mark for absent cells. Equal training rows are
      collapsed into one with a weight, which leaves the objective as it is.
    - gradient_boosting: scikit-learn's histogram gradient boosting, its defaults, on the same numbers as the forest.

    Text counts by its place; absent cells stay absent for the trees. Training rows with only one value of the target
    give the constant prediction of it. Equal test rows are predicted once.

    Args:
        train, test: rows of one schema, or data frames with the same columns.
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
    check_models(models)
    tables = coded_alike({"test": test, "train": train}, [target], strata_columns)
    held_out, training = tables["test"], tables["train"]
    column = held_out.schema[target]
    truth, answers = (table.column(target).astype(np.int64) for table in (held_out, training))
    found = np.unique(np.concatenate([truth, answers]))
    worth = numbers_of(column)[found]
    if np.isnan(worth).any():
        raise InputError(f"target {target!r} has absent cells; give them a value of their own or drop those rows")
    selected = int(found[worth.argmax()]) if positive is None else _place(positive, column)
    features = _Features.of([held_out, training], [name for name in held_out.schema.names if name != target], target)
    place, distinct = first_rows(features[0].keys())
    labels, (strata, _) = strata_of([held_out, training], strata_columns)
    stratum_names = np.array(labels)[strata]
    utility = {}
    for model in models:
        if (answers == answers[0]).all():
            predicted = np.full(len(held_out), answers[0])
        else:
            predicted = MODELS[model](features[1], answers, seed)(features[0].take(distinct))[place]
        utility[model] = group_fairness(truth, predicted, stratum_names, positive=selected, min_rows=min_rows)
    return utility


def check_models(models: Sequence[str]) -> None:
    """Raise InputError unless every model is known."""
    for model in models:
        if model not in MODELS:
            raise InputError(f"unknown classifier {model!r}; choose among {', '.join(MODELS)}")


@dataclass(frozen=True, eq=False)
class _Features:
    """The columns that a classifier learns from: as numbers (absent is NaN) and as codes of the values in any table."""

    numbers: Floats  # (n, d)
    codes: Counts  # (n, d)
    sizes: tuple[int, ...]  # with one for absent cells
    text: tuple[bool, ...]

    @classmethod
    def of(cls, tables: Sequence[CodedTable], names: Sequence[str], target: str) -> list[_Features]:
        if not names:
            raise InputError(f"target {target!r} is the only column; give the classifiers another to learn from")
        numbers, codes, sizes, text = [], [], [], []
        for name in names:
            column, declared = np.concatenate([table.column(name) for table in tables]), tables[0].schema[name]
            found, places = np.unique(column, return_inverse=True)  # an absent cell has the last code
            worth = numbers_of(declared)
            numbers.append(worth[column])
            codes.append(places.astype(np.int64))
            sizes.append(int(np.isfinite(worth[found]).sum()) + 1)
            text.append(any(isinstance(key, str) for key in declared.keys))
        ends = np.cumsum([len(table) for table in tables])[:-1]
        parts = zip(*(np.split(np.stack(of, axis=1), ends) for of in (numbers, codes)), strict=True)
        return [cls(values, places, tuple(sizes), tuple(text)) for values, places in parts]

    def take(self, rows: Counts) -> _Features:
        return _Features(self.numbers[rows], self.codes[rows], self.sizes, self.text)

    def keys(self) -> Counts:
        """Equal for equal rows, shape (n,)."""
        return row_keys(list(self.codes.T), self.sizes)[0]


def _random_forest(train: _Features, answers: Counts, seed: int) -> Callable[[_Features], Counts]:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=-1).fit(train.numbers, answers)
    return lambda test: np.asarray(model.predict(test.numbers))


def _gradient_boosting(train: _Features, answers: Counts, seed: int) -> Callable[[_Features], Counts]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    model = HistGradientBoostingClassifier(random_state=seed)

    def predict(test: _Features) -> Counts:
        with threadpool_limits(1):
            return np.asarray(model.predict(test.numbers))

    # Its OpenMP threads wait by spinning: on a machine with other work, 600 rows take a minute in place of 0.1 s.
    with threadpool_limits(1):
        model.fit(train.numbers, answers)
    return predict


def _logistic_regression(train: _Features, answers: Counts, seed: int) -> Callable[[_Features], Counts]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    place, rows = first_rows(row_keys([train.keys(), answers], [1 << 62, int(answers.max()) + 1])[0])
    weights = np.bincount(place).astype(np.float64)
    design = _design(train, rows, weights)
    model = LogisticRegression(max_iter=1000, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a score of what it reached, not a fault of the caller's
        model.fit(design(train.take(rows)), answers[rows], sample_weight=weights)
    return lambda test: np.asarray(model.predict(design(test)))


def _design(train: _Features, rows: Counts, weights: Floats) -> Callable[[_Features], Any]:
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


MODELS: dict[str, Training] = {
    "random_forest": _random_forest,
    "logistic_regression": _logistic_regression,
    "gradient_boosting": _gradient_boosting,
}


def _place(positive: float | str, column: Column) -> int:
    if positive not in column.keys:
        raise InputError(f"positive is {positive!r}, which is not a value of target {column.name!r}; correct it")
    return column.keys.index(positive)
