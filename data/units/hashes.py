"""Keyed hashes of the ids of units and of the contents of rows.

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

Ids = npt.NDArray[np.uint64]  # shape (n, 2), which is 128 bits for each row
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]

LONGEST = 64  # the maximum length in bytes of a text for `_multilinear`
_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # masks of the first n bytes of a word
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64 (Steele, Lea and Flood 2014)


def unit_ids(cells: pd.Series, name: str, key: bytes) -> Ids:
    """Return 128 bits for each cell of a column of unit ids.

    Equal cells have equal bits, and different cells have different bits with high probability. A number is represented
    by its 64 bits. A text of up to 15 bytes is represented by its bytes and its length. A longer text is represented by
    127 keyed bits, from `_multilinear` or from two SipHash values. In a table with 2²⁴ units, the probability that two
    units are mistaken for one is below 2⁻⁸⁰. Blanks at both ends of a text are ignored.

    Parameters
    ----------
    cells : Series
        The cells of the column, shape (n,).
    name : str
        The name of the column for error messages.
    key : bytes
        The secret key.

    Returns
    -------
    ndarray of uint64
        The ids, shape (n, 2).

    Raises
    ------
    InputError
        If a cell is empty or blank, or if it does not contain a single id.
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
        raise InputError(f"unit column {name!r} has lists or mappings in its cells; give each row a single id")
    if any(is_inexact(cell) for cell in distinct):
        raise _inexact(name)
    return _text_ids(_texts(distinct), name, key)[places]


def _digits(cells: pd.Series) -> int:
    """Return the number of binary digits of whole numbers that floating-point numbers of this type can represent
    exactly.
    """
    stored: Any = cells.dtype
    bits: Any = np.dtype(getattr(stored, "numpy_dtype", stored))
    return int(np.finfo(bits).nmant) + 1 if bits.kind == "f" else 53


def _inexact(name: str) -> InputError:
    return InputError(
        f"unit column {name!r} has floating-point numbers that are too large to distinguish ids; store it as text or "
        "as integers"
    )


def _no_id(name: str) -> InputError:
    return InputError(
        f"unit column {name!r} has empty cells; give each of these rows the id of its unit, or an id of its own"
    )


