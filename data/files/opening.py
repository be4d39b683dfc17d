"""Opening a CSV, Parquet, Stata, SPSS or Excel file: its header, its columns, its dialect, and what is wrong with it.

No message quotes a cell: without a header line, its first row would be shown as names.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from equistrata.data.columns.column import ABSENT
from equistrata.data.files import excel, spss, stata
from equistrata.data.files.dialect import PLAIN, UTF8, Dialect
from equistrata.data.files.kinds import UNREADABLE, kind_of, not_text, packed, unpacked
from equistrata.errors import InputError

DESCRIBED = {"stata": stata.described, "spss": spss.described}  # what such a file says of its columns
LABELLED = {"stata": stata.batches, "spss": spss.batches}  # rows of files that have labels
_CSV_BLOCK = 1 << 24  # bytes of a CSV file that are parsed at a time; no row may be longer
_START_BYTES = 1 << 16  # by which a file is known to be text
_HEADER_BYTES = 1 << 20  # the header line may not be longer, as a block of rows


def file_and_kind(path: str | Path, kind: str | None) -> tuple[Path, str]:
    """A file and its kind. Raises InputError unless it is regular: a pipe would block, and a device may never end."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"file {str(path)!r} does not exist; check the path")
    if not path.is_file():
        raise InputError(f"{str(path)!r} is a folder, a pipe or a device; give a regular file")
    return path, kind or kind_of(path)


def header_in(path: Path, kind: str, dialect: Dialect, lenient: bool = False) -> list[str]:
    """The names of a file's columns, in order. Raises what its reader does, which `opened` turns into an InputError;
    of a CSV file also where its first row has more cells than the header, unless `lenient`."""
    if kind == "parquet":
        return list(pq.read_schema(path).names)
    if kind in DESCRIBED:
        return list(DESCRIBED[kind](path, f"file {str(path)!r}"))
    if kind == "excel":
        found = excel.located(path, f"file {str(path)!r}", (), dialect.sheet, dialect.header)
        return [name for _, name in found.names]
    with warnings.catch_warnings():
        # Rows with a cell more than the header would shift every column by one (pandas takes the first for an index).
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            read_csv(path, dialect, nrows=0 if lenient else 1)
        except pd.errors.ParserWarning:
            raise pd.errors.ParserError from None
    # Not read as a header: pandas would number a repeated name.
    first = read_csv(path, dialect, nrows=1, header=None, dtype=str, keep_default_na=False)
    return [str(name) for name in first.iloc[0]]


def _refuse_nested(path: Path, columns: Sequence[str] | None) -> None:
    types = pq.read_schema(path)
    for name in types.names if columns is None else columns:
        if pa.types.is_nested(types.field(name).type):
            raise InputError(
                f"column {name!r} of file {path.name!r} holds lists or records, not one value in each row; write a "
                "column of plain values instead"
            )


def read_csv(path: Path, dialect: Dialect, **how: Any) -> pd.DataFrame:
    """A CSV file, packed or not, by pandas; `how` goes to `pandas.read_csv`. Raises what that does."""
    given: Any = {"sep": dialect.delimiter, "quotechar": dialect.quote, "encoding": dialect.encoding}
    with unpacked(path) as file:
        frame: pd.DataFrame = pd.read_csv(file, index_col=False, **given, **how)
    return frame


def refuse_ragged(path: Path, dialect: Dialect) -> None:
    """Raise ArrowInvalid if a line has fewer or more cells than the header: pandas fills or cuts it silently."""
    with open_csv(path, dialect, named=False, include_columns=["f0"], column_types={"f0": pa.binary()}) as reader:
        for _ in reader:
            pass


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
    return arrow_csv.open_csv(
        file, read, parse, arrow_csv.ConvertOptions(null_values=[*ABSENT, *dialect.absent], **convert)
    )


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
        except pd.errors.ParserError:
            present = dialect.names(first_line(path, dialect))
            if not columns or {*columns, *wanted}.intersection(present):
                raise  # else it is another table, or has another delimiter
        _require(present, columns, path.name, dialect if kind == "csv" else None)
        if kind == "parquet":
            _refuse_nested(path, columns)
        yield path, kind, dialect
    except UnicodeDecodeError:
        raise InputError(undecoded) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.lib.ArrowKeyError) as error:
        if kind == "csv":  # the text is Arrow's own up to the cell that it may quote
            raise InputError(undecoded if "invalid UTF8" in str(error) else not_well_formed(path, dialect)) from None
        raise InputError(f"file {str(path)!r} is not a Parquet file (or is cut off); write it again") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line and rows") from None
    except (pd.errors.ParserError, csv.Error):
        raise InputError(not_well_formed(path, dialect)) from None
    except UNREADABLE:
        raise InputError(f"file {str(path)!r} cannot be read; check its permissions, or write it again") from None


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
    """A file up to the first line end that follows a cell. Raises UNREADABLE."""
    with unpacked(path) as file:
        start = file.read(_HEADER_BYTES)
    if dialect.encoding:  # some have no byte for a line end
        text = start.decode(dialect.encoding, errors="ignore")
        return next((line for line in text.splitlines() if line.strip()), "").encode(dialect.encoding)
    return next((line for line in start.splitlines() if line.strip()), b"")


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
