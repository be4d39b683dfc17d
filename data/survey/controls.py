"""Control totals, which are the numbers of people in the population by some columns.

Statistical agencies publish these totals. They are public, and they are a property of the population and not of the
rows. The weights of a release are therefore raked to the totals at no privacy cost.

>>> import numpy as np
>>> schema = Schema("s", (Column("AGE", values=(1, 2, 3)), Column("SEX", values=(1, 2))))
>>> controls = Controls(("AGE",), ((0, 0, 1),), np.array([600.0, 400.0]), "file 'totals.csv'")
>>> controls.cells_of(CodedTable(np.array([[0, 1], [2, 0]], dtype=np.uint8), schema)).tolist()
[0, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.arrays import Floats, Indices
from equistrata.data.columns.column import Column, plain_text
from equistrata.data.rules.possible import any_row_possible
from equistrata.data.schema import Schema
from equistrata.data.sources import read_frame
from equistrata.data.strata import MOST_NESTED as MOST_CELLS
from equistrata.data.survey.control_columns import ControlColumn, group_texts
from equistrata.data.table import CodedTable
from equistrata.data.weights import is_size, names_in, sizes_in
from equistrata.errors import InputError

__all__ = ["CONTROLS", "Column", "Controls", "Schema"]

CONTROLS = "controls.csv"  # the name of the file in a release


@dataclass(frozen=True, eq=False)
class Controls:
    """Totals of people by some columns.

    Attributes
    ----------
    columns : tuple of str
        The columns, one for each axis of the totals.
    groups : tuple of tuples or None
        For each column, the group of each code, numbered from 0 without gaps. If None, the codes of the column are not
        grouped.
    totals : ndarray of float
        The number of people in each cell, with one axis for each column. The totals are finite and not negative.
    source : str
        The source of the totals for the card.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[int, ...] | None, ...]
    totals: Floats
    source: str

    @classmethod
    def from_file(cls, path: str | Path, schema: Schema) -> Controls:
        """Read the control totals from a CSV or Parquet file.

        The file has one line for each cell of a joint table, and one column that contains the totals.

        Parameters
        ----------
        path : str or Path
            The path of the file. Its columns are columns of the schema, columns that are derived from them, and the
            column of the totals. The column of the totals has one of the names in `SIZE_COLUMNS`, or it is the only
            other column. Numbers are given as ranges that end at the edges of bins, such as `0 to 4` or `85 and over`.
        schema : Schema
            The schema of the released rows.

        Returns
        -------
        Controls
            The control totals.

        Raises
        ------
        InputError
            If a cell is missing, unless the schema declares it impossible. If a cell is listed twice or is unknown. If
            an impossible cell has people. If a total is negative or not a number. If a column cannot be used for
            control totals.
        """
        frame = read_frame(path, declared=schema.published)
        source = f"file {Path(path).name!r}"
        file = f"the control totals in {source}"
        size = _column_of_totals(frame, schema, file)
        totals = sizes_in(frame, size, file)
        inner = {name for column in schema.columns for name in column.within}
        names = [str(name) for name in frame.columns if name not in {size, *inner}]
        read = [ControlColumn.read(frame, name, schema, file) for name in names]
        if not read:
            raise InputError(
                f"{file} have no column of the schema; give a line for each group of people, such as an age group"
            )
        _refuse_related(read, schema, file)
        columns, groups = tuple(each.source for each in read), tuple(each.groups for each in read)
        shape = tuple(schema[each.source].size if each.groups is None else max(each.groups) + 1 for each in read)
        if prod(shape) > MOST_CELLS:
            raise InputError(
                f"{file} have {prod(shape):,} cells, but the maximum is {MOST_CELLS:,}; give totals for fewer columns"
            )
        found = cls(columns, groups, _joint(read, shape, totals, frame, file), source)
        found._refuse_impossible(schema, file)
        if not 0 < found.people < inf:
            few = "zero; give at least one positive total"
            raise InputError(
                f"{file} sum to {few if found.people == 0 else 'more than a number can hold; correct them'}"
            )
        return cls(columns, groups, np.nan_to_num(found.totals), source)

    @property
    def people(self) -> float:
        """The total number of people in the population."""
        with np.errstate(over="ignore"):
            return float(np.nansum(self.totals))

    def cells_of(self, table: CodedTable) -> Indices:
        """Return the cell of each row.

        Parameters
        ----------
        table : CodedTable
            The rows.

        Returns
        -------
        ndarray of int
            The flat index into `totals` in row-major order, shape (n,).
        """
        codes = [
            table.column(name).astype(np.intp) if groups is None else np.asarray(groups)[table.column(name)]
            for name, groups in zip(self.columns, self.groups, strict=True)
        ]
        return np.asarray(np.ravel_multi_index(codes, self.totals.shape))

    def codes_of(self, cell: int) -> dict[str, tuple[int, ...]]:
        """Return the codes of each column in a cell, which is given by its flat index."""
        places = [int(place) for place in np.unravel_index(cell, self.totals.shape)]
        return {
            name: (place,) if groups is None else tuple(np.flatnonzero(np.asarray(groups) == place).tolist())
            for name, groups, place in zip(self.columns, self.groups, places, strict=True)
        }

    def frame(self, schema: Schema) -> pd.DataFrame:
        """Return a data frame with one line for each cell, in the format of `from_file`."""
        named = [
            group_texts(schema[name], groups, schema.derived)
            for name, groups in zip(self.columns, self.groups, strict=True)
        ]
        found = pd.DataFrame([*product(*(texts for _, texts in named))], columns=[name for name, _ in named])
        size = "population"
        while size in _known(schema):
            size += "_"
        return found.assign(**{size: self.totals.ravel()})

    def _refuse_impossible(self, schema: Schema, file: str) -> None:
        """Check that all possible cells are listed and that impossible cells have no people."""
        rules = [dict(zip(zero.columns, zero.codes, strict=True)) for zero in schema.impossible]
        known = dict[Any, bool]()
        for cell, total in enumerate(self.totals.ravel().tolist()):
            if total == 0:
                continue
            codes = self.codes_of(cell)
            sizes, left = _within(codes, rules, schema)
            key = tuple(tuple((name, *rule[name]) for name in rule) for rule in left)
            if key not in known:
                known[key] = any_row_possible(sizes, left)
            if known[key] and not total > 0:
                here = _words(codes, schema)
                raise InputError(f"{file} lack the cell {here}; list every cell of the table, with 0 for an empty one")
            if not known[key] and total > 0:
                raise InputError(
                    f"{file} have people in the cell {_words(codes, schema)}, which schema {schema.name!r} declares "
                    "impossible; correct the total, or the schema"
                )


