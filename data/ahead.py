"""Work on one item while the next one is being made.

>>> list(ahead(iter("abc")))
['a', 'b', 'c']
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items in the same order, each made in a thread while the caller has the one before it.

    So up to two items are in memory. Reading and parsing files leave Python's lock to others, and so does most of NumPy.
    What the iterator raises comes out at its place in the order.
    """
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(_next, items)
        while made := following.result():
            following = thread.submit(_next, items)
            yield made[0]


def _next(items: Iterator[T]) -> tuple[T] | None:
    """The next item in a tuple, since an item may be anything; None at the end."""
    for item in items:
        return (item,)
    return None
