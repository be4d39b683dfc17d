"""Raking of row weights to the sums of measured cells.

References
----------
.. [1] Deming and Stephan (1940).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Columns, Measurement, Merging, Where

_PASSES = 6


@dataclass(frozen=True, eq=False)
class MeasuredCells:
    """The cells of some columns, and the rows in these cells.

    Attributes
    ----------
    where : tuple
        The stratum that was measured separately. It is empty for all rows.
    columns : tuple of str
        The columns, one per axis.
    groups : tuple
        The group of each code for each column, or None.
    shape : tuple of int
        The shape of the table of cells.
    rows : ndarray of int
        The places of the rows in this stratum.
    cells : ndarray of int
        The flat index of the cell for each of these rows.
    """

    where: Where
    columns: Columns
    groups: tuple[Merging, ...]
    shape: tuple[int, ...]
    rows: Indices
    cells: Indices

    def sums(self, weights: Floats) -> Floats:
        """Return the sum of the weights in each cell. `weights` has one element for each row of the table."""
        return np.asarray(np.bincount(self.cells, weights[self.rows], prod(self.shape)), dtype=np.float64)


def measured_cells(
    table: CodedTable, published: Iterable[Measurement], without: str | None = None
) -> list[MeasuredCells]:
    """Return the cells of each measurement with columns of the table. Each set of cells is returned once.

    Parameters
    ----------
    table : CodedTable
        The rows.
    published : iterable of Measurement
        The measurements.
    without : str, optional
        A column that is summed out.

    Returns
    -------
    list of MeasuredCells
        The cells.
    """
    known, found = {*table.schema.names}, list[MeasuredCells]()
    kinds = set[tuple[Where, tuple[tuple[str, Merging], ...]]]()
    for each in published:
        own = [pair for pair in zip(each.columns, each.groups, strict=True) if pair[0] != without]
        if own and each.involved <= known:
            kinds.add((each.where, tuple(sorted(own, key=lambda pair: pair[0]))))
    for where, kind in sorted(kinds, key=repr):
        there = np.ones(len(table), dtype=np.bool_)
        for name, code in where:
            there &= table.column(name) == code
        rows, cells, shape = np.flatnonzero(there), np.zeros(int(there.sum()), dtype=np.intp), list[int]()
        for name, groups in kind:
            codes = table.column(name)[rows].astype(np.intp)
            shape.append(table.schema[name].size if groups is None else max(groups) + 1)
            cells = cells * shape[-1] + (codes if groups is None else np.asarray(groups)[codes])
        names, merged = zip(*kind, strict=True)
        found.append(MeasuredCells(where, names, merged, tuple(shape), rows, cells))
    return found


def raked(weights: Floats, parts: Sequence[MeasuredCells], targets: Sequence[Floats]) -> Floats:
    """Multiply weights by factors for each cell, such that the sum of each nonempty cell is close to its target."""
    weights = weights.copy()
    for _ in range(_PASSES):
        for part, target in zip(parts, targets, strict=True):
            now = part.sums(weights)
            weights[part.rows] *= np.divide(target, now, out=np.zeros(len(now)), where=now > 0)[part.cells]
    return weights
