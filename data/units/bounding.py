"""At most so many rows of each unit, chosen by a keyed hash; in memory that does not grow with the rows.

Which rows of a unit are used depends on the key and on its own rows: not on other units, nor on the order of rows. So
neighbouring tables, by one unit, are neighbours afterwards, by at most `at_most` rows. How many rows were left out is
as private as the rows.

Rows rest in files by the hash of their unit's id, in the private working folder, and come back a file at a time.

>>> ids = unit_ids(pd.Series(["a", "b", "a", "a"]), "HOUSE", b"k" * 32)
>>> chosen = chosen_rows(ids, contents([np.arange(4)], b"k" * 32), 2, b"k" * 32)
>>> int(chosen[[0, 2, 3]].sum()), bool(chosen[1])
(2, True)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError

Ids = npt.NDArray[np.uint64]  # (n, 2): 128 bits for each row
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]

FILES = 64
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64 (Steele, Lea and Flood 2014)


def unit_ids(cells: pd.Series, name: str, key: bytes) -> Ids:
    """128 bits for each cell of a column that names units: equal for equal cells, else different.

    Numbers are their own 64 bits. Texts, without blanks at their ends, get two keyed hashes (SipHash): two units are
    mistaken for one with a chance below 2⁻⁸⁰ in a table of 2²⁴ units. Raises InputError where a cell is empty.
    """
    if cells.isna().any():
        raise InputError(
            f"unit column {name!r} has empty cells; give each of these rows the id of its unit, or an id of its own"
        )
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        kind = np.dtype({"u": np.uint64, "i": np.int64}.get(cells.dtype.kind, np.float64))
        bits = (cells.to_numpy(dtype=kind) + kind.type(0)).view(np.uint64)  # −0.0 is 0.0
        return np.stack([bits, np.zeros_like(bits)], axis=1)
    return text_hashes(cells, key + b"id 1", key + b"id 2")


def text_hashes(cells: pd.Series, *keys: bytes) -> Hashes:
    """64 bits of each cell's text without blanks at its ends, by each key (SipHash), shape (n, keys)."""
    places, distinct = pd.factorize(cells)
    texts = np.array([*(str(cell).strip() for cell in distinct), ""], dtype=object)  # the last of absent cells
    salts = [hashlib.sha256(key).hexdigest()[:16] for key in keys]
    hashes = [pd.util.hash_array(texts, hash_key=salt, categorize=False) for salt in salts]
    return np.asarray(np.stack(hashes, axis=1)[places])


def contents(arrays: Sequence[Rows], key: bytes) -> Hashes:
    """64 keyed bits of each row's content, shape (n,): n entries or rows of each array, by their bytes."""
    found = np.full(len(arrays[0]), _number(key, b"content"))
    for array in arrays:
        for column in array.reshape(len(array), -1).T:
            found = _mixed(found + column.astype(np.float64 if column.dtype.kind == "f" else np.uint64).view(np.uint64))
    return found


def chosen_rows(ids: Ids, content: Hashes, at_most: int, key: bytes) -> npt.NDArray[np.bool_]:
    """Which of these rows are used, shape (n,): all of a unit with up to `at_most` rows, else so many by keyed hash.

    All rows of a unit must be among them. Each of its rows has the same chance, over keys; of rows that are equal, it
    does not matter which.
    """
    order, starts = _runs(ids[:, 0], ids[:, 1])
    sizes = np.diff(np.append(np.flatnonzero(starts), len(ids)))
    chosen = np.ones(len(ids), dtype=bool)
    large = sizes[sizes > at_most]
    if not len(large):
        return chosen
    many = order[np.repeat(sizes > at_most, sizes)]
    unit = np.repeat(np.arange(len(large), dtype=np.uint64), large)
    inner, first = _runs(unit, content[many])  # equal rows of a unit one after the other, to be numbered
    equal = np.empty_like(unit)
    equal[inner] = _places(np.diff(np.append(np.flatnonzero(first), len(inner))))
    priority = _mixed(_hashed(ids[many], key) + _mixed(content[many] + _mixed(equal + _number(key, b"equal"))))
    kept = np.empty(len(unit), dtype=bool)
    kept[np.lexsort((priority, unit))] = _places(large) < at_most
    chosen[many] = kept
    return chosen


