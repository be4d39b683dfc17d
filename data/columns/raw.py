"""The value of a raw cell: a number, a text, a truth value, a day, a missing value or an unreadable value.

The function `read_cell` determines this value for all file formats and for data frames. The result only depends on the
cell, so a row can never change the meaning of a cell in another row. The schema then declares the meaning of each value
(see `Values`).

A number in a text consists of ASCII digits, with an optional sign and an optional decimal point. In a column of
numbers, leading zeros and an exponent are also accepted, such as 007 or 1.5e3. Codes are names, so `01` and `1e0` are
different codes from `1`. Only zeros after the decimal point are ignored, so 1.0 is the same code as 1. Blanks around a
number are ignored.

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

# The texts of a missing cell in a CSV file or a workbook, unless the column declares the text as a value.
ABSENT = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
EXACT = 2**53  # from here on, a floating-point number can stand for several whole numbers
_BLANKS = " \t\r\n"
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_CODE = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)")
_PLAIN = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"  # the numbers for which Arrow and Python give the same result
_LONGEST_CODE = 100  # the maximum length of a text that is compared with declared numbers
# The kinds of cells for which equal values have the same meaning.
_ALIKE = ("string", "integer", "boolean", "decimal", "date", "empty")


class _Mark(Enum):
    UNREADABLE = auto()


UNREADABLE: Final = _Mark.UNREADABLE  # a list, a record, a duration or bytes, which cannot be the value of a column
Cell = int | float | Decimal | str | bool | date | None | Literal[_Mark.UNREADABLE]
Meaning = TypeVar("Meaning")


def read_cell(cell: Any) -> Cell:
    """Return the value of a raw cell.

    Parameters
    ----------
    cell : object
        The raw cell, which can have any type of a file or a data frame.

    Returns
    -------
    None, bool, int, float, Decimal, str, date, datetime or UNREADABLE
        The value of the cell. It is None if the cell is missing, if it is NaN, or if it is a text of blanks. A float of
        16 or 32 bits is converted to the shortest decimal number that rounds to this float. A time of day is converted
        to a text.
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
    if isinstance(cell, date):  # this includes datetime
        return cell
    return cell.isoformat() if isinstance(cell, time) else UNREADABLE


def _plain_scalar(cell: np.generic) -> Any:
    if isinstance(cell, np.timedelta64):  # NumPy would convert it to a whole number
        return UNREADABLE
    if isinstance(cell, np.datetime64):
        try:
            return pd.Timestamp(cell)
        except (ValueError, OverflowError):  # the date is out of range
            return UNREADABLE
    if isinstance(cell, np.floating) and cell.itemsize < 8:
        return float(str(cell))
    return float(cell) if isinstance(cell, np.longdouble) else cell.item()


def number_in(value: object) -> float | None:
    """Return the number that a value is or that a text contains, or None if there is no number."""
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
    """Return a value as a text.

    Whole numbers are written without a decimal point, so that 1, 1.0 and "1" have the same text. Days are written as
    ISO dates, such as 2024-12-31.
    """
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
    """Return the exact number of a code.

    The result is None if the code is not a number, or if it is a float that is too large to be exact.
    """
    if isinstance(cell, str):
        text = cell.strip(_BLANKS)
        return Decimal(text) if len(text) <= _LONGEST_CODE and _CODE.fullmatch(text) else None
    if isinstance(cell, float):
        return Decimal(repr(cell)) if abs(cell) < EXACT else None
    if isinstance(cell, Decimal):
        return cell if cell.is_finite() else None
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None


def is_inexact(cell: Cell) -> bool:
    """Return True if a cell is a floating-point number that can stand for several whole numbers."""
    return isinstance(cell, float) and isfinite(cell) and abs(cell) >= EXACT


