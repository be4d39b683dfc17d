"""Selection of at most a fixed number of rows of each unit by a keyed hash.

The selection is the first step on the rows. The class `UsedRows` reads a table twice. The first pass determines the
rows that are used, from keyed hashes of the raw cells. The second pass returns only these rows. A row that is not used
therefore does not affect the values that are found, the codes, the counts, the digests, or the errors about the schema.

The selected rows of a unit only depend on the key and on the rows of this unit. They do not depend on other units or on
the order of the rows. If two tables differ by one unit, the selected tables therefore differ by at most `at_most` rows.
The number of rows that are left out is private. The proof is in docs/proofs/units.md.

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
# The record of a row in the files of the first pass.
_ROW = np.dtype([("ids", np.uint64, (2,)), ("content", np.uint64), ("row", np.int64)])


def chosen_rows(
    ids: Ids, content: Hashes, at_most: int, key: bytes
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Select at most `at_most` rows of each unit.

    All rows of a unit are selected if there are at most `at_most` of them. Otherwise, the rows with the smallest keyed
    hashes are selected. The hash depends on the id of the unit, on the content of the row, and on the position of the
    row among the rows of the unit that have the same content. Each row of a unit has the same probability of being
    selected over the choice of the key. Rows with the same content are interchangeable.

    Parameters
    ----------
    ids : ndarray of uint64
        The id of the unit of each row, shape (n, 2). All rows of a unit must be included.
    content : ndarray of uint64
        The hash of the content of each row, shape (n,).
    at_most : int
        The maximum number of rows of a unit.
    key : bytes
        The secret key.

    Returns
    -------
    chosen : ndarray of bool
        True for each row that is selected, shape (n,).
    sizes : ndarray of int
        The number of rows of the unit of each row, shape (n,).
    """
    order, sizes = _units(ids, key)
    chosen, whole = np.ones(len(ids), dtype=bool), np.empty(len(ids), dtype=np.intp)
    whole[order] = np.repeat(sizes, sizes)
    large = sizes[sizes > at_most]
    if not len(large):
        return chosen, whole
    many = order[np.repeat(sizes > at_most, sizes)]
    unit = np.repeat(np.arange(len(large), dtype=np.uint64), large)
    inner = np.lexsort((many, content[many], unit))  # equal rows of a unit are adjacent, so that they can be numbered
    equal = np.empty_like(unit)
    equal[inner] = _places(_runs(unit[inner], content[many][inner]))
    priority = mixed(id_hashes(ids[many], key) + mixed(content[many] + mixed(equal + salted(key, b"equal"))))
    kept = np.empty(len(unit), dtype=bool)
    kept[np.lexsort((priority, unit))] = _places(large) < at_most
    chosen[many] = kept
    return chosen, whole


def refuse_repeats(unit: Unit, chosen: npt.NDArray[np.bool_]) -> None:
    """Raise an InputError if the rows of a unit must be unique and some rows were not selected."""
    if unit.unique and not chosen.all():
        raise InputError(
            f"unit column {unit.column!r} has the same value in several rows, but each unit must have only one "
            "row; declare how many rows of a unit are used at most (at_most), or correct the ids"
        )


def share_of_units(ids: Ids, share: float, key: bytes) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a random share of the units, selected by a keyed hash.

    Parameters
    ----------
    ids : ndarray of uint64
        The id of the unit of each row, shape (n, 2).
    share : float
        The share of the units, between 0 and 1.
    key : bytes
        The secret key.

    Returns
    -------
    ndarray of bool
        True for each row of a selected unit, shape (n,).
    """
    return np.asarray(mixed(id_hashes(ids, key) + salted(key, b"coin")) < np.uint64(int(share * 2**64)))


def _units(ids: Ids, key: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return an order of the rows in which the rows of a unit are adjacent, and the number of rows of each unit."""
    hashed = id_hashes(ids, key)  # it is much faster to sort by one key than by two
    order = np.argsort(hashed)
    sizes = _runs(hashed[order])
    if len(sizes) != len(both := _runs(*ids[order].T)):  # two ids share a hash
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        both = _runs(*ids[order].T)
    return order, both


