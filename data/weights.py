"""Public group weights: how large each stratum is, from sources that are not the private rows (or were paid for).

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

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from equistrata.data.columns.cells import cells_of, read_numbers
from equistrata.data.columns.column import Column, plain_text
from equistrata.data.columns.raw import Values, read_cell
from equistrata.data.sources import read_frame
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

SUM_TOLERANCE = 1e-3
_COUNT, _SHARE = "count", "share"


@dataclass(frozen=True)
class PublicWeights:
    """The share of each declared stratum.

    Attributes:
        shares: stratum key → share; non-negative, one entry for every declared stratum, summing to one.
        source: where they come from, for the release card.
        total: the number of people they stand for, where the source says so.
    """

    shares: Mapping[Key, float]
    source: str
    total: float | None = None

    def __post_init__(self) -> None:
        values = np.array(list(self.shares.values()))
        if not np.isfinite(values).all() or (values < 0).any():
            raise InputError(f"the weights from {self.source} hold a negative or non-finite share; mend them")
        if abs(values.sum() - 1) > SUM_TOLERANCE:
            raise InputError(
                f"the shares from {self.source} sum to {values.sum():.6g}, not to 1; mend them, or give counts"
            )

    @classmethod
    def from_counts(cls, counts: Mapping[Key, float], strata: Strata, source: str) -> PublicWeights:
        """From a size for every declared stratum.

        Sizes from private rows must be noisy and paid for; negative noisy counts count as zero.
        Raises InputError if a stratum is missing or unknown, or all sizes are zero.
        """
        _check_keys(counts, strata, source)
        clipped = {key: max(float(counts[key]), 0.0) for key in strata.keys}
        total = sum(clipped.values())
        if not total > 0 or not np.isfinite(total):
            raise InputError(f"the sizes from {source} sum to nothing; give at least one positive size")
        return cls({key: size / total for key, size in clipped.items()}, source, total)

    @classmethod
    def from_table(cls, frame: pd.DataFrame, strata: Strata, source: str) -> PublicWeights:
        """From one row per stratum: the stratum columns' released values, and a `count` or a `share` column.

        A column that lies within others is as released, `36/100`, or in columns of its own, ST and PUMA.

        Args:
            source: what the table is called in messages and on the card.

        Raises InputError if a column is missing, a number is negative or none, or a stratum is missing, unknown or
        there twice.
        """
        column = _COUNT if _COUNT in frame.columns else _SHARE
        for name in (*strata.columns, column):
            if name not in frame.columns:
                raise InputError(f"the weights table {source} lacks column {name!r}; it needs {_needs(strata)}")
        cells = [_stratum_cells(frame, strata.schema[name]) for name in strata.columns]
        declared = [Values((key, key) for key in strata.schema[name].keys) for name in strata.columns]
        known: dict[tuple[object, ...], Key] = {key: key for key in strata.keys}
        sizes = read_numbers(frame[column], Column(column))[0]
        if not np.isfinite(sizes).all() or (sizes < 0).any():
            raise InputError(f"column {column!r} of the weights table {source} needs a non-negative number in each row")
        found: dict[Key, float] = {}
        for place, size in enumerate(sizes.tolist()):
            row = [read_cell(each.iloc[place]) for each in cells]
            key = known.get(tuple(values.find(cell) for values, cell in zip(declared, row, strict=True)))
            if key is None or key in found:
                fault = "is no declared stratum" if key is None else "is listed twice"
                here = ",".join(f"{c}={plain_text(v)}" for c, v in zip(strata.columns, row, strict=True))
                raise InputError(f"the weights table {source} lists {here}, which {fault}; mend that row")
            found[key] = size
        _check_keys(found, strata, source)
        if column == _COUNT:
            return cls.from_counts(found, strata, source)
        total = sum(cls(found, source).shares.values())
        return cls({key: found[key] / total for key in strata.keys}, source)

    @classmethod
    def from_sample(cls, frame: pd.DataFrame, strata: Strata, source: str, weight: str | None = None) -> PublicWeights:
        """From a public table of people that shares no one with the private one, weighted by `weight` (as PWGTP).

        Raises InputError if its rows do not fit the schema, or `weight` is missing, negative or no number.
        """
        # With no stratum columns any one column will do: every row is in the only stratum.
        rows = CodedTable.encode(frame, strata.schema.select(strata.columns or strata.schema.names[:1]))
        sizes = None
        if weight is not None:
            if weight not in frame.columns:
                raise InputError(f"the public sample {source} lacks the survey weight column {weight!r}")
            sizes = read_numbers(frame[weight], Column(weight))[0]
            if not np.isfinite(sizes).all() or (sizes < 0).any():
                raise InputError(f"survey weight column {weight!r} of {source} needs a non-negative number in each row")
        counts = np.bincount(strata.index(rows), weights=sizes, minlength=len(strata.keys))
        return cls.from_counts(dict(zip(strata.keys, counts.tolist(), strict=True)), strata, source)

    @classmethod
    def from_file(cls, path: str | Path, strata: Strata, weight: str | None = None) -> PublicWeights:
        """From a CSV or Parquet file: a table with a `count` or `share` column, else a public sample of people.

        Raises InputError if it cannot be read, and as `from_table` and `from_sample`.
        """
        frame = read_frame(path, declared=strata.schema.columns)
        source = f"file {Path(path).name!r}"
        if weight is None and (_COUNT in frame.columns or _SHARE in frame.columns):
            return cls.from_table(frame, strata, source)
        missing = [name for name in strata.columns if name not in frame.columns]
        if missing:
            raise InputError(f"the weights table {source} lacks column {missing[0]!r}; it needs {_needs(strata)}")
        return cls.from_sample(frame, strata, source, weight)

    def allocate(self, rows: int) -> dict[Key, int]:
        """Whole rows per stratum by largest remainder: they add up to `rows` exactly, each within one of its share."""
        shares = np.array(list(self.shares.values()))
        quotas = shares / shares.sum() * rows
        whole = np.floor(quotas).astype(int)
        short = rows - int(whole.sum())
        whole[np.argsort(-(quotas - whole), kind="stable")[:short]] += 1
        return dict(zip(self.shares, whole.tolist(), strict=True))


def _stratum_cells(frame: pd.DataFrame, column: Column) -> pd.Series:
    """A stratum column's released values; of one within others, joined where the table has the parts instead."""
    outer = [name for name in column.cells if name in frame.columns]
    parted = bool(column.within) and len(outer) == len(column.cells)
    if parted and not set(map(plain_text, frame[column.name])) <= set(column.keys):
        return cells_of(frame, column)
    return frame[column.name]


def _check_keys(found: Mapping[Key, float], strata: Strata, source: str) -> None:
    missing = [key for key in strata.keys if key not in found]
    if missing:
        raise InputError(
            f"the weights from {source} miss stratum {strata.label(missing[0])}; list every declared stratum "
            f"({len(strata.keys)} of them), with 0 for an empty one"
        )
    if len(found) > len(strata.keys):
        raise InputError(f"the weights from {source} list a stratum that is not declared; remove it")


def _needs(strata: Strata) -> str:
    return f"{', '.join(strata.columns)} and 'count' or 'share' (or one row per person of a public sample)"
