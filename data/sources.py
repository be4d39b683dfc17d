"""Sources of rows: raw values of chosen columns, as data frames, at once or in batches that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd

from equistrata.data.census import files as acs
from equistrata.data.census.tasks import TASKS, Condition
from equistrata.data.columns.column import Column
from equistrata.data.files import csv_files
from equistrata.data.files.dialect import PLAIN, Dialect
from equistrata.data.files.formats import Reading
from equistrata.data.files.labelled import declared_cells
from equistrata.data.files.opening import file_and_format, header_in, readable, require, rows_in
from equistrata.data.repeats import each_once
from equistrata.data.schema import Schema
from equistrata.errors import InputError

Item = TypeVar("Item")

BATCH_ROWS = 1 << 18
_ST_SINCE_2023 = "STATE"


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
    """ACS person records of states (postal codes): `<root_dir>/<year>/<horizon>/psam_p<state>.csv`, as folktables lays
    them out, downloaded by it first if `download` is set; years from 2014, horizons "1-Year" and "5-Year".

    In these files, zeros in front only fill a code up to its width: 05 is the code 5 in every column but those that
    `declared` columns have texts for, and where there are any, those that none of them is about.

    The state's column, ST, is called STATE in files of 2023 and later, and read by either name.

    With a `task` of folktables, the rows that do not meet its conditions are no rows of the source.
    """

    states: tuple[str, ...]
    year: int = 2018
    horizon: str = "1-Year"
    root_dir: str = "data"
    download: bool = False
    declared: tuple[Column, ...] = ()
    task: str | None = None

    @property
    def _folder(self) -> Path:
        return Path(self.root_dir) / str(self.year) / self.horizon

    def check(self, columns: Sequence[str]) -> None:
        """See `Source.check`; columns are looked for in the first lines of each file that is there."""
        each_once(self.states, "state")
        unknown = [state for state in self.states if not acs.is_state(state)]
        if unknown or not self.states:
            raise InputError(f"unknown state {', '.join(unknown) or '(none given)'}; give postal codes such as NY")
        if not self.download and not self._folder.is_dir():
            raise InputError(
                f"no ACS files in {self._folder}; correct the root folder, year or survey, or allow the download"
            )
        for state in self.states:
            path = acs.file_of(self._folder, state, self.year)
            if path.is_file():
                self._file(path).check([*self._names(path, columns)])
            elif not self.download:
                raise InputError(f"no ACS person file for {state} in {self._folder}; add it, or allow the download")

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """See `Source.read`. Where nothing is declared, columns that hold numbers alone have a type of numbers."""
        frame = pd.concat([batch.astype(object) for batch in self.batches(columns)], ignore_index=True)
        return frame if self.declared else frame.apply(acs.as_numbers)

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        self.check(columns)
        texts, found = acs.columns_of_texts(columns, self.declared), False
        for path in self.files():
            names = self._names(path, columns)
            for batch in self._file(path).batches([*names]):
                rows = batch.rename(columns=names)
                for condition in self._conditions:
                    rows = rows[condition.holds(rows[condition.column])]
                found = found or len(rows) > 0
                if len(rows):
                    rows = rows[[*columns]].reset_index(drop=True)
                    yield rows.apply(lambda cells: acs.plain_cells(cells, zeros=str(cells.name) in texts))
            acs.refuse_cut_off(path)
        if not found:
            raise InputError(f"{self.describe()}: there are no such rows; name other states or another task")

    @property
    def _conditions(self) -> tuple[Condition, ...]:
        return TASKS[self.task].rows if self.task else ()

    def _names(self, path: Path, columns: Sequence[str]) -> dict[str, str]:
        """The columns that are read of a file, and their names here: those asked for, and of the task's conditions."""
        read = dict.fromkeys([*columns, *(each.column for each in self._conditions)])
        present = self._file(path).header()
        state = _ST_SINCE_2023 if "ST" not in present and _ST_SINCE_2023 in present else "ST"
        return {state if name == "ST" else name: name for name in read}

    def _file(self, path: Path) -> FileSource:
        return FileSource(str(path), "csv", dialect=Dialect(delimiter=","), declared=self.declared)

    def files(self) -> list[Path]:
        """See `Source.files`; what may be downloaded and is not there is, first."""
        return [acs.whole_file(self._folder, state, self.year, self.horizon, self.download) for state in self.states]

    def describe(self) -> str:
        where = f", rows with {', '.join(map(str, self._conditions))}" if self._conditions else ""
        task = f", task {self.task}{where}" if self.task else ""
        return f"ACS {self.year} {self.horizon} person records of {', '.join(self.states)} (folktables){task}"