def _known(schema: Schema) -> set[str]:
    """Return the names of the columns of a schema, of their source columns and of the derived columns."""
    return {*schema.names, *schema.cells, *(each.name for each in schema.derived)}


def _column_of_totals(frame: pd.DataFrame, schema: Schema, file: str) -> str:
    """Return the name of the column of totals.

    An InputError is raised if there is no column of totals, or if another column is not in the schema.
    """
    if not frame.columns.is_unique:
        raise InputError(f"{file} have two columns with the same name; rename one of them")
    others = [str(name) for name in frame.columns if name not in _known(schema)]
    sized = others if len(others) == 1 else [name for name in others if is_size(name)]
    if len(sized) != 1:
        raise InputError(
            f"{file} have the columns {names_in(frame)}, of which {'several' if sized else 'none'} can be the totals; "
            "give columns of the schema, and one column named 'population'"
        )
    unknown = next((name for name in others if name != sized[0]), None)
    if unknown is not None:
        raise InputError(
            f"{file} have a column {unknown!r}, which schema {schema.name!r} does not have; rename or remove it"
        )
    return sized[0]


def _refuse_related(read: Sequence[ControlColumn], schema: Schema, file: str) -> None:
    """Raise an InputError if two columns have the same source, or if a rule compares two of the columns."""
    for place, each in enumerate(read):
        twice = next((other for other in read[:place] if other.source == each.source), None)
        if twice is not None:
            raise InputError(
                f"{file} have {twice.name!r} and {each.name!r}, which are the same column of the schema; leave one out"
            )
    sources = {each.source for each in read}
    for order in schema.ordered:
        if {order.lower, order.upper} <= sources:
            raise InputError(
                f"{file} have two columns that the rule {order.rule!r} compares, which is not supported; leave one out"
            )


def _joint(
    read: Sequence[ControlColumn], shape: tuple[int, ...], totals: Floats, frame: pd.DataFrame, file: str
) -> Floats:
    """Return the totals of all cells, with NaN for cells that are not listed.

    An InputError is raised if a cell is listed twice.
    """
    cells = np.ravel_multi_index([each.places for each in read], shape)
    _, first, times = np.unique(cells, return_index=True, return_counts=True)
    if (times > 1).any():
        line = frame.iloc[int(first[times > 1][0])]
        here = ", ".join(f"{each.name}={plain_text(line[each.name])}" for each in read)
        raise InputError(f"{file} list the cell {here} more than once; add up its totals in one line")
    found = np.full(prod(shape), np.nan)
    found[cells] = totals
    return found.reshape(shape)


def _within(
    codes: Mapping[str, tuple[int, ...]], rules: Sequence[Mapping[str, tuple[int, ...]]], schema: Schema
) -> tuple[dict[str, int], list[dict[str, tuple[int, ...]]]]:
    """Return the sizes of the columns and the remaining rules if some columns are restricted to the given codes."""
    left = []
    for rule in rules:
        named = [name for name in rule if name in codes]
        own = {name: tuple(at for at, code in enumerate(codes[name]) if code in rule[name]) for name in named}
        if all(own.values()):
            whole = {name for name, found in own.items() if len(found) == len(codes[name])}
            left.append({name: own.get(name, rule[name]) for name in rule if name not in whole})
    sizes = {name: len(codes[name]) if name in codes else schema[name].size for rule in left for name in rule}
    return sizes, left


def _words(codes: Mapping[str, tuple[int, ...]], schema: Schema) -> str:
    """Return a description of a cell."""
    parts = {}
    for name, found in codes.items():
        words = [*dict.fromkeys(schema[name].words(schema[name].keys[code]) for code in found)]
        parts[name] = words[0] if len(words) == 1 else f"{words[0]} … {words[-1]}"
    return ", ".join(f"{name}={each}" for name, each in parts.items())
