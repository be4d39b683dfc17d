"""Progress of a flow: stages and counts of strata, which are public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener(stage, done, of)` at each step while the block runs."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(stage: str, done: int = 0, of: int = 0) -> None:
    """Say that a stage has done so many of its steps (0 of 0 when it has no steps)."""
    for listener in _listeners:
        listener(stage, done, of)
