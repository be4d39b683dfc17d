"""At most so many rows of each unit, chosen by a keyed hash, before anything else is done to a row.

`UsedRows` reads a table twice. The first pass says which rows are used, by keyed hashes of raw cells. The second one
hands these rows out, and nothing that is left of the others. So a row that is not used has no part in anything: not in
a value that is found, a code, a count, a digest, or a refusal of what does not fit a schema.

Which rows of a unit are used follows from the key and the unit's own rows: not from other units, nor from the order of
rows. So neighbouring tables, by one unit, are neighbours afterwards, by at most `at_most` rows. How many rows were left
out is as private as the rows. See docs/proofs/units.md.

>>> ids = unit_ids(pd.Series(["a", "b", "a", "a"]), "HOUSE", b"k" * 32)
>>> chosen, _ = chosen_rows(ids, np.arange(4, dtype=np.uint64), 2, b"k" * 32)
>>> int(chosen[[0, 2, 3]].sum()), bool(chosen[1])
(2, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts
from equistrata.data.units.hashes import Hashes, Ids, contents, id_hashes, mixed, salted, unit_ids
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError

FILES = 64
_ROW = np.dtype([("ids", np.uint64, (2,)), ("content", np.uint64), ("row", np.int64)])  # of a row, in those files


def chosen_rows(
    ids: Ids, content: Hashes, at_most: int, key: bytes
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Which of n rows are used, and how many there are of each row's unit, shapes (n,).

    Used are all of a unit with up to `at_most` rows, else so many by keyed hash of its id, of a row's content, and of
    the row's number among those of its unit that are equal. All rows of a unit must be among them. Each of its rows has
    the same chance, over keys; of rows that are equal, it does not matter which.
    """
    order, sizes = _units(ids, key)
    chosen, whole = np.ones(len(ids), dtype=bool), np.empty(len(ids), dtype=np.intp)
    whole[order] = np.repeat(sizes, sizes)
    large = sizes[sizes > at_most]
    if not len(large):
        return chosen, whole
    many = order[np.repeat(sizes > at_most, sizes)]
    unit = np.repeat(np.arange(len(large), dtype=np.uint64), large)
    inner = np.lexsort((many, content[many], unit))  # equal rows of a unit one after the other, to be numbered
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


class UsedRows:
    """The rows of a table that are used, batch by batch, with at most `unit.at_most` rows of each unit.

    Args:
        read: reads the columns that the caller uses, and the unit's, from the table's start; the same rows in the same
            order each time. Called twice, or once where each row is a unit.
        unit: of privacy.
        key: secret, 32 bytes; the same key chooses the same rows. Not needed where each row is a unit.
        folder: private; it must exist. Ids rest in files there, by the hash of their unit, so memory does not grow with
            the rows.

    Attributes:
        sizes: how many units have 1, 2, … rows, used or not, and at last 2·`at_most` or more; private.

    Raises InputError where a row has no id, or no two rows may share one, and some do.
    """

    def __init__(self, read: Callable[[], Iterator[pd.DataFrame]], unit: Unit, key: bytes, folder: Path) -> None:
        self._read, self._unit = read, unit
        self.sizes: Counts = np.zeros(2 * unit.at_most, dtype=np.int64)
        self._used = None if unit.column is None else self._first_pass(unit.column, key, folder)

    def _first_pass(self, column: str, key: bytes, folder: Path) -> npt.NDArray[np.uint16]:
        """For each row of the table how many rows of its unit are used; 0 where the row is not."""
        parts, rows, most = [folder / f"units{i}" for i in range(FILES)], 0, self._unit.at_most
        for frame in self._read():
            ids = unit_ids(frame[column], column, key)
            entries = np.empty(len(ids), dtype=_ROW)
            entries["ids"], entries["content"] = ids, contents(frame, key)
            entries["row"] = np.arange(rows, rows + len(ids))
            rows += len(ids)
            for i, part in split_by_hash(ids, key):
                with parts[i].open("ab") as file:
                    file.write(entries[part].data)
        used = np.lib.format.open_memmap(folder / "used.npy", "w+", np.uint16, (rows,))
        for path in filter(Path.exists, parts):
            entries = np.fromfile(path, dtype=_ROW)
            path.unlink()
            chosen, whole = chosen_rows(entries["ids"], entries["content"], most, key)
            refuse_repeats(self._unit, chosen)
            used[entries["row"]] = np.where(chosen, np.minimum(whole, most), 0)
            rows_by_size = np.bincount(np.minimum(whole[chosen], 2 * most), minlength=2 * most + 1)[1:]
            self.sizes += rows_by_size // np.minimum(np.arange(1, 2 * most + 1), most)  # each unit has so many of them
        return used

    def batches(self) -> Iterator[tuple[pd.DataFrame, Counts]]:
        """The rows that are used, in their order, with how many rows of each row's unit are, shape (n,).

        Raises InputError where the table is not the one of the first pass.
        """
        done = 0
        for frame in self._read():
            if self._used is None:
                yield frame, np.ones(len(frame), dtype=np.intp)
                continue
            used = self._used[done : done + len(frame)].astype(np.intp)
            done += len(frame)
            if len(used) < len(frame):
                raise _changed()
            if used.any():
                yield _only(frame, used > 0), used[used > 0]
        if self._used is not None and done < len(self._used):
            raise _changed()


def _only(frame: pd.DataFrame, rows: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """These rows of a frame; categories of others are gone."""
    kept = frame.loc[rows].reset_index(drop=True)
    for name, cells in kept.items():
        if isinstance(cells.dtype, pd.CategoricalDtype):
            kept[name] = cells.cat.remove_unused_categories()
    return kept


def _changed() -> InputError:
    return InputError("the input changed while it was read; start again once whatever writes it has ended")


def split_by_hash(ids: Ids, key: bytes) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """The places of rows by one of FILES parts, each with at least one: all rows of a unit are in one part."""
    parts = (id_hashes(ids, key) >> np.uint64(58)).astype(np.uint8)
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=FILES))
    for i, (start, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        if end > start:
            yield i, order[start:end]
