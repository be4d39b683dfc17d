"""Sources of rows: raw values of chosen columns, as data frames, at once or in batches that fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from equistrata.data.columns.column import Column
from equistrata.data.files import excel
from equistrata.data.files.dialect import PLAIN, Dialect
from equistrata.data.files.opening import (
    LABELLED,
    file_and_kind,
    header_in,
    not_well_formed,
    open_csv,
    opened,
    read_csv,
    refuse_ragged,
)
from equistrata.data.schema import Schema
from equistrata.errors import InputError

Item = TypeVar("Item")

BATCH_ROWS = 1 << 18
_PARQUET_BUFFER = 1 << 20  # bytes of each column that are read ahead: row groups of any size do


class Source(Protocol):
    """A source of rows."""

    def check(self, columns: Sequence[str]) -> None:
        """Raise InputError if the source or a column is missing, as far as that shows without reading rows."""

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of every row, raw. Raises InputError if the source or a column is missing, or it is empty."""

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """The rows of `read`, in the same order, in frames that fit into memory where the source allows it.

        A column may be of another type from frame to frame, but a cell is coded as in `read`. Raises InputError as
        `read`, perhaps after some batches.
        """

    def files(self) -> list[Path]:
        """The files of the rows, in order, for a snapshot's fingerprint. Raises InputError if one is missing."""

    def describe(self) -> str:
        """The source for a release card: public settings only."""


@dataclass(frozen=True)
class FolktablesSource:
    """ACS person records of states (postal codes) by folktables: `<root_dir>/<year>/<horizon>/psam_p<state>.csv`,
    downloaded there first if `download` is set; years from 2014, horizons "1-Year" and "5-Year"."""

    states: tuple[str, ...]
    year: int = 2018
    horizon: str = "1-Year"
    root_dir: str = "data"
    download: bool = False

    @property
    def _folder(self) -> Path:
        return Path(self.root_dir) / str(self.year) / self.horizon

    def check(self, columns: Sequence[str]) -> None:
        """See `Source.check`; columns are looked for in the first line of each file that is there."""
        from folktables.load_acs import state_list

        unknown = [state for state in self.states if state not in state_list]
        if unknown or not self.states:
            raise InputError(f"unknown state {', '.join(unknown) or '(none given)'}; give postal codes such as NY")
        # folktables makes the folder it looks in; a mistyped path must not leave one behind.
        if not self.download and not self._folder.is_dir():
            raise InputError(
                f"no ACS files in {self._folder}; correct the root folder, year or survey, or allow the download"
            )
        for state in self.states:
            # A missing file may be downloaded, and `read` refuses a broken one.
            with suppress(FileNotFoundError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError):
                _check_columns(pd.read_csv(self._file(state), nrows=0), columns, self.describe())

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        from folktables import ACSDataSource

        self.check(columns)
        where = f"{', '.join(self.states)} in {self._folder}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)
                frame = ACSDataSource(str(self.year), self.horizon, "person", root_dir=self.root_dir).get_data(
                    states=list(self.states), download=self.download
                )
        except FileNotFoundError:
            raise InputError(f"no ACS person file for {where}; add it, or allow the download") from None
        except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError, StopIteration, RuntimeError):
            raise InputError(f"the ACS file for {where} cannot be read as CSV; fetch it again") from None
        return _checked(frame, columns, self.describe())

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """See `Source.batches`: one batch, since folktables reads whole files."""
        yield self.read(columns)

    def _file(self, state: str) -> Path:
        from folktables.load_acs import initialize_and_download

        return Path(initialize_and_download(str(self._folder), state, str(self.year), self.horizon, "person"))

    def files(self) -> list[Path]:
        try:
            return [self._file(state) for state in self.states]
        except FileNotFoundError:
            raise InputError(f"no ACS person file for {', '.join(self.states)} in {self._folder}; add it") from None

    def describe(self) -> str:
        return f"ACS {self.year} {self.horizon} person records of {', '.join(self.states)} (folktables)"


