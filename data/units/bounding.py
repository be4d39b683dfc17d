"""At most so many rows of each unit, chosen by a keyed hash; in memory that does not grow with the rows.

Which rows of a unit are used depends on the key and on its own rows: not on other units, nor on the order of rows. So
neighbouring tables, by one unit, are neighbours afterwards, by at most `at_most` rows. How many rows were left out is
as private as the rows.

Rows rest in files by the hash of their unit's id, in the private working folder, and come back a file at a time.

>>> ids = unit_ids(pd.Series(["a", "b", "a", "a"]), "HOUSE", b"k" * 32)
>>> chosen, _ = chosen_rows(ids, contents([np.arange(4)], b"k" * 32), 2, b"k" * 32)
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
import pyarrow as pa
import pyarrow.compute as pc

from equistrata.arrays import Counts
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError

Ids = npt.NDArray[np.uint64]  # (n, 2): 128 bits for each row
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]

FILES = 64
LONGEST = 64  # bytes of a text that `_multilinear` reads
_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n bytes of a word
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64 (Steele, Lea and Flood 2014)


def unit_ids(cells: pd.Series, name: str, key: bytes) -> Ids:
    """128 bits for each cell of a column that names units: equal for equal cells, else different.

    Numbers are their own 64 bits, and texts of up to 15 bytes their own 128, with their length. Longer ones get 127
    keyed bits (`_multilinear`, or SipHash twice): two units are mistaken for one with a chance below 2⁻⁸⁰ in a table of
    2²⁴ units.
    Blanks at both ends of a text do not count. Raises InputError where a cell is empty or blank, or is no single id.
    """
    if cells.isna().any():
        raise _no_id(name)
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        kind = np.dtype({"u": np.uint64, "i": np.int64}.get(cells.dtype.kind, np.float64))
        numbers = cells.to_numpy(dtype=kind) + kind.type(0)  # −0.0 is 0.0
        if kind.kind == "f" and (np.abs(numbers) >= 2.0 ** _digits(cells)).any():
            raise InputError(
                f"unit column {name!r} has numbers with a point that are too large to tell ids apart; store it as text "
                "or as whole numbers"
            )
        return np.stack([numbers.view(np.uint64), np.zeros(len(numbers), np.uint64)], axis=1)
    if isinstance(cells.dtype, pd.StringDtype):
        return _text_ids(_texts(cells), name, key)
    try:
        places, distinct = pd.factorize(cells)
    except TypeError:
        raise InputError(f"unit column {name!r} has lists or mappings in its cells; give each row one id") from None
    return _text_ids(_texts(distinct), name, key)[places]


def _digits(cells: pd.Series) -> int:
    """Of numbers with a point: up to 2 to the power of these they tell whole numbers apart."""
    stored: Any = cells.dtype
    bits: Any = np.dtype(getattr(stored, "numpy_dtype", stored))
    return int(np.finfo(bits).nmant) + 1 if bits.kind == "f" else 53


def _no_id(name: str) -> InputError:
    return InputError(
        f"unit column {name!r} has empty cells; give each of these rows the id of its unit, or an id of its own"
    )


def _text_ids(texts: pa.LargeStringArray, name: str, key: bytes) -> Ids:
    """See `unit_ids`."""
    if not len(texts):
        return np.zeros((0, 2), np.uint64)
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    if not lengths.all():
        raise _no_id(name)
    held = np.zeros(ends[-1] - ends[0] + LONGEST, np.uint8)  # so many bytes are read of any text
    held[:-LONGEST] = np.frombuffer(texts.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    words = np.ndarray((len(held) - 7,), "<u8", held, strides=(1,))  # the 8 bytes from each place on
    ids = np.stack([words[starts], words[starts + 8]], axis=1)
    ids &= _BYTES[np.clip(lengths[:, None] - [0, 8], 0, 8)]
    ids[:, 1] |= lengths.astype(np.uint64) << np.uint64(56)
    if (long := lengths > 15).any():
        ids[long] = _multilinear(held, starts[long], lengths[long], key)
    if (longer := lengths > LONGEST).any():
        few = texts.filter(pa.array(longer)).dictionary_encode()
        ids[longer] = _hashed_texts(few.dictionary, key + b"id 1", key + b"id 2")[few.indices.to_numpy()]
    ids[long, 1] |= np.uint64(1 << 63)
    return ids


def _multilinear(held: npt.NDArray[np.uint8], starts: Counts, lengths: Counts, key: bytes) -> Ids:
    """128 keyed bits of each text, given where it starts in `held` and how many bytes it has; of LONGEST at most.

    Four times the upper half of m₀·length + Σᵢ mᵢ·wᵢ mod 2⁶⁴, for the text's words w of 32 bits: strongly universal
    (Lemire and Kaser, arXiv:1202.4961, theorem 3.1), so two texts have the same bits with a chance of 2⁻¹²⁸.
    """
    words = np.ndarray((len(held) - 3,), "<u4", held, strides=(1,))  # the 4 bytes from each place on
    count = -(-min(int(lengths.max()), LONGEST) // 4)
    drawn = hashlib.shake_256(key + b"multilinear").digest(8 * 4 * (1 + LONGEST // 4))
    first, *factors = np.frombuffer(drawn, "<u8").reshape(-1, 4)
    sums = first[:, None] * lengths.astype(np.uint64)
    for i, each in enumerate(factors[:count]):
        word = words[starts + 4 * i] & _BYTES[np.clip(lengths - 4 * i, 0, 4)]
        for own, factor in zip(sums, each, strict=True):  # line by line: twice as fast as all at once
            own += word * factor
    high = np.uint64(32)
    return np.stack([(sums[lane] >> high) << high | sums[lane + 1] >> high for lane in (0, 2)], axis=1)


def text_hashes(cells: pd.Series, *keys: bytes) -> Hashes:
    """64 bits of each cell's text without blanks at its ends, by each key (SipHash), shape (n, keys)."""
    places, distinct = pd.factorize(cells)
    texts = pa.concat_arrays([_texts(distinct), pa.array([""], pa.large_string())])  # the last of absent cells
    return np.asarray(_hashed_texts(texts, *keys)[places])


