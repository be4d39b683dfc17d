"""What a raw cell is: a number, a text, a truth value, a day, missing, or nothing that can be read.

`read_cell` decides it for every kind of file and for data frames, from the cell alone, so that a row never changes what
the cells of other rows mean. The schema then says what the cell's value stands for (`Values`).

Numbers in texts are written with ASCII digits: an optional sign, digits, and an optional decimal point. In columns of
numbers, zeros in front and an exponent are read too (007, 1.5e3). Codes are names, so there `01` and `1e0` are other
codes than `1`, and only zeros after the point do not count: 1.0 is 1. Blanks around a number do not count.

>>> number_in("007"), number_in("1.5e3"), number_in("1_0"), number_in("٣"), number_in("True")
(7.0, 1500.0, None, None, None)
>>> declared = Values([(1, "one"), (10, "ten")])
>>> [declared.find(read_cell(cell)) for cell in (1, 1.0, "1", "1.0", "01", "1e0", "1_0", True, None)]
['one', 'one', 'one', 'one', None, None, None, None, None]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, auto
from math import isfinite
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from equistrata.arrays import Counts, Floats

# Texts of a CSV file or a workbook that mean a missing cell, unless the column declares one of them as a value.
ABSENT = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
EXACT = 2**53  # floating-point numbers from here on do not tell neighbouring whole numbers apart
_BLANKS = " \t\r\n"
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_CODE = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)")
_PLAIN = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"  # numbers that Arrow reads as Python does
_LONGEST_CODE = 100  # characters of a text that is compared with declared numbers
_ALIKE = ("string", "integer", "boolean", "decimal", "date", "empty")  # kinds of cells: equal ones mean the same


class _Mark(Enum):
    UNREADABLE = auto()


UNREADABLE: Final = _Mark.UNREADABLE  # a list, a record, a duration, bytes: no value of a column
Cell = int | float | Decimal | str | bool | date | None | Literal[_Mark.UNREADABLE]
Meaning = TypeVar("Meaning")


def read_cell(cell: Any) -> Cell:
    """The value of a raw cell, of whatever type its file or data frame has it.

    Returns
    -------
    None, bool, int, float, Decimal, str, date, datetime or UNREADABLE
        None for a missing cell: none at all, not a number (NaN), or a text of blanks alone. A float of 16 or 32 bits is
        the shortest decimal number that is stored as it. A time of day is its text.
    """
    if isinstance(cell, str):
        return str(cell) if cell.strip() else None
    if isinstance(cell, np.generic):
        cell = _plain_scalar(cell)
    if isinstance(cell, bool | int) or cell is None:
        return cell
    if isinstance(cell, float):
        return None if cell != cell else cell
    if isinstance(cell, Decimal):
        return None if cell.is_nan() else cell
    if cell is pd.NA or cell is pd.NaT:
        return None
    if isinstance(cell, date):  # and datetime
        return cell
    return cell.isoformat() if isinstance(cell, time) else UNREADABLE


def _plain_scalar(cell: np.generic) -> Any:
    if isinstance(cell, np.timedelta64):  # which NumPy takes for a whole number
        return UNREADABLE
    if isinstance(cell, np.datetime64):
        try:
            return pd.Timestamp(cell)
        except (ValueError, OverflowError):  # out of the calendar
            return UNREADABLE
    if isinstance(cell, np.floating) and cell.itemsize < 8:
        return float(str(cell))
    return float(cell) if isinstance(cell, np.longdouble) else cell.item()


def number_in(value: object) -> float | None:
    """The number that a value is, or that a text writes as a column of numbers has it; None if there is none."""
    cell = read_cell(value)
    if isinstance(cell, str):
        text = cell.strip(_BLANKS)
        if not _NUMBER.fullmatch(text):
            return None
        number = float(text)
    elif isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
        try:
            number = float(cell)
        except OverflowError:
            return None
    else:
        return None
    return number if isfinite(number) else None


def plain_text(value: object) -> str:
    """A value as text: whole numbers without a point, so that 1, 1.0 and "1" agree, and days as 2024-12-31."""
    cell = value if isinstance(value, str) else read_cell(value)
    if isinstance(cell, datetime):
        midnight = cell.time() == time() and cell.tzinfo is None
        return cell.date().isoformat() if midnight else cell.isoformat(" ")
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else str(cell)
    if isinstance(cell, Decimal) and cell.is_finite() and abs(cell.adjusted()) < _LONGEST_CODE:
        text = f"{cell:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value) if cell is None or isinstance(cell, _Mark) else str(cell)


def exact_number(cell: object) -> int | Decimal | None:
    """The exact number that a code is or writes; None if it is none, or a float that lost its last digits."""
    if isinstance(cell, str):
        text = cell.strip(_BLANKS)
        return Decimal(text) if len(text) <= _LONGEST_CODE and _CODE.fullmatch(text) else None
    if isinstance(cell, float):
        return Decimal(repr(cell)) if abs(cell) < EXACT else None
    if isinstance(cell, Decimal):
        return cell if cell.is_finite() else None
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None


def is_inexact(cell: Cell) -> bool:
    """Whether a cell is a floating-point number that stands for several whole numbers."""
    return isinstance(cell, float) and isfinite(cell) and abs(cell) >= EXACT


class Values(Generic[Meaning]):
    """Declared values and what they stand for, found by the value of a raw cell.

    A text stands for itself; where it is not declared, it stands for the number that it writes as a code. Truth values
    and days are found by their texts, and numbers by value.
    """

    def __init__(self, *declared: Iterable[tuple[object, Meaning]]) -> None:
        """Values of the first are overruled by equal ones of those that follow."""
        self._texts: dict[str, Meaning] = {}
        self._numbers: dict[int | Decimal, Meaning | None] = {}
        for pairs in declared:
            texts: dict[str, Meaning] = {}
            numbers: dict[int | Decimal, Meaning | None] = {}
            for value, meaning in pairs:
                texts |= dict.fromkeys({plain_text(value), str(value)}, meaning)
                if (number := exact_number(value)) is not None:
                    # Of two texts that write one number, neither is meant by another spelling of it.
                    numbers[number] = meaning if numbers.get(number, meaning) == meaning else None
            self._texts |= texts
            self._numbers |= numbers

    def find(self, cell: Cell) -> Meaning | None:
        """What a cell stands for; None if its value is not declared."""
        for text in _spellings(cell):
            if text in self._texts:
                return self._texts[text]
        number = exact_number(cell)
        return None if number is None else self._numbers.get(number)


def _spellings(cell: Cell) -> tuple[str, ...]:
    """The texts that a schema may declare for a cell."""
    if isinstance(cell, bool):
        return str(cell), str(cell).upper(), str(cell).lower()
    if cell is None or isinstance(cell, _Mark) or is_inexact(cell):
        return ()
    if isinstance(cell, datetime):
        return plain_text(cell), cell.isoformat(" ")
    return (plain_text(cell),)


def distinct_cells(series: pd.Series) -> tuple[Counts, Any]:
    """For each cell the place of its value among distinct ones, -1 where there is none, shape (n,); and those, in
    the order in which they come.

    Cells of one place mean the same: True is not 1, and two instants that are equal are two where their zones differ.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):  # of which some may be of no cell, and none says anything
        found: tuple[Any, Any] = pd.factorize(series)
        kept = found[1].categories.take(found[1].codes)
        return np.asarray(found[0], dtype=np.int64), _wide(kept.to_series()).array
    if series.dtype != object or pd.api.types.infer_dtype(series, skipna=True) in _ALIKE:
        with suppress(TypeError, NotImplementedError):  # lists or records
            codes, distinct = pd.factorize(_wide(series))
            return np.asarray(codes, dtype=np.int64), distinct
    known: dict[Any, int] = {}
    cells: list[Any] = []
    places = np.full(len(series), -1, dtype=np.int64)
    for row, raw in enumerate(series.to_numpy()):
        if (cell := read_cell(raw)) is not None:
            zone = cell.isoformat() if isinstance(cell, datetime) else None
            places[row] = known.setdefault((type(cell), cell, zone), len(known))
            if len(known) > len(cells):
                cells.append(cell)
    return places, cells


