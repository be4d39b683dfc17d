"""Noisy marginals.

A mechanism releases no other information about private rows. All later steps are post-processing.
"""

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
Where = tuple[tuple[str, int], ...]  # the code of each column that defines the stratum
Merging = tuple[int, ...] | None  # the group of each code of a column; None if no codes were merged


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts over some columns.

    Parameters
    ----------
    columns : tuple of str
        The measured columns. If empty, the value is the number of rows.
    values : ndarray
        The noisy counts, with one axis per column. The length of an axis is the number of groups of the column, or of
        its codes if they were not merged.
    sigma : float
        The standard deviation of the Gaussian noise on each cell. It is 0 for a public number.
    groups : tuple of tuple of int or None, default=()
        For each column, the group of each code if codes were merged before the measurement. If None, the codes of the
        column were not merged.
    where : tuple of (str, int), default=()
        The stratum that was measured separately, as the code of each of its columns. These columns have no axis. If
        empty, all rows were measured.
    choices : float, default=0.0
        The ρ of the private selections before this measurement that is not part of the cost of another measurement. It
        is stored because it cannot be derived from `sigma`. It is NaN in releases from before 2026-11-23.

    Raises
    ------
    InputError
        If the values do not match the columns, the groups and the stratum, or if a number is not valid.
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
            raise InputError(
                "a measurement of a stratum cannot have an axis for a column that defines the stratum; remove that axis"
            )
        if not np.isfinite(self.values).all() or not self.sigma >= 0:
            raise InputError("a measurement needs finite values and a non-negative sigma")

    @property
    def involved(self) -> frozenset[str]:
        """The columns that the measurement depends on: the measured columns and the columns that define its stratum."""
        return frozenset((*self.columns, *(name for name, _ in self.where)))

    @property
    def cell_sigma(self) -> Floats:
        """The standard deviation of each value, as an array with the shape of `values`."""
        return np.full(self.values.shape, self.sigma)

    @property
    def sum_variance(self) -> float:
        """The variance of the sum of all values."""
        return self.values.size * self.sigma**2

    def merged(self, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum counts over the groups of the codes.

        This measurement is a noisy version of the result.

        Parameters
        ----------
        counts : ndarray
            Counts over the codes of the columns, with one axis per column.

        Returns
        -------
        ndarray
            Counts over the groups, with the shape of `values`.
        """
        for axis, groups in enumerate(self.groups):
            if groups is not None:
                counts = sum_groups(counts, axis, groups)
        return counts

    def group_index(self, shape: Sequence[int]) -> npt.NDArray[np.intp]:
        """Map the cells of a table over the codes to the cells of `values`.

        Parameters
        ----------
        shape : sequence of int
            The number of codes of each column.

        Returns
        -------
        ndarray of int
            For each cell in row-major order, the index of its cell in the flattened `values`.
        """
        index = np.zeros((), dtype=np.intp)
        for size, groups, width in zip(shape, self.groups, self.values.shape, strict=True):
            steps = np.arange(size) if groups is None else np.asarray(groups)
            index = index[..., None] * width + steps
        return index.ravel()


@dataclass(frozen=True, eq=False)
class SummedMeasurement(Measurement):
    """A measurement in which each cell is the sum of several measured cells.

    Parameters
    ----------
    sigmas : ndarray
        The standard deviation of each value. The attribute `sigma` is the root mean square of these.
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
class FilteredMeasurement(SummedMeasurement):
    """A measurement that is combined with other information about the same marginal.

    The information is from former releases of a series (`equistrata.synth.series`), or from the other strata
    (`equistrata.synth.strata.shrinkage`).
    """


@dataclass(frozen=True, eq=False)
class FormerEstimate(SummedMeasurement):
    """An estimate of a marginal that is based only on former releases of a series.

    It is not used to estimate the total number of rows.
    """


@dataclass(frozen=True, eq=False)
class Prediction(SummedMeasurement):
    """A posterior prediction of some cells of a marginal from other measurements.

    It is not used to estimate the total number of rows. The values of `sigmas` are infinite for cells without a
    prediction, and `sigma` is the smallest of them.
    """


def cells_where(columns: Iterable[str], codes: Mapping[str, int]) -> tuple[int | slice, ...]:
    """Return the index of the cells in which the named columns have the given codes.

    Parameters
    ----------
    columns : iterable of str
        The columns of the table, one per axis.
    codes : mapping of str to int
        The code of each named column. Columns that are not in the table are ignored.

    Returns
    -------
    tuple of int or slice
        The index of the cells.
    """
    return tuple(codes.get(name, slice(None)) for name in columns)


def given(measurement: Measurement, codes: Mapping[str, int]) -> Measurement:
    """Select the part of a measurement in which some columns have the given codes.

    Parameters
    ----------
    measurement : Measurement
        The measurement.
    codes : mapping of str to int
        The code of each of these columns.

    Returns
    -------
    Measurement
        The selected part, over the remaining columns.
    """
    rest = {n: g for n, g in zip(measurement.columns, measurement.groups, strict=True) if n not in codes}
    place = cells_where(measurement.columns, codes)
    values = measurement.values[place]
    if isinstance(measurement, FormerEstimate | FilteredMeasurement):
        sigmas = measurement.sigmas[place]
        return type(measurement)(tuple(rest), values, root_mean_square(sigmas), tuple(rest.values()), sigmas=sigmas)
    return Measurement(tuple(rest), values, measurement.sigma, tuple(rest.values()))


def root_mean_square(sigmas: Floats) -> float:
    """Compute the root mean square of standard deviations."""
    return sqrt(float(np.mean(np.square(sigmas))))


def summed(measurement: Measurement, names: Columns) -> Measurement:
    """Sum a measurement over all but some of its columns.

    Parameters
    ----------
    measurement : Measurement
        The measurement.
    names : tuple of str
        The columns to keep.

    Returns
    -------
    Measurement
        The measurement of the columns that are kept.
    """
    rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in names)
    cells = math.prod(measurement.values.shape[axis] for axis in rest)
    kept = {n: g for n, g in zip(measurement.columns, measurement.groups, strict=True) if n in names}
    columns, groups = tuple(kept), tuple(kept.values())
    values = measurement.values.sum(rest)
    if isinstance(measurement, FormerEstimate | FilteredMeasurement):
        sigmas = np.sqrt(np.square(measurement.sigmas).sum(rest))
        return type(measurement)(columns, values, root_mean_square(sigmas), groups, measurement.where, sigmas=sigmas)
    return Measurement(columns, values, measurement.sigma * cells**0.5, groups, measurement.where)