def _runs(*sorted_keys: Hashes) -> npt.NDArray[np.intp]:
    """Return the lengths of the runs of equal entries, where entries are equal if they are equal in all keys."""
    starts = np.ones(len(sorted_keys[0]), dtype=bool)
    starts[1:] = np.any([key[1:] != key[:-1] for key in sorted_keys], axis=0)
    return np.diff(np.append(np.flatnonzero(starts), len(starts)))


def _places(sizes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the numbers from 0 to size − 1 for each size, as one array."""
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def rows_of_units(batches: Iterable[pd.Series], name: str) -> Counts:
    """Return the number of units that have 1, 2, … rows.

    Parameters
    ----------
    batches : iterable of Series
        The cells of the column that contains the ids of the units.
    name : str
        The name of this column.

    Returns
    -------
    ndarray of int
        The number of units for each number of rows, shape (most rows,).

    Raises
    ------
    InputError
        If a cell is empty.

    Privacy
    -------
    The counts are exact, so they are private. They must only be shown to the owner of the table.
    """
    key = bytes(32)
    ids = np.concatenate([np.zeros((0, 2), np.uint64), *(unit_ids(cells, name, key) for cells in batches)])
    return np.asarray(np.bincount(_units(ids, key)[1])[1:])


class UsedRows:
    """The rows of a table that are used, with at most `unit.at_most` rows of each unit.

    Parameters
    ----------
    read : callable
        A function that reads the table from its start and returns an iterator of data frames. The frames contain the
        columns that are used and the column of the unit. Each call must return the same rows in the same order. The
        function is called twice, or only once if each row is a unit.
    unit : Unit
        The unit of privacy.
    key : bytes
        The secret key of 32 bytes. The same key selects the same rows. It is not used if each row is a unit.
    folder : Path
        An existing private folder. The ids are stored in files in this folder, so that the memory does not grow with
        the number of rows.

    Attributes
    ----------
    sizes : ndarray of int
        The number of units that have 1, 2, … rows, including rows that are not used. The last entry is the number of
        units with 2·`at_most` or more rows. These counts are private.

    Raises
    ------
    InputError
        If a row has no id, or if the ids must be unique and an id is repeated.
    """

    def __init__(self, read: Callable[[], Iterator[pd.DataFrame]], unit: Unit, key: bytes, folder: Path) -> None:
        self._read, self._unit = read, unit
        self.sizes: Counts = np.zeros(2 * unit.at_most, dtype=np.int64)
        self._used = None if unit.column is None else self._first_pass(unit.column, key, folder)

    def _first_pass(self, column: str, key: bytes, folder: Path) -> npt.NDArray[np.uint16]:
        """Return the number of used rows of the unit of each row, or 0 if the row itself is not used."""
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
            # Divide by the number of selected rows of each unit, which counts each unit once.
            self.sizes += rows_by_size // np.minimum(np.arange(1, 2 * most + 1), most)
        return used

    def batches(self) -> Iterator[tuple[pd.DataFrame, Counts]]:
        """Iterate over the rows that are used, in their original order.

        Yields
        ------
        frame : DataFrame
            A batch of n rows.
        used : ndarray of int
            The number of used rows of the unit of each row, shape (n,).

        Raises
        ------
        InputError
            If the table changed after the first pass.
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
    """Return the selected rows of a frame, without the categories of the other rows."""
    kept = frame.loc[rows].reset_index(drop=True)
    for name, cells in kept.items():
        if isinstance(cells.dtype, pd.CategoricalDtype):
            kept[name] = cells.cat.remove_unused_categories()
    return kept


def _changed() -> InputError:
    return InputError("the input changed while it was read; start again when no other program writes to it")


def split_by_hash(ids: Ids, key: bytes) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Split the rows into parts so that all rows of a unit are in the same part.

    Parameters
    ----------
    ids : ndarray of uint64
        The id of the unit of each row, shape (n, 2).
    key : bytes
        The secret key.

    Yields
    ------
    part : int
        The number of the part, from 0 to FILES − 1. Empty parts are left out.
    rows : ndarray of int
        The indices of the rows in this part.
    """
    parts = (id_hashes(ids, key) >> np.uint64(58)).astype(np.uint8)
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=FILES))
    for i, (start, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        if end > start:
            yield i, order[start:end]
