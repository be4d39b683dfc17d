"""Tables of codes, which are the only form in which private rows are processed.

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

# The number of rows that are counted at a time. A few columns of these rows fit into the cache of a processor, and a
# table in a mapped file does not need to fit into memory.
CHUNK_ROWS = 1 << 16
_MOST_NUMBERED = 2**62  # the maximum number of combinations of codes


@dataclass(frozen=True, eq=False)
class CodedTable:
    """A table of codes.

    The codes are not copied. They are read-only through this table, but the owner of the original array can still
    change it. The array can be a mapped file that is larger than memory, because checks and counts do not load it as a
    whole.

    Parameters
    ----------
    codes : ndarray of int
        The codes, shape (n, d). The codes of column j are at least 0 and less than `schema.row_sizes[j]`.
    schema : Schema
        The schema of the d columns.

    Raises
    ------
    InputError
        If the shape of the codes does not match the schema, or if a code is too large.
    """

    codes: Codes
    schema: Schema

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.schema.columns):
            columns = len(self.schema.columns)
            raise InputError(
                f"codes must have shape (n, {columns}), not {self.codes.shape}; encode the rows with the schema"
            )
        for name, size, codes in zip(self.schema.names, self.schema.row_sizes, self.codes.T, strict=True):
            if codes.size and (codes.max() >= size or (codes.dtype.kind != "u" and codes.min() < 0)):
                raise InputError(
                    f"column {name!r} holds a code that its schema does not have; encode the rows with the schema"
                )
        view = self.codes.view()
        view.flags.writeable = False
        object.__setattr__(self, "codes", view)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def __repr__(self) -> str:
        """Return the names of the columns. Codes and row counts are left out because rows are private and logs can be
        public.
        """
        return f"<CodedTable: {shortened(self.schema.names)}>"

    def column(self, name: str) -> Codes:
        """Return the codes of a column, shape (n,)."""
        return self.codes[:, self.schema.index(name)]

    def select(self, names: Sequence[str]) -> CodedTable:
        """Return a table with some of the columns, in the given order."""
        return CodedTable(self.codes[:, [self.schema.index(name) for name in names]], self.schema.select(names))

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> CodedTable:
        """Return a table with some of the rows."""
        return CodedTable(self.codes[rows], self.schema)

    def index_of(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the flat index in row-major order of the cell of each row in a marginal, shape (n,)."""
        return _cells(self.codes, *self._places(names), np.int64).astype(np.int64, copy=False)

    def marginal(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Compute the exact marginal of some columns.

        Parameters
        ----------
        names : sequence of str
            The columns of the marginal.

        Returns
        -------
        ndarray of int
            The counts, with one axis for each column.

        Privacy
        -------
        The counts are exact, so they are private and must only be used by a noise mechanism. If a row is added or
        removed, one cell changes by one, so the sensitivity is 1 in every Lp norm.
        """
        places, sizes = self._places(names)
        cells = int(np.prod(sizes, dtype=np.int64))
        counts = np.zeros(cells, dtype=np.int64)
        small = np.min_scalar_type(cells).type  # narrow integers are faster
        rows = max(CHUNK_ROWS, cells)
        for start in range(0, len(self), rows):
            counts += np.bincount(_cells(self.codes[start : start + rows], places, sizes, small), minlength=cells)
        return counts.reshape(sizes)

    def distinct(self) -> tuple[CodedTable, npt.NDArray[np.int64]]:
        """Return the distinct rows in lexicographic order, and the number of times that each row occurs.

        All marginals of the table can be computed from them. If there are too many combinations of codes to be
        numbered, all rows are returned with a count of one.

        Returns
        -------
        rows : CodedTable
            The distinct rows.
        counts : ndarray of int
            The number of times that each row occurs, shape (rows,).

        Privacy
        -------
        The rows and the counts are exact, so they are private.
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
                # The chunks grow with the number of distinct rows, which are sorted again with each chunk.
                chunk = self.codes[done : done + max(CHUNK_ROWS, len(cells))]
                done += len(chunk)
                found, often = np.unique(_cells(chunk, places, sizes, np.int64), return_counts=True)
                cells, back = np.unique(np.concatenate([cells, found]), return_inverse=True)
                # The sums are exact below 2^53.
                counts = np.bincount(back, np.concatenate([counts, often])).astype(np.int64)
        rows = np.empty((len(cells), len(sizes)), dtype=code_dtype(self.schema), order="F")
        for place, codes in enumerate(np.unravel_index(cells, sizes)):
            rows[:, place] = codes
        return CodedTable(rows, self.schema), counts

    def _places(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        places = [self.schema.index(name) for name in names]
        return places, [self.schema.row_sizes[place] for place in places]

    @classmethod
    def encode(cls, frame: pd.DataFrame, schema: Schema) -> CodedTable:
        """Encode the rows of a data frame. The codes only depend on the declaration in the schema.

        Parameters
        ----------
        frame : DataFrame
            The raw rows.
        schema : Schema
            The schema.

        Returns
        -------
        CodedTable
            The codes of the rows.

        Raises
        ------
        InputError
            If a column is missing or repeated, or if a cell does not fit its column. A cell does not fit if its value
            is not declared, if it is out of bounds, or if it has decimals although the column has whole numbers. It
            also does not fit if it is missing and the schema does not declare missing cells. Another reason is a row
            that has an impossible combination or violates a rule. The message does not quote the values of a row.
        """
        codes = np.empty((len(frame), len(schema.columns)), dtype=code_dtype(schema), order="F")
        for j, column in enumerate(schema.columns):
            for name in column.cells:
                times = int((frame.columns == name).sum())
                if times != 1:
                    fault = "is in the table twice; rename one of them" if times else "is not in the table; add it"
                    raise InputError(f"column {name!r} of schema {schema.name!r} {fault}")
            found, absent, missing = encoded(cells_of(frame, column), column)
            if missing is not None:
                found[absent] = missing
            elif absent.any():
                if column.weight:
                    raise InputError(f"column {column.name!r}, the survey weight, has missing cells; {WEIGHT_REMEDY}")
                raise InputError(
                    f"column {column.name!r} has missing cells, but the schema does not say what they mean; declare "
                    "'missing' for it"
                )
            codes[:, j] = found
        table = cls(codes, schema)
        for zero in schema.impossible:
            if table.holds(zero).any():
                raise InputError(
                    f"the table holds a combination of {', '.join(zero.columns)} that schema {schema.name!r} declares "
                    "impossible; correct those rows or the schema"
                )
        table.check_order(frame)
        return table

    def check_order(self, frame: pd.DataFrame) -> None:
        """Check that the rows satisfy all comparisons of columns.

        Parameters
        ----------
        frame : DataFrame
            The raw rows of this table.

        Raises
        ------
        InputError
            If a row violates a rule.
        """
        codes, found = self.compared(), dict[str, Floats]()
        for order in self.schema.ordered:
            for name in (order.lower, order.upper):
                if name not in found:
                    found[name] = counted_numbers(cells_of(frame, self.schema[name]), self.schema[name])
            if order.broken(found, codes, self.schema).any():
                raise InputError(
                    f"the table holds a row that breaks the rule {order.rule!r} of schema {self.schema.name!r}; "
                    "correct those rows, or remove the rule"
                )

    def holds(self, zero: Impossible) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that have an impossible combination, shape (n,).

        Parameters
        ----------
        zero : Impossible
            The impossible combination.
        """
        found: npt.NDArray[np.bool_] = self.schema.zero_mask(zero).ravel()[self.index_of(zero.columns)]
        return found

    def ruled_out(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that have any impossible combination of the schema, shape (n,)."""
        found = np.zeros(len(self), dtype=np.bool_)
        for zero in self.schema.impossible:
            found |= self.holds(zero)
        return found

    def compared(self) -> dict[str, Codes]:
        """Return the codes of each column that is part of a comparison of columns."""
        return {name: self.column(name) for order in self.schema.ordered for name in sorted(order.columns)}

    def decode(self, rng: np.random.Generator) -> pd.DataFrame:
        """Convert the codes to released values.

        If columns are compared, their numbers are drawn in the declared order. The codes must allow this (see
        `equistrata.data.rules.ordered`).

        Parameters
        ----------
        rng : Generator
            The generator for the values that are drawn from bins.

        Returns
        -------
        DataFrame
            The released rows, including the derived columns.
        """
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
        """Return the rows of several tables with the same schema as one table."""
        return cls(np.concatenate([table.codes for table in tables]), tables[0].schema)


def _cells(
    codes: Codes, places: Sequence[int], sizes: Sequence[int], dtype: type[np.integer[Any]]
) -> npt.NDArray[np.integer[Any]]:
    """Return the flat index in row-major order of the cell of each row over some columns, with the given type."""
    flat = codes[:, places[0]].astype(dtype) if places else np.zeros(len(codes), dtype=dtype)
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat *= dtype(size)
        flat += codes[:, place].astype(dtype, copy=False)
    return flat


def code_dtype(schema: Schema) -> type[np.unsignedinteger]:
    """Return the smallest unsigned type that can represent all codes of a schema."""
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16 if max(schema.sizes) <= 65536 else np.uint32


def with_labels(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return released rows in which categorical columns are pandas categories of labels, in the declared order."""
    return frame.assign(
        **{column.name: in_words(frame[column.name], column) for column in schema.published if column.values}
    )
