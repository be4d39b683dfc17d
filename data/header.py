"""The header line of a table, and what a schema's `file` must declare to read it. No row is read."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from equistrata.data.files.dialect import DELIMITERS, LATIN1, UTF8, Dialect, latin_of
from equistrata.data.files.excel import located
from equistrata.data.files.kinds import UNREADABLE, kind_of
from equistrata.data.files.opening import file_and_kind, first_line
from equistrata.data.sources import FileSource
from equistrata.errors import InputError


def header_of(path: str | Path, wanted: Collection[str] = (), sheet: str = "") -> tuple[list[str], dict[str, Any]]:
    """The columns that a table's header line names, and what a schema's `file` must declare to read them.

    `wanted` are columns that are known: the delimiter, or the workbook's sheet unless `sheet` names it, is the one by
    which most of them are there. Raises InputError if it cannot be read, or a column has no name of its own.
    """
    path, kind = file_and_kind(path, None)
    if sheet and kind != "excel":
        raise InputError(f"file {str(path)!r} is no Excel workbook, so it has no sheets; leave --sheet out")
    if kind == "excel":
        found = located(path, f"file {path.name!r}", wanted, sheet)
        names = [name for _, name in found.names]
        _refuse_twice(names, path)
        return names, {} if found.alone and not sheet else {"sheet": found.sheet}
    if kind != "csv":
        return FileSource(str(path)).header(), {}
    return _of_csv(path, wanted)


def _of_csv(path: Path, wanted: Collection[str]) -> tuple[list[str], dict[str, Any]]:
    try:
        start = first_line(path)
    except UNREADABLE:
        raise InputError(f"file {str(path)!r} cannot be read; check the path, or write it again") from None
    if not start:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line")
    line = start.removeprefix(codecs.BOM_UTF8)
    try:  # a line in ASCII says nothing of the rows, which may be in Latin-1
        text, encoding = line.decode(UTF8), LATIN1 if start.isascii() else UTF8
    except UnicodeDecodeError:
        encoding = latin_of(line)
        text = line.decode(encoding)
    cells = {mark: next(csv.reader([text.strip()], delimiter=mark), []) for mark in DELIMITERS}
    mark = max(cells, key=lambda mark: (len({*wanted} & {*cells[mark]}), len(cells[mark])))
    dialect = Dialect(delimiter=mark, encoding=encoding)
    names = FileSource(str(path), "csv", dialect=dialect).header([*wanted, *cells[mark]])
    _refuse_twice(names, path)
    return names, {} if mark == DELIMITERS[0] else {"delimiter": mark}


def _refuse_twice(names: Sequence[str], path: Path) -> None:
    """Raise InputError for names that are there twice, or blank: with their places, since they may be a row's cells."""
    for name, times in Counter(names).items():
        places = " and ".join(str(place) for place, each in enumerate(names, start=1) if each == name)
        if times > 1 or not name.strip():
            which = f"columns {places} of one name" if name.strip() else f"no name for column {places}"
            raise InputError(f"file {path.name!r} has {which} in its header line; name each by itself")


def names_in(path: str | Path, sheet: str = "") -> list[str]:
    """The columns of a table as its header line alone shows them; none if it cannot be read without a book."""
    try:
        return header_of(path, sheet=sheet)[0] if kind_of(path) == "excel" else header_of(path)[0]
    except InputError:
        return []