@dataclass(frozen=True)
class FileSource:
    """A file of any of `FORMATS` (by its ending, or by `kind`), one row per person.

    Attributes:
        kind: the name of its format, if not by the ending.
        batch_rows: rows of another file than CSV in memory at a time (a CSV file is read in blocks of 16 MiB).
        dialect: how a CSV file writes its cells, and a workbook those that are texts.
        numbers: columns of numbers, which are read by the dialect's decimal and thousands separators.
        lenient: rows of a CSV file that have other cells than the header are left out; for a check that tells them all.
        declared: how a schema declares columns: of a file with labels, their codes or labels are read.
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

    def header(self) -> list[str]:
        """The names of the file's columns, in order. Raises InputError if it cannot be read."""
        path, form = file_and_format(self.path, self.kind)
        return header_in(path, form, self.dialect)

    def ragged(self) -> list[str]:
        """Where rows of a CSV file have other cells than the header: a phrase for each, without a cell of it."""
        path, form = file_and_format(self.path, self.kind)
        if form.name != "csv":
            return []
        with readable(path, form):
            return [*csv_files.ragged(path, self.dialect)]

    def check(self, columns: Sequence[str]) -> None:
        """See `Source.check`. Reads no row."""
        path, form = file_and_format(self.path, self.kind)
        header_in(path, form, self.dialect, columns)

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """See `Source.read`. Cells of a CSV file are text, as in batches: the code 01 is not 1."""
        return self._joined([*self.batches(columns)])

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """See `Source.batches`. Cells of a CSV file, where rows are as long as the header, are text (categories)."""
        found = False
        for batch in self.frames(columns):
            found = found or len(batch) > 0
            if len(batch):
                yield batch
        if not found:
            raise InputError(f"{self.describe()} holds no rows; give a table with at least one row")

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """As `batches`, of all columns if none are named; perhaps none, or without rows."""
        path, form = file_and_format(self.path, self.kind)
        present = header_in(path, form, self.dialect, list(dict.fromkeys(columns or ())))
        if columns is None:
            require(present, None, path.name)
        names = present if columns is None else list(dict.fromkeys(columns))
        declared = declared_cells(self.declared)
        for batch in rows_in(path, form, names, Reading(self.dialect, self.declared, self.batch_rows, self.lenient)):
            yield self.dialect.meant(batch[names], self.numbers, declared) if form.texts else batch[names]

    def whole(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """As `read`, of all columns if none are named; perhaps without rows."""
        frames = [*self.frames(columns)]
        empty = pd.DataFrame(columns=self.header() if columns is None else [*columns], dtype=object)
        return self._joined(frames) if frames else empty

    def _joined(self, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
        typed = file_and_format(self.path, self.kind)[1].name == "parquet"
        return pd.concat([each if typed else each.astype(object) for each in frames], ignore_index=True)

    def files(self) -> list[Path]:
        return [file_and_format(self.path, self.kind)[0]]

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
    path: str | Path, columns: Sequence[str] | None = None, kind: str | None = None, declared: Sequence[Column] = ()
) -> pd.DataFrame:
    """All rows of a table in any of `FORMATS`, or only some of its columns; perhaps none.

    Cells of a CSV file are text.

    Raises InputError if there is no such file, it is not readable as its kind, or a column is absent.
    """
    return FileSource(str(path), kind, declared=tuple(declared)).whole(columns)
