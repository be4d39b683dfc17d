"""Opening a table of any format: the file, its columns, and what is wrong with either.

No message quotes a cell: without a header line, its first row would be shown as names.
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
    """A file and its format. Raises InputError unless it is regular: a pipe would block, and a device may never end."""
    path = Path(path)
    try:
        there, regular = path.exists(), path.is_file()
    except PermissionError:
        raise InputError(f"file {str(path)!r} cannot be read; check its permissions") from None
    except (OSError, ValueError):  # too long, or with zero bytes: perhaps rows, so it is not quoted
        raise InputError(
            "the path of a table is too long to be one, or has a zero byte; give the path of a file"
        ) from None
    if not there:
        named = repr(str(path)) if str(path).isprintable() else "with this name (it has marks that are not shown)"
        raise InputError(f"file {named} does not exist; check the path")
    if not regular:
        raise InputError(f"{str(path)!r} is a folder, a pipe or a device; give a regular file")
    return path, format_of(path, kind)


def header_in(path: Path, form: TableFormat, dialect: Dialect, columns: Sequence[str] = ()) -> list[str]:
    """The names of a table's columns, in order. Raises InputError unless these columns are there, once each."""
    with readable(path, form):
        present: list[str] = form.reader(f"file {path.name!r}").header(path, dialect)
    require(present, columns, path.name, len(present) == 1 and form.name == "csv")
    return present


def rows_in(path: Path, form: TableFormat, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """The rows of these columns, in frames. Raises InputError."""
    batches = form.reader(f"file {path.name!r}").batches(path, columns, how)
    while True:
        with readable(path, form):  # each step alone: a consumer's errors are none of the file's
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def readable(path: Path, form: TableFormat) -> Iterator[None]:
    """What a reader raises inside becomes a sentence; its own may quote a cell."""
    try:
        yield
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"file {str(path)!r} cannot be read; check its permissions") from None
    except Exception:
        raise InputError(
            f"file {str(path)!r} is not {form.title} that can be read; it may be damaged or cut off, so write it again"
        ) from None


def require(present: Sequence[str], columns: Sequence[str] | None, name: str, undelimited: bool = False) -> None:
    """Raise InputError unless these columns (all, if None) are among those present, once each."""
    times = Counter(column.strip() for column in present)
    wanted = dict.fromkeys(present if columns is None else columns)
    missing = [column for column in columns or () if column not in present]
    twice = [column for column in wanted if column.strip() and times[column.strip()] > 1]
    if twice and columns is None:
        place = [n for n, column in enumerate(present, start=1) if column.strip() == twice[0].strip()]
        raise InputError(f"file {name!r} has columns {place[0]} and {place[1]} of one name; rename one of them")
    if twice:
        raise InputError(f"file {name!r} has two columns named {twice[0]!r} (blanks aside); rename one of them")
    if missing:
        # What the file does hold is not quoted: without a header line, it would be somebody's row.
        # A name that is wanted, case and blanks aside, is no row's value.
        if near := alike(missing[0], present):
            raise InputError(
                f"file {name!r} has {near!r} in its header line, and {missing[0]!r} is declared or named; write one of "
                "them as the other"
            )
        hint = ', or declare its delimiter in the schema, as file: {delimiter: ";"}' * undelimited
        raise InputError(
            f"file {name!r} has no column {missing[0]!r} in its header line; add it or choose others{hint}"
        )


def alike(name: str, present: Iterable[str]) -> str | None:
    """The name among these that is another one by case or blanks alone.

    >>> alike("sex", ["age", " Sex "]), alike("sex", ["sexes"])
    (' Sex ', None)
    """
    return next((each for each in present if each != name and plain_name(each) == plain_name(name)), None)


def plain_name(name: str) -> str:
    """A column's name, case and blanks at its ends aside."""
    return name.strip().casefold()