def _texts(cells: pd.Series | pd.Index | Rows) -> pa.LargeStringArray:
    """Without blanks at their ends."""
    texts = cells if isinstance(cells.dtype, pd.StringDtype) else [str(cell) for cell in cells]
    held = pa.array(texts, type=pa.large_string())  # in parts, where a column was put together from parts
    return pc.utf8_trim_whitespace(held.combine_chunks() if isinstance(held, pa.ChunkedArray) else held)


def _hashed_texts(texts: pa.LargeStringArray, *keys: bytes) -> Hashes:
    held = texts.to_numpy(zero_copy_only=False)
    salts = [hashlib.sha256(key).hexdigest()[:16] for key in keys]
    return np.stack([pd.util.hash_array(held, hash_key=salt, categorize=False) for salt in salts], axis=1)


def contents(arrays: Sequence[Rows], key: bytes) -> Hashes:
    """64 keyed bits of each row's content, shape (n,): n entries or rows of each array, by their bytes."""
    found = np.full(len(arrays[0]), _number(key, b"content"))
    for array in arrays:
        columns = array.reshape(len(array), -1)
        if columns.dtype.itemsize == 1:  # eight at once
            padded = np.zeros((len(columns), -(-columns.shape[1] // 8) * 8), np.uint8)
            padded[:, : columns.shape[1]] = columns
            columns = padded.view(np.uint64)
        for column in columns.T:
            found = _mixed(found + column.astype(np.float64 if column.dtype.kind == "f" else np.uint64).view(np.uint64))
    return found


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
    priority = _mixed(id_hashes(ids[many], key) + _mixed(content[many] + _mixed(equal + _number(key, b"equal"))))
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
    return np.asarray(_mixed(id_hashes(ids, key) + _number(key, b"coin")) < np.uint64(int(share * 2**64)))


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


def id_hashes(ids: Ids, key: bytes) -> Hashes:
    """64 keyed bits of each unit's id; two ids may share them, with a chance of 2⁻⁶⁴."""
    return _mixed(_mixed(ids[:, 0] + _number(key, b"lane 0")) + ids[:, 1] + _number(key, b"lane 1"))


def _number(key: bytes, salt: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(key + salt).digest()[:8], "big"))


def _mixed(numbers: Hashes) -> Hashes:
    """A permutation of 64 bits in which each bit changes half of the others."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
