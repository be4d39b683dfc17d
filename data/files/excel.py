"""Excel workbooks (.xlsx, .xlsm): the sheet and the row in which a table begins, its rows, and sheets as texts, by
openpyxl, which is an extra.

A sheet may have titles above its table; a cell that others are merged with stands for all of them. Cells are what the
workbook holds, not what it shows, except for numbers that are shown with zeros in front (format 0000), which are codes.
Texts are as in a CSV file: NA and the like are missing. Hidden sheets, and columns without a name, are left out; a
table with hidden rows is refused.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.data.columns.column import plain_text
from equistrata.data.files.dialect import Dialect
from equistrata.errors import InputError

MOST_ABOVE = 20  # rows in which the names of a table's columns are looked for
_BLOCK = 1 << 20  # bytes of a sheet that are looked through at a time
_MOST_BESIDE = 1_000  # cells of a row that one merged area fills
_OVERLAP = 1 << 12  # of two blocks: no cell with a formula but without a value is longer
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]{1,3}\d+:[A-Z]{1,3}\d+)"')
# A formula without a value, other than one of an empty text: its program did not work it out.
_UNWORKED = re.compile(
    rb'<((?:\w+:)?)c\b(?![^>]*\bt="str")[^>]*>\s*<\1f\b[^>]*(?:/>|>[^<]*</\1f>)\s*'
    rb"(?:<\1v\s*/>|<\1v>\s*</\1v>)?\s*</\1c>"
)
_ROW = re.compile(rb"<(?:\w+:)?row\b[^>]*>")
_NUMBER_OF_ROW = re.compile(rb"""\br=["'](\d+)["']""")
_HIDDEN = re.compile(rb"""\bhidden=["'](?:1|true|on)["']|\bht=["']0(?:\.0*)?["']""")
_ALL_HIDDEN = re.compile(rb"""<(?:\w+:)?sheetFormatPr\b[^>]*\bzeroHeight=["'](?:1|true|on)["']""")
_ZEROS = re.compile(r"0{2,18}")
_MOST_UNPACKED = 1 << 26  # bytes of a part of a workbook, however small it is packed
_MOST_TIMES = 200  # that a larger part may be its packed size; sheets are 5 to 50 times
_PROLOG = 1 << 14  # bytes in which a document type stands
_DOCTYPE = (b"<!DOCTYPE", "<!DOCTYPE".encode("utf-16-le"), "<!DOCTYPE".encode("utf-16-be"))
_BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, SyntaxError,
           RuntimeError, EOFError, NotImplementedError, zipfile.BadZipFile, zipfile.LargeZipFile)  # fmt: skip

Cells = list[Any]
Area = tuple[int, int, int, int]  # first column, first row, last column, last row, from 1


@dataclass(frozen=True)
class Place:
    """Where a table begins.

    Attributes:
        sheet: its name.
        row: that has the names of its columns, from 1.
        names: of its columns, by their places from 0; columns without a name are none.
        alone: no other sheet is shown that holds anything.
    """

    sheet: str
    row: int
    names: tuple[tuple[int, str], ...]
    alone: bool


def located(path: Path, where: str, wanted: Collection[str] = (), sheet: str = "", row: int = 0) -> Place:
    """Where a workbook's table begins: in the sheet and row that name most of the columns that are looked for.

    Where none is, or none is looked for, it is the only sheet that holds anything, and there the first row, without
    merged cells, that is more than half as wide as the widest of the first MOST_ABOVE.

    Args:
        where: begins a sentence, as "file 'people.xlsx'".
        wanted: columns that are looked for; case and blanks at their ends aside.
        sheet, row: as a schema declares them; empty and 0 if it does not.

    Raises InputError if the workbook cannot be read, has no such sheet, or several of its sheets may be meant.
    """
    looked = {_plain(name) for name in wanted}
    with _workbook(path, where) as (book, packed), _readable(where):
        titles = [each.title for each in book.worksheets]
        if sheet and sheet not in titles:
            raise InputError(f"{where} has no sheet {sheet!r}; it has {', '.join(map(repr, titles))}")
        found = []
        for each in book.worksheets:
            if each.title != sheet and (sheet or each.sheet_state != "visible"):
                continue
            areas = _areas(packed, each)
            top = [*islice(_filled(each, areas), max(row, MOST_ABOVE))]
            if 0 < (at := row or _header_row(top, areas, looked)) <= len(top):
                texts = enumerate(map(_text, top[at - 1]))
                names = tuple((place, name) for place, name in texts if name.strip())
                matches = len(looked & {_plain(name) for _, name in names})
                found.append((matches, Place(each.title, at, names, alone=False)))
    if not any(place.names for _, place in found):
        raise InputError(f"{where} is empty; it needs a sheet with the names of columns and rows below them")
    best = max(matches for matches, _ in found)
    meant = [place for matches, place in found if matches == best]
    if len(meant) > 1:
        several = ", ".join(repr(place.sheet) for place in meant)
        raise InputError(
            f"{where} has several sheets that may be meant, {several}; name one, as file: {{sheet: ...}} in the schema "
            "or by --sheet of schema draft, or save it as a workbook of its own"
        )
    return replace(meant[0], alone=len(found) == 1)


