"""The classifier that an audit is about: trained on synthetic rows alone, so that it may be published.

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> rows = CodedTable(np.tile(np.array([[0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=np.uint8), (50, 1)), schema)
>>> classifier = train_classifier(rows, "ESR")
>>> prediction = classifier.predict(rows.take(np.arange(2)))
>>> prediction.score.tolist(), prediction.selected.tolist()
([1.0, 0.0], [True, False])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Value
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.tables import first_rows, numbers_of, row_keys

TREES = 100


@dataclass(frozen=True, eq=False)
class Predicted:
    """For each of n rows: the probability of the positive value, in [0, 1], and whether that value is predicted."""

    score: Floats
    selected: npt.NDArray[np.bool_]


class Classifier(Protocol):
    """Predicts one value of one column from the others.

    Attributes:
        name: of the kind of model.
        target: the column.
        positive: the released value that counts as selected.
    """

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def positive(self) -> Value: ...

    def predict(self, table: CodedTable) -> Predicted:
        """Predictions for a table that has all the columns of the schema."""
        ...


@dataclass(frozen=True, eq=False)
class Forest:
    """A random forest over the released numbers of the other columns."""

    target: str
    positive: Value
    features: tuple[str, ...]
    model: Any
    name: str = "random_forest"

    def predict(self, table: CodedTable) -> Predicted:
        """See `Classifier.predict`. Equal rows are predicted once."""
        if not len(table):
            return Predicted(np.zeros(0), np.zeros(0, dtype=bool))
        sizes = [table.schema[name].size for name in self.features]
        place, rows = first_rows(row_keys([table.column(name) for name in self.features], sizes)[0])
        numbers = _numbers(table.take(rows), self.features)
        classes = list(self.model.classes_)
        chances = self.model.predict_proba(numbers)
        column = classes.index(1) if 1 in classes else None
        score = chances[:, column] if column is not None else np.zeros(len(rows))
        return Predicted(np.clip(score, 0.0, 1.0)[place], (score > 0.5)[place])


def train_classifier(
    synthetic: CodedTable, target: str | None = None, *, positive: Value | None = None, seed: int = 42
) -> Forest:
    """A random forest (scikit-learn's, 100 trees, otherwise its defaults) for one value of the target against the rest.

    For a target of two values it is the forest of `equistrata.eval.scores.classifiers`. A row is selected if its score
    is above one half.

    Args:
        synthetic: at least one row.
        target: the column to predict; the schema's by default.
        positive: the released value that counts as selected; the greatest one by default.
        seed: the forest's random_state.

    Raises:
        InputError: no synthetic row, no such column, no target, a value that is not declared, or no other column.

    Privacy: reads synthetic rows only.
    """
    from sklearn.ensemble import RandomForestClassifier

    target = target if target is not None else synthetic.schema.target
    if target is None:
        raise InputError(f"schema {synthetic.schema.name!r} declares no target; name the column to predict")
    column = synthetic.schema[target]
    value = max(column.keys) if positive is None else positive
    if value not in column.keys:
        raise InputError(f"positive is {value!r}, which is not a value of target {target!r}; correct it")
    features = tuple(name for name in synthetic.schema.names if name != target)
    if not features:
        raise InputError(f"target {target!r} is the only column; give the classifier another to learn from")
    if not len(synthetic):
        raise InputError("the synthetic table holds no rows; give a table with at least one row")
    answers = (synthetic.column(target) == column.keys.index(value)).astype(np.int64)
    model = RandomForestClassifier(n_estimators=TREES, random_state=seed, n_jobs=-1)
    model.fit(_numbers(synthetic, features), answers)
    return Forest(target, value, features, model)


def truth_of(table: CodedTable, classifier: Classifier) -> npt.NDArray[np.bool_]:
    """Which rows really have the positive value, shape (n,)."""
    column = table.schema[classifier.target]
    return np.asarray(table.column(classifier.target) == column.keys.index(classifier.positive))


def _numbers(table: CodedTable, features: tuple[str, ...]) -> Floats:
    return np.stack([numbers_of(table.schema[name])[table.column(name)] for name in features], axis=1)
