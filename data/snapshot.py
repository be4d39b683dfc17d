"""Digests of a snapshot of rows.

A snapshot is treated as a multiset of rows, so the digests do not depend on the order of the rows, on the file or on
its format. A row is the set of its declared values by column name. The order of the columns, their labels and the way
in which a cell was written are therefore irrelevant. The hashes of the values of a row are added and mixed, and the
results are summed over the rows (256 bits in four lanes of 64 bits). Equal tables always have equal digests. Different
tables have equal digests with a probability of about 2⁻²⁵⁶.

The digests depend on private rows and have no key, so an attacker could compare them with the digests of candidate
tables. They stay in the private working folder. Only keyed hashes of the digests are published (see
`equistrata.privacy.ledger.fingerprint`).
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
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64 (Steele, Lea and Flood 2014)


class Snapshot:
    """The digests of all rows in one or more tables.

    Parameters
    ----------
    schema : Schema
        The schema of the tables. The values of an open column are added with `extend`.
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
        """Add values to a column, which get the codes after the existing ones."""
        place = [column.name for column in self._columns].index(name)
        self._meanings[place] += values
        self._numbers[place] = np.concatenate([self._numbers[place], _numbers(name, values)])
        self._counts[place] = np.append(self._counts[place], np.zeros(len(values), dtype=np.int64))

    def add(self, table: CodedTable) -> None:
        """Add the rows of a table with this schema."""
        for start in range(0, len(table), CHUNK_ROWS):
            codes = table.codes[start : start + CHUNK_ROWS]
            rows = np.zeros((len(codes), LANES), dtype=np.uint64)
            for numbers, counts, column in zip(self._numbers, self._counts, codes.T, strict=True):
                rows += numbers[column]
                counts += np.bincount(column, minlength=len(counts))
            self._sum += _mixed(rows).sum(axis=0, dtype=np.uint64)

    def digests(self) -> dict[str, Any]:
        """Return the digests of the rows and of the columns.

        If a column has a single value, it contains no more information than the number of rows. Its digest therefore
        includes the digest of the rows.

        Returns
        -------
        dict
            The entry `rows` is the digest of the whole rows. The entry `columns` contains the digest of each column by
            name, which depends on the values and their counts.
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
    """Return the meaning of each code, which is a value, the ends of a bin, or a missing value."""
    if column.values or column.open:
        return [plain_text(value) for value in column.values]
    bins = [f"{low!r} to {high!r}" for low, high in zip(column.cuts[:-1], column.cuts[1:], strict=True)]
    codes = [f"code {plain_text(raw)}" for raw, _ in column.codes]
    return bins + codes + ["missing"] * (column.missing == OWN_CATEGORY)


def _numbers(name: str, meanings: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the hash of the meaning of each code, shape (meanings, LANES)."""
    digests = b"".join(bytes.fromhex(_sha256("cell", name, meaning)) for meaning in meanings)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, LANES)


def _mixed(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply a nonlinear permutation of 64 bits, so that the digest changes if values are swapped between rows."""
    rows = (rows ^ (rows >> np.uint64(30))) * _MIX[0]
    rows = (rows ^ (rows >> np.uint64(27))) * _MIX[1]
    return rows ^ (rows >> np.uint64(31))


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
