"""From a table over some variables to one over a part of them, and back: what inference in junction trees is made of.

All tables are flat, row-major over their variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.synth.models.junction_tree import Clique

# Sums and products along axes take up to a twentieth of the time of index maps where tables are large and the last
# axis is not short; elsewhere they take longer (docs/experiments/estimation.md).
LARGE = 4096  # cells
_LAST_AXIS = 4


@dataclass(frozen=True, eq=False)
class Projection:
    """A table's variables, of which a part is kept (sorted, both).

    Attributes:
        width: the number of cells of the part.
        cells: for each cell of the table, that of the part it falls in; None where `axes` are used instead.
        axes: the table's shape, neighbours of one kind taken together, and whether each is kept.
    """

    width: int
    cells: Indices | None
    axes: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], variables: Clique, part: Clique) -> Projection:
        """The projection of a table over `variables` to `part`, which they hold."""
        inside = set(part)
        kinds = groupby(variables, key=inside.__contains__)
        axes = tuple((prod(sizes[v] for v in same), kept) for kept, same in kinds)
        along = prod(size for size, _ in axes) >= LARGE and axes[-1][0] >= _LAST_AXIS
        return cls(prod(sizes[v] for v in part), None if along else cell_map(sizes, variables, part), axes)

    def sums(self, table: Floats) -> Floats:
        """The sum over each cell of the part."""
        if self.cells is not None:
            return np.asarray(np.bincount(self.cells, table, self.width), dtype=np.float64)
        kept = [axis for axis, (_, keep) in enumerate(self.axes) if keep]
        operands: list[Any] = [table.reshape([size for size, _ in self.axes]), [*range(len(self.axes))]]
        return np.asarray(np.einsum(*operands, kept)).ravel()

    def beside(self, table: Floats, part: Floats) -> tuple[Floats, Floats]:
        """The table and the part in shapes that fit, so that `a *= b` changes the table in place."""
        if self.cells is not None:
            return table, part[self.cells]
        shape = [size for size, _ in self.axes]
        return table.reshape(shape), part.reshape([size if kept else 1 for size, kept in self.axes])


def cell_map(sizes: Sequence[int], variables: Clique, part: Clique) -> Indices:
    """For each cell of a table over `variables`, the cell of `part` (some of them, in the order given)."""
    shape = [sizes[v] for v in variables]
    index = np.zeros(shape, dtype=np.intp)
    for v in part:
        axis = variables.index(v)
        steps = np.arange(sizes[v], dtype=np.intp).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        index = index * sizes[v] + steps
    return np.broadcast_to(index, shape).ravel()