@dataclass(frozen=True)
class FileSource:
    """A CSV, Parquet, Stata, SPSS or Excel file (by its ending, or by `kind`), one row per person.

    Attributes:
        kind: "csv", "parquet", "stata", "spss" or "excel", if not by the ending.
        batch_rows: rows of another file than CSV in memory at a time (a CSV file is read in blocks of 16 MiB).
        dialect: how a CSV file writes its cells, and a workbook those that are texts.
        numbers: columns of numbers, which are read by the dialect's decimal and thousands separators.
        lenient: rows of a CSV file that have other cells than the header are left out; for a check that tells them all.
        declared: how a schema declares columns: of a Stata or SPSS file their codes or labels are read.
    """

    path: str
    kind: str | None = None
    batch_rows: int = BATCH_ROWS
    dialect: Dialect = PLAIN
    numbers: tuple[str, ...] = ()
    lenient: bool = False
    declared: tuple[Column, ...] = ()

    @classmethod
    def of(cls, path: str, *schemas: Schema, kind: str | None = None, numbers: Sequence[str] = ()) -> FileSource:
        """The source of raw rows as the first schema's `file` declares them; `numbers` are columns of no schema."""
        declared = [column for schema in schemas for column in schema.columns]
        texts = [column.open or column.layout or isinstance((*column.values, 0)[0], str) for column in declared]
        of_numbers = [column.name for column, text in zip(declared, texts, strict=True) if not text]
        of_numbers = list(dict.fromkeys([*of_numbers, *numbers]))
        return cls(path, kind, dialect=schemas[0].file, numbers=tuple(of_numbers), declared=tuple(declared))

    def header(self, wanted: Sequence[str] = ()) -> list[str]:
        """The names of the file's columns, in order. Raises InputError if it cannot be read.

        Args:
            wanted: columns that may be there; an undeclared delimiter is the one by which most of them are.
        """
        with opened(self.path, self.kind, (), self.dialect, wanted, self.lenient) as (path, kind, dialect):
            return header_in(path, kind, dialect, self.lenient)

    def ragged(self, wanted: Sequence[str] = ()) -> list[str]:
        """Where rows of a CSV file are that have other cells than the header: a phrase for each, without a cell of it.

        Args:
            wanted: as `header`.
        """
        with opened(self.path, self.kind, (), self.dialect, wanted, lenient=True) as (path, kind, dialect):
            return [*dialect.ragged(path)] if kind == "csv" else []

    def check(self, columns: Sequence[str]) -> None:
        """See `Source.check`. Reads one row at most."""
        with opened(self.path, self.kind, columns, self.dialect):
            pass

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """See `Source.read`. Cells of a CSV file are text, as in batches: the code 01 is not 1."""
        if file_and_kind(self.path, self.kind)[1] != "parquet":
            return pd.concat([batch.astype(object) for batch in self.batches(columns)], ignore_index=True)
        return _checked(read_frame(self.path, columns, self.kind, self.dialect), columns, self.describe())

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """See `Source.batches`. Cells of a CSV file, where rows are as long as the header, are text (categories)."""
        found, names = False, list(dict.fromkeys(columns))
        with opened(self.path, self.kind, names, self.dialect, (), self.lenient) as (path, kind, dialect):
            for batch in self._batches(path, kind, names, dialect):
                if len(batch):
                    found = True
                    yield self._local(batch[names], kind)
        if not found:
            raise _no_rows(self.describe())

    def _local(self, frame: pd.DataFrame, kind: str) -> pd.DataFrame:
        if kind not in ("csv", "excel") or not self.dialect.local:
            return frame
        found = {name: pd.factorize(frame[name]) for name in frame.columns if name in self.numbers}
        plain = {}
        for name, (places, distinct) in found.items():  # two texts may be one number, so these are no categories
            read = (self.dialect.number(each) if isinstance(each, str) else each for each in distinct)
            cells = pd.Series(np.array([*read, None], dtype=object)[places], index=frame.index)
            plain[name] = cells.astype("category") if kind == "csv" else cells
        return frame.assign(**plain)

    def _batches(self, path: Path, kind: str, names: list[str], dialect: Dialect) -> Iterator[pd.DataFrame]:
        if kind == "parquet":
            with pq.ParquetFile(path, buffer_size=_PARQUET_BUFFER) as file:
                yield from (batch.to_pandas() for batch in file.iter_batches(self.batch_rows, columns=names))
        elif kind in LABELLED:
            yield from LABELLED[kind](path, names, self.declared, self.batch_rows)
        elif kind == "excel":
            yield from excel.batches(path, names, self.declared, dialect)
        else:
            types = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
            convert: dict[str, Any] = {"include_columns": names, "column_types": types, "strings_can_be_null": True}
            with open_csv(path, dialect, lenient=self.lenient, **convert) as reader:
                yield from (batch.to_pandas() for batch in reader)
            if not self.lenient and dialect.ends_in_quote(path):
                raise InputError(not_well_formed(path, dialect))

    def files(self) -> list[Path]:
        return [file_and_kind(self.path, self.kind)[0]]

    def describe(self) -> str:
        return f"file {Path(self.path).name!r}"


@dataclass(frozen=True)
class SampleSource(FileSource):
    """The simulated table that comes with equistrata: offline, and no person's record (see data/sample/card.md)."""

    path: str = str(resources.files("equistrata.data").joinpath("sample", "ny2024_synthetic.parquet"))

    def describe(self) -> str:
        return "embedded simulated sample"


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order, each made in a thread while the caller has the one before it.

    Up to two items are in memory. What the iterator raises comes out at its place in the order.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, end)
        while (made := following.result()) is not end:
            following = thread.submit(next, items, end)
            yield made


def read_frame(
    path: str | Path,
    columns: Sequence[str] | None = None,
    kind: str | None = None,
    dialect: Dialect = PLAIN,
    **how: Any,
) -> pd.DataFrame:
    """Read a CSV (with a header), Parquet, Stata, SPSS or Excel file, or only some of its columns.

    Raises InputError if there is no such file, it is not readable as its kind, or a column is absent.
    """
    with opened(path, kind, columns, dialect) as (path, kind, dialect):
        names = None if columns is None else list(dict.fromkeys(columns))
        if kind == "parquet":
            return pd.DataFrame(pq.read_table(path, columns=names).to_pandas())
        if kind in LABELLED:
            names = header_in(path, kind, dialect) if names is None else names
            frames: list[pd.DataFrame] = [*LABELLED[kind](path, names)]
            return pd.concat(frames, ignore_index=True)
        if kind == "excel":
            names = header_in(path, kind, dialect) if names is None else names
            empty = pd.DataFrame(columns=names, dtype=object)
            return pd.concat([empty, *excel.batches(path, names, (), dialect)], ignore_index=True).infer_objects()
        refuse_ragged(path, dialect)
        return read_csv(path, dialect, usecols=names, low_memory=False, **{"na_values": [*dialect.absent], **how})


def _check_columns(frame: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    missing = ", ".join(repr(column) for column in columns if column not in frame.columns)
    if missing:
        raise InputError(f"{name} has no column {missing}; choose among the columns it has with --columns")


def _checked(frame: pd.DataFrame, columns: Sequence[str], name: str) -> pd.DataFrame:
    _check_columns(frame, columns, name)
    if not len(frame):
        raise _no_rows(name)
    return frame[list(dict.fromkeys(columns))]


def _no_rows(name: str) -> InputError:
    return InputError(f"{name} holds no rows; give a table with at least one row")
