"""Raw cells as codes of a column's values and bins: what a cell holds, and what is refused.

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

WEIGHT_REMEDY = "correct these cells, or leave their rows out: each row needs a weight, 0 or more"
Encoded = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int | None]  # codes, which are absent, and their code


def cells_of(frame: pd.DataFrame, column: Column) -> pd.Series:
    """A column's raw cells; of one within others, what names the pairs (`equistrata.data.columns.nesting`)."""
    return (
        frame[column.name] if len(column.cells) == 1 else joined([frame[name] for name in column.cells], column.parts)
    )


def encoded(series: pd.Series, column: Column) -> Encoded:
    """The code of each raw cell, 0 or above where it is not absent. Raises InputError on one that does not fit; no
    row's value is quoted."""
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
    """The code of each raw cell of a categorical column, -1 where its value is not declared; and where it is absent."""
    codes = {value: code for code, value in enumerate(column.values)}
    recoded = [(raw, codes[to]) for raw, to in column.recode]
    # With "recode" and "others", only what "recode" lists keeps its meaning.
    only = column.others is not None and recoded
    declared = Values(recoded) if only else Values(codes.items(), recoded)
    other = -1 if column.others is None else codes[column.others]
    places, distinct = distinct_cells(series)
    cells = [read_cell(cell) for cell in distinct]
    lookup = np.array([*(_code(cell, declared, other) for cell in cells), 0], dtype=np.int64)
    return lookup[places], np.array([*(cell is None for cell in cells), True], dtype=np.bool_)[places]


def _code(cell: Cell, declared: Values[int], other: int) -> int:
    """The code of one value, 0 of a missing one."""
    if cell is None:
        return 0
    found = declared.find(cell)
    # What cannot be read exactly is refused, even where every other value has a code.
    return (-1 if cell is UNREADABLE or is_inexact(cell) else other) if found is None else found


def _encode_numeric(series: pd.Series, column: Column) -> Encoded:
    values, absent, own = _bounded(series, column)
    codes = _bins(values, column)
    codes[own >= 0] = column.bins + own[own >= 0]
    return codes, absent & (own < 0), _missing_code(column)


def _missing_code(column: Column) -> int | None:
    """The code of an absent cell of a numeric column."""
    raw = [raw for raw, _ in column.codes]
    if column.missing is None:
        return None
    if column.missing == OWN_CATEGORY or column.missing in raw:
        return column.bins + [*raw, OWN_CATEGORY].index(column.missing)
    return int(_bins(np.array([float(column.missing)]), column)[0])


def _bins(values: npt.NDArray[np.float64], column: Column) -> npt.NDArray[np.int64]:
    """The bin of each number. Where bounds alone are declared, one beyond a cut by no more than `rounding` of the bins
    beside it is at the cut: numbers in other units are in the same bins (9 · 0.001 is more than 0.009)."""
    cuts = np.array(column.cuts)
    inner, widths = cuts[1:-1], np.diff(cuts)
    if column.bounds_apart and column.fine:  # one beyond a bound, or before it, by no more than rounding is at it
        near = [rounding(width, *column.bounds) for width in (widths[:2][-1], widths[-2:][0])]
        for bound, slack in zip(column.bounds, near, strict=True):
            values = np.where(np.abs(values - bound) <= slack, bound, values)
    if column.fine:  # edges that are declared, and those of rules, mean what they say
        ours = ~np.isin(inner, column.splits)
        beside = np.minimum(widths[:-1], widths[1:])
        inner = inner + ours * np.array([rounding(width, *column.bounds) for width in beside.tolist()])
    return np.searchsorted(inner, values, side="left").astype(np.int64)


def bounded_numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """As `numbers`. Raises InputError on one outside the declared bounds, or with decimals if draws are whole, too."""
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
            "widen the bounds in the schema or clean the rows"
        )
    if column.whole and (inside % 1 != 0).any():
        raise InputError(
            f"column {column.name!r} holds a number with decimals, but the schema says 'integer: true'; leave that "
            "out, or clean the rows"
        )
    return np.clip(values, lower, upper), absent, own


def outside_bounds(values: npt.NDArray[np.float64], column: Column) -> npt.NDArray[np.bool_]:
    """Which numbers lie outside the declared bounds, by more than arithmetic on binary fractions where they need not be
    whole. None lies above those of a survey weight, which is clipped there."""
    lower, upper = column.bounds
    slack = 0.0 if column.whole else rounding(upper - lower, lower, upper)
    return (values < lower - slack) | ((values > upper + slack) & (not column.weight))


def numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """A column's raw numbers, and where they are absent: no cell, or one of the column's codes, which are no numbers.

    Raises InputError on anything that is not a number.
    """
    return _numbers(series, column)[:2]


def counted_numbers(series: pd.Series, column: Column) -> npt.NDArray[np.float64]:
    """A column's raw numbers as rows are counted: an absent cell is the number that it counts as, and NaN if it is
    none, as a code is. Raises InputError on anything that is not a number."""
    values, absent, own = _numbers(series, column)
    raw = [raw for raw, _ in column.codes]
    none = column.missing is None or column.missing == OWN_CATEGORY or column.missing in raw
    return np.where(absent & (own < 0), np.nan if none else float(column.missing or 0), values)


def _numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    values, absent, own = read_numbers(series, column)
    if not np.isfinite(values[~absent]).all():
        declared = f"as dates in the format {column.layout!r}" if column.layout else "numeric"
        kind = "not one" if column.layout else "not a number"
        raise InputError(f"column {column.name!r} is declared {declared} but holds something that is {kind}")
    return values, absent, own


def read_numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """What each raw cell of a numeric column holds, whether it fits or not.

    Returns its number, NaN or infinite where it holds something else, shape (n,); where there is no number because the
    cell is absent (or has blanks alone) or one of the column's codes; and the place of that code, -1 for none.
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
    """The place of the column's code that each cell is, -1 for none: of numbers the same number, else its text."""
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
