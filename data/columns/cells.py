"""Raw cells as codes of a column's values and bins: what a cell holds, and what is refused.

>>> import pandas as pd
>>> encoded(pd.Series(["1", "7", None]), Column("X", values=(1, 7)))[:2]
(array([0, 1, 0]), array([False, False,  True]))
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.data.columns import dates
from equistrata.data.columns.column import OWN_CATEGORY, Column, number_in, plain_text
from equistrata.data.columns.grid import rounding
from equistrata.data.columns.nesting import joined
from equistrata.errors import InputError

Encoded = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int | None]  # codes, which are absent, and their code

_TRUTH = {text: truth for truth in (True, False) for text in (str(truth), str(truth).lower(), str(truth).upper())}


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
    declared = {_key(value, column): code for code, value in enumerate(column.values)}
    recoded = {_key(raw, column): column.values.index(to) for raw, to in column.recode}
    # With "recode" and "others", only what "recode" lists keeps its meaning.
    declared = recoded if column.others is not None and recoded else declared | recoded
    other = -1 if column.others is None else column.values.index(column.others)
    try:
        places, distinct = pd.factorize(series)
        lookup = np.array([*(_code(value, declared, other, column) for value in distinct), 0], dtype=np.int64)
    except TypeError:  # a list or a mapping in a cell
        places, lookup = np.zeros(len(series), dtype=np.intp), np.array([-1])
    return lookup[places], places < 0


def _code(value: object, declared: Mapping[float | str, int], other: int, column: Column) -> int:
    """The code of one raw value. A text that is not declared counts as what it reads as, so that a cell of a text file
    means the same whatever stands in the other cells of its column, as it must where one row may be added."""
    code = declared.get(_key(value, column))
    if code is None and isinstance(value, str):
        code = declared.get(_key(_read(value), column))
    return other if code is None else code


def _read(text: str) -> float | bool | str:
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def _key(value: object, column: Column) -> float | str:
    """What raw and declared values are compared by: as numbers where the declared ones are, else as text."""
    if isinstance(column.values[0], str):
        return plain_text(value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


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
    whole."""
    lower, upper = column.bounds
    slack = 0.0 if column.whole else rounding(upper - lower, lower, upper)
    return (values < lower - slack) | (values > upper + slack)


def numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """A column's raw numbers, and where they are absent: no cell, or one of the column's codes, which are no numbers.

    Raises InputError on anything that is not a number.
    """
    return _numbers(series, column)[:2]


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
    if isinstance(series.dtype, pd.CategoricalDtype):  # as text files are read: every distinct text is converted once
        places, distinct = pd.factorize(series)
        values, absent, own = read_numbers(pd.Series(np.asarray(distinct)), column)
        return np.append(values, np.nan)[places], np.append(absent, True)[places], np.append(own, -1)[places]
    if column.layout:
        beside = {plain_text(raw): place for place, (raw, _) in enumerate(column.codes)}
        own = np.array([beside.get(plain_text(cell), -1) for cell in series], dtype=np.int64)
        values = dates.days_in(series, column.layout, *column.also)
        return np.where(own < 0, values, np.nan), _blank(series) | (own >= 0), own
    values = pd.to_numeric(series, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    own = np.full(len(series), -1, dtype=np.int64)
    for place, (raw, _) in enumerate(column.codes):
        number = number_in(raw)
        if number is not None:
            own[values == number] = place
        elif not pd.api.types.is_numeric_dtype(series.dtype):
            own[[isinstance(cell, str) and cell == raw for cell in series]] = place
    return np.where(own < 0, values, np.nan), _blank(series) | (own >= 0), own


def _blank(series: pd.Series) -> npt.NDArray[np.bool_]:
    """Which cells are absent, or texts of blanks alone."""
    absent = series.isna().to_numpy()
    if pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return absent
    return absent | np.fromiter((isinstance(cell, str) and not cell.strip() for cell in series), np.bool_, len(series))
