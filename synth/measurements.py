"""Noisy marginals: all that a mechanism releases of private rows. What follows is post-processing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError

Columns = tuple[str, ...]
Where = tuple[tuple[str, int], ...]  # the code of each stratum column
Merging = tuple[int, ...] | None  # the group of each code of a column; None if no codes were merged


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts over some columns.

    Attributes:
        columns: the measured columns; none means the number of rows.
        values: noisy counts, one axis per column, of the length of the column's groups (or codes).
        sigma: standard deviation of the Gaussian noise on each cell; 0 for a public number.
        groups: for each column, the group of each code if codes were merged before measuring, else None.
        where: the stratum that was measured by itself, of other columns; none for all rows.
        choices: ρ of the private choices before it that were not paid with another measurement, since σ does not say
            it; NaN in releases from before 2026-11-23.
    """

    columns: Columns
    values: Floats
    sigma: float
    groups: tuple[Merging, ...] = ()
    where: Where = ()
    choices: float = 0.0

    def __post_init__(self) -> None:
        if not self.groups:
            object.__setattr__(self, "groups", (None,) * len(self.columns))
        if len(self.groups) != len(self.columns) or np.ndim(self.values) != len(self.columns):
            raise InputError("a measurement needs one axis and one grouping per column")
        if any(name in self.columns for name, _ in self.where):
            raise InputError("a measurement of a stratum has no axis for the columns that define it")
        if not np.isfinite(self.values).all() or not self.sigma >= 0:
            raise InputError("a measurement needs finite values and a non-negative sigma")

    @property
    def involved(self) -> frozenset[str]:
        """The columns that it says something of: its own, and those that define its stratum."""
        return frozenset((*self.columns, *(name for name, _ in self.where)))

    @property
    def cell_sigma(self) -> Floats:
        """The standard deviation of each value, of the values' shape."""
        return np.full(self.values.shape, self.sigma)

    @property
    def sum_variance(self) -> float:
        """The variance of the sum of all values."""
        return self.values.size * self.sigma**2

    def merged(self, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Counts over the columns' codes, summed within groups: what this measurement is a noisy version of."""
        for axis, groups in enumerate(self.groups):
            if groups is not None:
                counts = sum_groups(counts, axis, groups)
        return counts

    def group_index(self, shape: Sequence[int]) -> npt.NDArray[np.intp]:
        """For each cell of a table over the columns' codes (flat, row-major), the flat cell of `values`."""
        index = np.zeros((), dtype=np.intp)
        for size, groups, width in zip(shape, self.groups, self.values.shape, strict=True):
            steps = np.arange(size) if groups is None else np.asarray(groups)
            index = index[..., None] * width + steps
        return index.ravel()


@dataclass(frozen=True, eq=False)
class Summed(Measurement):
    """A measurement whose cells are sums of several that were measured.

    Attributes:
        sigmas: the standard deviation of each value; `sigma` is their root mean square.
    """

    sigmas: Floats = field(default_factory=lambda: np.zeros(()))

    @property
    def cell_sigma(self) -> Floats:
        """See `Measurement.cell_sigma`."""
        return self.sigmas

    @property
    def sum_variance(self) -> float:
        """See `Measurement.sum_variance`."""
        return float((self.sigmas**2).sum())


@dataclass(frozen=True, eq=False)
class Filtered(Summed):
    """A measurement joined with what former releases of a series say of it (`equistrata.synth.series`), or what other
    strata say of a stratum's (`equistrata.synth.strata.shrinkage`)."""


@dataclass(frozen=True, eq=False)
class Former(Summed):
    """What former releases of a series alone say of a marginal. It does not count towards the total."""


@dataclass(frozen=True, eq=False)
class Prediction(Summed):
    """A posterior prediction of some cells of a marginal from other measurements. It does not count towards the total.

    Its `sigmas` are infinite for cells without a prediction; `sigma` is the least.
    """


def cells_where(columns: Iterable[str], codes: Mapping[str, int]) -> tuple[int | slice, ...]:
    """The cells of a table over columns in which those that are named have these codes."""
    return tuple(codes.get(name, slice(None)) for name in columns)


def given(measurement: Measurement, codes: Mapping[str, int]) -> Measurement:
    """The part of a measurement in which some columns have these codes, over its other columns."""
    rest = {n: g for n, g in zip(measurement.columns, measurement.groups, strict=True) if n not in codes}
    place = cells_where(measurement.columns, codes)
    values = measurement.values[place]
    if isinstance(measurement, Former | Filtered):
        sigmas = measurement.sigmas[place]
        return type(measurement)(tuple(rest), values, root_mean_square(sigmas), tuple(rest.values()), sigmas=sigmas)
    return Measurement(tuple(rest), values, measurement.sigma, tuple(rest.values()))


def root_mean_square(sigmas: Floats) -> float:
    """The typical of standard deviations."""
    return sqrt(float(np.mean(np.square(sigmas))))


def summed(measurement: Measurement, names: Columns) -> Measurement:
    """A measurement of some of its columns."""
    rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in names)
    cells = math.prod(measurement.values.shape[axis] for axis in rest)
    kept = {n: g for n, g in zip(measurement.columns, measurement.groups, strict=True) if n in names}
    columns, groups = tuple(kept), tuple(kept.values())
    values = measurement.values.sum(rest)
    if isinstance(measurement, Former | Filtered):
        sigmas = np.sqrt(np.square(measurement.sigmas).sum(rest))
        return type(measurement)(columns, values, root_mean_square(sigmas), groups, measurement.where, sigmas=sigmas)
    return Measurement(columns, values, measurement.sigma * cells**0.5, groups, measurement.where)


