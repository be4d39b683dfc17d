"""Counts over some columns by generalised least squares of all that was measured of them: no model, no assumption.

Every measurement that has some of the columns is a noisy linear function of the counts, with Gaussian noise of a known
σ, so the best linear unbiased estimate and its covariance are exact whatever the rows are. Which measurements were
made was chosen by noise of its own; given the choice, the noise of what was then measured is as stated.

Source: Aitken (1936); for noisy marginals Hay, Rastogi, Miklau and Suciu (2010), arXiv:0904.0942.
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

MOST_CELLS = 1_200  # of a table with a covariance between all cells
NOT_MEASURED = 1e12  # variance
_EXACT = 1e-3  # the standard deviation, in rows, of a public number (σ = 0)
_RANK = 1e-9  # of the largest eigenvalue: what is less is not measured
_SEEN = 1e-6  # of a functional that may lie in directions that were not measured


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Counts over columns as a linear function of measurements.

    Attributes:
        columns: one axis each.
        shape: the number of codes of each.
        parts: what each measurement says of them.
        covariance: of the counts, row-major, shape (cells, cells); zero in directions that were not measured.
        missing: an orthonormal basis of the directions that were not measured, shape (cells, k).
    """

    columns: Columns
    shape: tuple[int, ...]
    parts: tuple[_Part, ...]
    covariance: Floats
    missing: Floats

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement], columns: Columns) -> LeastSquares | None:
        """None if the table has more than MOST_CELLS cells, or nothing of it was measured.

        Measurements of a stratum by itself (`where`) need its columns among `columns`.
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
            if len(part.inside) == len(part.weights) == cells:  # of every cell
                least = max(least, float(part.weights.min()))
        if not parts:
            return None
        if least > _RANK * precision.sum(1).max():  # the least eigenvalue against a bound of the largest
            covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(precision), np.eye(cells))
            return cls(columns, shape, tuple(parts), np.asarray((covariance + covariance.T) / 2), np.zeros((cells, 0)))
        scale, basis = np.linalg.eigh(precision)
        kept = scale > _RANK * scale[-1]
        covariance = (basis[:, kept] / scale[kept]) @ basis[:, kept].T
        return cls(columns, shape, tuple(parts), covariance, basis[:, ~kept])

    def counts(self, values: Sequence[Floats]) -> Floats:
        """The counts, shape (cells,), by the values of all measurements, in their order."""
        weighted = np.zeros(len(self.covariance))
        for part in self.parts:
            found = values[part.place].sum(axis=part.rest).ravel() * part.weights
            weighted[part.inside] += found[part.sums]
        return np.asarray(self.covariance @ weighted)

    @cached_property
    def variance(self) -> Floats:
        """Of each count, shape (cells,); NOT_MEASURED where it was not."""
        lost = np.linalg.norm(self.missing, axis=1) > _SEEN
        return np.asarray(np.where(lost, NOT_MEASURED, np.diag(self.covariance)))

    def spread(self, functionals: Floats) -> Floats:
        """Functionals of the counts, shape (n, cells), times the covariance."""
        return np.asarray(functionals @ self.covariance)

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """Which functionals of the counts, shape (n, cells), follow from what was measured; shape (n,)."""
        lost = np.linalg.norm(functionals @ self.missing, axis=1)
        return np.asarray(lost <= _SEEN * np.maximum(np.linalg.norm(functionals, axis=1), 1e-12))


@dataclass(frozen=True, eq=False)
class _Part:
    """A measurement as sums of cells of a table.

    Attributes:
        place: the measurement's.
        rest: its axes that it is summed over.
        inside: the cells that it counts.
        sums: for each of them the sum that it is part of.
        weights: of each sum, 1 / variance.
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
        """`codes`: column of the table → its code in each of the `cells`."""
        rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in codes)
        kept = [axis for axis in range(len(measurement.columns)) if axis not in rest]
        shared = tuple(measurement.columns[axis] for axis in kept)
        inside = np.ones(cells, dtype=bool)
        for name, code in measurement.where:
            inside &= codes[name] == code
        cell = np.zeros(int(inside.sum()), dtype=np.intp)  # by the shared columns' own codes
        for name in shared:
            cell = cell * schema[name].size + codes[name][inside]
        blank = np.zeros([measurement.values.shape[axis] for axis in kept])
        groups = tuple(measurement.groups[axis] for axis in kept)
        index = Measurement(shared, blank, 0.0, groups).group_index([schema[name].size for name in shared])
        variance = (np.maximum(measurement.cell_sigma, _EXACT) ** 2).sum(axis=rest)
        sums = index[cell] if shared else np.zeros(len(cell), dtype=np.intp)
        return cls(place, rest, np.flatnonzero(inside), sums, np.asarray(1 / variance).ravel())
