"""Tables to compare: coded rows with the same schema, and the strata that a score covers.

Data frames without a schema are coded by the values that occur in them (see `code_with_same_schema`). Values are
matched by value (1 is equal to 1.0) and not by position. A missing cell is a separate value in marginals and is left
out of means.

>>> real, synthetic = pd.DataFrame({"G": ["a", "b"], "A": [0, 1]}), pd.DataFrame({"G": ["c", "b"], "A": [1, 1]})
>>> pair = Pair.of(real, synthetic, ["G"])
>>> pair.labels, pair.real_place.tolist(), pair.synthetic_place.tolist()
(('G=a', 'G=b'), [0, 1], [-1, 1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts, Floats
from equistrata.data.columns.column import plain_text
from equistrata.data.columns.raw import Cell, distinct_cells, exact_number, read_cell
from equistrata.data.repeats import require_unique
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import MIN_SHARE
from equistrata.data.table import CodedTable, code_dtype
from equistrata.errors import InputError

Places = npt.NDArray[np.intp]
Times = Counts | Floats  # the number of times that each row occurs, or its survey weight
TableLike = CodedTable | pd.DataFrame

ALL_ROWS = "all"  # the label of the whole table, as `Strata.label` writes it
LEFT_OUT = -1
MOST_BINS = 20
_LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Pair:
    """A real and a synthetic table with the same schema, and the strata with enough real rows to be scored.

    Attributes
    ----------
    real, synthetic : CodedTable
        The n real rows and the m synthetic rows.
    times : tuple of two ndarray, or tuple of two None
        The number of times that each real and each synthetic row occurs, or its weight. If None, each row occurs once.
    strata : tuple of str
        The columns that define the strata. It may be empty.
    labels : tuple of str
        The labels of the k strata that are covered, in the order of their codes. If there are no columns, the only
        label is `all`.
    real_place, synthetic_place : ndarray of int
        The index of the stratum of each row, in [0, k), or -1 if the stratum is not covered.
    declared : bool
        If True, the schema was declared. If False, it contains the values that occur in the tables.
    """

    real: CodedTable
    synthetic: CodedTable
    times: tuple[Times, Times] | tuple[None, None]
    strata: tuple[str, ...]
    labels: tuple[str, ...]
    real_place: Counts
    synthetic_place: Counts
    declared: bool = True

    @classmethod
    def of(
        cls,
        real: TableLike,
        synthetic: TableLike,
        strata: Sequence[str] = (),
        *,
        min_share: float = MIN_SHARE,
        times: tuple[Times, Times] | None = None,
    ) -> Pair:
        """Check two tables and find the strata that are covered.

        A stratum is covered if it has at least `min_share` of the real rows, or of their weight.

        Parameters
        ----------
        real, synthetic : CodedTable or DataFrame
            Coded tables with the same schema, or data frames with the same columns in any order.
        strata : sequence of str, default=()
            The columns that define the strata.
        min_share : float, default=MIN_SHARE
            The smallest share of a stratum that is covered, in [0, 1).
        times : tuple of two ndarray, optional
            The number of times that each row of the two tables occurs, or its weight.

        Returns
        -------
        Pair
            The coded tables and their strata.

        Raises
        ------
        InputError
            If the tables cannot be compared, if a setting is out of its range, or if no stratum has a share of
            `min_share`.
        """
        if not 0 <= min_share < 1:
            raise InputError(f"min_share is {min_share}, but a share of rows lies in [0, 1); correct it")
        coded = code_with_same_schema({"real": real, "synthetic": synthetic}, strata)
        for found, table in zip(times or (), coded.values(), strict=False):
            whole = found.dtype.kind in "iu" and bool((found > 0).all())
            weights = found.dtype.kind == "f" and bool((found >= 0).all()) and 0 < found.sum() < np.inf
            if found.shape != (len(table),) or not (whole or weights):
                raise InputError(
                    "a table that is given by its distinct rows needs a positive whole number for each of them, or a "
                    "weight of 0 or more, not 0 for all"
                )
        labels, (in_real, in_synthetic) = strata_of(list(coded.values()), strata)
        counts = np.bincount(in_real, None if times is None else times[0], minlength=len(labels))
        covered = np.flatnonzero((counts > 0) & (counts / counts.sum() >= min_share))
        if not covered.size:
            raise InputError(f"no stratum holds a share of {min_share:g} of the real rows; lower min_share")
        place = np.full(len(labels), LEFT_OUT, dtype=np.int64)
        place[covered] = np.arange(covered.size)
        kept = tuple(labels[i] for i in covered)
        often, places = times or (None, None), (place[in_real], place[in_synthetic])
        declared = isinstance(real, CodedTable) or isinstance(synthetic, CodedTable)
        return cls(coded["real"], coded["synthetic"], often, tuple(strata), kept, *places, declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that define no strata, for which scores are computed in each stratum.

        Raise InputError if there is no such column.
        """
        names = tuple(name for name in self.real.schema.names if name not in self.strata)
        if not names:
            raise InputError("the strata use up every column; leave at least one column to compare")
        return names

    @cached_property
    def rows(self) -> dict[str, tuple[Places, Places]]:
        """Return the indices of the rows of each stratum in the real and in the synthetic table."""
        sides = [rows_by_place(place, len(self.labels)) for place in (self.real_place, self.synthetic_place)]
        return dict(zip(self.labels, zip(*sides, strict=True), strict=True))


