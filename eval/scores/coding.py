"""Tables side by side: checked, coded over the union of their values, and cut into strata by key.

Every score compares a real with a synthetic table, so every score starts here. Values are matched as values (a 1 is a
1.0), never by position, and an absent cell is a value of its own.

>>> tables = {"real": pd.DataFrame({"G": ["a", "b"]}), "synthetic": pd.DataFrame({"G": ["c", "b"]})}
>>> [codes.tolist() for codes in joint_codes(tables, "G")[0]]
[[0, 1], [2, 1]]
>>> stratum_index(tables, ["G"])[0]
('G=a', 'G=b', 'G=c')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.data.schema import Column
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

Index = npt.NDArray[np.int64]
Tables = Mapping[str, pd.DataFrame]
Times = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None  # how often each real, and synthetic, row occurs

WHOLE = "all"
LEFT_OUT = -1
_LARGEST_KEY = 2**62
_NUMBERS = {"integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty"}


def check_tables(tables: Tables, *named: Sequence[str]) -> None:
    """Refuse tables that cannot be compared.

    Args:
        tables: name (for messages) → table. The first says which columns there must be; their order is free.
        named: column names that a caller refers to; each must be there, once in its list.

    Raises:
        InputError: a table is empty or has a column twice, the tables' columns differ, or a named column is absent.
    """
    first, reference = next(iter(tables.items()))
    for name, table in tables.items():
        if not len(table):
            raise InputError(f"the {name} table holds no rows; give a table with at least one row")
        if not table.columns.is_unique:
            raise InputError(f"the {name} table has two columns of one name; name each column once")
        for column in reference.columns:
            if column not in table.columns:
                raise InputError(
                    f"the {name} table has no column {column!r}, which the {first} table has; give both the same columns"
                )
        if len(table.columns) > len(reference.columns):
            raise InputError(f"the {name} table has columns that the {first} table has not; give both the same columns")
    for columns in named:
        if isinstance(columns, str):
            raise InputError(f"columns are a list of names, not the text {columns!r}; put it in brackets")
        for column in columns:
            if column not in reference.columns:
                raise InputError(f"the {first} table has no column {column!r}; correct the name")
        if len(set(columns)) < len(columns):
            raise InputError("a column is named twice; name each once")


def columns_beside(strata_columns: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns that define no strata, in their order: those that every score within strata is about.

    >>> columns_beside(["SEX"], ["AGEP", "SEX", "ESR"])
    ['AGEP', 'ESR']

    Raises:
        InputError: none is left.
    """
    names = [column for column in columns if column not in strata_columns]
    if not names:
        raise InputError("the strata use up every column; leave at least one column to compare")
    return names


def check_share(min_share: float) -> None:
    """Refuse a least share of rows that is not in [0, 1)."""
    if not 0 <= min_share < 1:
        raise InputError(f"min_share is {min_share}, but a share of rows lies in [0, 1); correct it")


def check_times(times: Times, real: pd.DataFrame, synthetic: pd.DataFrame) -> None:
    """Refuse numbers of occurrences that are not one positive whole number for each row."""
    for found, table in zip(times or (), (real, synthetic), strict=False):
        if found.shape != (len(table),) or found.dtype.kind not in "iu" or not (found > 0).all():
            raise InputError(
                "a table that is given by its distinct rows needs a positive whole number for each of them"
            )


def joint_numbers(tables: Tables, column: str) -> list[npt.NDArray[np.float64]]:
    """A column of each table as numbers, absent cells as NaN.

    Text has no mean of its own: it counts as its place, from 0, among the sorted texts of all the tables together.
    So the mean of a text column compares these tables only, and is as arbitrary as the order of its names; a column
    of two texts counts as 0 and 1.

    Raises:
        InputError: numbers in one table and text in another, or an infinite number.
    """
    parts, numeric = _values(tables, column)
    if numeric:
        return parts
    codes, levels = _factorize(parts)
    return [np.where(part == len(levels), np.nan, part.astype(np.float64)) for part in codes]


def joint_codes(tables: Tables, column: str) -> tuple[list[Index], npt.NDArray[np.generic]]:
    """A column of each table as codes, and the levels that they point to.

    Returns:
        One (n,) array of codes per table, and the sorted distinct values of all tables together. An absent cell has
        the code `len(levels)`.

    Raises:
        InputError: as `joint_numbers`.
    """
    return _factorize(_values(tables, column)[0])


def combine(codes: Sequence[Index], sizes: Sequence[int]) -> tuple[Index, int]:
    """One key per row from several columns of codes, in lexicographic order; and a bound on the keys.

    >>> combine([np.array([0, 1]), np.array([2, 0])], [2, 3])
    (array([2, 3]), 6)
    """
    key, bound = np.asarray(codes[0], dtype=np.int64), sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if bound * size > _LARGEST_KEY:
            key, distinct = pd.factorize(key, sort=True)
            bound = len(distinct)
        key = key * size + column
        bound *= size
    return key, bound


