"""Keyed hashes of the ids of units, and of what is in rows.

>>> ids = unit_ids(pd.Series(["a", "b", " a"]), "HOUSE", b"k" * 32)
>>> bool((ids[0] == ids[2]).all()), bool((ids[0] == ids[1]).all())
(True, False)
"""

from __future__ import annotations

import hashlib
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from equistrata.arrays import Counts
from equistrata.data.columns.raw import UNREADABLE, distinct_cells, is_inexact, plain_text
from equistrata.errors import InputError

Ids = npt.NDArray[np.uint64]  # (n, 2): 128 bits for each row
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]

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
            raise _inexact(name)
        return np.stack([numbers.view(np.uint64), np.zeros(len(numbers), np.uint64)], axis=1)
    if isinstance(cells.dtype, pd.StringDtype):
        return _text_ids(_texts(cells), name, key)
    places, distinct = distinct_cells(cells)
    if (places < 0).any():
        raise _no_id(name)
    if any(cell is UNREADABLE for cell in distinct):
        raise InputError(f"unit column {name!r} has lists or mappings in its cells; give each row one id")
    if any(is_inexact(cell) for cell in distinct):
        raise _inexact(name)
    return _text_ids(_texts(distinct), name, key)[places]


def _digits(cells: pd.Series) -> int:
    """Of numbers with a point: up to 2 to the power of these they tell whole numbers apart."""
    stored: Any = cells.dtype
    bits: Any = np.dtype(getattr(stored, "numpy_dtype", stored))
    return int(np.finfo(bits).nmant) + 1 if bits.kind == "f" else 53


def _inexact(name: str) -> InputError:
    return InputError(
        f"unit column {name!r} has numbers with a point that are too large to tell ids apart; store it as text or as "
        "whole numbers"
    )


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


def _texts(cells: pd.Series | pd.Index | Rows) -> pa.LargeStringArray:
    """Without blanks at their ends."""
    texts = cells if isinstance(cells.dtype, pd.StringDtype) else [plain_text(cell) for cell in cells]
    held = pa.array(texts, type=pa.large_string())  # in parts, where a column was put together from parts
    return pc.utf8_trim_whitespace(held.combine_chunks() if isinstance(held, pa.ChunkedArray) else held)


def _hashed_texts(texts: pa.LargeStringArray, *keys: bytes) -> Hashes:
    held = texts.to_numpy(zero_copy_only=False)
    salts = [hashlib.sha256(key).hexdigest()[:16] for key in keys]
    return np.stack([pd.util.hash_array(held, hash_key=salt, categorize=False) for salt in salts], axis=1)


def contents(frame: pd.DataFrame, key: bytes) -> Hashes:
    """64 keyed bits of each row's raw cells, shape (n,). What a cell adds follows from that cell alone."""
    found = np.full(len(frame), salted(key, b"content"))
    for _, cells in frame.items():
        found = mixed(found + _cell_hashes(cells, key))
    return found


def _cell_hashes(cells: pd.Series, key: bytes) -> Hashes:
    """A number has the same bits in a column of any type, and a text those of its letters."""
    kind = cells.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return _number_bits(cells)
    places, distinct = distinct_cells(cells)
    plain = [*distinct]
    texts = pa.array([*map(str, plain), ""], pa.large_string())  # the last of absent cells
    hashes = _hashed_texts(texts, key + b"cell")[:, 0]
    numbers = [i for i, cell in enumerate(plain) if isinstance(cell, Real | np.bool_)]
    hashes[numbers] = _number_bits(pd.Series([plain[i] for i in numbers], dtype=object))
    hashes[-1] = 0
    return np.asarray(hashes[places])


def _number_bits(cells: pd.Series) -> Hashes:
    """Of each number as a float, or of a whole one that a float does not tell from the next; 0 of absent ones."""
    floats = cells.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # −0.0 is 0.0
    bits = floats.view(np.uint64).copy()
    if (large := np.isfinite(floats) & (np.abs(floats) >= 2.0**53)).any():
        bits[large] = np.array([int(cell) % 2**64 for cell in cells[large].tolist()], dtype=np.uint64)
    return np.where(np.isnan(floats), np.uint64(0), mixed(bits + np.uint64(1)))


def id_hashes(ids: Ids, key: bytes) -> Hashes:
    """64 keyed bits of each unit's id; two ids may share them, with a chance of 2⁻⁶⁴."""
    return mixed(mixed(ids[:, 0] + salted(key, b"lane 0")) + ids[:, 1] + salted(key, b"lane 1"))


def salted(key: bytes, salt: bytes) -> np.uint64:
    """64 bits that follow from the key, another number for each salt."""
    return np.uint64(int.from_bytes(hashlib.sha256(key + salt).digest()[:8], "big"))


def mixed(numbers: Hashes) -> Hashes:
    """A permutation of 64 bits in which each bit changes half of the others."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
