"""Cells of CSV files and workbooks that are texts: which of them are missing, and which are numbers as people write
them. What a text means depends on it and on the schema alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Value
from equistrata.data.columns.raw import ABSENT
from equistrata.data.files.dialect import Dialect


def never_there(dialect: Dialect, declared: Mapping[str, Collection[Value]]) -> set[str]:
    """The texts that mean a missing cell in every column: marks that no column declares as a value."""
    return {*ABSENT, *dialect.absent}.difference(*declared.values())


def meant(
    frame: pd.DataFrame, dialect: Dialect, numbers: Collection[str], declared: Mapping[str, Collection[Value]]
) -> pd.DataFrame:
    """Rows without the marks of missing cells, and with the numbers of these columns as Python writes them.

    Args:
        numbers: columns of numbers, which are read by the dialect's separators and signs.
        declared: column → the values and codes that a schema has for its cells; none of them is such a mark.
    """
    absent = {*ABSENT, *dialect.absent}
    made = {}
    for name, cells in frame.items():
        gone = absent.difference(declared.get(str(name), ()))
        if dialect.local and name in numbers:
            made[name] = with_texts(cells, partial(_number_or_none, dialect, gone))
        elif not isinstance(cells.dtype, pd.CategoricalDtype):
            made[name] = cells.where(~cells.isin(gone), None)
        elif some := gone - never_there(dialect, declared):  # the others are gone since the file was parsed
            made[name] = with_texts(cells, partial(_text_or_none, some))
        else:
            made[name] = cells
    return pd.DataFrame(made, index=frame.index)


def _text_or_none(gone: Collection[str], text: str) -> str | None:
    return None if text in gone else text


def _number_or_none(dialect: Dialect, gone: Collection[str], text: str) -> str | None:
    return None if text in gone else dialect.number(text)


def with_texts(cells: pd.Series, change: Callable[[str], str | None]) -> pd.Series:
    """Cells with other texts, or none, instead of those that they have; each text of categories is changed once."""
    if not isinstance(cells.dtype, pd.CategoricalDtype):
        return cells.map(lambda cell: change(cell) if isinstance(cell, str) else cell).astype(object)
    before = [*cells.cat.categories]
    after = [change(text) for text in before]
    if after == before:
        return cells
    places: dict[str, int] = {}
    moved = [-1 if text is None else places.setdefault(text, len(places)) for text in after]
    codes = np.array([*moved, -1], dtype=np.int32)[cells.cat.codes.to_numpy()]
    kept = pd.Index([*places], dtype=cells.cat.categories.dtype)
    return pd.Series(pd.Categorical.from_codes(codes, kept, validate=False), index=cells.index)