def numbers_of(column: Column) -> npt.NDArray[np.float64]:
    """What each code of a column counts as: its released value where that is a number, else its place; bins their index.

    >>> from equistrata.data.schema import Schema
    >>> schema = Schema.load("acs_employment")
    >>> numbers_of(schema["SEX"]).tolist(), numbers_of(schema["AGEP"]).tolist()
    ([1.0, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0])
    """
    keys = np.array(column.keys)
    return keys.astype(np.float64) if keys.dtype.kind in "iuf" else np.arange(column.size, dtype=np.float64)


def coded_frame(table: CodedTable) -> pd.DataFrame:
    """A coded table as the scores take it: each code as `numbers_of` counts it."""
    return pd.DataFrame({c.name: numbers_of(c)[table.column(c.name)] for c in table.schema.columns})


def stratum_label(columns: Sequence[str], values: Sequence[object]) -> str:
    """A stratum's label by its values: `SEX=1,RAC1P=2`; `all` without columns."""
    return ",".join(f"{name}={_text(value)}" for name, value in zip(columns, values, strict=True)) or WHOLE


def stratum_index(tables: Tables, columns: Sequence[str]) -> tuple[tuple[str, ...], list[Index]]:
    """The strata found in any of the tables, by key, and each row's place among them.

    Returns:
        Labels as `SEX=1,RAC1P=2`, sorted by key (`all` without columns), and one (n,) array of places per table.
    """
    if not columns:
        return (WHOLE,), [np.zeros(len(table), dtype=np.int64) for table in tables.values()]
    coded = {column: joint_codes(tables, column) for column in columns}
    stacked = [np.concatenate(parts) for parts, _ in coded.values()]
    key, _ = combine(stacked, [len(levels) + 1 for _, levels in coded.values()])
    place, distinct = pd.factorize(key, sort=True)
    first = np.empty(len(distinct), dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    texts = [[_text(value) for value in levels] + ["missing"] for _, levels in coded.values()]
    labels = tuple(
        ",".join(f"{name}={text[column[row]]}" for name, text, column in zip(columns, texts, stacked, strict=True))
        for row in first
    )
    return labels, np.split(place.astype(np.int64), np.cumsum([len(table) for table in tables.values()])[:-1])


@dataclass(frozen=True, eq=False)
class KeptStrata:
    """The strata that a score runs over: those with at least `min_share` of the real rows.

    Attributes:
        labels: one per kept stratum, k of them, sorted by key.
        real, synthetic: each row's stratum, in [0, k), or -1 where its stratum was left out.
    """

    labels: tuple[str, ...]
    real: Index
    synthetic: Index

    @classmethod
    def of(
        cls,
        real: pd.DataFrame,
        synthetic: pd.DataFrame,
        columns: Sequence[str],
        min_share: float = 0.001,
        times: Times = None,
    ) -> KeptStrata:
        """Keep the strata that the real table decides on; the synthetic table has no say.

        Raises:
            InputError: `min_share` is not in [0, 1), or no stratum reaches it.
        """
        check_share(min_share)
        labels, (in_real, in_synthetic) = stratum_index({"real": real, "synthetic": synthetic}, columns)
        counts = np.bincount(in_real, None if times is None else times[0], minlength=len(labels))
        kept = np.flatnonzero((counts > 0) & (counts / counts.sum() >= min_share))
        if not kept.size:
            raise InputError(f"no stratum holds a share of {min_share:g} of the real rows; lower min_share")
        place = np.full(len(labels), LEFT_OUT, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        return cls(tuple(labels[i] for i in kept), place[in_real], place[in_synthetic])


def _values(tables: Tables, column: str) -> tuple[list[npt.NDArray[np.generic]], bool]:
    plain = [_plain(table[column]) for table in tables.values()]
    kinds = {_is_numeric(series) for series in plain} - {None}
    if len(kinds) > 1:
        raise InputError(
            f"column {column!r} holds numbers in one table and text in another; code every table by the same schema"
        )
    if kinds == {False}:
        return [np.where(series.isna(), None, series.astype(str).to_numpy(dtype=object)) for series in plain], False
    parts = [series.to_numpy(dtype=np.float64, na_value=np.nan) for series in plain]
    if any(np.isinf(part).any() for part in parts):
        raise InputError(f"column {column!r} holds an infinite number; replace it or leave it empty")
    return parts, True


def _plain(series: pd.Series) -> pd.Series:
    return pd.Series(np.asarray(series)) if isinstance(series.dtype, pd.CategoricalDtype) else series


def _is_numeric(series: pd.Series) -> bool | None:
    """None if the series has no value at all, so that it agrees with either kind."""
    if pd.api.types.is_numeric_dtype(series):
        return True if series.notna().any() else None
    kind = pd.api.types.infer_dtype(series, skipna=True)
    return None if kind == "empty" else kind in _NUMBERS


def _factorize(parts: list[npt.NDArray[np.generic]]) -> tuple[list[Index], npt.NDArray[np.generic]]:
    codes, levels = pd.factorize(np.concatenate(parts), sort=True)
    codes = np.where(codes < 0, len(levels), codes).astype(np.int64)
    return np.split(codes, np.cumsum([len(part) for part in parts])[:-1]), levels


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
