"""The formats of tables: a new one is a module with `header` and `batches`, a line of FORMATS, and a test.

>>> kind_of("a.dta"), kind_of("a.pq"), kind_of("a.txt"), NAMES
('stata', 'parquet', 'csv', 'CSV, Parquet, Excel, Stata, SPSS or SAS')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from equistrata.errors import InputError

if TYPE_CHECKING:  # the command line reads the names of formats without pandas
    import pandas as pd

    from equistrata.data.columns.column import Column
    from equistrata.data.files.dialect import Dialect
    from equistrata.data.files.labelled import Described


@dataclass(frozen=True)
class Reading:
    """How rows are read.

    Attributes:
        dialect: how a schema's `file` declares that cells are written.
        declared: columns of the schema; they decide whether codes or their labels are read.
        rows: at a time, where the format has batches.
        lenient: rows of a text file with other cells than its header are left out, for a check that lists them.
    """

    dialect: Dialect
    declared: tuple[Column, ...] = ()
    rows: int = 1 << 18
    lenient: bool = False


class Reader(Protocol):
    """What a module of a format has. What it raises, other than InputError, becomes a sentence without a cell."""

    def header(self, path: Path, dialect: Dialect) -> list[str]:
        """The names of the columns, in order."""

    def batches(self, path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
        """The rows of these columns, in frames that fit into memory where the format allows it."""


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes:
        name: of the source in a configuration.
        title: in messages.
        suffixes: of its files.
        module: that reads it, a `Reader`.
        starts: first bytes by which a file with another suffix is known.
        library, extra: what reads it, and the extra of equistrata that brings it.
        texts: its cells may be texts, in which numbers are written as the dialect says.
        labels: its module has `described`, which says what the file declares of its columns.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    module: str
    starts: tuple[bytes, ...] = ()
    library: str = "pyarrow"
    extra: str = ""
    texts: bool = False
    labels: bool = False

    def reader(self, where: str = "the file") -> Any:
        """The module. Raises InputError, beginning with `where`, if its library is not installed."""
        if find_spec(self.library) is None:
            raise InputError(
                f'{where} is {self.title}, which {self.library} reads: pip install "equistrata[{self.extra}]"; or '
                "save it as CSV"
            )
        module: Reader = import_module(self.module)
        return module

    def described(self, path: Path) -> Mapping[str, Described]:
        """What a file with labels declares of its columns; no row is read."""
        found: Mapping[str, Described] = self.reader(f"file {path.name!r}").described(path)
        return found


_HERE = "equistrata.data.files"
_LABELLED: dict[str, Any] = {
    "module": f"{_HERE}.labelled", "library": "pyreadstat", "extra": "labelled", "labels": True,
}  # fmt: skip
FORMATS = (
    TableFormat("csv", "a CSV file", (".csv",), f"{_HERE}.csv_files", texts=True),
    TableFormat("parquet", "a Parquet file", (".parquet", ".pq"), f"{_HERE}.parquet", (b"PAR1",)),
    TableFormat("excel", "an Excel workbook", (".xlsx", ".xlsm"), f"{_HERE}.excel",
                (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "openpyxl", "excel", True),
    TableFormat("stata", "a Stata file", (".dta",), starts=(b"<stata_dta>",), **_LABELLED),
    TableFormat("spss", "an SPSS file", (".sav", ".zsav"), starts=(b"$FL2", b"$FL3"), **_LABELLED),
    TableFormat("sas", "a SAS file", (".sas7bdat", ".xpt"), starts=(b"HEADER RECORD",), **_LABELLED),
)  # fmt: skip
KINDS = tuple(each.name for each in FORMATS)
_TITLES = [each.title.split()[1] for each in FORMATS]
NAMES = f"{', '.join(_TITLES[:-1])} or {_TITLES[-1]}"


def kind_of(path: str | Path) -> str:
    """The name of a file's format by its suffix; others are CSV."""
    suffix = Path(path).suffix.lower()
    return next((each.name for each in FORMATS if suffix in each.suffixes), "csv")


def format_of(path: str | Path, kind: str | None = None) -> TableFormat:
    """The format of a file, by its name or the file's suffix."""
    return next(each for each in FORMATS if each.name == (kind or kind_of(path)))


def other_format(start: bytes) -> str:
    """What to do with a file that begins so and is no text; empty if it may be text of one byte a character."""
    known = next((each for each in FORMATS if start.startswith(each.starts or b"\0\0\0\0")), None)
    if known:
        return f"{known.title}; name it with the ending {known.suffixes[0]}"
    return (
        "no UTF-8 text, since it has zero bytes; save it as UTF-8, or declare file: {encoding: utf-16}"
        if 0 in start
        else ""
    )
