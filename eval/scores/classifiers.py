"""Classifiers trained on synthetic rows: their utility on real rows (`classifier_utility`, an EXACT score, which must
not be published), and the forest that an audit is about (`train_classifier`, which may be).

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
from equistrata.eval.scores.tables import TableLike, coded_alike, first_rows, numbers_of, row_keys, strata_of

Training = Callable[["_Features", Counts], Callable[[Floats], Counts]]

TREES = 100
SEED = 42  # random_state of every model; public
_ONE_HOT_LEVELS = 50


@dataclass(frozen=True, eq=False)
class Predicted:
    """For each of n rows: the probability of the positive value, in [0, 1], and whether that value is predicted."""

    score: Floats
    selected: Flags


class Classifier(Protocol):
    """Predicts one value of one column from the others.

    Attributes:
        name: of the kind of model.
        target: the column.
        positive: the released value that counts as selected, or the numbers above one, as ">50000".
    """

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def positive(self) -> Value: ...

    def predict(self, table: CodedTable) -> Predicted:
        """For each row of a table of the schema that it was trained on; the target is not read."""
        ...


@dataclass(frozen=True, eq=False)
class Forest:
    """A random forest over the released numbers of the other columns, for one value of the target against the rest."""

    target: str
    positive: Value
    model: Any
    name: str = "random_forest"

    def predict(self, table: CodedTable) -> Predicted:
        """Equal rows are predicted once."""
        if not len(table):
            return Predicted(np.zeros(0), np.zeros(0, dtype=bool))
        (features,) = _Features.of([table], self.target)
        place, rows = first_rows(features.keys)
        chances = dict(zip(self.model.classes_, self.model.predict_proba(features.numbers[rows]).T, strict=True))
        score = chances.get(1, np.zeros(len(rows)))
        return Predicted(np.clip(score, 0.0, 1.0)[place], (score > 0.5)[place])


def train_classifier(synthetic: CodedTable, target: str | None = None, *, positive: Value | None = None) -> Forest:
    """The random forest of `classifier_utility`, for one value of the target against the rest.

    A row is selected if its score is above one half; `positive` is the released value of the selected, or the numbers
    above one, as ">50000"; by default what the schema declares, else the greatest. Raises InputError without a
    synthetic row or a target, if target or value are not declared, or no other column is.

    Privacy: reads synthetic rows only.
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
    """Which rows really have the positive value, shape (n,)."""
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
    """Train classifiers on one table, the synthetic (or the real training) rows; test on held-out rows.

    scikit-learn's models with its defaults (the forest has 100 trees), each predicting `target` from all other columns:
    trees from the released numbers, text by its place; the regression from columns of text or of up to 50 values
    one-hot, the others standardised, with a mark for absent cells. Training rows with only one value of the target
    give the constant prediction of it. Equal rows are fitted (by the regression) and predicted once.

    Args:
        train, test: rows of one schema, or data frames with the same columns.
        target: the column to predict, without absent cells.
        strata_columns: the columns that define strata; none for one stratum (then dpr is 1 and fnr_diff 0).
        models: names from MODELS.
        positive: the target's value that is predicted against the rest, or the numbers above one, as ">50000"; by
            default what the schema declares. Without either, each value is predicted, and the greatest one in either
            table counts as selected.

    Strata of fewer than 20 test rows are left out of the rates (`equistrata.eval.scores.fairness.group_fairness`).

    Raises:
        InputError: the tables cannot be compared, a model is unknown, the target has absent cells or is the only
            column, or `positive` is not a value of the target.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Figures 4 and 5 (random forest; the other two models are ours).
    """
    check_models(models)
    tables = coded_alike({"test": test, "train": train}, [target], strata_columns)
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
    """Raise InputError if one of these names is not in MODELS."""
    for model in models:
        if model not in MODELS:
            raise InputError(f"unknown classifier {model!r}; choose among {', '.join(MODELS)}")


@dataclass(frozen=True, eq=False)
class _Features:
    """What a classifier learns from n rows: d columns of numbers, absent as NaN."""

    numbers: Floats  # (n, d)
    keys: Counts  # (n,), equal for equal rows
    few: Flags  # (d,), text or few values in all tables

    @classmethod
    def of(cls, tables: Sequence[CodedTable], target: str) -> list[_Features]:
        """All columns but the target, of tables of one schema. Raises InputError if there is no other."""
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
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    model = HistGradientBoostingClassifier(random_state=SEED)

    def predict(test: Floats) -> Counts:
        with threadpool_limits(1):
            return np.asarray(model.predict(test))

    # Its OpenMP threads wait by spinning: on a machine with other work, 600 rows take a minute in place of 0.1 s.
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
    with np.errstate(invalid="ignore"):  # a column that is absent from every training row has no mean
        design.fit(train.numbers)
    place, rows = first_rows(row_keys([train.keys, answers], [1 << 62, int(answers.max()) + 1])[0])
    weights = np.bincount(place).astype(np.float64)
    model = LogisticRegression(max_iter=1000, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a score of what it reached, not a fault of the caller's
        model.fit(design.transform(train.numbers[rows]), answers[rows], sample_weight=weights)
    return lambda test: np.asarray(model.predict(design.transform(test)))


MODELS: dict[str, Training] = {
    "random_forest": _random_forest,
    "logistic_regression": _logistic_regression,
    "gradient_boosting": _gradient_boosting,
}
