"""Control totals: how many people the population has in each cell of some columns, as statistical agencies publish.

Public, and of the population, not of the rows: released weights are made to agree with them, which costs nothing.

>>> import numpy as np
>>> schema = Schema("s", (Column("AGE", values=(1, 2, 3)), Column("SEX", values=(1, 2))))
>>> controls = Controls(("AGE",), ((0, 0, 1),), np.array([600.0, 400.0]), "file 'totals.csv'")
>>> controls.cells_of(CodedTable(np.array([[0, 1], [2, 0]], dtype=np.uint8), schema)).tolist()
[0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.columns.column import Column
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable

__all__ = ["Column", "Controls", "Schema"]


@dataclass(frozen=True, eq=False)
class Controls:
    """Totals of people over some columns.

    Attributes
    ----------
    columns
        One axis each.
    groups
        For each column the group of each code, numbered 0, 1, … without a gap; None where codes are not grouped.
    totals
        People in each cell, finite and at least 0, with an axis for each column.
    source
        Where they come from, for the card.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[int, ...] | None, ...]
    totals: Floats
    source: str

    @property
    def people(self) -> float:
        """The whole population."""
        return float(self.totals.sum())

    def cells_of(self, table: CodedTable) -> Indices:
        """The cell of each row, as a flat (row-major) index into `totals`; shape (n,)."""
        codes = [
            table.column(name).astype(np.intp) if groups is None else np.asarray(groups)[table.column(name)]
            for name, groups in zip(self.columns, self.groups, strict=True)
        ]
        return np.asarray(np.ravel_multi_index(codes, self.totals.shape))
