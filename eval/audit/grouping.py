"""How an audit orders its numbers: by stratum label, every declared stratum, and `all`.

>>> from equistrata.data.schema import Schema
>>> grouping = Grouping(Strata.over(Schema.load("acs_employment").select(["SEX", "ESR"]), ["SEX"]))
>>> grouping.labelled([1.5, 2.5])
{'SEX=1': 1.5, 'SEX=2': 2.5}
>>> [rows.tolist() for rows in grouping.rows(np.array([1, 0, 1]))]
[[1], [0, 2]]
>>> number = grouping.drawn(100.0, 10.0)
>>> round(number.lower, 1), round(number.upper, 1)
(80.4, 119.6)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.noisy_number import NoisyNumber
from equistrata.eval.scores.classifiers import Classifier, truth_of
from equistrata.eval.scores.tables import ALL_ROWS, Places, numbers_of, rows_by_place

ByStratum = Mapping[str, NoisyNumber]
Measured = Mapping[str, ByStratum]  # stratum → name → noisy sum
# A section's numbers, field or column → stratum → number; and the noisy sums behind them, section → …
SectionNumbers = tuple[Mapping[str, ByStratum], Mapping[str, Measured]]
V = TypeVar("V")


@dataclass(frozen=True)
class Grouping:
    """The strata of an audit, and the level of its intervals."""

    strata: Strata
    level: float = 0.95

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The strata's labels, in the order of `strata.keys`."""
        return tuple(self.strata.label(key) for key in self.strata.keys)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that define no strata."""
        return tuple(name for name in self.strata.schema.names if name not in self.strata.columns)

    def labelled(self, values: Sequence[V], *whole: V) -> dict[str, V]:
        """One value per stratum, by label; and one of the whole table, if it is given."""
        labels = (*self.labels, ALL_ROWS) if whole else self.labels
        return dict(zip(labels, [*values, *whole], strict=True))

    def drawn(self, value: float, deviation: float) -> NoisyNumber:
        """A sum or count as it was drawn, with Gaussian noise of this deviation: its interval is for what rows hold."""
        half = float(ndtri((1 + self.level) / 2)) * deviation
        return NoisyNumber(float(value), value - half, value + half)

    def rows(self, index: Counts) -> list[Places]:
        """The rows of each stratum."""
        return rows_by_place(index, len(self.labels))

    def ratios(self, index: Counts, above: npt.ArrayLike, below: npt.ArrayLike) -> dict[str, float | None]:
        """Σ above / Σ below of each stratum and of all rows; None where the denominator is 0. Exact."""
        top, bottom = (
            np.bincount(index, weights=np.asarray(x, dtype=np.float64), minlength=len(self.labels))
            for x in (above, below)
        )
        sums = self.labelled(list(zip(top.tolist(), bottom.tolist(), strict=True)))
        sums[ALL_ROWS] = (float(top.sum()), float(bottom.sum()))
        return {label: a / b if b else None for label, (a, b) in sums.items()}


@dataclass(frozen=True, eq=False)
class Predictions:
    """A classifier's score for n rows, and which of them are selected, and really have the positive value."""

    score: Floats
    selected: npt.NDArray[np.bool_]
    truth: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, classifier: Classifier, table: CodedTable) -> Predictions:
        """Predict every row of a table."""
        found = classifier.predict(table)
        return cls(found.score, found.selected, truth_of(table, classifier))


def named(classifier: Classifier | None) -> dict[str, Any]:
    """How an audit names its classifier; empty texts without one."""
    if classifier is None:
        return {"classifier": "", "target": "", "positive": ""}
    return {"classifier": classifier.name, "target": classifier.target, "positive": str(classifier.positive)}


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """The rows that a public audit measures, by stratum, and their noisy numbers.

    Attributes:
        table: n rows.
        index: the place of each row's stratum among the k labels, shape (n,).
        sizes, sigma: noisy numbers of rows of the strata, shape (k,), and the standard deviation of the noise of each.
    """

    table: CodedTable
    grouping: Grouping
    index: Counts
    sizes: Floats
    sigma: float

    @cached_property
    def groups(self) -> list[Places]:
        """The rows of each stratum."""
        return self.grouping.rows(self.index)


@dataclass(frozen=True, eq=False)
class Subject:
    """What the sections about one release measure; `degree` is of the workload's marginals."""

    private: PrivateRows
    synthetic: CodedTable
    predictions: Predictions | None
    degree: int


@dataclass(frozen=True)
class SyntheticSummary:
    """What a report shows of synthetic rows, which are public.

    Attributes:
        rows: stratum (and `all`) → number of rows.
        means: column that defines no strata → stratum (and `all`) → mean; None where there is no row.
    """

    rows: Mapping[str, int]
    means: Mapping[str, Mapping[str, float | None]]

    @property
    def lost(self) -> tuple[str, ...]:
        """The strata without a row."""
        return tuple(label for label, rows in self.rows.items() if not rows)

    @classmethod
    def of(cls, table: CodedTable, grouping: Grouping) -> SyntheticSummary:
        """Count and average a synthetic table; each code counts as `numbers_of` says."""
        index = grouping.strata.index(table)
        rows = grouping.labelled(np.bincount(index, minlength=len(grouping.labels)).tolist(), len(table))
        means = {}
        for name in grouping.columns:
            numbers = numbers_of(table.schema[name])[table.column(name)]
            means[name] = grouping.ratios(index, numbers, np.ones_like(numbers))
        return cls(rows, means)
