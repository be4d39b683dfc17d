"""What files of statistical packages say of their columns, and their cells as a schema means them: codes, or labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Column, Value, plain_text


@dataclass(frozen=True)
class Described:
    """What a file says of a column: its label, the labels of its codes, and its display format.

    Attributes:
        missing: values that are none, with their labels: Stata's by name (.a), SPSS's by the code.
        spans: SPSS's codes that are none, by their first and last, labelled or not.
        ordered, scale: its values have an order, or are numbers, by SPSS's measure.
        dated: it is displayed as dates.
    """

    label: str = ""
    labels: Mapping[Any, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    form: str = ""
    spans: tuple[tuple[float | str, float | str], ...] = ()
    ordered: bool = False
    dated: bool = False
    scale: bool = False


def declared_cells(declared: Sequence[Column]) -> dict[str, frozenset[Value]]:
    """Raw column → the values and codes that a schema has for its cells."""
    found: dict[str, frozenset[Value]] = {}
    for column in declared:
        for level, name in enumerate(column.cells):
            values = [part[level] for part in column.parts] if len(column.cells) > 1 else [*column.values]
            raw = [*values, *(each for each, _ in (*column.recode, *column.codes))]
            found[name] = found.get(name, frozenset()) | frozenset(raw)
    return found


def is_labelled(told: Described, wanted: frozenset[Value]) -> bool:
    """Whether a schema means a column's labels: it declares one of them, as a text."""
    return bool(wanted.intersection(told.labels.values()))


def with_labels(series: pd.Series, told: Described) -> pd.Series:
    """Labels instead of codes; a code that has none stays."""
    places, distinct = pd.factorize(series)
    words = [told.labels.get(each, plain_text(each)) for each in distinct]
    return pd.Series(np.array([*words, None], dtype=object)[places], index=series.index)


def texts_or_absent(series: pd.Series) -> pd.Series:
    """Texts, of which an empty one is absent; numbers and dates as they are."""
    if pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series
    return series.astype(object).mask(series == "", None)
