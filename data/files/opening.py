"""Functions that open a table of any format and check its columns.

The error messages do not quote any cell. In a file without a header line, the first row would be shown as names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from equistrata.data.files.dialect import Dialect
from equistrata.data.files.formats import Reading, TableFormat, format_of
from equistrata.errors import InputError


def file_and_format(path: str | Path, kind: str | None) -> tuple[Path, TableFormat]:
    """Return the path and the format of a file.

    Parameters
    ----------
    path : str or Path
        The path of the file.
    kind : str or None
        The name of the format. If None, the format is determined by the suffix of the file.

    Returns
    -------
    path : Path
        The path of the file.
    form : TableFormat
        The format of the file.

    Raises
    ------
    InputError
        If the path is not a regular file, because a pipe could block and a device could have no end.
    """
    path = Path(path)
    try:
        there, regular = path.exists(), path.is_file()
    except PermissionError:
        raise InputError(f"file {str(path)!r} cannot be read; check its permissions") from None
    except (OSError, ValueError):  # the path can be rows by mistake, so it is not quoted
        raise InputError("the path of the table is too long or has a zero byte; give the path of a file") from None
    if not there:
        named = repr(str(path)) if str(path).isprintable() else "with this name (it has unprintable characters)"
        raise InputError(f"file {named} does not exist; check the path")
    if not regular:
        raise InputError(f"{str(path)!r} is a folder, a pipe or a device; give a regular file")
    return path, format_of(path, kind)


def header_in(path: Path, form: TableFormat, dialect: Dialect, columns: Sequence[str] = ()) -> list[str]:
    """Return the names of the columns of a table in order.

    Parameters
    ----------
    path : Path
        The path of the file.
    form : TableFormat
        The format of the file.
    dialect : Dialect
        The declared format of the cells.
    columns : sequence of str
        The columns that must be in the file.

    Raises
    ------
    InputError
        If one of the columns is missing or is not unique.
    """
    with readable(path, form):
        present: list[str] = form.reader(f"file {path.name!r}").header(path, dialect)
    require(present, columns, path.name, len(present) == 1 and form.name == "csv")
    return present


def rows_in(path: Path, form: TableFormat, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """Iterate over the rows of some columns as data frames.

    Parameters
    ----------
    path : Path
        The path of the file.
    form : TableFormat
        The format of the file.
    columns : sequence of str
        The names of the columns.
    how : Reading
        The settings of the reader.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    batches = form.reader(f"file {path.name!r}").batches(path, columns, how)
    while True:
        with readable(path, form):  # one block per step, so that the errors of the caller are not affected
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def readable(path: Path, form: TableFormat) -> Iterator[None]:
    """Replace the errors of a reader by an InputError, because the message of the reader can quote a cell."""
    try:
        yield
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"file {str(path)!r} cannot be read; check its permissions") from None
    except Exception:
        raise InputError(
            f"file {str(path)!r} cannot be read as {form.title}; it may be damaged or cut off, so save it again"
        ) from None


def require(present: Sequence[str], columns: Sequence[str] | None, name: str, undelimited: bool = False) -> None:
    """Check that the columns are present and unique.

    Parameters
    ----------
    present : sequence of str
        The columns of the file.
    columns : sequence of str or None
        The columns that are required. If None, all columns of the file must be unique.
    name : str
        The name of the file for the error message.
    undelimited : bool
        If True, the message suggests to declare the delimiter of the file.

    Raises
    ------
    InputError
        If a column is missing or is not unique.
    """
    times = Counter(column.strip() for column in present)
    wanted = dict.fromkeys(present if columns is None else columns)
    missing = [column for column in columns or () if column not in present]
    twice = [column for column in wanted if column.strip() and times[column.strip()] > 1]
    if twice and columns is None:
        place = [n for n, column in enumerate(present, start=1) if column.strip() == twice[0].strip()]
        raise InputError(f"file {name!r} has columns {place[0]} and {place[1]} with the same name; rename one of them")
    if twice:
        raise InputError(f"file {name!r} has two columns named {twice[0]!r} (ignoring blanks); rename one of them")
    if missing:
        # The names in the file are not quoted. If there is no header line, they are the cells of a row.
        # A name that only differs from a required name in case or blanks is not a cell.
        if near := alike(missing[0], present):
            raise InputError(
                f"file {name!r} has {near!r} in its header line instead of {missing[0]!r}; use the same spelling in "
                "the file and in the schema or command"
            )
        hint = ', or declare the delimiter in the schema, such as file: {delimiter: ";"}' * undelimited
        raise InputError(
            f"file {name!r} has no column {missing[0]!r} in its header line; add it, or choose other columns{hint}"
        )


def alike(name: str, present: Iterable[str]) -> str | None:
    """Return the name in `present` that only differs in case or in blanks from another name, or None.

    >>> alike("sex", ["age", " Sex "]), alike("sex", ["sexes"])
    (' Sex ', None)
    """
    return next((each for each in present if each != name and plain_name(each) == plain_name(name)), None)


def plain_name(name: str) -> str:
    """Return the name of a column in lower case and without blanks at both ends."""
    return name.strip().casefold()
