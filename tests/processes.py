"""A function that finds processes by their environment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def told(name, value):
    """Return the ids of all processes in which this variable has the given value, in increasing order.

    The list is empty without /proc.
    """
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{name}={value}".encode() in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return sorted(found)
