"""CSV files, which can be compressed with gzip.

This module reads the header and the rows, and it finds lines that are not well-formed. The rows are read in blocks with
Arrow, and every cell is read as a text. An error is raised if the file is not in the declared encoding, or if a row
does not have the same number of cells as the header.
"""

from __future__ import annotations

import codecs
import csv
import gzip
from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedReader, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv

from equistrata.data.files.dialect import UTF8, WINDOWS, Dialect
from equistrata.data.files.formats import Reading, other_format
from equistrata.errors import InputError

LONGEST_LINE = 1 << 24  # the maximum length of a row in bytes, and the size of a block of rows
_START = 1 << 16  # the number of bytes that are used to check if a file is text
_GZIP = b"\x1f\x8b"
_END = "\x00end of file"
_UNCLOSED = "; perhaps a quotation mark is not closed"


class UndecodedError(InputError):
    """The error for a text that is not in the declared encoding."""


def header(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns in order.

    Raises
    ------
    InputError
        If the file is empty, if it is not a text file, or if the header line is too long.
    UndecodedError
        If the header line is not in the declared encoding.
    """
    _refuse_binary(path, dialect)
    try:
        with _text(path, dialect) as file:
            names: list[str] = next(filter(None, _rows(_lines(file), dialect)), [])
    except csv.Error:
        raise InputError(
            f"the first line of file {path.name!r} is too long for a header; end each line with a line break"
        ) from None
    if not names:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line and rows")
    try:
        "".join(names).encode(dialect.coding)
    except UnicodeEncodeError:
        raise _undecoded(path, dialect) from None
    return names


def batches(path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """Iterate over the rows as data frames in which the cells are categories of texts.

    Raises
    ------
    InputError
        If a row does not have the same number of cells as the header.
    UndecodedError
        If the file is not in the declared encoding.
    """
    dialect = how.dialect
    read = arrow_csv.ReadOptions(block_size=LONGEST_LINE, encoding=dialect.coding)
    skipped: dict[str, Any] = {"invalid_row_handler": lambda _: "skip"} if how.lenient else {}
    parse = arrow_csv.ParseOptions(delimiter=dialect.mark, quote_char=dialect.quote, newlines_in_values=True, **skipped)
    types = dict.fromkeys(columns, pa.dictionary(pa.int32(), pa.string()))
    convert = arrow_csv.ConvertOptions(include_columns=[*columns], column_types=types, strings_can_be_null=False)
    file = _unpacked(path) if packed(path) else pa.OSFile(str(path))  # Arrow would decide by the suffix of the file
    try:
        with arrow_csv.open_csv(file, read, parse, convert) as reader:
            yield from (batch.to_pandas() for batch in reader)
        if not how.lenient and (where := _find_unclosed_quote(path, dialect)):
            raise not_well_formed(path, where)
    except UnicodeError:
        raise _undecoded(path, dialect) from None
    except pa.ArrowInvalid as error:  # the message of Arrow can quote a cell
        undecoded = "invalid UTF8" in str(error)
        raise (
            _undecoded(path, dialect) if undecoded else not_well_formed(path, next(ragged(path, dialect), ""))
        ) from None


def not_well_formed(path: Path, where: str) -> InputError:
    """Return the error for a file in which a row does not have the same number of cells as the header."""
    said = f"file {str(path)!r} is not well-formed CSV{': ' * bool(where)}{where}"
    return InputError(f"{said}; each line needs as many cells as the header")


def ragged(path: Path, dialect: Dialect) -> Iterator[str]:
    """Find the rows that have a wrong number of cells or no end.

    Yields
    ------
    str
        The position of the row and the number of its cells. The text does not quote any cell.
    """
    width, start = 0, 1
    with _text(path, dialect) as file:
        rows = _rows(chain(_lines(file), [_END]), dialect)  # this text is a separate row unless a quote is not closed
        try:
            for row in rows:
                if row == [_END]:
                    return
                last = rows.line_num - row[-1].endswith(_END) if row else 0
                width = width or len(row)
                if row and (len(row) != width or row[-1].endswith(_END)):
                    where = f"the row from line {start} to {last}" if last > start else f"line {start}"
                    cells = f"{len(row)} cell{'s' * (len(row) != 1)}, but the header has {width}"
                    cells = "no end" if len(row) == width else cells
                    yield f"{where} has {cells}{_UNCLOSED * (last > start or len(row) == width)}"
                start = rows.line_num + 1
        except _LineTooLongError:
            yield f"line {rows.line_num + 1} is longer than {LONGEST_LINE >> 20} MiB"
        except csv.Error:  # the cell has no end
            yield f"a cell in the row that starts at line {start} is too long{_UNCLOSED}"


def encoding_of(path: Path) -> str:
    """Return UTF-8, or Windows-1252 if the file is not valid UTF-8. The whole file is read."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    with _unpacked(path) as file:
        try:
            for block in iter(partial(file.read, 1 << 20), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return WINDOWS
    return UTF8


def packed(path: Path) -> bool:
    """Return True if the first bytes of a file show that it is compressed with gzip."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _unpacked(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.GzipFile(path, "rb") if packed(path) else path.open("rb")


def _text(path: Path, dialect: Dialect) -> TextIOWrapper:
    return TextIOWrapper(_unpacked(path), dialect.coding, errors="surrogateescape", newline="")


class _LineTooLongError(csv.Error):
    """The error for a line that would fill the memory."""


def _lines(file: TextIOWrapper) -> Iterator[str]:
    """Iterate over the lines of a file without the byte order mark."""
    first = True
    while line := file.readline(LONGEST_LINE):
        if len(line) >= LONGEST_LINE:
            raise _LineTooLongError
        yield line.removeprefix("\ufeff") if first else line
        first = False


def _rows(lines: Iterator[str], dialect: Dialect) -> Any:
    return csv.reader(lines, delimiter=dialect.mark, quotechar=dialect.quote)


def _find_unclosed_quote(path: Path, dialect: Dialect) -> str:
    """Return the position of the last row if its quote is not closed, or an empty text.

    Arrow does not report this row. It can contain other rows of the file.
    """
    quote = dialect.quote.encode(dialect.coding)
    if len(quote) > 1:  # in UTF-16, the bytes cannot be counted
        return ""
    with _unpacked(path) as file:
        quotes = sum(block.count(quote) for block in iter(partial(file.read, 1 << 20), b""))
    return next(ragged(path, dialect), "") if quotes % 2 else ""


def _refuse_binary(path: Path, dialect: Dialect) -> None:
    """Raise an InputError if a file is not a text file, because its bytes would be shown as the names of columns."""
    with _unpacked(path) as file:
        start = file.read(_START).lstrip().partition(b"\n")[0]
    wide = len("a".encode(dialect.coding)) > 1  # text in UTF-16 and UTF-32 has zero bytes
    if what := "compressed twice; unpack it" if start.startswith(_GZIP) else "" if wide else other_format(start):
        raise InputError(f"file {str(path)!r} is {what}")


def _undecoded(path: Path, dialect: Dialect) -> UndecodedError:
    return UndecodedError(
        f"file {str(path)!r} is not {dialect.coding.upper()} text; save it as UTF-8, or declare its encoding in the "
        f"schema, such as file: {{encoding: {WINDOWS}}}"
    )