def code_with_same_schema(tables: Mapping[str, TableLike], *named: Sequence[str]) -> dict[str, CodedTable]:
    """Code several tables with the same schema.

    The schema is that of the coded tables. If all tables are data frames, the schema declares the values that occur in
    any of them.

    Parameters
    ----------
    tables : mapping of str to (CodedTable or DataFrame)
        The tables by name. The names are used in messages. The columns of the schema are those of the first table. If
        there are coded tables as well, then the data frames contain released values.
    *named : sequence of str
        Lists of columns that the caller uses. Each column must exist and must occur only once in a list.

    Returns
    -------
    dict of str to CodedTable
        The coded tables by name.

    Raises
    ------
    InputError
        If a table is empty, if the schemas or the columns differ, if a column is missing or is named twice, if a column
        has numbers in one table and text in another, or if it has an infinite number. The message does not contain the
        value of a row.
    """
    first = next(iter(tables))
    frames = {name: table for name, table in tables.items() if isinstance(table, pd.DataFrame)}
    coded = {name: table for name, table in tables.items() if isinstance(table, CodedTable)}
    for name, table in tables.items():
        if not len(table):
            raise InputError(f"the {name} table holds no rows; give a table with at least one row")
    if coded and frames:  # the data frames contain released values, as a synthesizer samples them
        released = next(iter(coded.values())).schema.coded()
        derived = [each.name for each in released.derived]
        for name, given in frames.items():
            frame = given.drop(columns=derived, errors="ignore")
            _check_columns(name, frame, "coded", released.names)
            coded[name] = CodedTable.encode(frame, released)
        frames, coded = {}, {name: coded[name] for name in tables}
    if len({(each.schema.names, each.schema.sizes) for each in coded.values()}) > 1:
        raise InputError(f"the {' and the '.join(tables)} table are of different schemas; code all by one")
    columns = list(frames[first].columns if frames else coded[first].schema.names)
    for name, frame in frames.items():
        _check_columns(name, frame, first, columns)
    for names in named:
        if isinstance(names, str):
            raise InputError(f"columns are a list of names, not the text {names!r}; put it in brackets")
        for column in names:
            if column not in columns:
                raise InputError(f"the {first} table has no column {column!r}; correct the name")
        require_unique(names, "column")
    if coded:
        return coded
    found = [_coded_column(column, [frame[column] for frame in frames.values()]) for column in columns]
    schema = Schema("values that occur", tuple(column for column, _ in found))
    kind = code_dtype(schema)
    return {
        name: CodedTable(np.stack([codes[i].astype(kind) for _, codes in found], axis=1), schema)
        for i, name in enumerate(frames)
    }