def sum_groups(counts: npt.NDArray[Any], axis: int, groups: Sequence[int]) -> npt.NDArray[Any]:
    """Counts summed within the groups of one axis."""
    front = np.moveaxis(counts, axis, 0)
    summed = np.zeros((max(groups) + 1, *front.shape[1:]), dtype=counts.dtype)
    np.add.at(summed, np.asarray(groups), front)
    return np.moveaxis(summed, 0, axis)


def tells_apart(measurement: Measurement, columns: Iterable[str]) -> bool:
    """Whether a measurement has these columns, each with all of its codes: a PUMA's state alone is no PUMA."""
    groups = dict(zip(measurement.columns, measurement.groups, strict=True))
    return all(name in groups and groups[name] is None for name in columns)


def at_level(schema: Schema, columns: Iterable[str], level: Columns) -> Columns:
    """Columns and a level's, in the schema's order."""
    wanted = {*columns, *level}
    return tuple(name for name in schema.names if name in wanted)


def varying(schema: Schema, names: Iterable[str]) -> Columns:
    """The columns of more than one code: a single code has no relation to anything, and no choice is spent on it."""
    return tuple(name for name in names if schema[name].size > 1)


def measured_pairs(names: Sequence[str], measured: Iterable[Columns]) -> tuple[list[Columns], list[Columns]]:
    """The pairs of these columns that were measured together, as part of a set of columns, and those that were not.

    >>> measured_pairs(("A", "B", "C"), [("A",), ("A", "B")])
    ([('A', 'B')], [('A', 'C'), ('B', 'C')])
    """
    together = {pair for columns in measured for pair in permutations(columns, 2)}
    pairs = list(combinations(names, 2))
    return [pair for pair in pairs if pair in together], [pair for pair in pairs if pair not in together]


def total_estimate(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """The number of rows that measurements imply, and its standard deviation, by inverse-variance weighting.

    A measurement's cells sum to the number of rows plus noise of variance cells·σ². A public number (σ = 0) is taken
    as exact; without measurements the estimate is 0 ± ∞. Post-processing.

    >>> total_estimate([Measurement((), np.array(90.0), 1.0), Measurement(("SEX",), np.array([60.0, 50.0]), 1.0)])
    (96.66666666666667, 0.816496580927726)
    """
    measurements = [each for each in measurements if not isinstance(each, Former | Prediction)]
    for measurement in measurements:
        if measurement.sigma == 0:
            return float(measurement.values.sum()), 0.0
    if not measurements:
        return 0.0, float("inf")
    precision = np.array([1 / m.sum_variance for m in measurements])
    sums = np.array([m.values.sum() for m in measurements])
    return float(precision @ sums / precision.sum()), float(precision.sum() ** -0.5)
