"""Public group weights, which are the sizes of the strata.

The sizes come from a source that does not depend on the private rows, or they were measured with noise at a privacy
cost.

>>> from importlib.resources import files
>>> from equistrata.data.schema import Schema
>>> strata = Strata.over(Schema.load("acs_employment").select(["SEX", "RAC1P", "ESR"]), ["SEX", "RAC1P"])
>>> weights = PublicWeights.from_file(files("equistrata.data") / "public" / "ny2018_sex_rac1p.csv", strata)
>>> round(weights.shares[(2, 1)], 3)
0.36
>>> sum(weights.allocate(1000).values())
1000
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Indices
from equistrata.data.columns.cells import cells_of, read_numbers
from equistrata.data.columns.column import Column, plain_text
from equistrata.data.columns.raw import Cell, Values, read_cell
from equistrata.data.sources import read_frame
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

SUM_TOLERANCE = 1e-3
ROWS = "rows"  # given instead of a column if each row of a file is one person
SIZE_COLUMNS = "count", "share", "weight", "population", "n", "size", "freq"  # names of columns of sizes
_SHARE = "share"


@dataclass(frozen=True)
class PublicWeights:
    """The share of each declared stratum.

    Parameters
    ----------
    shares : mapping of tuple to float
        The share of each stratum by its key. The shares are not negative, they include every declared stratum, and they
        sum to one with a tolerance of 0.001.
    source : str
        The source of the weights for the release card.
    total : float, optional
        The number of people in all strata, if the source contains it.

    Raises
    ------
    InputError
        If a share is negative or not finite, or if the shares do not sum to one.
    """

    shares: Mapping[Key, float]
    source: str
    total: float | None = None

    def __post_init__(self) -> None:
        values = np.array(list(self.shares.values()))
        if not np.isfinite(values).all() or (values < 0).any():
            raise InputError(f"the weights from {self.source} contain a negative or non-finite share; correct it")
        if abs(values.sum() - 1) > SUM_TOLERANCE:
            raise InputError(
                f"the shares from {self.source} sum to {values.sum():.6g}, not to 1; correct them, or give counts"
            )

    @classmethod
    def from_counts(cls, counts: Mapping[Key, float], strata: Strata, source: str) -> PublicWeights:
        """Create the weights from the size of every declared stratum.

        Parameters
        ----------
        counts : mapping of tuple to float
            The size of each stratum by its key. Negative noisy counts are replaced by zero.
        strata : Strata
            The declared strata.
        source : str
            The source of the sizes for the release card.

        Returns
        -------
        PublicWeights
            The weights.

        Raises
        ------
        InputError
            If a stratum is missing or unknown, or if all sizes are zero.

        Privacy
        -------
        This is free for public sizes. If the sizes come from private rows, they must be noisy, and the noise must be
        charged to the privacy budget before.
        """
        _check_keys(counts, strata, source)
        clipped = {key: max(float(counts[key]), 0.0) for key in strata.keys}
        total = sum(clipped.values())
        if not total > 0 or not np.isfinite(total):
            raise InputError(f"the sizes from {source} have no positive sum; give at least one positive size")
        return cls({key: size / total for key, size in clipped.items()}, source, total)

    @classmethod
    def from_table(cls, frame: pd.DataFrame, strata: Strata, source: str, column: str | None = None) -> PublicWeights:
        """Create the weights from a table that has one row for each stratum.

        The table contains the released values of the stratum columns, and a column of sizes or shares. A nested stratum
        column is either given as released, such as `36/100`, or in separate columns, such as ST and PUMA.

        Parameters
        ----------
        frame : DataFrame
            The table.
        strata : Strata
            The declared strata.
        source : str
            The name of the table in messages and on the release card.
        column : str, optional
            The column of sizes or shares. The default is the only column that has one of the names in `SIZE_COLUMNS`,
            in upper or lower case.

        Returns
        -------
        PublicWeights
            The weights. A column named `share`, and any column that sums to one, contains shares. All other columns
            contain sizes.

        Raises
        ------
        InputError
            If a column is missing, if a number is negative or not a number, or if a stratum is missing, unknown or
            repeated. An error is also raised if the column is named `share` and does not sum to one.
        """
        _check_columns(frame, strata, source, column)
        column = column or _size_column(frame, strata, source)
        sizes = sizes_in(frame, column, f"the weights table {source}")
        found: dict[Key, float] = {}
        for (key, cells), size in zip(_listed(frame, strata), sizes.tolist(), strict=True):
            if key is None or key in found:
                here = ",".join(f"{c}={plain_text(v)}" for c, v in zip(strata.columns, cells, strict=True))
                fault = "is not a declared stratum; correct that row"
                if key is not None:
                    fault = f"is listed twice; correct that row, or give --weight-column {column} to add up its rows"
                raise InputError(f"the weights table {source} lists {here}, which {fault}")
            found[key] = size
        _check_keys(found, strata, source)
        total = sum(found.values())
        if column.strip().casefold() != _SHARE and not abs(total - 1) <= SUM_TOLERANCE:
            return cls.from_counts(found, strata, source)
        checked = cls(found, source).shares
        return cls({key: checked[key] / total for key in strata.keys}, source)

    @classmethod
    def from_sample(cls, frame: pd.DataFrame, strata: Strata, source: str, weight: str | None = None) -> PublicWeights:
        """Create the weights from a public table of people.

        Parameters
        ----------
        frame : DataFrame
            The table, which must not contain anyone from the private table.
        strata : Strata
            The declared strata.
        source : str
            The source of the table for the release card.
        weight : str, optional
            The column of survey weights, such as PWGTP. By default, each row has weight one.

        Returns
        -------
        PublicWeights
            The weights.

        Raises
        ------
        InputError
            If a row does not fit the schema, or if a weight is missing, negative or not a number.
        """
        # If there are no stratum columns, all rows are in a single stratum, and any column can be used.
        rows = CodedTable.encode(frame, strata.schema.select(strata.columns or strata.schema.names[:1]))
        _check_columns(frame, strata, source, weight)
        sizes = None if weight is None else sizes_in(frame, weight, f"the weights table {source}")
        counts = np.bincount(strata.index(rows), weights=sizes, minlength=len(strata.keys))
        return cls.from_counts(dict(zip(strata.keys, counts.tolist(), strict=True)), strata, source)

    @classmethod
    def from_file(cls, path: str | Path, strata: Strata, column: str | None = None) -> PublicWeights:
        """Create the weights from a CSV or Parquet file.

        The file is a table of the strata or a public sample of people.

        Parameters
        ----------
        path : str or Path
            The path of the file.
        strata : Strata
            The declared strata.
        column : str, optional
            The column of sizes, shares or survey weights. If the file lists each stratum once, it is read as in
            `from_table`. Otherwise, its rows are people, and the weights of the rows are added. If this is `ROWS`, each
            row is one person. The default is a table of the strata with a column in `SIZE_COLUMNS`.

        Returns
        -------
        PublicWeights
            The weights.

        Raises
        ------
        InputError
            If the file cannot be read, or if `from_table` or `from_sample` raises an error.
        """
        frame = read_frame(path, declared=strata.schema.columns)
        source = f"file {Path(path).name!r}"
        if column == ROWS:
            if ROWS in frame.columns:
                raise InputError(
                    f"--weight-column {ROWS} says that each row is one person, and the weights table {source} has a "
                    "column of this name; rename the column"
                )
            return cls.from_sample(frame, strata, f"{source}, one person a row")
        _check_columns(frame, strata, source, column)
        used = column or _size_column(frame, strata, source)
        named = f"{source}, column {used!r}"
        keys = [key for key, _ in _listed(frame, strata)]
        once = None not in keys and len(set(keys)) == len(keys)
        if column is None or once:
            return cls.from_table(frame, strata, named, used)
        return cls.from_sample(frame, strata, f"{named} over {len(frame):,} rows", column)

    def allocate(self, rows: int) -> dict[Key, int]:
        """Allocate a number of rows to the strata with the largest remainder method.

        Parameters
        ----------
        rows : int
            The number of rows.

        Returns
        -------
        dict of tuple to int
            The number of rows of each stratum. The numbers sum to `rows`, and each differs from its exact share by less
            than one.
        """
        return dict(zip(self.shares, whole_parts(list(self.shares.values()), rows).tolist(), strict=True))


def whole_parts(sizes: Sequence[float], rows: int) -> Indices:
    """Divide a number of rows in proportion to sizes, with the largest remainder method.

    Parameters
    ----------
    sizes : sequence of float
        The sizes, shape (k,).
    rows : int
        The number of rows.

    Returns
    -------
    ndarray of int
        The number of rows of each part, shape (k,).

    Examples
    --------
    >>> whole_parts([1, 1, 4], 10).tolist()
    [2, 2, 6]
    """
    shares = np.asarray(sizes, dtype=np.float64)
    quotas = shares / shares.sum() * rows
    whole = np.floor(quotas).astype(np.intp)
    whole[np.argsort(-(quotas - whole), kind="stable")[: rows - int(whole.sum())]] += 1
    return np.asarray(whole)


def released_cells(frame: pd.DataFrame, column: Column) -> pd.Series:
    """Return the released values of a column.

    If the column is nested and the table contains its parts instead of the released values, the parts are joined.
    """
    outer = [name for name in column.cells if name in frame.columns]
    parted = bool(column.within) and len(outer) == len(column.cells)
    if parted and not set(map(plain_text, frame[column.name])) <= set(column.keys):
        return cells_of(frame, column)
    return frame[column.name]


def _check_keys(found: Mapping[Key, float], strata: Strata, source: str) -> None:
    missing = [key for key in strata.keys if key not in found]
    if missing:
        raise InputError(
            f"the weights from {source} lack the stratum {strata.label(missing[0])}; list every declared stratum "
            f"({len(strata.keys)} of them), with 0 for an empty one"
        )
    if len(found) > len(strata.keys):
        raise InputError(f"the weights from {source} contain a stratum that is not declared; remove it")


def _check_columns(frame: pd.DataFrame, strata: Strata, source: str, column: str | None) -> None:
    """Raise an InputError if a stratum column or the column of sizes is missing, or if they are the same column."""
    if column in {cell for name in strata.columns for cell in (name, *strata.schema[name].cells)}:
        raise InputError(
            f"--weight-column names {column!r}, which defines strata; name the column of sizes in {source}"
        )
    for name in (*strata.columns, *([] if column is None else [column])):
        if name not in frame.columns:
            raise InputError(f"the weights table {source} has no column {name!r}; its columns are {names_in(frame)}")


def _size_column(frame: pd.DataFrame, strata: Strata, source: str) -> str:
    """Return the only column with a name in `SIZE_COLUMNS`.

    An InputError is raised if there is no such column, or if there are several.
    """
    others = {cell for name in strata.columns for cell in strata.schema[name].cells}
    found = [name for name in frame.columns if name not in others and is_size(name)]
    if len(found) != 1:
        which = "several have" if found else "none has"
        raise InputError(
            f"the weights table {source} has the columns {names_in(frame)}, of which {which} a usual name for sizes "
            f"({', '.join(SIZE_COLUMNS)}); name the column of sizes, shares or survey weights with --weight-column, or "
            f"give --weight-column {ROWS} if each row is one person"
        )
    return str(found[0])


def is_size(name: object) -> bool:
    """Return True if the name of a column is in `SIZE_COLUMNS`."""
    return str(name).strip().casefold() in SIZE_COLUMNS


def sizes_in(frame: pd.DataFrame, column: str, table: str) -> npt.NDArray[np.float64]:
    """Return the numbers in a column of sizes.

    Parameters
    ----------
    frame : DataFrame
        The table.
    column : str
        The name of the column.
    table : str
        The name of the table in error messages.

    Returns
    -------
    ndarray of float
        The sizes, shape (n,).

    Raises
    ------
    InputError
        If a size is negative or not a number.
    """
    sizes = read_numbers(frame[column], Column(column))[0]
    bad = np.flatnonzero(~np.isfinite(sizes) | (sizes < 0))
    if len(bad):
        raise InputError(
            f"column {column!r} of {table} needs a non-negative number in each row, but row {bad[0] + 1:,} has none; "
            "correct that row"
        )
    return sizes


def _listed(frame: pd.DataFrame, strata: Strata) -> list[tuple[Key | None, tuple[Cell, ...]]]:
    """Return the stratum of each row, or None if it is not declared, and the cells that name the stratum."""
    keys: set[Key] = set(strata.keys)
    declared = [Values((key, key) for key in strata.schema[name].keys) for name in strata.columns]
    columns = [map(read_cell, released_cells(frame, strata.schema[name])) for name in strata.columns]
    found: list[tuple[Key | None, tuple[Cell, ...]]] = []
    for cells in zip(*columns, strict=True) if columns else [()] * len(frame):
        key = tuple(values.find(cell) for values, cell in zip(declared, cells, strict=True))
        found.append((key if key in keys else None, cells))  # type: ignore[arg-type]
    return found


def names_in(frame: pd.DataFrame, most: int = 20) -> str:
    """Return the names of the columns of a table for an error message."""
    shown = [str(name) for name in frame.columns[:most]]
    return ", ".join([*shown, *(["…"] if len(frame.columns) > most else [])])
