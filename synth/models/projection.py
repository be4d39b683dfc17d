"""Projections of tables to some of their variables.

Inference in junction trees consists of these operations. All tables are flat, in row-major order of their variables.
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

# If tables are large and the last axis is not short, sums and products along axes are up to 20 times as fast as index
# maps. Otherwise they are slower.
LARGE = 4096  # the minimum number of cells of a large table
_LAST_AXIS = 4


@dataclass(frozen=True, eq=False)
class Projection:
    """The projection of a table to a part of its variables.

    The variables of the table and of the part are sorted.

    Parameters
    ----------
    width : int
        The number of cells of the part.
    cells : ndarray of int or None
        For each cell of the table, the corresponding cell of the part. If None, `axes` are used instead.
    axes : tuple of (int, bool)
        The shape of the table after adjacent variables of the same kind are combined. The second item is True if the
        axis is in the part.
    """

    width: int
    cells: Indices | None
    axes: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], variables: Clique, part: Clique) -> Projection:
        """Create the projection of a table over `variables` to `part`, which is a subset of these variables."""
        inside = set(part)
        kinds = groupby(variables, key=inside.__contains__)
        axes = tuple((prod(sizes[v] for v in same), kept) for kept, same in kinds)
        along = prod(size for size, _ in axes) >= LARGE and axes[-1][0] >= _LAST_AXIS
        return cls(prod(sizes[v] for v in part), None if along else cell_map(sizes, variables, part), axes)

    def sums(self, table: Floats) -> Floats:
        """Sum the table over each cell of the part."""
        if self.cells is not None:
            return np.asarray(np.bincount(self.cells, table, self.width), dtype=np.float64)
        kept = [axis for axis, (_, keep) in enumerate(self.axes) if keep]
        operands: list[Any] = [table.reshape([size for size, _ in self.axes]), [*range(len(self.axes))]]
        return np.asarray(np.einsum(*operands, kept)).ravel()

    def beside(self, table: Floats, part: Floats) -> tuple[Floats, Floats]:
        """Reshape the table and the part so that they can be broadcast.

        An in-place operation such as `a *= b` on the results then changes the table.
        """
        if self.cells is not None:
            return table, part[self.cells]
        shape = [size for size, _ in self.axes]
        return table.reshape(shape), part.reshape([size if kept else 1 for size, kept in self.axes])


def cell_map(sizes: Sequence[int], variables: Clique, part: Clique) -> Indices:
    """Map the cells of a table to the cells of a part of its variables.

    Parameters
    ----------
    sizes : sequence of int
        The number of codes of each variable.
    variables : tuple of int
        The variables of the table.
    part : tuple of int
        Some of these variables, in any order.

    Returns
    -------
    ndarray of int
        For each cell of the table, the index of the cell of the part.
    """
    shape = [sizes[v] for v in variables]
    index = np.zeros(shape, dtype=np.intp)
    for v in part:
        axis = variables.index(v)
        steps = np.arange(sizes[v], dtype=np.intp).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        index = index * sizes[v] + steps
    return np.broadcast_to(index, shape).ravel()