def numbers_of(column: Column) -> Floats:
    """Return the number that each code of a column represents.

    The number is the value itself if all values are numbers, and the index of the value if there is text. For a bin it
    is the index of the bin. Text has no mean, so the mean of the indices depends on the arbitrary order of the values.
    The number of a missing cell is NaN.

    Parameters
    ----------
    column : Column
        The column.

    Returns
    -------
    ndarray of shape (column.size,)
        The numbers, in the order of the codes.

    Examples
    --------
    >>> schema = Schema.load("acs_employment")
    >>> numbers_of(schema["SEX"]).tolist(), numbers_of(schema["AGEP"]).tolist()
    ([1.0, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0])
    """
    text = any(isinstance(key, str) for key in column.keys)
    worth = np.arange(column.size, dtype=np.float64) if text else np.array(column.keys, dtype=np.float64)
    return np.where([key != key for key in column.keys], np.nan, worth)


def in_bins(real: CodedTable, synthetic: CodedTable, times: Times | None = None) -> tuple[CodedTable, CodedTable]:
    """Merge the fine bins of numeric columns (see `Column.fine`) into at most `MOST_BINS` bins, in both tables.

    Each merged bin contains about the same number of synthetic rows, which are public. The codes that are not bins
    remain separate. Without merging, a marginal over columns with a thousand bins each would have cells with a single
    row.

    Parameters
    ----------
    real, synthetic : CodedTable
        The tables, with the same schema.
    times : ndarray, optional
        The number of times that each synthetic row occurs. If None, each row occurs once.

    Returns
    -------
    tuple of two CodedTable
        The tables with merged bins.
    """
    merged: dict[str, Counts] = {}
    columns = list(real.schema.columns)
    for place, column in enumerate(columns):
        if column.fine and column.bins > MOST_BINS:
            counts = np.bincount(synthetic.column(column.name), times, column.size)[: column.bins]
            before = np.cumsum(counts) - counts
            _, first, bins = np.unique(
                before * MOST_BINS // (counts.sum() or 1), return_index=True, return_inverse=True
            )
            beside = np.arange(column.size - column.bins) + len(first)
            merged[column.name] = np.append(bins, beside).astype(np.int64)
            columns[place] = replace(column, edges=(*(column.cuts[i] for i in first), column.cuts[-1]), splits=())
    if not merged:
        return real, synthetic
    schema = replace(real.schema, columns=tuple(columns), impossible=())
    kind, names = code_dtype(schema), schema.names
    first_codes, second_codes = (
        [merged[name][table.column(name)] if name in merged else table.column(name) for name in names]
        for table in (real, synthetic)
    )
    first_table, second_table = (np.stack(codes, axis=1).astype(kind) for codes in (first_codes, second_codes))
    return CodedTable(first_table, schema), CodedTable(second_table, schema)


def row_keys(codes: Sequence[npt.NDArray[np.integer]], sizes: Sequence[int]) -> tuple[Counts, int]:
    """Compute one key for each row from several columns of codes, and an upper bound for the keys.

    The keys have the lexicographic order of the codes.

    >>> row_keys([np.array([0, 1]), np.array([2, 0])], [2, 3])
    (array([2, 3]), 6)
    """
    key, bound = np.asarray(codes[0], dtype=np.int64), sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if bound * size > _LARGEST_KEY:
            key, distinct = pd.factorize(key, sort=True)
            bound = len(distinct)
        key = key * size + column
        bound *= size
    return key, bound


def first_rows(keys: Counts) -> tuple[Counts, Counts]:
    """Return the index of the key of each row among the distinct keys, and the first row with each distinct key.

    The arrays have the shapes (n,) and (u,) for n rows and u distinct keys.
    """
    place, distinct = pd.factorize(keys)
    first = np.empty(len(distinct), dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return place.astype(np.int64), first


def sum_weights_of_distinct_rows(table: CodedTable, weights: Floats) -> tuple[CodedTable, Floats]:
    """Return the distinct rows of a table, and the sum of the weights of the rows that are equal to each of them."""
    keys, _ = row_keys([table.column(name) for name in table.schema.names], table.schema.row_sizes)
    place, first = first_rows(keys)
    return table.take(first), np.bincount(place, weights, len(first)).astype(np.float64)


def rows_by_place(place: Counts, count: int) -> list[Places]:
    """Return the rows that have each of the places 0 to `count` - 1. Rows with another place are left out."""
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(count + 1)))[1:-1]


