"""Generalised least squares estimates of counts over some columns from all measurements of these columns.

Each measurement is a noisy linear function of the counts, with Gaussian noise of known standard deviation. Therefore,
the best linear unbiased estimate and its covariance are exact for any table, and no model is needed. The measurements
are chosen with separate noise, so given the choice, the noise of the measurements has the stated distribution.

References
----------
.. [1] Aitken (1936).
.. [2] Hay, Rastogi, Miklau and Suciu (2010), arXiv:0904.0942, for noisy marginals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Measurement, Prediction

MOST_CELLS = 1_200  # the maximum size of a table for a full covariance matrix
NOT_MEASURED = 1e12  # the variance of a cell that was not measured
_EXACT = 1e-3  # the standard deviation in rows that is used for a public number (σ = 0)
_RANK = 1e-9  # directions with smaller relative eigenvalues were not measured
_SEEN = 1e-6  # the tolerance for the part of a functional that was not measured


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Counts over some columns as a linear function of the measurements.

    Attributes
    ----------
    columns : tuple of str
        The columns, one per axis.
    shape : tuple of int
        The number of codes of each column.
    parts : tuple
        The contribution of each measurement.
    covariance : ndarray of shape (cells, cells)
        The covariance of the counts in row-major order. It is zero in directions that were not measured.
    missing : ndarray of shape (cells, k)
        An orthonormal basis of the directions that were not measured.
    """

    columns: Columns
    shape: tuple[int, ...]
    parts: tuple[_Part, ...]
    covariance: Floats
    missing: Floats

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement], columns: Columns) -> LeastSquares | None:
        """Compute the covariance of the counts over some columns.

        A measurement of a single stratum (`where`) is only used if `columns` include the columns of the strata.

        Parameters
        ----------
        schema : Schema
            The schema of the measurements.
        measurements : sequence of Measurement
            The measurements.
        columns : tuple of str
            The columns of the counts.

        Returns
        -------
        LeastSquares or None
            None if the table has more than MOST_CELLS cells, or if nothing was measured.
        """
        shape = tuple(schema[name].size for name in columns)
        cells = prod(shape)
        if cells > MOST_CELLS:
            return None
        codes = dict(zip(columns, np.indices(shape).reshape(len(shape), cells), strict=True))
        precision, parts, least = np.zeros((cells, cells)), list[_Part](), 0.0
        for place, measurement in enumerate(measurements):
            if isinstance(measurement, Prediction) or not {name for name, _ in measurement.where} <= set(columns):
                continue
            part = _Part.of(schema, place, measurement, codes, cells)
            precision[np.ix_(part.inside, part.inside)] += np.where(
                part.sums[:, None] == part.sums, part.weights[part.sums], 0.0
            )
            parts.append(part)
            if len(part.inside) == len(part.weights) == cells:  # the measurement contains every cell
                least = max(least, float(part.weights.min()))
        if not parts:
            return None
        if least > _RANK * precision.sum(1).max():  # compare a lower bound of the eigenvalues with an upper bound
            covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(precision), np.eye(cells))
            return cls(columns, shape, tuple(parts), np.asarray((covariance + covariance.T) / 2), np.zeros((cells, 0)))
        scale, basis = np.linalg.eigh(precision)
        kept = scale > _RANK * scale[-1]
        covariance = (basis[:, kept] / scale[kept]) @ basis[:, kept].T
        return cls(columns, shape, tuple(parts), covariance, basis[:, ~kept])

    def counts(self, values: Sequence[Floats]) -> Floats:
        """Return the counts, shape (cells,), for the given values of all measurements in order."""
        weighted = np.zeros(len(self.covariance))
        for part in self.parts:
            found = values[part.place].sum(axis=part.rest).ravel() * part.weights
            weighted[part.inside] += found[part.sums]
        return np.asarray(self.covariance @ weighted)

    @cached_property
    def variance(self) -> Floats:
        """The variance of each count, shape (cells,). It is NOT_MEASURED if a cell was not measured."""
        lost = np.linalg.norm(self.missing, axis=1) > _SEEN
        return np.asarray(np.where(lost, NOT_MEASURED, np.diag(self.covariance)))

    def spread(self, functionals: Floats) -> Floats:
        """Multiply functionals of the counts, shape (n, cells), by the covariance."""
        return np.asarray(functionals @ self.covariance)

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """Return a mask, shape (n,), of the functionals, shape (n, cells), that the measurements determine."""
        lost = np.linalg.norm(functionals @ self.missing, axis=1)
        return np.asarray(lost <= _SEEN * np.maximum(np.linalg.norm(functionals, axis=1), 1e-12))


@dataclass(frozen=True, eq=False)
class _Part:
    """A measurement as sums over the cells of a table.

    Attributes
    ----------
    place : int
        The index of the measurement.
    rest : tuple of int
        The axes of the measurement that are summed out.
    inside : ndarray of int
        The cells that are counted.
    sums : ndarray of int
        The index of the sum for each of these cells.
    weights : ndarray
        The inverse variance of each sum.
    """

    place: int
    rest: tuple[int, ...]
    inside: Indices
    sums: Indices
    weights: Floats

    @classmethod
    def of(
        cls, schema: Schema, place: int, measurement: Measurement, codes: Mapping[str, Indices], cells: int
    ) -> _Part:
        """Create the part of a measurement. `codes` contains the code of each column in each of the `cells`."""
        rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in codes)
        kept = [axis for axis in range(len(measurement.columns)) if axis not in rest]
        shared = tuple(measurement.columns[axis] for axis in kept)
        inside = np.ones(cells, dtype=bool)
        for name, code in measurement.where:
            inside &= codes[name] == code
        cell = np.zeros(int(inside.sum()), dtype=np.intp)  # the index of the cell by the codes of the shared columns
        for name in shared:
            cell = cell * schema[name].size + codes[name][inside]
        blank = np.zeros([measurement.values.shape[axis] for axis in kept])
        groups = tuple(measurement.groups[axis] for axis in kept)
        index = Measurement(shared, blank, 0.0, groups).group_index([schema[name].size for name in shared])
        variance = (np.maximum(measurement.cell_sigma, _EXACT) ** 2).sum(axis=rest)
        sums = index[cell] if shared else np.zeros(len(cell), dtype=np.intp)
        return cls(place, rest, np.flatnonzero(inside), sums, np.asarray(1 / variance).ravel())