def _text_ids(texts: pa.LargeStringArray, name: str, key: bytes) -> Ids:
    """Return the ids of texts as described in `unit_ids`."""
    if not len(texts):
        return np.zeros((0, 2), np.uint64)
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    if not lengths.all():
        raise _no_id(name)
    held = np.zeros(ends[-1] - ends[0] + LONGEST, np.uint8)  # padded, so that LONGEST bytes can be read from any start
    held[:-LONGEST] = np.frombuffer(texts.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    words = np.ndarray((len(held) - 7,), "<u8", held, strides=(1,))  # the 8 bytes that start at each byte
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
    """Return 128 keyed bits of each text.

    The bits consist of four values. Each value is the upper half of m₀·length + Σᵢ mᵢ·wᵢ mod 2⁶⁴, where the wᵢ are the
    words of 32 bits of the text and the mᵢ are drawn from the key. This family is strongly universal [1]_, so the
    probability that two texts have the same bits is 2⁻¹²⁸.

    Parameters
    ----------
    held : ndarray of uint8
        The bytes of all texts.
    starts : ndarray of int
        The index of the first byte of each text, shape (n,).
    lengths : ndarray of int
        The number of bytes of each text, shape (n,). Only the first LONGEST bytes of a text are used.
    key : bytes
        The secret key.

    References
    ----------
    .. [1] D. Lemire and O. Kaser, arXiv:1202.4961, theorem 3.1.
    """
    words = np.ndarray((len(held) - 3,), "<u4", held, strides=(1,))  # the 4 bytes that start at each byte
    count = -(-min(int(lengths.max()), LONGEST) // 4)
    drawn = hashlib.shake_256(key + b"multilinear").digest(8 * 4 * (1 + LONGEST // 4))
    first, *factors = np.frombuffer(drawn, "<u8").reshape(-1, 4)
    sums = first[:, None] * lengths.astype(np.uint64)
    for i, each in enumerate(factors[:count]):
        word = words[starts + 4 * i] & _BYTES[np.clip(lengths - 4 * i, 0, 4)]
        for own, factor in zip(sums, each, strict=True):  # a loop over the rows is twice as fast as one operation
            own += word * factor
    high = np.uint64(32)
    return np.stack([(sums[lane] >> high) << high | sums[lane + 1] >> high for lane in (0, 2)], axis=1)


def _texts(cells: pd.Series | pd.Index | Rows) -> pa.LargeStringArray:
    """Return the cells as texts without blanks at both ends."""
    texts = cells if isinstance(cells.dtype, pd.StringDtype) else [plain_text(cell) for cell in cells]
    held = pa.array(texts, type=pa.large_string())  # the array is chunked if the column was concatenated
    return pc.utf8_trim_whitespace(held.combine_chunks() if isinstance(held, pa.ChunkedArray) else held)


def _hashed_texts(texts: pa.LargeStringArray, *keys: bytes) -> Hashes:
    held = texts.to_numpy(zero_copy_only=False)
    salts = [hashlib.sha256(key).hexdigest()[:16] for key in keys]
    return np.stack([pd.util.hash_array(held, hash_key=salt, categorize=False) for salt in salts], axis=1)


def contents(frame: pd.DataFrame, key: bytes) -> Hashes:
    """Return 64 keyed bits of the raw cells of each row, shape (n,).

    The contribution of a cell only depends on this cell.
    """
    found = np.full(len(frame), salted(key, b"content"))
    for _, cells in frame.items():
        found = mixed(found + _cell_hashes(cells, key))
    return found


def _cell_hashes(cells: pd.Series, key: bytes) -> Hashes:
    """Return the hash of each cell, which does not depend on the type of the column."""
    kind = cells.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return _number_bits(cells)
    places, distinct = distinct_cells(cells)
    plain = [*distinct]
    texts = pa.array([*map(str, plain), ""], pa.large_string())  # the last entry is for absent cells
    hashes = _hashed_texts(texts, key + b"cell")[:, 0]
    numbers = [i for i, cell in enumerate(plain) if isinstance(cell, Real | np.bool_)]
    hashes[numbers] = _number_bits(pd.Series([plain[i] for i in numbers], dtype=object))
    hashes[-1] = 0
    return np.asarray(hashes[places])


def _number_bits(cells: pd.Series) -> Hashes:
    """Return the hash of each number, or 0 if the cell is absent.

    A number is hashed as a float, unless it is a whole number that a float cannot represent exactly.
    """
    floats = cells.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # −0.0 is 0.0
    bits = floats.view(np.uint64).copy()
    if (large := np.isfinite(floats) & (np.abs(floats) >= 2.0**53)).any():
        bits[large] = np.array([int(cell) % 2**64 for cell in cells[large].tolist()], dtype=np.uint64)
    return np.where(np.isnan(floats), np.uint64(0), mixed(bits + np.uint64(1)))


def id_hashes(ids: Ids, key: bytes) -> Hashes:
    """Return 64 keyed bits of the id of each unit. Two ids have the same bits with probability 2⁻⁶⁴."""
    return mixed(mixed(ids[:, 0] + salted(key, b"lane 0")) + ids[:, 1] + salted(key, b"lane 1"))


def salted(key: bytes, salt: bytes) -> np.uint64:
    """Return 64 bits that depend on the key and on the salt."""
    return np.uint64(int.from_bytes(hashlib.sha256(key + salt).digest()[:8], "big"))


def mixed(numbers: Hashes) -> Hashes:
    """Apply a permutation of 64 bits in which each input bit changes half of the output bits on average."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
