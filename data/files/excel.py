"""Excel workbooks (.xlsx and .xlsm), which are read with openpyxl.

A sheet must contain a single table, the names of the columns must be in one row, and there must be no hidden rows.
Cells are read as they are stored and not as they are displayed. The only exceptions are numbers that are displayed with
leading zeros (such as in the format 0000), because they are codes. An error is raised if the meaning of a workbook is
ambiguous. This is the case for several sheets, hidden rows, merged cells, formulas without a value, and cells outside
the table.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import iterparse

import pandas as pd

from equistrata.data.columns.column import plain_text
from equistrata.data.files.dialect import Dialect
from equistrata.data.files.formats import Reading
from equistrata.errors import InputError

_ZEROS = re.compile(r"0{2,18}")
_TOP = 20  # the number of rows that are read after the names of the columns
_TRUE = ("1", "true", "on")
_MOST_UNPACKED = 1 << 30  # the maximum size of an unpacked workbook in bytes


def header(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns in order."""
    return _table(path, dialect, max(dialect.header, 1) + _TOP)[0]


def batches(path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """Return an iterator with all rows in a single data frame."""
    names, rows = _table(path, how.dialect)
    yield pd.DataFrame(rows, columns=names, dtype=object)[[*columns]]


def sheets(path: Path, most_rows: int) -> dict[str, list[list[str]]]:
    """Return the cells of each visible sheet as texts.

    Parameters
    ----------
    path : Path
        The path of the workbook.
    most_rows : int
        The maximum number of rows of a sheet.

    Returns
    -------
    dict of str to list
        The rows of each sheet, without empty rows.

    Raises
    ------
    InputError
        If a sheet has too many rows, hidden rows, merged cells, or formulas without a value.
    """
    made = dict[str, list[list[str]]]()
    with _workbook(path) as (book, packed):
        for sheet in _shown(book):
            _refuse_doubtful(path, packed, sheet, 1)
            rows = ([_text(_value(cell)) for cell in row] for row in sheet.iter_rows())
            made[sheet.title] = [*islice(filter(any, rows), most_rows + 1)]
            if len(made[sheet.title]) > most_rows:
                raise InputError(
                    f"sheet {sheet.title!r} of file {path.name!r} has more than {most_rows:,} rows; shorten it"
                )
    return made


def _table(path: Path, dialect: Dialect, most: int | None = None) -> tuple[list[str], list[list[Any]]]:
    """Return the names of the columns and the rows below them.

    If `most` is given, only this number of rows is read, and the sheet is not checked.
    """
    with _workbook(path) as (book, packed):
        shown = [each for each in _shown(book) if any(any(map(_text, map(_value, row))) for row in each.iter_rows())]
        meant = [each for each in shown if each.title == dialect.sheet] if dialect.sheet else shown
        if len(meant) != 1:
            which = (
                f"no visible sheet {dialect.sheet!r}" if dialect.sheet else "no sheet or several sheets with a table"
            )
            raise InputError(
                f"file {path.name!r} has {which} (visible sheets: "
                f"{', '.join(repr(each.title) for each in shown) or 'none'}); name the sheet with file: {{sheet: ...}} "
                "in the schema, or with --sheet of schema draft"
            )
        where = f"sheet {meant[0].title!r} of file {path.name!r}"
        if most is None:
            _refuse_doubtful(path, packed, meant[0], max(dialect.header, 1))
        rows = [[*map(_value, row)] for row in islice(meant[0].iter_rows(), most)]
    first = dialect.header or next((number for number, row in enumerate(rows, start=1) if any(map(_text, row))), 0)
    names = [_text(cell).strip() for cell in rows[first - 1]] if 0 < first <= len(rows) else []
    width = max((place for place, name in enumerate(names, start=1) if name), default=0)
    below = rows[first:]
    while below and not any(map(_text, below[-1])):
        below.pop()
    for number, row in enumerate(below, start=first + 1):
        if not any(map(_text, row)) or any(map(_text, row[width:])) or not all(names[:width]):
            raise InputError(
                f"{where} is not one table: row {first} names the columns, but row {number} is empty or has cells in "
                "other columns, such as a title, a remark or a second table; keep only one table in the sheet, or "
                "declare the row of the column names, such as file: {header: 3}"
            )
    return names[:width], [[*row[:width], *[None] * (width - len(row))] for row in below]


@contextmanager
def _workbook(path: Path) -> Iterator[tuple[Any, zipfile.ZipFile]]:
    """Open a workbook for reading row by row, and open its file as a zip archive."""
    with zipfile.ZipFile(path) as packed, warnings.catch_warnings():
        if sum(part.file_size for part in packed.infolist()) > _MOST_UNPACKED:
            raise InputError(f"file {path.name!r} unpacks to more than {_MOST_UNPACKED >> 20} MiB; save it as CSV")
        warnings.simplefilter("ignore")  # openpyxl warns about styles and invalid dates
        book = import_module("openpyxl").load_workbook(path, read_only=True, data_only=True)
        try:
            yield book, packed
        finally:
            book.close()


def _shown(book: Any) -> list[Any]:
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in shown:
        sheet.reset_dimensions()  # some programs write a wrong size
    return shown


def _refuse_doubtful(path: Path, packed: zipfile.ZipFile, sheet: Any, header: int) -> None:
    """Raise an InputError if rows below the header are hidden or merged, or if they have formulas without a value."""
    where, number, rows = f"sheet {sheet.title!r} of file {path.name!r}", 0, None
    hidden = f"{where} has hidden rows; unhide them and clear the filters if they belong to the table, or delete them"
    with packed.open(sheet._worksheet_path) as file:
        for event, part in iterparse(file, ("start", "end")):
            tag = part.tag.rpartition("}")[2]
            if tag == "sheetFormatPr" and part.get("zeroHeight") in _TRUE:
                raise InputError(hidden)
            if event == "start":
                rows = part if tag == "sheetData" else rows
            elif tag == "row":
                number = int(part.get("r") or number + 1)
                if number > header and (part.get("hidden") in _TRUE or float(part.get("ht") or 1) == 0):
                    raise InputError(hidden.replace("hidden rows", f"hidden rows, starting with row {number}", 1))
                if number >= header and any(map(_is_unworked, part)):
                    raise InputError(
                        f"{where} has formulas without stored values in row {number}; open the file in Excel or "
                        "LibreOffice, and save it"
                    )
                if rows is not None:
                    rows.clear()  # otherwise all rows would be kept in memory
            elif tag == "mergeCell" and int(re.sub(r".*\D", "", part.get("ref", "0"))) >= header:
                raise InputError(f"{where} has merged cells ({part.get('ref')}); unmerge them, and fill in each cell")


def _is_unworked(cell: Any) -> bool:
    """Return True if a cell has a formula without a value and the value is not an empty text."""
    parts = {part.tag.rpartition("}")[2]: part.text for part in cell}
    return "f" in parts and not parts.get("v") and cell.get("t") != "str"


def _value(cell: Any) -> Any:
    """Return the value of a cell, or the displayed text if a number is displayed with leading zeros."""
    value = cell.value
    if isinstance(value, int) and not isinstance(value, bool) and _ZEROS.fullmatch(cell.number_format or ""):
        return str(value).zfill(len(cell.number_format))
    return str(value) if isinstance(value, timedelta) else value


def _text(value: Any) -> str:
    """Return a cell as a text, where the time of a day is left out if it is midnight."""
    if isinstance(value, bool):
        return str(value).upper()
    return "" if value is None else plain_text(value)
