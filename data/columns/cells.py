"""Conversion of raw cells to the codes of a column.

The functions in this module also check that the cells match the schema. A cell that does not match raises an error.

>>> import pandas as pd
>>> encoded(pd.Series(["1", "7", None]), Column("X", values=(1, 7)))[:2]
(array([0, 1, 0]), array([False, False,  True]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.data.columns import dates
from equistrata.data.columns.column import OWN_CATEGORY, Column, number_in
from equistrata.data.columns.grid import rounding
from equistrata.data.columns.nesting import joined
from equistrata.data.columns.raw import (
    UNREADABLE,
    Cell,
    Values,
    distinct_cells,
    doubles,
    is_inexact,
    numbers_of,
    read_cell,
)
from equistrata.errors import InputError

WEIGHT_REMEDY = "each row needs a weight of at least 0, so correct these cells or remove their rows"
# The codes, a mask of the absent cells, and the code of an absent cell.
Encoded = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int | None]


def cells_of(frame: pd.DataFrame, column: Column) -> pd.Series:
    """Return the raw cells of a column.

    If the column is nested within other columns, the cells of all these columns are joined into one text (see
    `equistrata.data.columns.nesting`).
    """
    return (
        frame[column.name] if len(column.cells) == 1 else joined([frame[name] for name in column.cells], column.parts)
    )


def encoded(series: pd.Series, column: Column) -> Encoded:
    """Return the code of each raw cell.

    Parameters
    ----------
    series : Series
        The raw cells, shape (n,).
    column : Column
        The declared column.

    Returns
    -------
    codes : ndarray of int
        The code of each cell, shape (n,). The code of each cell that is not absent is 0 or more.
    absent : ndarray of bool
        True for each absent cell, shape (n,).
    missing : int or None
        The code of an absent cell, or None if the column does not declare one.

    Raises
    ------
    InputError
        If a cell does not match the column. The message does not quote the value of the cell.
    """
    return _encode_numeric(series, column) if column.numeric else _encode_values(series, column)


def _encode_values(series: pd.Series, column: Column) -> Encoded:
    codes, absent = value_codes(series, column)
    if (codes < 0).any():
        texts = [text if (text := str(value)).isprintable() else repr(text) for value in column.values[:12]]
        shown = [*texts, *["…"] * (len(column.values) > 12)]
        raise InputError(
            f"column {column.name!r} holds a value that the schema does not declare (declared: "
            f"{', '.join(shown)}); declare it or recode it"
        )
    return codes, absent, None if column.missing is None else column.values.index(column.missing)


def value_codes(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the codes of the raw cells of a categorical column, and a mask of the absent cells.

    The code is -1 if the value of the cell is not declared.
    """
    codes = {value: code for code, value in enumerate(column.values)}
    recoded = [(raw, codes[to]) for raw, to in column.recode]
    # With both "recode" and "others", a raw value keeps its meaning only if it is a key of "recode".
    only = column.others is not None and recoded
    declared = Values(recoded) if only else Values(codes.items(), recoded)
    other = -1 if column.others is None else codes[column.others]
    places, distinct = distinct_cells(series)
    cells = [read_cell(cell) for cell in distinct]
    lookup = np.array([*(_code(cell, declared, other) for cell in cells), 0], dtype=np.int64)
    return lookup[places], np.array([*(cell is None for cell in cells), True], dtype=np.bool_)[places]


def _code(cell: Cell, declared: Values[int], other: int) -> int:
    """Return the code of a value, 0 for an absent cell and -1 for a value that is not declared."""
    if cell is None:
        return 0
    found = declared.find(cell)
    # A cell that cannot be read exactly gets no code, even if "others" covers all other values.
    return (-1 if cell is UNREADABLE or is_inexact(cell) else other) if found is None else found


def _encode_numeric(series: pd.Series, column: Column) -> Encoded:
    values, absent, own = _bounded(series, column)
    codes = _bins(values, column)
    codes[own >= 0] = column.bins + own[own >= 0]
    return codes, absent & (own < 0), _missing_code(column)


def _missing_code(column: Column) -> int | None:
    """Return the code of an absent cell of a numeric column."""
    raw = [raw for raw, _ in column.codes]
    if column.missing is None:
        return None
    if column.missing == OWN_CATEGORY or column.missing in raw:
        return column.bins + [*raw, OWN_CATEGORY].index(column.missing)
    return int(_bins(np.array([float(column.missing)]), column)[0])


def _bins(values: npt.NDArray[np.float64], column: Column) -> npt.NDArray[np.int64]:
    """Return the bin of each number.

    If only bounds are declared, a number that exceeds a cut by at most `rounding` of the adjacent bins is moved to the
    cut. Otherwise, the bins would depend on the unit of the numbers. For example, 9 · 0.001 is more than 0.009 in
    floating point.
    """
    cuts = np.array(column.cuts)
    inner, widths = cuts[1:-1], np.diff(cuts)
    if column.bounds_apart and column.fine:  # a number within the rounding error of a bound is at the bound
        near = [rounding(width, *column.bounds) for width in (widths[:2][-1], widths[-2:][0])]
        for bound, slack in zip(column.bounds, near, strict=True):
            values = np.where(np.abs(values - bound) <= slack, bound, values)
    if column.fine:  # edges that are declared, or that come from a rule, are exact
        ours = ~np.isin(inner, column.splits)
        beside = np.minimum(widths[:-1], widths[1:])
        inner = inner + ours * np.array([rounding(width, *column.bounds) for width in beside.tolist()])
    return np.searchsorted(inner, values, side="left").astype(np.int64)


