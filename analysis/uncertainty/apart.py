"""Least squares estimates of counts for each stratum, for strata that were measured separately.

A table by strata uses all measurements, but it may have too many cells for a covariance matrix. The noise of different
strata is independent, except for the noise of marginals over all rows. Therefore, each stratum is estimated from its
own measurements. Measurements that distinguish all strata, such as the sizes of the strata, are used as well. Other
measurements over all rows are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from equistrata.analysis.uncertainty.least_squares import MOST_CELLS, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Columns, Measurement, Prediction, cells_where, given, has_all_codes
from equistrata.synth.models.coarsening import Coarsening

MOST_NUMBERS = 25_000_000  # the maximum total size of the covariance matrices, which is 200 MB

Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Part:
    """One stratum of a table.

    Attributes
    ----------
    codes : dict
        The codes of the stratum.
    cells : ndarray of int
        The cells of the table that belong to the stratum.
    places : tuple of int
        The indices of the measurements of the stratum.
    coarse : Coarsening or None
        The groups of codes in which the measurements are read.
    known : LeastSquares or None
        The least squares estimate of the stratum.
    """

    codes: dict[str, int]
    cells: Cells
    places: tuple[int, ...]
    coarse: Coarsening | None
    known: LeastSquares | None

    def of(self, measurement: Measurement) -> Measurement:
        """Return the part of a measurement that refers to the stratum, over the other columns."""
        own = _of(measurement, self.codes)
        return own if self.coarse is None else self.coarse.coarse(own)


@dataclass(frozen=True, eq=False)
class StratumCounts:
    """Least squares estimates with one block per stratum. The interface is the same as in `LeastSquares`.

    Attributes
    ----------
    columns : tuple of str
        The columns, one per axis, including the columns that define strata.
    shape : tuple of int
        The number of codes of each column. If the cells are in groups, it is the total number of groups over all
        strata.
    measurements : sequence of Measurement
        The measurements of the release.
    parts : tuple of Part
        The strata.
    """

    columns: Columns
    shape: tuple[int, ...]
    measurements: Sequence[Measurement]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, strata: Strata, measurements: Sequence[Measurement], columns: Columns) -> StratumCounts | None:
        """Solve each stratum, or return None if the table is too large or if no stratum was measured."""
        schema, inner = strata.schema, tuple(name for name in columns if name not in strata.columns)
        shape = tuple(schema[name].size for name in columns)
        cells = prod(schema[name].size for name in inner)
        if cells > MOST_CELLS or cells**2 * len(strata.keys) > MOST_NUMBERS:
            return None
        places, parts = np.arange(prod(shape)).reshape(shape), []
        for key in strata.keys:
            codes = strata.codes_of(key)
            own = own_places(measurements, codes)
            known = LeastSquares.of(schema, [_of(measurements[place], codes) for place in own], inner)
            parts.append(Part(codes, places[cells_where(columns, codes)].ravel(), own, None, known))
        return cls(columns, shape, measurements, tuple(parts)) if any(part.known for part in parts) else None

    def counts(self, values: Sequence[Floats]) -> Floats:
        """See `LeastSquares.counts`."""
        found = np.zeros(prod(self.shape))
        for part in self.parts:
            if part.known is not None:
                changed = (replace(self.measurements[place], values=values[place]) for place in part.places)
                found[part.cells] = part.known.counts([part.of(each).values for each in changed])
        return found

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """See `LeastSquares.has`."""
        found = np.ones(len(functionals), dtype=bool)
        for part in self.parts:
            own = functionals[:, part.cells]
            found &= ~own.any(1) if part.known is None else ~own.any(1) | part.known.has(own)
        return found

    def spread(self, functionals: Floats) -> Floats:
        """See `LeastSquares.spread`."""
        found = np.zeros(functionals.shape)
        for part in self.parts:
            if part.known is not None:
                found[:, part.cells] = part.known.spread(functionals[:, part.cells])
        return found


def own_places(measurements: Sequence[Measurement], codes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the indices of measurements of one stratum, or of measurements that distinguish all strata."""
    return tuple(place for place, each in enumerate(measurements) if _says(each, codes))


def _says(measurement: Measurement, codes: Mapping[str, int]) -> bool:
    where = dict(measurement.where)
    if isinstance(measurement, Prediction):
        return False
    return where == codes if where else has_all_codes(measurement, codes)


def _of(measurement: Measurement, codes: Mapping[str, int]) -> Measurement:
    return replace(measurement, where=()) if measurement.where else given(measurement, codes)