def share_of_units(ids: Ids, share: float, key: bytes) -> npt.NDArray[np.bool_]:
    """For each row whether its unit is one of a share of all units, by keyed hash, shape (n,)."""
    return np.asarray(_mixed(_hashed(ids, key) + _number(key, b"coin")) < np.uint64(int(share * 2**64)))


def _runs(one: Hashes, two: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """The order by two keys, and where in it a new pair of them begins."""
    order = np.lexsort((two, one))
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = (np.diff(one[order]) != 0) | (np.diff(two[order]) != 0)
    return order, starts


def _places(sizes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """0 to size − 1 for each size, one after the other."""
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def rows_of_units(batches: Iterable[pd.Series], name: str) -> Counts:
    """How many units have 1, 2, … rows, shape (most rows,): exact, private, and for the table's owner alone.

    Args:
        batches: the cells of the column `name`, which names units. Raises InputError where one is empty.
    """
    key = bytes(32)
    ids = np.concatenate([np.zeros((0, 2), np.uint64), *(unit_ids(cells, name, key) for cells in batches)])
    starts = np.flatnonzero(_runs(ids[:, 0], ids[:, 1])[1])
    return np.asarray(np.bincount(np.diff(np.append(starts, len(ids))))[1:])


class Bounding:
    """Rows that come in batches, and go out in others with at most `unit.at_most` rows of each unit.

    Args:
        folder: private; it must exist.
        key: secret, 32 bytes; the same key chooses the same rows.
    """

    def __init__(self, folder: Path, unit: Unit, key: bytes) -> None:
        self._folder, self._unit, self._key = folder, unit, key
        self._type: np.dtype[Any] | None = None

    def add(self, ids: Ids, content: Hashes, arrays: Sequence[Rows]) -> None:
        """Take in n rows: the ids of their units, their `contents`, and arrays with an entry or a row for each.

        Arrays of all batches have the same types and widths.
        """
        fields: list[Any] = [("ids", np.uint64, (2,)), ("content", np.uint64)]
        fields += [(f"f{i}", array.dtype, array.shape[1:]) for i, array in enumerate(arrays)]
        self._type = np.dtype(fields)
        rows = np.empty(len(ids), dtype=self._type)
        rows["ids"], rows["content"] = ids, content
        for i, array in enumerate(arrays):
            rows[f"f{i}"] = array
        files = (_hashed(ids, self._key) >> np.uint64(58)).astype(np.intp)
        order = np.argsort(files, kind="stable")
        ends = np.cumsum(np.bincount(files, minlength=FILES))
        rows = rows[order]
        for i, (start, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
            if end > start:
                with self._file(i).open("ab") as file:
                    file.write(rows[start:end].data)

    def bounded(self) -> Iterator[list[Rows]]:
        """The arrays of the rows that are used, some units at a time, after how many rows of each row's unit are.

        What was taken in is gone afterwards.

        Raises InputError where no two rows may share an id, and some do.
        """
        for i in range(FILES):
            path = self._file(i)
            if self._type is None or not path.exists():
                continue
            rows = np.fromfile(path, dtype=self._type)
            path.unlink()
            chosen = chosen_rows(rows["ids"], rows["content"], self._unit.at_most, self._key)
            if self._unit.unique and not chosen.all():
                raise InputError(
                    f"values of unit column {self._unit.column!r} repeat, but no two rows may share one; say how many "
                    "rows of a unit are used at most (at_most), or mend the ids"
                )
            rows = rows[chosen]
            order, starts = _runs(rows["ids"][:, 0], rows["ids"][:, 1])
            sizes = np.diff(np.append(np.flatnonzero(starts), len(rows)))
            used = np.empty(len(rows), dtype=np.intp)
            used[order] = np.repeat(sizes, sizes)
            yield [used, *(np.ascontiguousarray(rows[name]) for name in (self._type.names or ())[2:])]

    def _file(self, i: int) -> Path:
        return self._folder / f"units{i}"


def _hashed(ids: Ids, key: bytes) -> Hashes:
    """64 keyed bits of each unit's id."""
    return _mixed(_mixed(ids[:, 0] + _number(key, b"lane 0")) + ids[:, 1] + _number(key, b"lane 1"))


def _number(key: bytes, salt: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(key + salt).digest()[:8], "big"))


def _mixed(numbers: Hashes) -> Hashes:
    """A permutation of 64 bits in which each bit changes half of the others."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