def bounded_numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the numbers of a column after a check that they are within the declared bounds.

    The return values are the same as those of `numbers`, and the values are clipped to the bounds.

    Raises
    ------
    InputError
        If a cell is not a number, if a number is outside the declared bounds, or if the column has whole numbers and a
        number has decimals.
    """
    return _bounded(series, column)[:2]


def _bounded(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    values, absent, own = _numbers(series, column)
    inside, (lower, upper) = values[~absent], column.bounds
    if inside.size and outside_bounds(inside, column).any():
        if column.weight:
            raise InputError(f"column {column.name!r}, the survey weight, holds a number below 0; {WEIGHT_REMEDY}")
        raise InputError(
            f"column {column.name!r} holds a {'date' if column.layout else 'number'} outside its declared bounds "
            f"[{column.shown(lower)}, {column.shown(upper)}]; "
            "widen the bounds in the schema, or correct the rows"
        )
    if column.whole and (inside % 1 != 0).any():
        raise InputError(
            f"column {column.name!r} holds a number with decimals, but the schema says 'integer: true'; remove "
            "that key, or correct the rows"
        )
    return np.clip(values, lower, upper), absent, own


def outside_bounds(values: npt.NDArray[np.float64], column: Column) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that are outside the declared bounds.

    If the numbers do not need to be whole, the bounds allow for the rounding error of floating-point arithmetic. A
    survey weight is never above its bounds because larger weights are clipped to the upper bound.
    """
    lower, upper = column.bounds
    slack = 0.0 if column.whole else rounding(upper - lower, lower, upper)
    return (values < lower - slack) | ((values > upper + slack) & (not column.weight))


def numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the raw numbers of a column.

    Parameters
    ----------
    series : Series
        The raw cells, shape (n,).
    column : Column
        The numeric column.

    Returns
    -------
    values : ndarray of float
        The number of each cell, shape (n,), or NaN if the cell is absent.
    absent : ndarray of bool
        True for each cell that is absent or that holds one of the codes of the column, shape (n,).

    Raises
    ------
    InputError
        If a cell is not a number.
    """
    return _numbers(series, column)[:2]


def counted_numbers(series: pd.Series, column: Column) -> npt.NDArray[np.float64]:
    """Return the numbers that the rows contribute to sums and counts.

    An absent cell contributes the number that `missing` declares. The number is NaN if `missing` does not declare a
    number, or if the cell holds one of the codes of the column.

    Raises
    ------
    InputError
        If a cell is not a number.
    """
    values, absent, own = _numbers(series, column)
    raw = [raw for raw, _ in column.codes]
    none = column.missing is None or column.missing == OWN_CATEGORY or column.missing in raw
    return np.where(absent & (own < 0), np.nan if none else float(column.missing or 0), values)


def _numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    values, absent, own = read_numbers(series, column)
    if not np.isfinite(values[~absent]).all():
        declared = f"as dates in the format {column.layout!r}" if column.layout else "as numeric"
        kind = "a date in this format" if column.layout else "a number"
        raise InputError(
            f"column {column.name!r} is declared {declared}, but holds a value that is not {kind}; correct the rows or "
            "the schema"
        )
    return values, absent, own


def read_numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Read the raw cells of a numeric column without a check of the values.

    Parameters
    ----------
    series : Series
        The raw cells, shape (n,).
    column : Column
        The numeric column.

    Returns
    -------
    values : ndarray of float
        The number of each cell, shape (n,). The number is NaN or infinite if the cell does not hold a number.
    absent : ndarray of bool
        True for each cell that is absent, that is blank, or that holds one of the codes of the column, shape (n,).
    own : ndarray of int
        The index of the code of the column that the cell holds, or -1 if the cell does not hold a code, shape (n,).
    """
    plain = pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)
    if plain and not column.layout and series.dtype.kind in "iuf":
        values = doubles(series)
        absent, own = np.isnan(values), np.full(len(values), -1, dtype=np.int64)
        for place, (raw, _) in enumerate(column.codes):
            if (number := number_in(raw)) is not None:
                own[values == number] = place
    elif column.layout and not column.codes and pd.api.types.is_datetime64_any_dtype(series.dtype):
        values, absent = dates.days_of_times(series), series.isna().to_numpy()
        own = np.full(len(values), -1, dtype=np.int64)
    else:
        places, distinct = distinct_cells(series)
        found, missing = (
            dates.days_of_cells(distinct, column.layout, *column.also) if column.layout else numbers_of(distinct)
        )
        values, absent = np.append(found, np.nan)[places], np.append(missing, True)[places]
        own = np.append(_own_places(distinct, found, column), -1)[places]
    return np.where(own < 0, values, np.nan), absent | (own >= 0), own


def _own_places(cells: Sequence[Any], found: npt.NDArray[np.float64], column: Column) -> npt.NDArray[np.int64]:
    """Return the index of the code that each cell holds, or -1 if the cell does not hold a code.

    Codes that are numbers are compared by value, and all other codes are compared as text.
    """
    own = np.full(len(cells), -1, dtype=np.int64)
    if not column.codes:
        return own
    for place, (raw, _) in enumerate(column.codes):
        if not column.layout and (number := number_in(raw)) is not None:
            own[found == number] = place
    codes = Values((raw, place) for place, (raw, _) in enumerate(column.codes))
    for row in range(len(cells)) if column.layout else np.flatnonzero(np.isnan(found)).tolist():
        if (code := codes.find(read_cell(cells[row]))) is not None:
            own[row] = code
    return own
