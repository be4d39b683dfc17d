"""Looking for numbers in another process's memory, through /proc. For processes that this one started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

CHUNK = 1 << 20
LIMB = 1 << 24


def readable_or_skip(pid: int) -> None:
    """Skip the test where the system does not let a parent look into its child."""
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            pass
    except OSError as error:
        pytest.skip(f"the memory of a child process cannot be read here ({type(error).__name__})")


def found(pid: int, patterns: Iterable[bytes]) -> set[bytes]:
    """Which of the patterns are anywhere in the writable memory of the process, whatever their alignment."""
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
                    break  # the region went away, or is a device's
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
    """The shapes in which a vector of whole numbers above 2²⁴, below 2⁶⁰, could lie in the memory of a Flower process.

    Each number in decimal, as a machine integer of either byte order, as a float, and as Python's own integer (digits
    of
    30 bits); the vector's 24-bit limbs, as they are and with Flower's offset, as integers of 32 and 64 bits and as
    floats.
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
