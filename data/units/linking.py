"""Rows of two tables that name the same person, linked by an id column: how often each code was followed by which.

The id is used for this alone and is never released. What comes out are exact joint counts, which are private, for the
owner and a noise source alone. A person who is in both tables with one row each is in one cell of each column's counts,
and one who is in one of them only is in none. So a person who is added to, or removed from, either table or both
changes each column's counts by one at most. See docs/proofs/panel.md.

Rows rest in files by the hash of their id, in the private working folder, so memory does not grow with the rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts
from equistrata.data.units.bounding import FILES, split_by_hash
from equistrata.data.units.hashes import Ids, id_hashes, unit_ids
from equistrata.errors import InputError

BEFORE, NOW = "before", "now"


class Linking:
    """The rows of two tables, which come in batches.

    Args:
        folder: private; it must exist.
        name: of the column that names persons, in both tables.
        width: how many columns of codes come with each row.
    """

    def __init__(self, folder: Path, name: str, width: int) -> None:
        self._folder, self._name, self._key = folder, name, secrets.token_bytes(32)
        self._type = np.dtype([("ids", np.uint64, (2,)), ("codes", np.uint32, (width,))])

    def add(self, table: str, cells: pd.Series, codes: npt.NDArray[np.unsignedinteger[Any]]) -> None:
        """Take in n rows of one of the tables: their ids, and their codes, shape (n, width).

        Raises InputError where an id is empty.
        """
        rows = np.empty(len(cells), dtype=self._type)
        rows["ids"], rows["codes"] = person_ids(cells, self._name, self._key), codes
        for i, part in split_by_hash(rows["ids"], self._key):
            with self._file(table, i).open("ab") as file:
                file.write(np.ascontiguousarray(rows[part]).data)

    def joint(self, sizes: Sequence[int]) -> list[Counts]:
        """For each column of codes, of so many sizes: linked persons by their code before (axis 0) and now (axis 1).

        What was taken in is gone afterwards. Private: of sensitivity 1 each, by persons.

        Raises InputError where an id repeats within a table.
        """
        counts = [np.zeros((size, size), dtype=np.int64) for size in sizes]
        for i in range(FILES):
            then, now = (self._read(table, i) for table in (BEFORE, NOW))
            hashes = [id_hashes(rows["ids"], self._key) for rows in (then, now)]
            alike = [_repeats(each) for each in hashes]
            self._refuse_repeats(BEFORE, then["ids"], alike[0])
            self._refuse_repeats(NOW, now["ids"], alike[1])
            _, first, second = np.intersect1d(hashes[0], hashes[1], assume_unique=not any(alike), return_indices=True)
            if any(alike) or (then["ids"][first] != now["ids"][second]).any():  # two ids share a hash
                _, first, second = np.intersect1d(_whole(then["ids"]), _whole(now["ids"]), True, return_indices=True)
            for column, each in enumerate(counts):
                size = len(each)
                cells = then["codes"][first, column].astype(np.int64) * size + now["codes"][second, column]
                each += np.bincount(cells, minlength=size * size).reshape(size, size)
        return counts

    def _read(self, table: str, i: int) -> npt.NDArray[Any]:
        """One file's rows."""
        path = self._file(table, i)
        rows = np.fromfile(path, dtype=self._type) if path.exists() else np.empty(0, dtype=self._type)
        path.unlink(missing_ok=True)
        return rows

    def _refuse_repeats(self, table: str, ids: Ids, maybe: bool) -> None:
        if maybe and _repeats(_whole(ids)):
            when = "this month's table" if table == NOW else "the month before's table"
            raise InputError(
                f"values of the panel's column {self._name!r} repeat in {when}, but they link a person's one row of a "
                "month to that of the next; mend the ids, or leave the panel out"
            )

    def _file(self, table: str, i: int) -> Path:
        return self._folder / f"linked_{table}_{i}"


def _whole(ids: Ids) -> npt.NDArray[Any]:
    """The ids as one value each."""
    return np.ascontiguousarray(ids).view([("one", np.uint64), ("two", np.uint64)]).ravel()


def _repeats(values: npt.NDArray[Any]) -> bool:
    return len(np.unique(values)) < len(values)


def person_ids(cells: pd.Series, name: str, key: bytes) -> Ids:
    """128 bits for each cell, the same whether a table holds an id as a number or as text.

    >>> texts, numbers = pd.Series(["7", "8"]), pd.Series([7.0, 8.0])
    >>> bool((person_ids(texts, "ID", b"k" * 32) == person_ids(numbers, "ID", b"k" * 32)).all())
    True
    """
    empty = InputError(
        f"the panel's column {name!r} has empty cells; give each row the id of its person, or leave the panel out"
    )
    if cells.isna().any():
        raise empty
    places, distinct = pd.factorize(cells)
    texts = pd.Series([_text(value) for value in distinct], dtype="string").str.strip()
    if (texts == "").any():
        raise empty
    return unit_ids(texts, name, key)[places]


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)
