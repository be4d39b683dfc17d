"""At most so many rows of each unit, chosen by a keyed hash; in memory that does not grow with the rows.

Which rows of a unit are used depends on the key and on its own rows: not on other units, nor on the order of rows. So
neighbouring tables, by one unit, are neighbours afterwards, by at most `at_most` rows. How many rows were left out is
as private as the rows.

Rows rest in files by the hash of their unit's id, in the private working folder, and come back a file at a time.

>>> from equistrata.data.units.hashes import contents
>>> ids = unit_ids(pd.Series(["a", "b", "a", "a"]), "HOUSE", b"k" * 32)
>>> chosen, _ = chosen_rows(ids, contents([np.arange(4)], b"k" * 32), 2, b"k" * 32)
>>> int(chosen[[0, 2, 3]].sum()), bool(chosen[1])
(2, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts
from equistrata.data.units.hashes import Hashes, Ids, Rows, id_hashes, mixed, salted, unit_ids
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError

FILES = 64


def chosen_rows(
    ids: Ids, content: Hashes, at_most: int, key: bytes
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Which of n rows are used, and how many there are of each row's unit, shapes (n,).

    Used are all of a unit with up to `at_most` rows, else so many by keyed hash. All rows of a unit must be among
    them. Each of its rows has the same chance, over keys; of rows that are equal, it does not matter which.
    """
    order, sizes = _units(ids, key)
    chosen, whole = np.ones(len(ids), dtype=bool), np.empty(len(ids), dtype=np.intp)
    whole[order] = np.repeat(sizes, sizes)
    large = sizes[sizes > at_most]
    if not len(large):
        return chosen, whole
    many = order[np.repeat(sizes > at_most, sizes)]
    unit = np.repeat(np.arange(len(large), dtype=np.uint64), large)
    inner = np.lexsort((content[many], unit))  # equal rows of a unit one after the other, to be numbered
    equal = np.empty_like(unit)
    equal[inner] = _places(_runs(unit[inner], content[many][inner]))
    priority = mixed(id_hashes(ids[many], key) + mixed(content[many] + mixed(equal + salted(key, b"equal"))))
    kept = np.empty(len(unit), dtype=bool)
    kept[np.lexsort((priority, unit))] = _places(large) < at_most
    chosen[many] = kept
    return chosen, whole


def refuse_repeats(unit: Unit, chosen: npt.NDArray[np.bool_]) -> None:
    """Raise InputError where no two rows may share a unit, and some do: not all rows were chosen."""
    if unit.unique and not chosen.all():
        raise InputError(
            f"values of unit column {unit.column!r} repeat, but no two rows may share one; say how many rows of a unit "
            "are used at most (at_most), or mend the ids"
        )


def share_of_units(ids: Ids, share: float, key: bytes) -> npt.NDArray[np.bool_]:
    """For each row whether its unit is one of a share of all units, by keyed hash, shape (n,)."""
    return np.asarray(mixed(id_hashes(ids, key) + salted(key, b"coin")) < np.uint64(int(share * 2**64)))


def _units(ids: Ids, key: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """An order of rows by their units, and how many rows of each unit there are in it."""
    hashed = id_hashes(ids, key)  # one key sorts much faster than two
    order = np.argsort(hashed)
    sizes = _runs(hashed[order])
    if len(sizes) != len(both := _runs(*ids[order].T)):  # two ids share a hash
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        both = _runs(*ids[order].T)
    return order, both


def _runs(*sorted_keys: Hashes) -> npt.NDArray[np.intp]:
    """How many equal entries follow one another, in all keys at once."""
    starts = np.ones(len(sorted_keys[0]), dtype=bool)
    starts[1:] = np.any([key[1:] != key[:-1] for key in sorted_keys], axis=0)
    return np.diff(np.append(np.flatnonzero(starts), len(starts)))


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
    return np.asarray(np.bincount(_units(ids, key)[1])[1:])


class Bounding:
    """Rows that come in batches, and go out in others with at most `unit.at_most` rows of each unit.

    Args:
        folder: private; it must exist.
        key: secret, 32 bytes; the same key chooses the same rows.

    Attributes:
        sizes: how many units have 1, 2, … rows, used or not, and at last 2·`at_most` or more; private, and complete
            once all rows have gone out.
    """

    def __init__(self, folder: Path, unit: Unit, key: bytes) -> None:
        self._folder, self._unit, self._key = folder, unit, key
        self._type: np.dtype[Any] | None = None
        self.sizes: Counts = np.zeros(2 * unit.at_most, dtype=np.int64)

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
        for i, part in split_by_hash(ids, self._key):
            with self._file(i).open("ab") as file:
                file.write(np.ascontiguousarray(rows[part]).data)

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
            most = self._unit.at_most
            chosen, whole = chosen_rows(rows["ids"], rows["content"], most, self._key)
            refuse_repeats(self._unit, chosen)
            used = np.minimum(whole[chosen], most)
            rows_by_size = np.bincount(np.minimum(whole[chosen], 2 * most), minlength=2 * most + 1)[1:]
            self.sizes += rows_by_size // np.minimum(np.arange(1, 2 * most + 1), most)  # each unit has so many of them
            yield [used, *(np.ascontiguousarray(rows[name][chosen]) for name in (self._type.names or ())[2:])]

    def _file(self, i: int) -> Path:
        return self._folder / f"units{i}"


def split_by_hash(ids: Ids, key: bytes) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """The places of rows by one of FILES parts, each with at least one: all rows of a unit are in one part."""
    parts = (id_hashes(ids, key) >> np.uint64(58)).astype(np.uint8)
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=FILES))
    for i, (start, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        if end > start:
            yield i, order[start:end]