def missing_cells(series: pd.Series) -> npt.NDArray[np.bool_]:
    """Which cells are missing, shape (n,)."""
    places, distinct = distinct_cells(series)
    return np.array([*(read_cell(cell) is None for cell in distinct), True], dtype=np.bool_)[places]


def numbers_of(cells: Sequence[Any]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """`number_in` of each cell, NaN where there is none, and which cells are missing, shapes (n,)."""
    found, missing = np.full(len(cells), np.nan), np.zeros(len(cells), dtype=np.bool_)
    left: Iterable[int] = range(len(cells))
    if isinstance(getattr(cells, "dtype", None), pd.StringDtype):  # of a file with many texts, read at once
        texts = pa.array(cells, pa.large_string())
        plain = pc.fill_null(pc.match_substring_regex(texts, _PLAIN), False)
        numbers = pc.cast(pc.if_else(plain, texts, None), pa.float64())
        found = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
        left = np.flatnonzero(np.isnan(found)).tolist()
    for place in left:
        number, missing[place] = number_in(cells[place]), read_cell(cells[place]) is None
        found[place] = np.nan if number is None else number
    return found, missing


def _wide(series: pd.Series) -> pd.Series:
    """A column of floating-point numbers of 16 or 32 bits with those of 64 that are meant; any other as it is."""
    return pd.Series(doubles(series)) if _is_narrow(series) else series


def _is_narrow(series: pd.Series) -> bool:
    stored: Any = getattr(series.dtype, "numpy_dtype", series.dtype)
    return isinstance(stored, np.dtype) and stored.kind == "f" and stored.itemsize < 8


def doubles(series: pd.Series) -> Floats:
    """The numbers of a column that has a type of numbers, NaN where there is none, shape (n,)."""
    if not _is_narrow(series):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    narrow: Any = getattr(series.dtype, "numpy_dtype", series.dtype)
    distinct, places = np.unique(series.to_numpy(dtype=narrow, na_value=np.nan), return_inverse=True)
    texts = pa.array(distinct.astype(str) if narrow.itemsize < 4 else distinct).cast(pa.string())
    return np.asarray(texts.cast(pa.float64()).to_numpy()[places])
