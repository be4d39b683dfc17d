"""Classifiers that are trained on synthetic rows.

The function `classifier_utility` computes their utility on real rows. This score is exact and must not be published.
The function `train_classifier` trains the random forest that an audit evaluates, which may be published.

>>> import pandas as pd
>>> train = pd.DataFrame({"A": [0, 0, 1, 1] * 10, "G": [1, 2] * 20, "Y": [0, 0, 1, 1] * 10})
>>> test = pd.DataFrame({"A": [0, 1] * 20, "G": [1] * 20 + [2] * 20, "Y": [0, 1] * 18 + [1, 1] * 2})
>>> forest = classifier_utility(train, test, "Y", ["G"], models=["random_forest"])["random_forest"]
>>> forest.accuracy, forest.dpr, round(forest.fnr_diff, 4)
(0.95, 1.0, 0.1667)

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> rows = CodedTable(np.tile(np.array([[0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=np.uint8), (50, 1)), schema)
>>> prediction = train_classifier(rows, "ESR").predict(rows.take(np.arange(2)))
>>> prediction.score.tolist(), prediction.selected.tolist()
([1.0, 0.0], [True, False])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from equistrata.arrays import Counts, Floats
from equistrata.data.columns.column import Value
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.fairness import Flags, GroupFairness, group_fairness
from equistrata.eval.scores.tables import TableLike, code_with_same_schema, first_rows, numbers_of, row_keys, strata_of

Training = Callable[["_Features", Counts], Callable[[Floats], Counts]]

TREES = 100
SEED = 42  # the random_state of every model, which is public
_ONE_HOT_LEVELS = 50


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of a classifier for n rows.

    Attributes
    ----------
    score : ndarray of shape (n,)
        The probability of the positive value, in [0, 1].
    selected : ndarray of bool of shape (n,)
        True if the positive value is predicted.
    """

    score: Floats
    selected: Flags


class Classifier(Protocol):
    """A classifier that predicts one value of a column from the other columns.

    Attributes
    ----------
    name : str
        The name of the kind of model.
    target : str
        The column that is predicted.
    positive : int, float or str
        The released value that counts as selected. For a numeric column it can also be a condition such as ">50000".
    """

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def positive(self) -> Value: ...

    def predict(self, table: CodedTable) -> Predicted:
        """Predict the positive value for each row of a table. The target column is not read.

        The table has the schema that the classifier was trained on.
        """
        ...


@dataclass(frozen=True, eq=False)
class Forest:
    """A random forest that predicts one value of the target against all others.

    The features are the numbers of the other columns.
    """

    target: str
    positive: Value
    model: Any
    name: str = "random_forest"

    def predict(self, table: CodedTable) -> Predicted:
        """Predict the positive value for each row. Equal rows are predicted only once."""
        if not len(table):
            return Predicted(np.zeros(0), np.zeros(0, dtype=bool))
        (features,) = _Features.of([table], self.target)
        place, rows = first_rows(features.keys)
        chances = dict(zip(self.model.classes_, self.model.predict_proba(features.numbers[rows]).T, strict=True))
        score = chances.get(1, np.zeros(len(rows)))
        return Predicted(np.clip(score, 0.0, 1.0)[place], (score > 0.5)[place])


