"""The file formats of tables.

To add a format, write a module with the functions `header` and `batches`, add an entry to FORMATS, and add a test.

>>> kind_of("a.dta"), kind_of("a.pq"), kind_of("a.txt")
('stata', 'parquet', 'csv')
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
    from equistrata.data.files.labelled import ColumnDescription


@dataclass(frozen=True)
class Reading:
    """The settings of a reader.

    Parameters
    ----------
    dialect : Dialect
        The format of the cells, which the schema declares under `file`.
    declared : tuple of Column
        The columns of the schema. They determine whether the codes or the labels of a file are read.
    rows : int
        The maximum number of rows of a data frame, if the format can be read in parts.
    lenient : bool
        If True, rows of a text file with a wrong number of cells are left out. A check uses this to list these rows.
    """

    dialect: Dialect
    declared: tuple[Column, ...] = ()
    rows: int = 1 << 18
    lenient: bool = False


class Reader(Protocol):
    """The functions of a module that reads a format.

    The module can raise any error. An error that is not an InputError is replaced by an InputError that does not quote
    a cell.
    """

    def header(self, path: Path, dialect: Dialect) -> list[str]:
        """Return the names of the columns in order."""

    def batches(self, path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
        """Iterate over the rows of some columns as data frames, which fit into memory if the format allows it."""


@dataclass(frozen=True)
class TableFormat:
    """A file format of tables.

    Parameters
    ----------
    name : str
        The name of the format in a configuration.
    title : str
        The name of the format in messages.
    suffixes : tuple of str
        The suffixes of the files.
    module : str
        The name of the module that reads the format (see `Reader`).
    starts : tuple of bytes
        The first bytes of a file, which are used to recognize a file that has a different suffix.
    library : str
        The library that reads the format.
    extra : str
        The extra of equistrata that installs the library.
    texts : bool
        If True, the cells can be texts that contain numbers in the format of the dialect.
    labels : bool
        If True, the module has a function `described` that returns the descriptions of the columns in a file.
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
        """Return the module that reads the format.

        Parameters
        ----------
        where : str
            The start of the error message.

        Raises
        ------
        InputError
            If the library is not installed.
        """
        if find_spec(self.library) is None:
            raise InputError(
                f'{where} is {self.title}, which needs {self.library}; run pip install "equistrata[{self.extra}]", '
                "or save it as CSV"
            )
        module: Reader = import_module(self.module)
        return module

    def described(self, path: Path) -> Mapping[str, ColumnDescription]:
        """Return the descriptions of the columns in a file with labels. No rows are read."""
        found: Mapping[str, ColumnDescription] = self.reader(f"file {path.name!r}").described(path)
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
    """Return the name of the format of a file by its suffix. The default is CSV."""
    suffix = Path(path).suffix.lower()
    return next((each.name for each in FORMATS if suffix in each.suffixes), "csv")


def format_of(path: str | Path, kind: str | None = None) -> TableFormat:
    """Return the format with the given name. If no name is given, return the format of the file by its suffix."""
    return next(each for each in FORMATS if each.name == (kind or kind_of(path)))


def other_format(start: bytes) -> str:
    """Return a message about a file that is not a text file, or an empty text if it can be a text file.

    Parameters
    ----------
    start : bytes
        The first bytes of the file.
    """
    known = next((each for each in FORMATS if start.startswith(each.starts or b"\0\0\0\0")), None)
    if known:
        return f"{known.title}; give its name the ending {known.suffixes[0]}"
    return (
        "not UTF-8 text, since it has zero bytes; save it as UTF-8, or declare file: {encoding: utf-16}"
        if 0 in start
        else ""
    )
