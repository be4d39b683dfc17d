"""Rows of open columns before a release has found the values that it keeps.

The codes are exact, so they are as private as the rows. The values that are kept are selected from noisy counts (see
`equistrata.privacy.thresholds`).

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

UNWRITABLE, NO_CELL = 0, 1  # codes of cells that have no text that can be released
OWN = 2


@dataclass
class Vocabulary:
    """The distinct texts of a column in the order of their first appearance.

    The code of a text is its position plus OWN.
    """

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def code(self, series: pd.Series) -> npt.NDArray[np.int64]:
        """Return the code of each raw cell, and add new texts to the vocabulary.

        The text of a cell only depends on this cell.

        Parameters
        ----------
        series : Series
            The raw cells, shape (n,).

        Returns
        -------
        ndarray of int
            The codes, shape (n,).
        """
        places, distinct = distinct_cells(series)
        return np.array([*map(self._code, distinct), NO_CELL], dtype=np.int64)[places]

    def _code(self, cell: object) -> int:
        text = releasable_text(cell)
        if text is None:
            return NO_CELL if read_cell(cell) is None else UNWRITABLE
        if text not in self._places:
            self._places[text] = len(self.texts) + OWN
            self.texts.append(text)
        return self._places[text]


def releasable_text(cell: object) -> str | None:
    """Return the text of a cell if it can be released, and None otherwise.

    A cell can be released if it is a writable text or a whole number.
    """
    value = read_cell(cell)
    if value is None or value is UNREADABLE or is_inexact(value):
        return None
    text = plain_text(value)
    whole = isinstance(value, str | bool | date) or text.removeprefix("-").isdigit()
    return text if whole and writable(text) else None


def encode_open(frame: pd.DataFrame, schema: Schema, known: Mapping[str, Vocabulary]) -> CodedTable:
    """Encode the rows of a table in which some columns are open.

    This function is like `CodedTable.encode`, but the open columns are encoded with vocabularies, which grow with new
    texts. The codes have 32 bits.

    Parameters
    ----------
    frame : DataFrame
        The rows.
    schema : Schema
        The schema of the rows.
    known : mapping of str to Vocabulary
        The vocabulary of each open column.

    Returns
    -------
    CodedTable
        The codes of the rows.

    Raises
    ------
    InputError
        If a row does not fit the schema.
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
                f"column {name!r} has missing cells, but the schema does not say what they mean; declare 'missing' for "
                "it"
            )
    numbers = {name: range(len(each.texts) + OWN) for name, each in known.items()}
    columns = (replace(c, values=tuple(numbers[c.name]), open=False) if c.name in known else c for c in schema.columns)
    return CodedTable(codes, replace(schema, columns=tuple(columns)))


def codes_once_found(texts: Sequence[str], column: Column) -> npt.NDArray[np.int64]:
    """Return the code in a column with found values for each code in a vocabulary, shape (texts + OWN,)."""
    assert column.others is not None
    absent = column.others if column.missing is None else column.missing
    own = [column.values.index(column.others), column.values.index(absent)]
    return np.append(own, value_codes(pd.Series([*texts], dtype=object), column)[0]).astype(np.int64)