def train_classifier(synthetic: CodedTable, target: str | None = None, *, positive: Value | None = None) -> Forest:
    """Train the random forest of `classifier_utility` to predict one value of the target against all others.

    A row is selected if its score is larger than one half.

    Parameters
    ----------
    synthetic : CodedTable
        The training rows, at least one.
    target : str, optional
        The column to predict. By default, this is the target of the schema.
    positive : int, float or str, optional
        The released value that counts as selected. For a numeric target it can also be a condition such as ">50000". By
        default, this is the value that the schema declares, or the greatest value if the schema declares none.

    Returns
    -------
    Forest
        The trained classifier.

    Raises
    ------
    InputError
        If there is no synthetic row or no target, if the target or the value is not declared, or if the table has no
        other column.

    Privacy
    -------
    Only synthetic rows are read, so there is no additional cost.
    """
    target = target if target is not None else synthetic.schema.target
    if target is None:
        raise InputError(f"schema {synthetic.schema.name!r} declares no target; name the column to predict")
    column = synthetic.schema[target]
    value = next(each for each in (positive, column.positive, max(column.keys)) if each is not None)
    answers = np.isin(synthetic.column(target), column.codes_of(value)).astype(np.int64)
    features = _Features.of([synthetic], target)[0]
    if not len(synthetic):
        raise InputError("the synthetic table holds no rows; give a table with at least one row")
    return Forest(target, value, _forest(features, answers))


def truth_of(table: CodedTable, classifier: Classifier) -> Flags:
    """Return a boolean array of shape (n,) that is True for the rows that have the positive value."""
    column = table.schema[classifier.target]
    return np.isin(table.column(classifier.target), column.codes_of(classifier.positive))


def classifier_utility(
    train: TableLike,
    test: TableLike,
    target: str,
    strata_columns: Sequence[str],
    *,
    models: Sequence[str] = ("random_forest", "logistic_regression", "gradient_boosting"),
    positive: float | str | None = None,
) -> dict[str, GroupFairness]:
    """Train classifiers on one table and test them on held-out rows.

    The training table contains the synthetic rows, or the real training rows for a baseline. The models are those of
    scikit-learn with their default settings (the forest has 100 trees). Each model predicts `target` from all other
    columns. The tree models use the released numbers, and text is replaced by the index of its value. The regression
    uses a one-hot encoding of the columns that contain text or have at most 50 distinct values. It standardises the
    other columns and adds an indicator for missing cells. If all training rows have the same value of the target, the
    prediction is constant. Equal rows are predicted only once, and the regression also fits them only once, with a
    weight.

    Parameters
    ----------
    train, test : CodedTable or DataFrame
        The rows, either coded with the same schema or as data frames with the same columns.
    target : str
        The column to predict, which has no missing cells.
    strata_columns : sequence of str
        The columns that define the strata. If it is empty, there is only one stratum, so that `dpr` is 1 and `fnr_diff`
        is 0.
    models : sequence of str
        The models to train, which are keys of `MODELS`.
    positive : float or str, optional
        The value of the target that is predicted against all other values. For a numeric target it can also be a
        condition such as ">50000". By default, this is the value that the schema declares. If the schema declares none,
        every value is predicted, and the greatest value in either table counts as selected.

    Returns
    -------
    dict of str to GroupFairness
        The utility of each model. Strata with fewer than 20 test rows are left out of the rates (see
        `equistrata.eval.scores.fairness.group_fairness`).

    Raises
    ------
    InputError
        If the tables cannot be compared, if a model is unknown, if the target has missing cells or is the only column,
        or if `positive` is not a value of the target.

    Privacy
    -------
    Not private. The scores are exact, so they are internal.

    References
    ----------
    Stratification paper, Figures 4 and 5, for the random forest. The paper does not have the other two models.
    """
    check_models(models)
    tables = code_with_same_schema({"test": test, "train": train}, [target], strata_columns)
    held_out, training = tables["test"], tables["train"]
    column = held_out.schema[target]
    truth, answers = (table.column(target).astype(np.int64) for table in (held_out, training))
    value = column.positive if positive is None else positive
    if value is None:
        found = np.unique(np.concatenate([truth, answers]))
        worth = numbers_of(column)[found]
        if np.isnan(worth).any():
            raise InputError(f"target {target!r} has absent cells; give them a value of their own or drop those rows")
        selected = int(found[worth.argmax()])
    else:
        selected, codes = 1, column.codes_of(value)
        truth, answers = (np.isin(each, codes).astype(np.int64) for each in (truth, answers))
    features = _Features.of([held_out, training], target)
    place, distinct = first_rows(features[0].keys)
    labels, (strata, _) = strata_of([held_out, training], strata_columns)
    stratum_names = np.array(labels)[strata]
    utility = {}
    for model in models:
        if (answers == answers[0]).all():
            predicted = np.full(len(held_out), answers[0])
        else:
            predicted = MODELS[model](features[1], answers)(features[0].numbers[distinct])[place]
        utility[model] = group_fairness(truth, predicted, stratum_names, positive=selected)
    return utility


