"""Small tables and a fixed classifier for the tests of audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.scores.classifiers import Predicted

SCHEMA = Schema(
    "audited",
    (
        Column("G", values=("x", "y", "z")),
        Column("A", values=(1, 2)),
        Column("B", lower=0, upper=9, edges=(0, 3, 6, 9), release="index"),
        Column("Y", values=(0, 1)),
    ),
    target="Y",
)
STRATA = Strata.over(SCHEMA, ["G"])


@dataclass(frozen=True)
class Fixed:
    """A classifier with a fixed score for each combination of A and B.

    The scores are 0, ¼, ½ (not selected), ¾, 1 and 1.
    """

    name: str = "fixed"
    target: str = "Y"
    positive: int = 1

    def predict(self, table: CodedTable) -> Predicted:
        score = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.0])[table.index_of(["A", "B"])]
        return Predicted(score, score > 0.5)


def people(sizes, seed=0):
    """Return a table with the given number of rows in each stratum, in which the columns depend on each other and on
    the stratum.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    a = rng.random(len(group)) < np.array([0.3, 0.5, 0.8])[group]
    b = rng.integers(0, 3, len(group))
    y = rng.random(len(group)) < 0.2 + 0.4 * a + 0.1 * b
    return CodedTable(np.stack([group, a, b, y], axis=1).astype(np.uint8), SCHEMA)