def batches(path: Path, columns: Sequence[str], dialect: Dialect, rows: int = 1 << 16) -> Iterator[pd.DataFrame]:
    """Frames of so many rows of these columns; rows of empty cells alone are left out.

    Args:
        dialect: with the sheet, and the row of its names.
        rows: at a time.

    Raises InputError if the workbook cannot be read, has hidden rows, or formulas that were not worked out.
    """
    where = f"file {path.name!r}"
    sheet, row = dialect.sheet, dialect.header
    named = {name: at for at, name in located(path, where, (), sheet, row).names}
    wanted = [named[name] for name in columns]
    with _workbook(path, where) as (book, packed):
        with _readable(where):
            _refuse_hidden(packed, book[sheet], where, row)
            below = islice(_filled(book[sheet], _areas(packed, book[sheet], where)), row, None)
            found = (each for each in below if any(map(_text, each)))
        while True:
            with _readable(where):  # each step by itself: a consumer's errors are none of the file's
                there = [*islice(found, rows)]
                cells = [[_cell(each[at]) if at < len(each) else None for at in wanted] for each in there]
                frame = pd.DataFrame(cells, columns=[*columns], dtype=object)
            if not there:
                return
            yield frame


def sheets(path: Path, where: str, most_rows: int) -> dict[str, list[list[str]]]:
    """The cells of each sheet that is shown as texts, by its name; rows of empty cells alone are left out.

    A cell stands for all of those below it that it is merged with, and not for those beside it.

    Raises InputError if the workbook cannot be read, or a sheet has more than `most_rows`.
    """
    made = dict[str, list[list[str]]]()
    with _workbook(path, where) as (book, packed), _readable(where):
        for each in book.worksheets:
            if each.sheet_state != "visible":
                continue
            down = [(left, first, left, last) for left, first, _, last in _areas(packed, each, where)]
            rows = ([_text(cell) for cell in row] for row in _filled(each, down))
            made[each.title] = [*islice((row for row in rows if any(row)), most_rows + 1)]
            if len(made[each.title]) > most_rows:
                raise InputError(
                    f"sheet {each.title!r} of {where} has more than {most_rows:,} rows: too many for a book"
                )
    return made


def _header_row(top: Sequence[Cells], areas: Sequence[Area], looked: Collection[str]) -> int:
    """The row, from 1, that names the columns; 0 if all are empty."""
    filled = [[_text(cell) for cell in row if _text(cell).strip()] for row in top]
    matches = [len({*map(_plain, cells)} & {*looked}) for cells in filled]
    if any(matches):
        # Of two rows that name as many, the wider one: groups of columns may stand above.
        return 1 + max(range(len(top)), key=lambda at: (matches[at], len(filled[at]), -at))
    merged = {
        row for left, first, right, last in areas if right > left for row in range(first, min(last, len(top)) + 1)
    }
    wide = {at: len(cells) for at, cells in enumerate(filled, start=1) if cells and at not in merged}
    return next((at for at, width in wide.items() if 2 * width > max(wide.values())), 0)


def _filled(sheet: Any, areas: Sequence[Area]) -> Iterator[Cells]:
    """The rows of a sheet, with the first cell of each merged area in all of its cells."""
    starting = sorted(areas, key=lambda area: area[1], reverse=True)
    begun: list[tuple[Area, Any]] = []
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells = [_value(cell) for cell in row]
        while starting and starting[-1][1] == number:
            area = starting.pop()
            begun.append((area, cells[area[0] - 1] if area[0] <= len(cells) else None))
        for (left, _, right, _), value in begun:
            end = min(right, left + _MOST_BESIDE)
            if value is not None:
                cells += [None] * (end - len(cells))
                cells[left - 1 : end] = [value] * (end - left + 1)
        begun = [each for each in begun if each[0][3] > number]
        yield cells


def _value(cell: Any) -> Any:
    """What a cell holds; a number that is shown with zeros in front as it is shown."""
    value = cell.value
    if isinstance(value, int) and not isinstance(value, bool) and _ZEROS.fullmatch(cell.number_format or ""):
        return str(value).zfill(len(cell.number_format))
    return value


