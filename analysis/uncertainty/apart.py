"""Counts over columns where strata were measured one by one: least squares of each stratum, one after the other.

A table by strata holds all that was measured, and may have more cells than a covariance is worked out for. Strata share
no noise but that of the marginals over all rows, so a stratum by itself is solved by its own measurements, and by its
part of those that tell all strata apart, as their sizes. What else is known over all rows has no part in it.
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
from equistrata.synth.measurements import Columns, Measurement, Prediction, cells_where, given, tells_apart
from equistrata.synth.models.coarsening import Coarsening

MOST_NUMBERS = 25_000_000  # of all strata's covariances together: 200 MB

Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Part:
    """A stratum: its codes, its cells of all, the places of its measurements, how these are read, and them solved."""

    codes: dict[str, int]
    cells: Cells
    places: tuple[int, ...]
    coarse: Coarsening | None
    known: LeastSquares | None

    def of(self, measurement: Measurement) -> Measurement:
        """What a measurement says of the stratum, over the other columns."""
        own = _of(measurement, self.codes)
        return own if self.coarse is None else self.coarse.coarse(own)


@dataclass(frozen=True, eq=False)
class StratumCounts:
    """As `LeastSquares`, a block for each stratum.

    Attributes:
        columns: one axis each, those that define strata among them.
        shape: of the table: the number of codes of each; or of groups of cells, stratum by stratum, how many there are.
    """

    columns: Columns
    shape: tuple[int, ...]
    measurements: Sequence[Measurement]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, strata: Strata, measurements: Sequence[Measurement], columns: Columns) -> StratumCounts | None:
        """None if the table is too large, or no stratum of it was measured."""
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
    """The places of what is of a stratum: of it by itself, or of all of them, each apart."""
    return tuple(place for place, each in enumerate(measurements) if _says(each, codes))


def _says(measurement: Measurement, codes: Mapping[str, int]) -> bool:
    where = dict(measurement.where)
    if isinstance(measurement, Prediction):
        return False
    return where == codes if where else tells_apart(measurement, codes)


def _of(measurement: Measurement, codes: Mapping[str, int]) -> Measurement:
    return replace(measurement, where=()) if measurement.where else given(measurement, codes)