def sum_groups(counts: npt.NDArray[Any], axis: int, groups: Sequence[int]) -> npt.NDArray[Any]:
    """Sum counts within the groups of one axis.

    Parameters
    ----------
    counts : ndarray
        The counts.
    axis : int
        The axis to sum along.
    groups : sequence of int
        The group of each index of the axis.

    Returns
    -------
    ndarray
        The sums. The axis has one index per group.
    """
    front = np.moveaxis(counts, axis, 0)
    summed = np.zeros((max(groups) + 1, *front.shape[1:]), dtype=counts.dtype)
    np.add.at(summed, np.asarray(groups), front)
    return np.moveaxis(summed, 0, axis)


def has_all_codes(measurement: Measurement, columns: Iterable[str]) -> bool:
    """Check whether a measurement has all codes of the given columns.

    Merged codes are not sufficient. For example, the state of a PUMA does not identify the PUMA.

    Parameters
    ----------
    measurement : Measurement
        The measurement.
    columns : iterable of str
        The columns.

    Returns
    -------
    bool
        True if each of the columns was measured and its codes were not merged.
    """
    groups = dict(zip(measurement.columns, measurement.groups, strict=True))
    return all(name in groups and groups[name] is None for name in columns)


def join_level_columns(schema: Schema, columns: Iterable[str], level: Columns) -> Columns:
    """Join columns with the columns of a level, in the order of the schema.

    Parameters
    ----------
    schema : Schema
        The schema.
    columns : iterable of str
        The columns.
    level : tuple of str
        The columns that define the level.

    Returns
    -------
    tuple of str
        The joined columns.
    """
    wanted = {*columns, *level}
    return tuple(name for name in schema.names if name in wanted)


def varying(schema: Schema, names: Iterable[str]) -> Columns:
    """Return the columns with more than one code.

    A column with a single code is not related to any other column, so no selection is spent on it.
    """
    return tuple(name for name in names if schema[name].size > 1)


def measured_pairs(names: Sequence[str], measured: Iterable[Columns]) -> tuple[list[Columns], list[Columns]]:
    """Split the pairs of columns into measured and unmeasured pairs.

    Parameters
    ----------
    names : sequence of str
        The columns.
    measured : iterable of tuple of str
        The sets of columns that were measured.

    Returns
    -------
    together : list of tuple of str
        The pairs that were measured as part of at least one set.
    apart : list of tuple of str
        The remaining pairs.

    Examples
    --------
    >>> measured_pairs(("A", "B", "C"), [("A",), ("A", "B")])
    ([('A', 'B')], [('A', 'C'), ('B', 'C')])
    """
    together = {pair for columns in measured for pair in permutations(columns, 2)}
    pairs = list(combinations(names, 2))
    return [pair for pair in pairs if pair in together], [pair for pair in pairs if pair not in together]


def total_estimate(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Estimate the number of rows from measurements by inverse-variance weighting.

    The cells of a measurement sum to the number of rows plus noise. The variance of this noise is the number of cells
    times σ². A public number (σ = 0) is treated as exact. The estimate is post-processing.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements. Items of type `FormerEstimate` and `Prediction` are ignored.

    Returns
    -------
    total : float
        The estimated number of rows. It is 0 if there are no measurements.
    sigma : float
        The standard deviation of the estimate. It is infinite if there are no measurements.

    Examples
    --------
    >>> total_estimate([Measurement((), np.array(90.0), 1.0), Measurement(("SEX",), np.array([60.0, 50.0]), 1.0)])
    (96.66666666666667, 0.816496580927726)
    """
    measurements = [each for each in measurements if not isinstance(each, FormerEstimate | Prediction)]
    for measurement in measurements:
        if measurement.sigma == 0:
            return float(measurement.values.sum()), 0.0
    if not measurements:
        return 0.0, float("inf")
    precision = np.array([1 / m.sum_variance for m in measurements])
    sums = np.array([m.values.sum() for m in measurements])
    return float(precision @ sums / precision.sum()), float(precision.sum() ** -0.5)
