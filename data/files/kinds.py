"""Kinds of files that hold a table, by their ending; and files that are no text, known by their first bytes, so that
nothing of them is read as a header line. A compressed CSV file (gzip) is read as its text, whatever its ending is.

>>> not_text(b"PK\\x03\\x04\\x14"), not_text(b"a,b\\n1,2")
('an Excel workbook or another zip file; name a workbook with the ending .xlsx, or unpack it', '')
>>> kind_of("a.dta"), kind_of("a.pq"), kind_of("a.txt")
('stata', 'parquet', 'csv')
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from io import BufferedReader
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["csv", "parquet", "stata", "spss", "excel"]

KINDS: tuple[Kind, ...] = get_args(Kind)
_ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_SPSS = "an SPSS file; name it with the ending .sav"
_STATA = "a Stata file; name it with the ending .dta"
_GZIP = b"\x1f\x8b"
_PACKED = "compressed, and not by gzip; unpack it"
_OLE = b"\xd0\xcf\x11\xe0"
_OPEN = b"mimetypeapplication/vnd.oasis.opendocument"  # the first file in such a zip file
_STARTS = (
    (b"PK\x03\x04", "an Excel workbook or another zip file; name a workbook with the ending .xlsx, or unpack it"),
    (_OLE, "an old Excel workbook, or one with a password; save it as .xlsx without one, or its sheet as CSV"),
    (b"$FL2", _SPSS),
    (b"$FL3", _SPSS),
    (b"<stata_dta>", _STATA),
    (b"PAR1", "a Parquet file; name it with the ending .parquet"),
    (_GZIP, "compressed twice; unpack it"),
    (b"BZh", _PACKED),
    (b"\xfd7zXZ", _PACKED),
    (b"\x28\xb5\x2f\xfd", _PACKED),
)
_OLD_STATA = range(102, 116)  # versions, in the first byte; the second is the order of bytes
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


UNREADABLE = (OSError, EOFError, zlib.error)  # what reading raises: the last two of a compressed file that is cut off


def kind_of(path: str | Path) -> Kind:
    """What a file holds, by its ending."""
    return _ENDINGS.get(Path(path).suffix.lower(), "csv")


def packed(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def unpacked(path: Path) -> gzip.GzipFile | BufferedReader:
    """A file's bytes; those that are compressed, if it is by gzip. Raises OSError; reading raises UNREADABLE.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     made = Path(folder) / "people.csv.gz"
    ...     _ = made.write_bytes(gzip.compress(b"SEX,AGE"))
    ...     with unpacked(made) as file:
    ...         file.read()
    b'SEX,AGE'
    """
    return gzip.GzipFile(path, "rb") if packed(path) else path.open("rb")


def not_text(start: bytes) -> str:
    """What a file with these first bytes is, and what to do; empty if it may be text of one byte a character."""
    if _OPEN in start[:100]:
        return "an OpenDocument file; save its sheet as .xlsx or CSV"
    known = next((said for mark, said in _STARTS if start.startswith(mark)), "")
    if known or 0 not in start:
        return known
    if len(start) > 2 and start[0] in _OLD_STATA and start[1] in (1, 2) and start[2] == 1:
        return _STATA
    if start.startswith(_UTF_16):
        return "UTF-16 text; save it as UTF-8, or declare its encoding in the schema, as file: {encoding: utf-16}"
    return "no text, since it has zero bytes; save it as CSV or Parquet"