def _cell(value: Any) -> Any:
    """A cell of a table; a span of time is a text."""
    return str(value) if isinstance(value, timedelta) else value


def _text(value: Any) -> str:
    """A cell as a text; days without their time, unless they have one."""
    if isinstance(value, bool):
        return str(value).upper()
    return "" if value is None else plain_text(_cell(value))


def _plain(name: str) -> str:
    return name.strip().casefold()


def _areas(packed: zipfile.ZipFile, sheet: Any, where: str = "") -> list[Area]:
    """The merged areas of a sheet. With `where`, raises InputError if a formula of it was not worked out."""
    bounds = import_module("openpyxl.utils.cell").range_boundaries
    found = dict[bytes, None]()
    for _, block in _blocks(packed, sheet):
        found |= dict.fromkeys(_MERGED.findall(block))
        if where and _UNWORKED.search(block):
            raise InputError(
                f"sheet {sheet.title!r} of {where} has formulas without values, as programs write them; open it in "
                "Excel or LibreOffice and save it"
            )
    return [bounds(each.decode()) for each in found]


def _refuse_hidden(packed: zipfile.ZipFile, sheet: Any, where: str, header: int) -> None:
    """Raise InputError if rows of a table are hidden, by a filter too: nothing says whether they are meant."""
    hidden, all_hidden = dict[int, int](), False
    for start, block in _blocks(packed, sheet):
        all_hidden = all_hidden or _ALL_HIDDEN.search(block) is not None
        for found in _ROW.finditer(block):
            number = _NUMBER_OF_ROW.search(found[0])
            if _HIDDEN.search(found[0]) and (number is None or int(number[1]) > header):
                hidden[start + found.start()] = int(number[1]) if number else 0
    if hidden or all_hidden:
        rows = f"{len(hidden):,} hidden row{'s' * (len(hidden) != 1)}" if hidden else "rows that are hidden by default"
        first = f", first row {min(hidden.values())}" if all(hidden.values()) and hidden else ""
        raise InputError(
            f"sheet {sheet.title!r} of {where} has {rows}{first}; unhide them, and clear its filters, if they belong "
            "to the table, or delete them"
        )


def _blocks(packed: zipfile.ZipFile, sheet: Any) -> Iterator[tuple[int, bytes]]:
    """A sheet's XML in overlapping parts, with the place of each."""
    kept, done = b"", 0
    with packed.open(sheet._worksheet_path) as file:
        while block := file.read(_BLOCK):
            kept += block
            yield done, kept
            done += len(kept[:-_OVERLAP])
            kept = kept[-_OVERLAP:]


def _refuse_traps(packed: zipfile.ZipFile, where: str) -> None:
    """Raise InputError of a workbook that would fill the memory: parts that unpack to many times their size, or XML
    with entities."""
    for part in packed.infolist():
        if part.file_size > max(_MOST_UNPACKED, part.compress_size * _MOST_TIMES):
            raise InputError(
                f"{where} has a part that unpacks to {part.file_size >> 20} MiB, over {_MOST_TIMES} times its size, as "
                "no table does; save it again as .xlsx, or as CSV"
            )
        if part.filename.endswith((".xml", ".rels")):
            with packed.open(part) as file:
                start = file.read(_PROLOG)
            if any(mark in start for mark in _DOCTYPE):
                raise InputError(f"{where} has a document type in its XML, which is not read; save it again as .xlsx")


@contextmanager
def _workbook(path: Path, where: str) -> Iterator[tuple[Any, zipfile.ZipFile]]:
    """A workbook, and its file as a folder. Raises InputError if it is none."""
    if find_spec("openpyxl") is None:
        raise InputError(
            f'{where} is an Excel workbook, which openpyxl reads: pip install "equistrata[excel]"; or save its '
            "sheet as CSV"
        )
    openpyxl = import_module("openpyxl")
    with _readable(where):
        packed = zipfile.ZipFile(path)
    with packed:
        with _readable(where):
            _refuse_traps(packed, where)
        with _readable(where):
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            for each in book.worksheets:
                each.reset_dimensions()  # some programs write a wrong size
        try:
            yield book, packed
        finally:
            book.close()


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """What openpyxl raises inside becomes a sentence; its own may quote a cell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles, and of dates out of Excel's calendar: they are errors in cells
            yield
    except InputError:
        raise
    except _BROKEN:
        raise InputError(f"{where} is not an Excel workbook that can be read; save it again as .xlsx") from None
