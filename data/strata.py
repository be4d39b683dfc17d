"""Intersectional strata, which are the cross product of the declared values of some columns.

Strata without rows are included.

>>> strata = Strata.over(Schema.load("acs_employment").select(["SEX", "RAC1P", "ESR"]), ["SEX", "RAC1P"])
>>> len(strata.keys), strata.keys[0], strata.label(strata.keys[1])
(18, (1, 1), 'SEX=1,RAC1P=2')
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from equistrata.data.columns.column import Column, Value
from equistrata.data.repeats import require_unique
from equistrata.data.rules.possible import any_row_possible
from equistrata.data.schema import Schema
from equistrata.data.table import CHUNK_ROWS, CodedTable, code_dtype
from equistrata.errors import InputError

Key = tuple[Value, ...]
WHOLE: Key = ()
MIN_SHARE = 0.001  # strata with a smaller share of the rows are not included in parity errors
# Each stratum has separate files, a separate model and often a separate task. Nested strata rarely have a task.
MOST_STRATA, MOST_NESTED = 10_000, 30_000
LONGEST_NAME = 200  # without the suffix; most file systems allow 255 bytes, and some of them less
ANSWERS = frozenset({"yes", "no", "true", "false"})  # labels that say nothing without the name of their column


@dataclass(frozen=True)
class Strata:
    """A partition of the rows of a schema by the declared values of some columns.

    Parameters
    ----------
    schema : Schema
        The schema of the whole table.
    columns : tuple of str
        The columns that define the strata. If there are no columns, the whole table is a single stratum with the key
        `()`.
    """

    schema: Schema
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Strata over {' × '.join(self.columns) or 'nothing'} of schema {self.schema.name}>"

    @classmethod
    def over(cls, schema: Schema, columns: Sequence[str]) -> Strata:
        """Return the strata that are defined by some columns.

        Parameters
        ----------
        schema : Schema
            The schema of the whole table.
        columns : sequence of str
            The names of the columns. A nested column can be given with its outer columns, so `ST/PUMA` is the same as
            `PUMA`.

        Returns
        -------
        Strata
            The strata.

        Raises
        ------
        InputError
            If a column is unknown, repeated, open or has no bins, if a column is not nested as stated, if no column is
            left to synthesize, or if there are too many strata.
        """
        if isinstance(columns, str):
            raise InputError(f"strata is {columns!r}, but must be a list; give a list of column names")
        columns = require_unique(schema.plain(columns), "stratum column")
        for name in columns:
            if schema[name].open:
                raise InputError(
                    f"stratum column {name!r} is declared as 'values: open', but strata need known values; list its "
                    "values in the schema"
                )
            if schema[name].fine:
                raise InputError(f"stratum column {name!r} is numeric and has no bins; add 'edges' to it in the schema")
        if len(columns) == len(schema.columns):
            raise InputError("the strata use up every column; leave at least one column to synthesize")
        count, nested = prod(schema[name].size for name in columns), any(schema[name].within for name in columns)
        if count > (most := MOST_NESTED if nested else MOST_STRATA):
            about = f"{count:,}" if count < 10**9 else f"at least 10^{len(str(count)) - 1}"
            raise InputError(
                f"{', '.join(columns)} make {about} strata, but the maximum is {most:,}; use fewer columns, or give "
                "them coarser values or bins"
            )
        return cls(schema, tuple(columns))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of declared values of each stratum column."""
        return tuple(self.schema[name].size for name in self.columns)

    @property
    def nested(self) -> bool:
        """True if one of the columns is nested within another column, such as a PUMA within its state."""
        return any(self.schema[name].within for name in self.columns)

    @cached_property
    def _cells(self) -> dict[Key, tuple[int, ...]]:
        """The codes of each possible stratum by its key."""
        impossible = np.zeros(self.sizes, dtype=bool)
        for zero in self.schema.impossible:
            if set(zero.columns) <= set(self.columns):
                codes = dict(zip(zero.columns, zero.codes, strict=True))
                chosen = (codes.get(name, range(size)) for name, size in zip(self.columns, self.sizes, strict=True))
                impossible[np.ix_(*chosen)] = True
        keys = [self.schema[name].keys for name in self.columns]
        cells = zip(product(*keys), product(*map(range, self.sizes)), impossible.ravel().tolist(), strict=True)
        inside = self._some_row()
        return {key: place for key, place, ruled_out in cells if not ruled_out and inside(place)}

    def _some_row(self) -> Callable[[tuple[int, ...]], bool]:
        """Return a function that checks whether the structural zeros of other columns allow any row in a stratum."""
        zeros = [dict(zip(zero.columns, map(frozenset, zero.codes), strict=True)) for zero in self.schema.impossible]
        own = [{place: zero.pop(name) for place, name in enumerate(self.columns) if name in zero} for zero in zeros]

        @cache
        def possible(held: tuple[int, ...]) -> bool:
            rules = [zeros[each] for each in held]
            return any_row_possible({name: self.schema[name].size for rule in rules for name in rule}, rules)

        def inside(place: tuple[int, ...]) -> bool:
            return possible(
                tuple(i for i, each in enumerate(own) if zeros[i] and all(place[at] in each[at] for at in each))
            )

        return inside if any(own) else lambda place: True

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The keys of all possible strata, in the order of the cross product."""
        return tuple(self._cells)

    def label(self, key: Key) -> str:
        """Return the name of a stratum in files and reports, such as `SEX=1,RAC1P=2`.

        The name is `all` if there are no stratum columns.
        """
        return ",".join(f"{name}={value}" for name, value in zip(self.columns, key, strict=True)) or "all"

    def words(self, key: Key) -> str:
        """Return the name of a stratum for people, such as `Female, Asian`, from the labels of the schema.

        If a value has no label, or if its label is a word such as yes, the label of the column is added. Examples are
        `Sex 2, Asian` and `Female, Disability: yes`.

        >>> strata = Strata.over(Schema.load("acs_employment").select(["SEX", "AGEP", "ESR"]), ["SEX", "AGEP"])
        >>> strata.words((2, 1)), Strata(strata.schema, ()).words(())
        ('Female, Age over 19 to 38', 'everybody')
        """
        columns = [self.schema[name] for name in self.columns]
        parts = [_words(column, value) for column, value in zip(columns, key, strict=True)]
        return ", ".join(parts) or "everybody"

    def file_name(self, key: Key) -> str:
        """Return the label of a stratum as a percent-encoded file name. A long name is cut and ends in a hash."""
        label = self.label(key)
        name = quote(label, safe="=,")
        if len(name) <= LONGEST_NAME:
            return name
        digest = hashlib.sha256(label.encode()).hexdigest()[:16]
        return f"{name[: LONGEST_NAME - 17]}-{digest}"

    def codes_of(self, key: Key) -> dict[str, int]:
        """Return the code of each stratum column in a stratum."""
        return dict(zip(self.columns, self._cells[key], strict=True))

    def rest(self, key: Key) -> Schema:
        """Return the schema of the other columns in a stratum, with the structural zeros that apply there."""
        schema = self.schema.given(self.codes_of(key))
        assert schema is not None  # impossible strata do not have a key
        return schema

    def index(self, table: CodedTable) -> npt.NDArray[np.int64]:
        """Return the position of the stratum of each row in `keys`.

        Parameters
        ----------
        table : CodedTable
            A table that has the stratum columns.

        Returns
        -------
        ndarray of int
            The positions, shape (n,).

        Raises
        ------
        InputError
            If a row is in an impossible stratum.
        """
        place = np.full(int(np.prod(self.sizes, dtype=np.int64)), -1, dtype=np.int64)
        for position, codes in enumerate(self._cells.values()):
            place[np.ravel_multi_index(codes, self.sizes) if codes else 0] = position
        index = place[table.index_of(self.columns)]
        if (index < 0).any():
            raise InputError("the table has rows in a stratum that the schema declares impossible; correct those rows")
        return index

    def partition(self, table: CodedTable) -> dict[Key, CodedTable]:
        """Split a table into its strata.

        The rows of a stratum do not have the stratum columns, and they are in their original order. The rows are read
        twice in chunks, so a mapped table does not need more memory than its codes.

        Parameters
        ----------
        table : CodedTable
            The whole table.

        Returns
        -------
        dict of tuple to CodedTable
            The rows of each stratum by its key. The table of a stratum without rows is empty.

        Privacy
        -------
        If one row is added to or removed from the table, exactly one stratum changes by this row.
        """
        count = len(self.keys)
        chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, len(table), CHUNK_ROWS)]
        sizes = sum(
            (np.bincount(self.index(table.take(c)), minlength=count) for c in chunks), np.zeros(count, np.int64)
        )
        bounds = np.cumsum([0, *sizes])
        columns = [table.schema.index(name) for name in self.schema.names if name not in self.columns]
        rest = np.empty((len(table), len(columns)), dtype=table.codes.dtype, order="F")
        free = bounds[:-1].copy()  # the position of the next row of each stratum
        for chunk in chunks:
            rows = table.take(chunk)
            index = self.index(rows)
            # A stable sort of a narrow integer type is a radix sort, which takes linear time in the number of rows.
            order = np.argsort(index.astype(np.min_scalar_type(count)), kind="stable")
            found = np.bincount(index, minlength=count)
            places = np.arange(len(rows)) + np.repeat(free - np.cumsum(found) + found, found)
            for j, column in enumerate(columns):
                rest[places, j] = rows.codes[order, column]
            free += found
        return {key: CodedTable(rest[bounds[i] : bounds[i + 1]], self.rest(key)) for i, key in enumerate(self.keys)}

    def assemble(self, parts: dict[Key, CodedTable]) -> CodedTable:
        """Join the rows of all strata in the order of `keys`.

        This is the inverse of `partition`, except for the order of the rows.
        """
        return CodedTable(np.concatenate([self.with_own(key, parts[key]).codes for key in self.keys]), self.schema)

    def with_own(self, key: Key, part: CodedTable) -> CodedTable:
        """Return the rows of a stratum with the stratum columns."""
        fixed = self.codes_of(key)
        block = np.empty((len(part), len(self.schema.columns)), code_dtype(self.schema), order="F")
        for j, name in enumerate(self.schema.names):
            block[:, j] = fixed[name] if name in fixed else part.column(name)
        return CodedTable(block, self.schema)


def _words(column: Column, value: Value) -> str:
    """Return the label of a value, with the label of its column if it is not clear without it."""
    name, words = column.label or column.name, column.words(value)
    if words.casefold() in ANSWERS:
        return f"{name}: {words}"
    return words if value in dict(column.labels) else f"{name} {words}"
