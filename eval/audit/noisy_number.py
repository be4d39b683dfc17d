"""A number that was paid for: never without an interval; and the order of an audit's numbers, by stratum and `all`.

>>> NoisyNumber(0.4, 0.3, 0.5).note, NoisyNumber(0.4, 0.0, 1.0).to_dict()["note"]
('', '± wider than the value')
>>> NoisyNumber(0.9, 0.2, 1.0, possible=1.0).note
'leaves more than half of what is possible'
>>> NoisyNumber(0.4, 0.4, 0.4)
Traceback (most recent call last):
ValueError: a noisy number has an interval with a width, from a finite lower end
>>> from equistrata.data.schema import Schema
>>> grouping = Grouping(Strata.over(Schema.load("acs_employment").select(["SEX", "ESR"]), ["SEX"]))
>>> grouping.labelled([1.5, 2.5])
{'SEX=1': 1.5, 'SEX=2': 2.5}
>>> number = grouping.drawn(100.0, 10.0)
>>> round(number.lower, 1), round(number.upper, 1)
(80.4, 119.6)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.scores.classifiers import Classifier, Predicted, truth_of
from equistrata.eval.scores.fairness import Flags
from equistrata.eval.scores.tables import ALL_ROWS, Places, numbers_of, rows_by_place

TOO_SMALL = "± wider than the value"
TOO_WIDE = "leaves more than half of what is possible"


@dataclass(frozen=True)
class NoisyNumber:
    """A number that depends on private rows and was paid for. It may be published.

    Attributes:
        value: the estimate; None where the noise leaves none.
        lower, upper: its interval, lower < upper; `upper` may be infinite.
        possible: the length of the range that the number was known to be in, as 1 for a rate; infinite if there is
            none.

    Raises:
        ValueError: an interval without width (no number that depends on private rows is that exact), or a value outside
            it.
    """

    value: float | None
    lower: float
    upper: float
    possible: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and self.lower < self.upper):
            raise ValueError("a noisy number has an interval with a width, from a finite lower end")
        if self.value is not None and not (math.isfinite(self.value) and self.lower <= self.value <= self.upper):
            raise ValueError("a noisy number lies in its interval")

    @property
    def note(self) -> str:
        """Why the number says nothing, if it does: half its interval is longer than the value, or its interval leaves
        more than half of what was possible. Empty if it says something."""
        if self.value is None or (self.upper - self.lower) / 2 > abs(self.value):
            return TOO_SMALL
        return TOO_WIDE if self.upper - self.lower > self.possible / 2 else ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON: value, lower, upper (null where infinite), and the note if there is one."""
        plain = {"value": self.value, "lower": self.lower, "upper": self.upper if math.isfinite(self.upper) else None}
        return plain | {"note": self.note} if self.note else plain


def clipped(value: float | None, interval: tuple[float, float], possible: float = math.inf) -> NoisyNumber:
    """An estimate moved into its interval, if it is outside; None stays None."""
    lower, upper = interval
    return NoisyNumber(None if value is None else min(max(value, lower), upper), lower, upper, possible)


ByStratum = Mapping[str, NoisyNumber]
Measured = Mapping[str, ByStratum]  # stratum → name → noisy sum
# A section's numbers, field or column → stratum → number; and the noisy sums behind them, section → …
SectionNumbers = tuple[Mapping[str, ByStratum], Mapping[str, Measured]]
V = TypeVar("V")


@dataclass(frozen=True)
class Grouping:
    """The strata of an audit, the level of its intervals, and how many rows of a unit are sampled together at most."""

    strata: Strata
    level: float = 0.95
    alike: int = 1

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The strata's labels, in the order of `strata.keys`."""
        return tuple(self.strata.label(key) for key in self.strata.keys)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that define no strata."""
        return tuple(name for name in self.strata.schema.names if name not in self.strata.columns)

    def labelled(self, values: Sequence[V]) -> dict[str, V]:
        """One value per stratum, by label; and one of the whole table, if there is one more."""
        labels = self.labels if len(values) == len(self.labels) else (*self.labels, ALL_ROWS)
        return dict(zip(labels, values, strict=True))

    def drawn(self, value: float, deviation: float) -> NoisyNumber:
        """A sum or count as it was drawn, with Gaussian noise of this deviation: its interval is for what rows hold."""
        half = float(scipy.special.ndtri((1 + self.level) / 2)) * deviation
        return NoisyNumber(float(value), value - half, value + half)

    def ratios(
        self, index: Counts, above: npt.ArrayLike, below: npt.ArrayLike | None = None
    ) -> dict[str, float | None]:
        """Σ above / Σ below (the rows, by default) of each stratum and of all; None where that is 0. Exact."""
        below = np.ones(len(index)) if below is None else below
        each = [np.bincount(index, weights=np.asarray(x, float), minlength=len(self.labels)) for x in (above, below)]
        top, bottom = ([*sums.tolist(), float(sums.sum())] for sums in each)
        return self.labelled([a / b if b else None for a, b in zip(top, bottom, strict=True)])


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
        """The places of each stratum's rows, in the order of the labels."""
        return rows_by_place(self.index, len(self.grouping.labels))


@dataclass(frozen=True, eq=False)
class Subject:
    """What the sections about one release measure; `degree` is of the workload's marginals."""

    private: PrivateRows
    synthetic: CodedTable
    classifier: Classifier | None
    degree: int

    @cached_property
    def predictions(self) -> tuple[Predicted, Flags]:
        """The classifier's for the private rows, and which of them really have the positive value."""
        assert self.classifier is not None  # its sections are left out
        return self.classifier.predict(self.private.table), truth_of(self.private.table, self.classifier)


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
        """The strata without a synthetic row."""
        return tuple(label for label, rows in self.rows.items() if not rows)

    @classmethod
    def of(cls, table: CodedTable, grouping: Grouping) -> SyntheticSummary:
        """Count and average a synthetic table; each code counts as `numbers_of` says."""
        index = grouping.strata.index(table)
        rows = grouping.labelled([*np.bincount(index, minlength=len(grouping.labels)).tolist(), len(table)])
        means = {}
        for name in grouping.columns:
            numbers = numbers_of(table.schema[name])[table.column(name)]
            means[name] = grouping.ratios(index, numbers)
        return cls(rows, means)
