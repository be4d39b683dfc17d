"""Sources of rows, which return the raw values of some columns as data frames.

The rows are returned all at once, or in batches that fit into memory.
"""

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
from equistrata.data.repeats import require_unique
from equistrata.data.schema import Schema
from equistrata.errors import InputError

Item = TypeVar("Item")

BATCH_ROWS = 1 << 18
_ST_SINCE_2023 = "STATE"


class Source(Protocol):
    """A source of rows."""

    def check(self, columns: Sequence[str]) -> None:
        """Check that the source and the columns exist, as far as possible without reading rows.

        Parameters
        ----------
        columns : sequence of str
            The names of the columns.

        Raises
        ------
        InputError
            If the source or a column is missing.
        """

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return the raw values of some columns for all rows.

        Parameters
        ----------
        columns : sequence of str
            The names of the columns.

        Returns
        -------
        DataFrame
            The rows.

        Raises
        ------
        InputError
            If the source or a column is missing, or if there are no rows.
        """

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Iterate over the rows in batches that fit into memory, if the source allows it.

        The rows are the same as those of `read` and in the same order. A column can have different types in different
        batches, but its cells have the same codes as in `read`.

        Parameters
        ----------
        columns : sequence of str
            The names of the columns.

        Yields
        ------
        DataFrame
            A batch of rows.

        Raises
        ------
        InputError
            If `read` would raise an error, possibly after some batches.
        """

    def files(self) -> list[Path]:
        """Return the files of the rows in order, for the fingerprint of a snapshot. Raises an InputError if a file is
        missing.
        """

    def describe(self) -> str:
        """Return a description of the source for a release card, which only contains public settings."""


@dataclass(frozen=True)
class FolktablesSource:
    """The person records of the American Community Survey, in the files of folktables.

    The files are at `<root_dir>/<year>/<horizon>/psam_p<state>.csv`. In these files, leading zeros only pad a code to
    its width, so 05 is the code 5. They are only kept in columns that the schema declares as texts, dates or open, and
    in columns that the schema does not declare. The column of the state, ST, is named STATE in files since 2023, and
    both names are read.

    Parameters
    ----------
    states : tuple of str
        The postal codes of the states.
    year : int
        The year of the survey, from 2014.
    horizon : {"1-Year", "5-Year"}
        The period of the survey.
    root_dir : str
        The folder of the files.
    download : bool
        If True, files that are missing are downloaded with folktables.
    declared : tuple of Column
        The columns of the schema.
    task : str, optional
        The name of a task of folktables. Rows that do not satisfy the conditions of the task are left out.
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
        """Check the columns in the first lines of each file that exists (see `Source.check`)."""
        require_unique(self.states, "state")
        unknown = [state for state in self.states if not acs.is_state(state)]
        if unknown or not self.states:
            raise InputError(f"unknown states: {', '.join(unknown) or '(none given)'}; give postal codes such as NY")
        if not self.download and not self._folder.is_dir():
            raise InputError(
                f"there are no ACS files in {self._folder}; correct the root folder, year or survey, or allow the "
                "download"
            )
        for state in self.states:
            path = acs.file_of(self._folder, state, self.year)
            if path.is_file():
                self._file(path).check([*self._names(path, columns)])
            elif not self.download:
                raise InputError(
                    f"folder {self._folder} has no ACS person file for {state}; add it, or allow the download"
                )

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return all rows (see `Source.read`).

        If there is no schema, columns that only contain numbers have a numeric type.
        """
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
            raise InputError(f"{self.describe()}: there are no such rows; give other states or another task")

    @property
    def _conditions(self) -> tuple[Condition, ...]:
        return TASKS[self.task].rows if self.task else ()

    def _names(self, path: Path, columns: Sequence[str]) -> dict[str, str]:
        """Return the columns that are read from a file and their names in the result, including those of the
        conditions.
        """
        read = dict.fromkeys([*columns, *(each.column for each in self._conditions)])
        present = self._file(path).header()
        state = _ST_SINCE_2023 if "ST" not in present and _ST_SINCE_2023 in present else "ST"
        return {state if name == "ST" else name: name for name in read}

    def _file(self, path: Path) -> FileSource:
        return FileSource(str(path), "csv", dialect=Dialect(delimiter=","), declared=self.declared)

    def files(self) -> list[Path]:
        """Return the files of the rows, where files that are missing are downloaded if this is allowed (see
        `Source.files`).
        """
        return [acs.whole_file(self._folder, state, self.year, self.horizon, self.download) for state in self.states]

    def describe(self) -> str:
        where = f", rows with {', '.join(map(str, self._conditions))}" if self._conditions else ""
        task = f", task {self.task}{where}" if self.task else ""
        return f"ACS {self.year} {self.horizon} person records of {', '.join(self.states)} (folktables){task}"


