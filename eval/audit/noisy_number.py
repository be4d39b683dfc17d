"""Noisy numbers with intervals, and the strata in which an audit reports them.

>>> NoisyNumber(0.4, 0.3, 0.5).note, NoisyNumber(0.4, 0.0, 1.0).to_dict()["note"]
('', 'margin of error larger than the value')
>>> NoisyNumber(0.9, 0.2, 1.0, possible=1.0).note
'interval covers more than half of the possible values'
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

TOO_SMALL = "margin of error larger than the value"
TOO_WIDE = "interval covers more than half of the possible values"


@dataclass(frozen=True)
class NoisyNumber:
    """A noisy number that was computed from private rows and charged to a budget. It may be published.

    Attributes
    ----------
    value : float or None
        The estimate. None if the noise is too large for an estimate.
    lower, upper : float
        The ends of the interval, with lower < upper. The upper end may be infinite.
    possible : float, default=inf
        The length of the range of possible values. For example, it is 1 for a rate.

    Raises
    ------
    ValueError
        If the interval has no width, or if the value is outside of the interval. An interval without width is an error
        because no number that depends on private rows is exact.
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
        """Return the reason why the number is not informative, or an empty string if it is informative.

        A number is not informative if half of its interval is longer than the value, or if the interval is longer than
        half of the possible range.
        """
        if self.value is None or (self.upper - self.lower) / 2 > abs(self.value):
            return TOO_SMALL
        return TOO_WIDE if self.upper - self.lower > self.possible / 2 else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the number as a dictionary for JSON, with the note if there is one. An infinite upper end is null."""
        plain = {"value": self.value, "lower": self.lower, "upper": self.upper if math.isfinite(self.upper) else None}
        return plain | {"note": self.note} if self.note else plain


def clipped(value: float | None, interval: tuple[float, float], possible: float = math.inf) -> NoisyNumber:
    """Return a noisy number with the estimate clipped to its interval. If the estimate is None, it remains None."""
    lower, upper = interval
    return NoisyNumber(None if value is None else min(max(value, lower), upper), lower, upper, possible)


ByStratum = Mapping[str, NoisyNumber]
Measured = Mapping[str, ByStratum]  # stratum → name → noisy sum
# The numbers of a section (field or column → stratum → number), and the noisy sums from which they were computed
# (section → stratum → name → noisy sum).
SectionNumbers = tuple[Mapping[str, ByStratum], Mapping[str, Measured]]
V = TypeVar("V")


@dataclass(frozen=True)
class Grouping:
    """The strata of an audit and the settings of its intervals.

    Attributes
    ----------
    strata : Strata
        The declared strata.
    level : float, default=0.95
        The nominal coverage of the intervals, in (0, 1).
    alike : int, default=1
        The largest number of rows of a unit. These rows are sampled together.
    """

    strata: Strata
    level: float = 0.95
    alike: int = 1

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the strata, in the order of `strata.keys`."""
        return tuple(self.strata.label(key) for key in self.strata.keys)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that define no strata."""
        return tuple(name for name in self.strata.schema.names if name not in self.strata.columns)

    def labelled(self, values: Sequence[V]) -> dict[str, V]:
        """Return a dictionary from the label of each stratum to its value.

        If there is one more value than there are strata, the last value is for the whole table (`all`).
        """
        labels = self.labels if len(values) == len(self.labels) else (*self.labels, ALL_ROWS)
        return dict(zip(labels, values, strict=True))

    def drawn(self, value: float, deviation: float) -> NoisyNumber:
        """Return a sum or count with Gaussian noise as a noisy number.

        The interval covers the exact sum over the rows. It accounts for the noise, which has the given standard
        deviation, but not for sampling.
        """
        half = float(scipy.special.ndtri((1 + self.level) / 2)) * deviation
        return NoisyNumber(float(value), value - half, value + half)

    def ratios(
        self, index: Counts, above: npt.ArrayLike, below: npt.ArrayLike | None = None
    ) -> dict[str, float | None]:
        """Compute the ratio of the sum of `above` to the sum of `below`, in each stratum and in all rows.

        The ratios are exact. By default, the denominator is the number of rows. If the denominator is 0, the ratio is
        None.
        """
        below = np.ones(len(index)) if below is None else below
        each = [np.bincount(index, weights=np.asarray(x, float), minlength=len(self.labels)) for x in (above, below)]
        top, bottom = ([*sums.tolist(), float(sums.sum())] for sums in each)
        return self.labelled([a / b if b else None for a, b in zip(top, bottom, strict=True)])


def named(classifier: Classifier | None) -> dict[str, Any]:
    """Return the name, the target and the positive value of a classifier. They are empty if there is no classifier."""
    if classifier is None:
        return {"classifier": "", "target": "", "positive": ""}
    return {"classifier": classifier.name, "target": classifier.target, "positive": str(classifier.positive)}


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """The private rows that a public audit measures, and the noisy sizes of their strata.

    Attributes
    ----------
    table : CodedTable
        The n private rows.
    grouping : Grouping
        The k strata.
    index : ndarray of shape (n,)
        The index of the stratum of each row, in the order of the labels.
    sizes : ndarray of shape (k,)
        The noisy number of rows in each stratum.
    sigma : float
        The standard deviation of the noise in each size.
    """

    table: CodedTable
    grouping: Grouping
    index: Counts
    sizes: Floats
    sigma: float

    @cached_property
    def groups(self) -> list[Places]:
        """Return the indices of the rows in each stratum, in the order of the labels."""
        return rows_by_place(self.index, len(self.grouping.labels))


@dataclass(frozen=True, eq=False)
class AuditedRelease:
    """The data that an audit uses to measure one release. The workload consists of marginals of `degree` columns."""

    private: PrivateRows
    synthetic: CodedTable
    classifier: Classifier | None
    degree: int

    @cached_property
    def predictions(self) -> tuple[Predicted, Flags]:
        """Return the predictions of the classifier for the private rows, and the rows that have the positive value."""
        assert self.classifier is not None  # without a classifier, the sections that need one are left out
        return self.classifier.predict(self.private.table), truth_of(self.private.table, self.classifier)


@dataclass(frozen=True)
class SyntheticSummary:
    """The numbers that a report shows of the synthetic rows, which are public.

    Attributes
    ----------
    rows : mapping of str to int
        The number of synthetic rows in each stratum and in the whole table (`all`).
    means : mapping of str to mapping of str to float or None
        The mean of each column that defines no strata, in each stratum and in the whole table. None if there are no
        rows.
    """

    rows: Mapping[str, int]
    means: Mapping[str, Mapping[str, float | None]]

    @property
    def lost(self) -> tuple[str, ...]:
        """Return the labels of the strata that have no synthetic row."""
        return tuple(label for label, rows in self.rows.items() if not rows)

    @classmethod
    def of(cls, table: CodedTable, grouping: Grouping) -> SyntheticSummary:
        """Compute the sizes and the means of a synthetic table. The codes have the values that `numbers_of` returns."""
        index = grouping.strata.index(table)
        rows = grouping.labelled([*np.bincount(index, minlength=len(grouping.labels)).tolist(), len(table)])
        means = {}
        for name in grouping.columns:
            numbers = numbers_of(table.schema[name])[table.column(name)]
            means[name] = grouping.ratios(index, numbers)
        return cls(rows, means)
