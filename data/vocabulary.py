"""Rows of open columns: coded by what they hold until a release has found which values it keeps.

Exact, so as private as the rows. What is kept is chosen from noisy counts (`equistrata.privacy.thresholds`).

>>> import pandas as pd
>>> jobs = Vocabulary()
>>> jobs.code(pd.Series(["nurse", None, "01", "=1+1", "nurse"])).tolist(), jobs.texts
([2, 1, 3, 0, 2], ['nurse', '01'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.data.columns.cells import value_codes
from equistrata.data.columns.column import plain_text, writable
from equistrata.data.columns.raw import UNREADABLE, distinct_cells, is_inexact, read_cell
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

UNWRITABLE, NO_CELL = 0, 1  # codes of cells without a text that may be kept
OWN = 2


@dataclass
class Vocabulary:
    """The distinct texts of a column, in the order in which they come. The code of a text is its place plus OWN."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def code(self, series: pd.Series) -> npt.NDArray[np.int64]:
        """The code of each raw cell, shape (n,); new texts are added. A cell's text depends on that cell alone."""
        places, distinct = distinct_cells(series)
        return np.array([*map(self._code, distinct), NO_CELL], dtype=np.int64)[places]

    def _code(self, cell: object) -> int:
        text = kept_text(cell)
        if text is None:
            return NO_CELL if read_cell(cell) is None else UNWRITABLE
        if text not in self._places:
            self._places[text] = len(self.texts) + OWN
            self.texts.append(text)
        return self._places[text]


def kept_text(cell: object) -> str | None:
    """The text under which a cell may be found: a writable text or a whole number; None for any other."""
    value = read_cell(cell)
    if value is None or value is UNREADABLE or is_inexact(value):
        return None
    text = plain_text(value)
    whole = isinstance(value, str | bool | date) or text.removeprefix("-").isdigit()
    return text if whole and writable(text) else None


def encode_open(frame: pd.DataFrame, schema: Schema, known: Mapping[str, Vocabulary]) -> CodedTable:
    """As `CodedTable.encode`, with the open columns coded by these vocabularies, which grow. Codes are 32 bits wide.

    Raises InputError as that.
    """
    if not known:
        return CodedTable.encode(frame, schema)
    codes = np.empty((len(frame), len(schema.names)), dtype=np.uint32, order="F")
    closed = [name for name in schema.names if name not in known]
    if closed:
        codes[:, [schema.index(name) for name in closed]] = CodedTable.encode(frame, schema.select(closed)).codes
    for name, vocabulary in known.items():
        codes[:, schema.index(name)] = found = vocabulary.code(frame[name])
        if schema[name].missing is None and (found == NO_CELL).any():
            raise InputError(
                f"column {name!r} has missing cells, but the schema does not say what missing means; declare it"
            )
    numbers = {name: range(len(each.texts) + OWN) for name, each in known.items()}
    columns = (replace(c, values=tuple(numbers[c.name]), open=False) if c.name in known else c for c in schema.columns)
    return CodedTable(codes, replace(schema, columns=tuple(columns)))


def codes_once_found(texts: Sequence[str], column: Column) -> npt.NDArray[np.int64]:
    """The code in a column with found values of each code in a vocabulary of these texts, shape (texts + OWN,)."""
    assert column.others is not None
    absent = column.others if column.missing is None else column.missing
    own = [column.values.index(column.others), column.values.index(absent)]
    return np.append(own, value_codes(pd.Series([*texts], dtype=object), column)[0]).astype(np.int64)