@dataclass(frozen=True)
class FileSource:
    """A file with one row per person, in one of `FORMATS`.

    Parameters
    ----------
    path : str
        The path of the file.
    kind : str, optional
        The name of the format. By default, the format is determined by the suffix of the file.
    batch_rows : int
        The maximum number of rows in memory. It is not used for CSV files, which are read in blocks of 16 MiB.
    dialect : Dialect
        The format of the cells in a CSV file, or of the texts in a workbook.
    numbers : tuple of str
        The columns of numbers, which are read with the decimal separator and the thousands separator of the dialect.
    lenient : bool
        If True, rows of a CSV file with a wrong number of cells are left out. A check uses this to list all of them.
    declared : tuple of Column
        The columns of the schema. In a file with labels, they determine whether the codes or the labels are read.
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
        """Return the source of raw rows in the format that a schema declares.

        Parameters
        ----------
        path : str
            The path of the file.
        *schemas : Schema
            The schemas of the rows. The format of the file is the one of the first schema.
        kind : str, optional
            The name of the format.
        numbers : sequence of str
            Columns of numbers that are not in any schema.
        """
        declared = [column for schema in schemas for column in schema.columns]
        texts = [column.open or column.layout or isinstance((*column.values, 0)[0], str) for column in declared]
        of_numbers = [column.name for column, text in zip(declared, texts, strict=True) if not text]
        of_numbers = list(dict.fromkeys([*of_numbers, *numbers]))
        return cls(path, kind, dialect=schemas[0].file, numbers=tuple(of_numbers), declared=tuple(declared))

    def header(self) -> list[str]:
        """Return the names of the columns in order. Raises an InputError if the file cannot be read."""
        path, form = file_and_format(self.path, self.kind)
        return header_in(path, form, self.dialect)

    def ragged(self) -> list[str]:
        """Return a description of each row of a CSV file that has a wrong number of cells, without the content of its
        cells.
        """
        path, form = file_and_format(self.path, self.kind)
        if form.name != "csv":
            return []
        with readable(path, form):
            return [*csv_files.ragged(path, self.dialect)]

    def check(self, columns: Sequence[str]) -> None:
        """Check the columns in the header of the file (see `Source.check`). No rows are read."""
        path, form = file_and_format(self.path, self.kind)
        header_in(path, form, self.dialect, columns)

    def read(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return all rows (see `Source.read`).

        The cells of a CSV file are texts, so the code 01 is different from the code 1.
        """
        return self._joined([*self.batches(columns)])

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Iterate over the rows in batches (see `Source.batches`). The cells of a CSV file are categories of texts."""
        found = False
        for batch in self.frames(columns):
            found = found or len(batch) > 0
            if len(batch):
                yield batch
        if not found:
            raise InputError(f"{self.describe()} holds no rows; give a table with at least one row")

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Iterate over the rows in batches, like `batches`, but without an error if there are no rows.

        If no columns are given, all columns are read.
        """
        path, form = file_and_format(self.path, self.kind)
        present = header_in(path, form, self.dialect, list(dict.fromkeys(columns or ())))
        if columns is None:
            require(present, None, path.name)
        names = present if columns is None else list(dict.fromkeys(columns))
        declared = declared_cells(self.declared)
        for batch in rows_in(path, form, names, Reading(self.dialect, self.declared, self.batch_rows, self.lenient)):
            yield self.dialect.meant(batch[names], self.numbers, declared) if form.texts else batch[names]

    def whole(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return all rows, like `read`, but without an error if there are no rows.

        If no columns are given, all columns are read.
        """
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
    """The simulated table that is included in equistrata.

    It is available offline and contains no record of a real person (see data/sample/card.md).
    """

    path: str = str(resources.files("equistrata.data").joinpath("sample", "ny2024_synthetic.parquet"))

    def describe(self) -> str:
        return "embedded simulated sample"


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items that are computed in a thread, one item ahead of the caller.

    The items and their order do not change, and up to two items are in memory. An error of the iterator is raised at
    its position in the order.

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
    """Read the rows of a table in one of `FORMATS`.

    The cells of a CSV file are texts. The result can be empty.

    Parameters
    ----------
    path : str or Path
        The path of the file.
    columns : sequence of str, optional
        The names of the columns. By default, all columns are read.
    kind : str, optional
        The name of the format. By default, the format is determined by the suffix of the file.
    declared : sequence of Column
        The columns of the schema.

    Returns
    -------
    DataFrame
        The rows.

    Raises
    ------
    InputError
        If the file does not exist or cannot be read in this format, or if a column is missing.
    """
    return FileSource(str(path), kind, declared=tuple(declared)).whole(columns)