class Values(Generic[Meaning]):
    """A mapping from declared values to their meanings.

    The meaning is looked up by the value of a raw cell. A text is first compared with the declared texts. If it is not
    among them, it is compared with the declared numbers. Truth values and days are compared as texts, and numbers are
    compared by value.
    """

    def __init__(self, *declared: Iterable[tuple[object, Meaning]]) -> None:
        """Create the mapping from one or more lists of pairs, where the later lists overrule the earlier ones."""
        self._texts: dict[str, Meaning] = {}
        self._numbers: dict[int | Decimal, Meaning | None] = {}
        for pairs in declared:
            texts: dict[str, Meaning] = {}
            numbers: dict[int | Decimal, Meaning | None] = {}
            for value, meaning in pairs:
                texts |= dict.fromkeys({plain_text(value), str(value)}, meaning)
                if (number := exact_number(value)) is not None:
                    # If two texts are the same number, a third spelling of it is ambiguous and has no meaning.
                    numbers[number] = meaning if numbers.get(number, meaning) == meaning else None
            self._texts |= texts
            self._numbers |= numbers

    def find(self, cell: Cell) -> Meaning | None:
        """Return the meaning of a cell, or None if its value is not declared."""
        for text in _spellings(cell):
            if text in self._texts:
                return self._texts[text]
        number = exact_number(cell)
        return None if number is None else self._numbers.get(number)


def _spellings(cell: Cell) -> tuple[str, ...]:
    """Return the texts that a schema can declare for a cell."""
    if isinstance(cell, bool):
        return str(cell), str(cell).upper(), str(cell).lower()
    if cell is None or isinstance(cell, _Mark) or is_inexact(cell):
        return ()
    if isinstance(cell, datetime):
        return plain_text(cell), cell.isoformat(" ")
    return (plain_text(cell),)


def distinct_cells(series: pd.Series) -> tuple[Counts, Any]:
    """Return the distinct values of a column and the index of the value of each cell.

    Two cells only have the same index if they have the same meaning. For example, True is different from 1, and two
    equal instants are different if their time zones are different.

    Parameters
    ----------
    series : Series
        The raw cells, shape (n,).

    Returns
    -------
    places : ndarray of int
        The index of the value of each cell, shape (n,), or -1 if the cell is missing.
    distinct : sequence
        The distinct values in the order of their first appearance.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):  # unused categories are left out
        found: tuple[Any, Any] = pd.factorize(series)
        kept = found[1].categories.take(found[1].codes)
        return np.asarray(found[0], dtype=np.int64), _wide(kept.to_series()).array
    if series.dtype != object or pd.api.types.infer_dtype(series, skipna=True) in _ALIKE:
        with suppress(TypeError, NotImplementedError):  # the cells are lists or records
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
    """Return a mask of the missing cells, shape (n,)."""
    places, distinct = distinct_cells(series)
    return np.array([*(read_cell(cell) is None for cell in distinct), True], dtype=np.bool_)[places]


def numbers_of(cells: Sequence[Any]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the number in each cell and a mask of the missing cells.

    Parameters
    ----------
    cells : sequence
        The raw cells, shape (n,).

    Returns
    -------
    found : ndarray of float
        The number in each cell, shape (n,), or NaN if there is no number (see `number_in`).
    missing : ndarray of bool
        True for each missing cell, shape (n,).
    """
    found, missing = np.full(len(cells), np.nan), np.zeros(len(cells), dtype=np.bool_)
    left: Iterable[int] = range(len(cells))
    if isinstance(getattr(cells, "dtype", None), pd.StringDtype):  # it is faster to read many texts as an array
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
    """Convert floating-point numbers of 16 or 32 bits to 64 bits, and return any other column unchanged."""
    return pd.Series(doubles(series)) if _is_narrow(series) else series


def _is_narrow(series: pd.Series) -> bool:
    stored: Any = getattr(series.dtype, "numpy_dtype", series.dtype)
    return isinstance(stored, np.dtype) and stored.kind == "f" and stored.itemsize < 8


def doubles(series: pd.Series) -> Floats:
    """Return the numbers of a column with a numeric type, shape (n,), with NaN for missing cells."""
    if not _is_narrow(series):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    narrow: Any = getattr(series.dtype, "numpy_dtype", series.dtype)
    distinct, places = np.unique(series.to_numpy(dtype=narrow, na_value=np.nan), return_inverse=True)
    texts = pa.array(distinct.astype(str) if narrow.itemsize < 4 else distinct).cast(pa.string())
    return np.asarray(texts.cast(pa.float64()).to_numpy()[places])
