"""Opening a CSV, Parquet, Stata, SPSS or Excel file: its header, its columns, its dialect, and what is wrong with it.

No message quotes a cell: without a header line, its first row would be shown as names.
"""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from equistrata.data.files import excel, parquet, spss, stata
from equistrata.data.files.dialect import LONGEST_LINE, PLAIN, UTF8, Dialect
from equistrata.data.files.kinds import UNREADABLE, kind_of, not_text, packed, unpacked
from equistrata.errors import InputError

DESCRIBED = {"stata": stata.described, "spss": spss.described}  # what such a file says of its columns
LABELLED = {"stata": stata.batches, "spss": spss.batches}  # rows of files that have labels
_CSV_BLOCK = LONGEST_LINE  # bytes of a CSV file that are parsed at a time
_START_BYTES = 1 << 16  # by which a file is known to be text
_HEADER_BYTES = 1 << 20  # the header line may not be longer, as a block of rows


def file_and_kind(path: str | Path, kind: str | None) -> tuple[Path, str]:
    """A file and its kind. Raises InputError unless it is regular: a pipe would block, and a device may never end."""
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
    return path, kind or kind_of(path)


def header_in(path: Path, kind: str, dialect: Dialect, lenient: bool = False) -> list[str]:
    """The names of a file's columns, in order. Raises what its reader does, which `opened` turns into an InputError;
    of a CSV file also where its first row has more cells than the header, unless `lenient`."""
    if kind == "parquet":
        return parquet.names_in(path)
    if kind in DESCRIBED:
        return list(DESCRIBED[kind](path, f"file {str(path)!r}"))
    if kind == "excel":
        found = excel.located(path, f"file {str(path)!r}", (), dialect.sheet, dialect.header)
        return [name for _, name in found.names]
    rows = dialect.rows(path)
    names = next(rows, None)
    if names is None:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line and rows")
    # A row with more cells than the header would shift every column.
    if not lenient and len(next(rows, ())) > len(names):
        raise csv.Error
    return names


def open_csv(
    path: Path, dialect: Dialect, named: bool = True, lenient: bool = False, **convert: Any
) -> arrow_csv.CSVStreamingReader:
    """A CSV file, packed or not, in blocks; `convert` goes to `ConvertOptions`. Raises what Arrow does, here or later.

    Args:
        named: the first line is a header.
        lenient: rows of other cells than the header are left out.
    """
    encoding = {} if dialect.encoding == UTF8 else {"encoding": dialect.encoding}
    read = arrow_csv.ReadOptions(block_size=_CSV_BLOCK, autogenerate_column_names=not named, **encoding)
    skipped = {"invalid_row_handler": lambda _: "skip"} if lenient else {}
    parse = arrow_csv.ParseOptions(
        delimiter=dialect.delimiter, quote_char=dialect.quote, newlines_in_values=True, **skipped
    )
    file = unpacked(path) if packed(path) else pa.OSFile(str(path))  # Arrow by itself goes by the ending
    return arrow_csv.open_csv(file, read, parse, arrow_csv.ConvertOptions(strings_can_be_null=True, **convert))


@contextmanager
def opened(
    path: str | Path,
    kind: str | None,
    columns: Sequence[str] | None,
    dialect: Dialect = PLAIN,
    wanted: Sequence[str] = (),
    lenient: bool = False,
) -> Iterator[tuple[Path, str, Dialect]]:
    """A file that has these columns, its kind and its dialect; what goes wrong in the block becomes a sentence.

    Args:
        wanted: more columns by which the dialect is detected.
        lenient: the first row may have other cells than the header.
    """
    path, kind = file_and_kind(path, kind)
    undecoded = f"file {str(path)!r} is not {dialect.encoding.upper() or 'UTF-8'} text; save it as UTF-8"
    undecoded += ", or declare its encoding in the schema, as file: {encoding: latin-1}"
    try:
        if kind == "csv":
            _refuse_binary(path, dialect)
            dialect = dialect.detected(first_line(path, dialect), [*(columns or ()), *wanted])
        elif kind == "excel":
            looked = [*(columns or ()), *wanted]
            found = excel.located(path, f"file {str(path)!r}", looked, dialect.sheet, dialect.header)
            dialect = replace(dialect, sheet=found.sheet, header=found.row)
        try:
            present = header_in(path, kind, dialect, lenient)
        except csv.Error:
            present = dialect.names(first_line(path, dialect))
            if not columns or {*columns, *wanted}.intersection(present):
                raise  # else it is another table, or has another delimiter
        _require(present, columns, path.name, dialect if kind == "csv" else None)
        if kind == "parquet":
            parquet.refuse_nested(path, columns)
        yield path, kind, dialect
    except (pa.ArrowException, *UNREADABLE, csv.Error, UnicodeError, OverflowError) as error:
        # Arrow's own text may quote a cell.
        if isinstance(error, PermissionError):
            said = f"file {str(path)!r} cannot be read; check its permissions"
        elif kind == "parquet":
            said = f"file {str(path)!r} is not a Parquet file, or it is damaged or cut off; write it again"
        elif isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
            said = undecoded
        elif isinstance(error, UNREADABLE):
            said = f"file {str(path)!r} cannot be read, since it is damaged or cut off; write it again"
        else:
            said = not_well_formed(path, dialect)
        raise InputError(said) from None


def _refuse_binary(path: Path, dialect: Dialect) -> None:
    """Raise InputError for a file that is no text: its first line would be shown as names, and is rows' bytes."""
    with unpacked(path) as file:
        start = file.read(_START_BYTES)
    wide = len("a".encode(dialect.encoding or UTF8)) > 1  # UTF-16 and UTF-32, in which text has zero bytes
    if what := not_text(start.replace(b"\0", b" ") if wide else start):
        raise InputError(f"file {str(path)!r}{', unpacked,' * packed(path)} is {what}")


def not_well_formed(path: Path, dialect: Dialect) -> str:
    """That lines of a CSV file have other cells than its header, and where the first one is."""
    where = dialect.first_ragged(path)
    return (
        f"file {str(path)!r} is not well-formed CSV{': ' * bool(where)}{where}; each line needs as many cells as the "
        "header"
    )


def first_line(path: Path, dialect: Dialect = PLAIN) -> bytes:
    """A file up to the first line end that follows a cell.

    Raises UNREADABLE, UnicodeDecodeError for another encoding than is declared, and InputError for a line that is too
    long.
    """
    with unpacked(path) as file:
        start = file.read(_HEADER_BYTES + 1)
    if dialect.encoding:  # some have no byte for a line end
        text = codecs.getincrementaldecoder(dialect.encoding)().decode(start)
        line = next((each for each in text.splitlines() if each.strip()), "").encode(dialect.encoding)
    else:
        line = next((each for each in start.splitlines() if each.strip()), b"")
    if len(line) >= _HEADER_BYTES:
        raise InputError(
            f"file {str(path)!r} has a header line of more than {_HEADER_BYTES >> 20} MiB, as no table has; end its "
            "lines with line breaks"
        )
    return line


def _require(present: Sequence[str], columns: Sequence[str] | None, name: str, dialect: Dialect | None = None) -> None:
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
        none = dialect is not None and len(missing) == len(set(columns or ()))
        hint = ', or declare its delimiter in the schema, as file: {delimiter: ";"}' if none else ""
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
