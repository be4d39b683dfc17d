"""Functions that search for numbers in the memory of a child process through /proc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

CHUNK = 1 << 20
LIMB = 1 << 24


def readable_or_skip(pid: int) -> None:
    """Skip the test if the system does not allow a process to read the memory of its child."""
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            pass
    except OSError as error:
        pytest.skip(f"the memory of a child process cannot be read here ({type(error).__name__})")


def found(pid: int, patterns: Iterable[bytes]) -> set[bytes]:
    """Return the patterns that are found anywhere in the writable memory of the process."""
    wanted = set(patterns)
    overlap = max(map(len, wanted)) - 1
    seen: set[bytes] = set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end in _regions(pid):
            tail = b""
            for place in range(start, end, CHUNK):
                try:
                    memory.seek(place)
                    chunk = tail + memory.read(min(CHUNK, end - place))
                except (OSError, ValueError):
                    break  # the region was removed or belongs to a device
                if chunk.count(0) == len(chunk):
                    tail = b""
                    continue
                seen |= {pattern for pattern in wanted - seen if pattern in chunk}
                tail = chunk[-overlap:]
    return seen


def _regions(pid: int) -> Iterable[tuple[int, int]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
        if match:
            yield int(match[1], 16), int(match[2], 16)


def traces(numbers: Sequence[int]) -> list[bytes]:
    """Return the byte patterns of a vector of integers between 2²⁴ and 2⁶⁰ in the memory of a Flower process.

    The pattern of each number is a decimal string, an integer in both byte orders, a float, or a Python integer (digits
    of 30 bits). The 24-bit limbs of the vector are also included, with and without the offset of Flower, as integers of
    32 and 64 bits and as floats.
    """
    shapes = []
    for number in numbers:
        assert LIMB < number < 2**60
        shapes += [str(number).encode(), number.to_bytes(8, "little"), number.to_bytes(8, "big")]
        shapes.append(np.array([number], dtype="<f8").tobytes())
        shapes.append(np.array([number & (2**30 - 1), number >> 30], dtype="<u4").tobytes())
    limbs = np.array([[number % LIMB, number // LIMB % LIMB] for number in numbers])
    for row in limbs:
        for offset in (0, LIMB):
            shapes += [(row + offset).astype(kind).tobytes() for kind in ("<i8", ">i8", "<i4", "<f8", "<f4")]
    return shapes
