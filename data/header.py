"""The header line of a table, and what a schema's `file` must declare to read it. No row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from equistrata.data.files.csv_files import UndecodedError
from equistrata.data.files.dialect import DELIMITERS, UTF8, WINDOWS, Dialect
from equistrata.data.files.opening import file_and_format, header_in
from equistrata.errors import InputError


def header_of(path: str | Path, wanted: Collection[str] = (), sheet: str = "") -> tuple[list[str], dict[str, Any]]:
    """The columns that a table's header line names, and what a schema's `file` must declare to read them.

    `wanted` are columns that are known: the delimiter is the one by which most of them are there, and of these the one
    that makes most columns. Raises InputError if it cannot be read, or a column has no name of its own.
    """
    path, form = file_and_format(path, None)
    if sheet and form.name != "excel":
        raise InputError(f"file {str(path)!r} is no Excel workbook, so it has no sheets; leave --sheet out")
    if form.name != "csv":
        file: dict[str, Any] = {"sheet": sheet} if sheet else {}
        names = header_in(path, form, Dialect.read(file, "the draft"))
    else:
        encoding = UTF8
        try:
            header_in(path, form, Dialect())
        except UndecodedError:
            encoding = WINDOWS
        tried = {mark: header_in(path, form, Dialect(mark, encoding=encoding)) for mark in DELIMITERS}
        mark = max(tried, key=lambda mark: (len({*wanted} & {*tried[mark]}), len(tried[mark])))
        names = tried[mark]
        file = {"delimiter": mark} if mark != DELIMITERS[0] else {}
        file |= {"encoding": encoding} if encoding != UTF8 else {}
    _refuse_twice(names, path)
    return names, file


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
        return header_of(path, sheet=sheet)[0]
    except InputError:
        return []
