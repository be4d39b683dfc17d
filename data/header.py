"""The header line of a table, and the declaration of the file that is required to read it. No rows are read."""

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
    """Return the columns in the header of a table, and the declaration of the file that is required to read them.

    Parameters
    ----------
    path : str or Path
        The path of the file.
    wanted : collection of str
        The columns that are known. The delimiter is chosen so that as many of them as possible are in the header. If
        this is not unique, the delimiter with the largest number of columns is chosen.
    sheet : str
        The name of the sheet of an Excel workbook.

    Returns
    -------
    names : list of str
        The names of the columns.
    file : dict
        The declaration of the file in a schema.

    Raises
    ------
    InputError
        If the file cannot be read, or if a column has no unique name.
    """
    path, form = file_and_format(path, None)
    if sheet and form.name != "excel":
        raise InputError(f"file {str(path)!r} is not an Excel workbook, so it has no sheets; leave out --sheet")
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
    """Raise an InputError if a name is blank or repeated.

    The message contains the positions of the columns and not their names, because the names can be the cells of a row.
    """
    for name, times in Counter(names).items():
        places = " and ".join(str(place) for place, each in enumerate(names, start=1) if each == name)
        if times > 1 or not name.strip():
            which = f"the same name for columns {places}" if name.strip() else f"no name for column {places}"
            raise InputError(f"file {path.name!r} has {which} in its header line; give each column its own name")


def names_in(path: str | Path, sheet: str = "") -> list[str]:
    """Return the columns in the header of a table.

    The list is empty if the header cannot be read without a code book.
    """
    try:
        return header_of(path, sheet=sheet)[0]
    except InputError:
        return []
