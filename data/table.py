"""Coded tables: the only form in which private rows are worked on.

>>> import pandas as pd
>>> schema = Schema.load("acs_employment").select(["AGEP", "MIL", "ESR"])
>>> table = CodedTable.encode(pd.DataFrame({"AGEP": [19, 20, 95], "MIL": [None, 4, 2], "ESR": [None, 1, 6]}), schema)
>>> table.codes.tolist()
[[0, 0, 0], [1, 4, 1], [4, 2, 0]]
>>> table.marginal(["ESR"]).tolist()
[2, 1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns.cells import WEIGHT_REMEDY, cells_of, counted_numbers, encoded
from equistrata.data.columns.released import Codes, decoded, drawn_between, in_words
from equistrata.data.rules.ordered import in_order
from equistrata.data.schema import Column, Impossible, Schema, shortened
from equistrata.errors import InputError

# Rows that are counted at a time: a few columns of them stay in a processor's cache, and a table that is in a mapped
# file is never in memory as a whole.
CHUNK_ROWS = 1 << 16
_MOST_NUMBERED = 2**62  # combinations of codes


@dataclass(frozen=True, eq=False)
class CodedTable:
    """n rows by d columns of codes: `codes[i, j]` in [0, schema.row_sizes[j]).

    The constructor makes no copy and marks the array read-only only through this view, so the caller's array stays
    as it was. The array may be a mapped file, larger than memory: checks and counts go through it in chunks.
    """

    codes: Codes
    schema: Schema

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.schema.columns):
            columns = len(self.schema.columns)
            raise InputError(f"codes need shape (n, {columns}), not {self.codes.shape}; code the rows by the schema")
        for name, size, codes in zip(self.schema.names, self.schema.row_sizes, self.codes.T, strict=True):
            if codes.size and (codes.max() >= size or (codes.dtype.kind != "u" and codes.min() < 0)):
                raise InputError(f"column {name!r} holds a code outside its declared size; code it by the schema")
        view = self.codes.view()
        view.flags.writeable = False
        object.__setattr__(self, "codes", view)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def __repr__(self) -> str:
        """Without codes and their number: rows may be private, and a repr travels into logs."""
        return f"<CodedTable: {shortened(self.schema.names)}>"

    def column(self, name: str) -> Codes:
        """The codes of one column, shape (n,)."""
        return self.codes[:, self.schema.index(name)]

    def select(self, names: Sequence[str]) -> CodedTable:
        """These columns only, in this order."""
        return CodedTable(self.codes[:, [self.schema.index(name) for name in names]], self.schema.select(names))

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> CodedTable:
        """These rows only."""
        return CodedTable(self.codes[rows], self.schema)

    def index_of(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """For each row, the flat (row-major) index of its cell in the marginal over `names`, shape (n,)."""
        return _cells(self.codes, *self._places(names), np.int64).astype(np.int64, copy=False)

    def marginal(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Exact counts over `names`, one axis each. Private: only a noise source may see them.

        Sensitivity: adding or removing a row changes one cell by one, so 1 in every Lp norm.
        """
        places, sizes = self._places(names)
        cells = int(np.prod(sizes, dtype=np.int64))
        counts = np.zeros(cells, dtype=np.int64)
        small = np.min_scalar_type(cells).type  # narrow numbers are added many at a time
        rows = max(CHUNK_ROWS, cells)
        for start in range(0, len(self), rows):
            counts += np.bincount(_cells(self.codes[start : start + rows], places, sizes, small), minlength=cells)
        return counts.reshape(sizes)

    def distinct(self) -> tuple[CodedTable, npt.NDArray[np.int64]]:
        """The distinct rows, in lexicographic order, and how often each occurs: all that any marginal depends on.

        Private. Where the combinations of codes are too many to be numbered: all rows, once each.
        """
        places, sizes = self._places(self.schema.names)
        combinations = math.prod(sizes)
        if combinations > _MOST_NUMBERED:
            return self, np.ones(len(self), dtype=np.int64)
        cells = counts = np.zeros(0, dtype=np.int64)
        if combinations <= max(CHUNK_ROWS, len(self)):
            dense = self.marginal(self.schema.names).ravel()
            cells = np.flatnonzero(dense)
            counts = dense[cells]
        else:
            done = 0
            while done < len(self):
                chunk = self.codes[done : done + max(CHUNK_ROWS, len(cells))]  # as many as are sorted again with them
                done += len(chunk)
                found, often = np.unique(_cells(chunk, places, sizes, np.int64), return_counts=True)
                cells, back = np.unique(np.concatenate([cells, found]), return_inverse=True)
                counts = np.bincount(back, np.concatenate([counts, often])).astype(np.int64)  # exact below 2^53
        rows = np.empty((len(cells), len(sizes)), dtype=code_dtype(self.schema), order="F")
        for place, codes in enumerate(np.unravel_index(cells, sizes)):
            rows[:, place] = codes
        return CodedTable(rows, self.schema), counts

    def _places(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        places = [self.schema.index(name) for name in names]
        return places, [self.schema.row_sizes[place] for place in places]

    @classmethod
    def encode(cls, frame: pd.DataFrame, schema: Schema) -> CodedTable:
        """Code the rows of a data frame by the schema's declaration alone.

        Raises InputError if a column is absent, holds something undeclared, out of bounds or with decimals where draws
        are whole numbers, lacks a value where none may be missing, or holds a combination that the schema declares
        impossible or a row that breaks a rule. No row's value is quoted.
        """
        codes = np.empty((len(frame), len(schema.columns)), dtype=code_dtype(schema), order="F")
        for j, column in enumerate(schema.columns):
            for name in column.cells:
                times = int((frame.columns == name).sum())
                if times != 1:
                    fault = "is in the table twice; rename one" if times else "is not in the table; add it"
                    raise InputError(f"column {name!r} of schema {schema.name!r} {fault}")
            found, absent, missing = encoded(cells_of(frame, column), column)
            if missing is not None:
                found[absent] = missing
            elif absent.any():
                if column.weight:
                    raise InputError(f"column {column.name!r}, the survey weight, has missing cells; {WEIGHT_REMEDY}")
                raise InputError(
                    f"column {column.name!r} has missing cells, but the schema does not say what missing means; "
                    "declare it"
                )
            codes[:, j] = found
        table = cls(codes, schema)
        for zero in schema.impossible:
            if table.holds(zero).any():
                raise InputError(
                    f"the table holds a combination of {', '.join(zero.columns)} that schema {schema.name!r} declares "
                    "impossible; clean those rows or correct the schema"
                )
        table.check_order(frame)
        return table

    def check_order(self, frame: pd.DataFrame) -> None:
        """Raise InputError if a row of `frame`, which this table is of, breaks a comparison of columns."""
        codes, found = self.compared(), dict[str, Floats]()
        for order in self.schema.ordered:
            for name in (order.lower, order.upper):
                if name not in found:
                    found[name] = counted_numbers(cells_of(frame, self.schema[name]), self.schema[name])
            if order.broken(found, codes, self.schema).any():
                raise InputError(
                    f"the table holds a row that breaks the rule {order.rule!r} of schema {self.schema.name!r}; clean "
                    "those rows or take the rule out"
                )

    def holds(self, zero: Impossible) -> npt.NDArray[np.bool_]:
        """For each row, whether it has a combination that cannot occur, shape (n,)."""
        found: npt.NDArray[np.bool_] = self.schema.zero_mask(zero).ravel()[self.index_of(zero.columns)]
        return found

    def ruled_out(self) -> npt.NDArray[np.bool_]:
        """For each row, whether it has any combination that the schema declares impossible, shape (n,)."""
        found = np.zeros(len(self), dtype=np.bool_)
        for zero in self.schema.impossible:
            found |= self.holds(zero)
        return found

    def compared(self) -> dict[str, Codes]:
        """The codes of each column that a comparison of columns depends on."""
        return {name: self.column(name) for order in self.schema.ordered for name in sorted(order.columns)}

    def decode(self, rng: np.random.Generator) -> pd.DataFrame:
        """The rows as released values. `rng` draws values from bins that are released as draws, in the declared order
        where columns are compared: codes have to be such that they can be (`equistrata.data.rules.ordered`)."""
        numbers: dict[str, Floats] = {}
        if self.schema.ordered:

            def draw(column: Column, least: Floats, most: Floats) -> Floats:
                return drawn_between(column, least, most, rng)

            numbers = in_order(self.compared(), self.schema, self.schema.ordered, draw)
        columns = zip(self.schema.columns, self.codes.T, strict=True)
        cells = {column.name: decoded(codes, column, rng, numbers.get(column.name)) for column, codes in columns}
        cells |= {each.name: each.cells(self.column(each.source)) for each in self.schema.derived}
        return pd.DataFrame(cells, copy=False)

    @classmethod
    def concatenate(cls, tables: Sequence[CodedTable]) -> CodedTable:
        """The rows of several tables of one schema, one after the other."""
        return cls(np.concatenate([table.codes for table in tables]), tables[0].schema)


def _cells(
    codes: Codes, places: Sequence[int], sizes: Sequence[int], dtype: type[np.integer[Any]]
) -> npt.NDArray[np.integer[Any]]:
    """For each row, the flat (row-major) index of its cell over some columns, in a type that holds every index."""
    flat = codes[:, places[0]].astype(dtype) if places else np.zeros(len(codes), dtype=dtype)
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat *= dtype(size)
        flat += codes[:, place].astype(dtype, copy=False)
    return flat


def code_dtype(schema: Schema) -> type[np.unsignedinteger]:
    """The smallest unsigned type that holds every code of a schema."""
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16 if max(schema.sizes) <= 65536 else np.uint32


def worded(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Released rows with categorical columns as pandas categories of words, in the declared order."""
    return frame.assign(
        **{column.name: in_words(frame[column.name], column) for column in schema.published if column.values}
    )