def strata_of(tables: Sequence[CodedTable], columns: Sequence[str]) -> tuple[tuple[str, ...], list[Counts]]:
    """Return the labels of the strata that occur in any of the tables, and the index of the stratum of each row.

    The labels have the form `SEX=1,RAC1P=2` and are in the order of the codes. If there are no columns, the only label
    is `all`. There is one array of indices of shape (n,) for each table.
    """
    if not columns:
        return (ALL_ROWS,), [np.zeros(len(table), dtype=np.int64) for table in tables]
    declared = [tables[0].schema[name] for name in columns]
    stacked = [np.concatenate([table.column(name) for table in tables]) for name in columns]
    keys, _ = row_keys(stacked, [column.size for column in declared])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    keys_of = [["missing" if key != key else str(key) for key in column.keys] for column in declared]
    named = list(zip(columns, keys_of, stacked, strict=True))
    labels = tuple(",".join(f"{name}={texts[codes[row]]}" for name, texts, codes in named) for row in first)
    return labels, np.split(inverse.astype(np.int64), np.cumsum([len(table) for table in tables])[:-1])


def _check_columns(name: str, frame: pd.DataFrame, first: str, columns: Sequence[str]) -> None:
    if not frame.columns.is_unique:
        raise InputError(f"the {name} table has two columns of one name; name each column once")
    for column in columns:
        if column not in frame.columns:
            raise InputError(
                f"the {name} table has no column {column!r}, which the {first} table has; give both the same columns"
            )
    if len(frame.columns) > len(columns):
        raise InputError(f"the {name} table has columns that the {first} table has not; give both the same columns")


def _coded_column(name: str, parts: Sequence[pd.Series]) -> tuple[Column, list[Counts]]:
    """Return a column with the sorted distinct values of all tables, and the codes of each table.

    Missing cells have the last code, and their value is NaN.
    """
    sides = [distinct_cells(part) for part in parts]
    cells = [[read_cell(cell) for cell in distinct] for _, distinct in sides]
    kinds = {_are_numbers(each) for each in cells} - {None}
    if len(kinds) > 1:
        raise InputError(
            f"column {name!r} holds numbers in one table and text in another; code every table by the same schema"
        )
    if any(isinstance(cell, float) and np.isinf(cell) for each in cells for cell in each):
        raise InputError(f"column {name!r} holds an infinite number; replace it or leave it empty")
    numeric = kinds == {True}
    values = [
        [None if cell is None else _number(cell) if numeric else plain_text(cell) for cell in each] for each in cells
    ]
    levels = sorted({value for each in values for value in each if value is not None})
    codes = {value: code for code, value in enumerate(levels)}
    absent = len(levels)
    found = [
        np.array([*(absent if value is None else codes[value] for value in each), absent], dtype=np.int64)[places]
        for each, (places, _) in zip(values, sides, strict=True)
    ]
    whole = (int(value) if not isinstance(value, str) and value == int(value) else value for value in levels)
    plain = [float(value) if isinstance(value, Decimal) else value for value in whole]
    missing = any((each == absent).any() for each in found)
    return Column(name, values=(*plain, *([float("nan")] if missing else []))), found


def _number(cell: Cell) -> Decimal | int | float:
    number = int(cell) if isinstance(cell, bool) else exact_number(cell)
    return number if number is not None else float(cell)  # type: ignore[arg-type]


def _are_numbers(cells: Sequence[Cell]) -> bool | None:
    """Return True if all cells are numbers or the text of numbers, and None if there are no cells."""
    there = [cell for cell in cells if cell is not None]
    numbers = (isinstance(cell, bool | int | float) or exact_number(cell) is not None for cell in there)
    return all(numbers) if there else None