def check_models(models: Sequence[str]) -> None:
    """Raise InputError if a name is not in `MODELS`."""
    for model in models:
        if model not in MODELS:
            raise InputError(f"unknown classifier {model!r}; choose among {', '.join(MODELS)}")


@dataclass(frozen=True, eq=False)
class _Features:
    """The features of n rows: an array with d numeric columns, in which missing cells are NaN."""

    numbers: Floats  # (n, d)
    keys: Counts  # (n,), the same key for equal rows
    few: Flags  # (d,), True for columns of text and for columns with few distinct values in all tables

    @classmethod
    def of(cls, tables: Sequence[CodedTable], target: str) -> list[_Features]:
        """Return the features of tables with the same schema. Raise InputError if the target is the only column."""
        columns = [column for column in tables[0].schema.columns if column.name != target]
        if not columns:
            raise InputError(f"target {target!r} is the only column; give a classifier another to learn from")
        worth, sizes = [numbers_of(column) for column in columns], [column.size for column in columns]
        codes = [[table.column(column.name) for column in columns] for table in tables]
        numbers = [np.stack([values[of] for values, of in zip(worth, each, strict=True)], axis=1) for each in codes]
        text = [any(isinstance(key, str) for key in column.keys) for column in columns]
        few = np.array(text) | (pd.DataFrame(np.concatenate(numbers)).nunique() <= _ONE_HOT_LEVELS).to_numpy()
        return [cls(values, row_keys(each, sizes)[0], few) for values, each in zip(numbers, codes, strict=True)]


def _forest(train: _Features, answers: Counts) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, random_state=SEED, n_jobs=-1).fit(train.numbers, answers)


def _random_forest(train: _Features, answers: Counts) -> Callable[[Floats], Counts]:
    model = _forest(train, answers)
    return lambda test: np.asarray(model.predict(test))


def _gradient_boosting(train: _Features, answers: Counts) -> Callable[[Floats], Counts]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # installed with scikit-learn

    model = HistGradientBoostingClassifier(random_state=SEED)

    def predict(test: Floats) -> Counts:
        with threadpool_limits(1):
            return np.asarray(model.predict(test))

    # The OpenMP threads spin while they wait. On a busy machine, training on 600 rows takes a minute instead of 0.1 s.
    with threadpool_limits(1):
        model.fit(train.numbers, answers)
    return predict


def _logistic_regression(train: _Features, answers: Counts) -> Callable[[Floats], Counts]:
    from sklearn.compose import ColumnTransformer
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    one_hot = OneHotEncoder(handle_unknown="ignore")
    mark_absent = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True, keep_empty_features=True)
    scaled = make_pipeline(StandardScaler(), mark_absent)
    design = ColumnTransformer([("few", one_hot, train.few), ("many", scaled, ~train.few)])
    with np.errstate(invalid="ignore"):  # a column with only missing values in the training rows has no mean
        design.fit(train.numbers)
    place, rows = first_rows(row_keys([train.keys, answers], [1 << 62, int(answers.max()) + 1])[0])
    weights = np.bincount(place).astype(np.float64)
    model = LogisticRegression(max_iter=1000, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model is scored even if it has not converged
        model.fit(design.transform(train.numbers[rows]), answers[rows], sample_weight=weights)
    return lambda test: np.asarray(model.predict(design.transform(test)))


MODELS: dict[str, Training] = {
    "random_forest": _random_forest,
    "logistic_regression": _logistic_regression,
    "gradient_boosting": _gradient_boosting,
}
