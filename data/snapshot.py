"""Digests of a snapshot of rows, as a multiset: independent of order, file and format.

A row is its declared values by the columns' names, so the order of columns, their labels, and how a cell was written do
not matter. Hashes of a row's values are added and mixed, and the rows' numbers are summed (256 bits, as four lanes of
64). Equal tables always agree; others do so by chance with a probability of about 2⁻²⁵⁶.

The digests follow from private rows and are not keyed, so tables can be tried on them. They stay in the private working
folder, and only keyed hashes of them leave it (`equistrata.privacy.ledger.fingerprint`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.data.columns.column import OWN_CATEGORY, plain_text
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CHUNK_ROWS, CodedTable

LANES = 4
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64 (Steele, Lea and Flood 2014)


class Snapshot:
    """The digests of all rows that were added, a table at a time.

    Args:
        schema: of the tables; an open column has the values that `extend` gives it.
    """

    def __init__(self, schema: Schema) -> None:
        self._columns = schema.columns
        self._meanings = [_meanings(column) for column in schema.columns]
        self._numbers = [
            _numbers(column.name, meanings) for column, meanings in zip(schema.columns, self._meanings, strict=True)
        ]
        self._sum = np.zeros(LANES, dtype=np.uint64)
        self._counts = [np.zeros(len(meanings), dtype=np.int64) for meanings in self._meanings]

    def extend(self, name: str, values: Sequence[str]) -> None:
        """Give a column more values, which the codes after those so far stand for."""
        place = [column.name for column in self._columns].index(name)
        self._meanings[place] += values
        self._numbers[place] = np.concatenate([self._numbers[place], _numbers(name, values)])
        self._counts[place] = np.append(self._counts[place], np.zeros(len(values), dtype=np.int64))

    def add(self, table: CodedTable) -> None:
        """Add the rows of a table of this schema."""
        for start in range(0, len(table), CHUNK_ROWS):
            codes = table.codes[start : start + CHUNK_ROWS]
            rows = np.zeros((len(codes), LANES), dtype=np.uint64)
            for numbers, counts, column in zip(self._numbers, self._counts, codes.T, strict=True):
                rows += numbers[column]
                counts += np.bincount(column, minlength=len(counts))
            self._sum += _mixed(rows).sum(axis=0, dtype=np.uint64)

    def digests(self) -> dict[str, Any]:
        """`rows`: of whole rows. `columns`: name → of its values with their counts.

        A column with one value says no more than the number of rows; its digest includes the digest of the rows.
        """
        names = sorted(column.name for column in self._columns)
        rows = _sha256("rows", *names, self._sum.tobytes().hex())
        columns = {}
        for column, meanings, counts in zip(self._columns, self._meanings, self._counts, strict=True):
            pairs = zip(counts.tolist(), meanings, strict=True)
            found = sorted(f"{count} {meaning}" for count, meaning in pairs if count)
            columns[column.name] = _sha256("column", column.name, *(found if len(found) > 1 else [rows]))
        return {"rows": rows, "columns": columns}


def _meanings(column: Column) -> list[str]:
    """What each code stands for: a value, a bin by its ends, or that there is none."""
    if column.values or column.open:
        return [plain_text(value) for value in column.values]
    bins = [f"{low!r} to {high!r}" for low, high in zip(column.cuts[:-1], column.cuts[1:], strict=True)]
    codes = [f"code {plain_text(raw)}" for raw, _ in column.codes]
    return bins + codes + ["missing"] * (column.missing == OWN_CATEGORY)


def _numbers(name: str, meanings: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The number of each cell's meaning, shape (meanings, LANES)."""
    digests = b"".join(bytes.fromhex(_sha256("cell", name, meaning)) for meaning in meanings)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, LANES)


def _mixed(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A nonlinear permutation of 64 bits: without it, swapping values between rows would not show."""
    rows = (rows ^ (rows >> np.uint64(30))) * _MIX[0]
    rows = (rows ^ (rows >> np.uint64(27))) * _MIX[1]
    return rows ^ (rows >> np.uint64(31))


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
