"""Check of lists in which each name must be unique, because the rows of a repeated name would be counted twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from equistrata.errors import InputError

Name = TypeVar("Name", bound=Hashable)


def require_unique(names: Iterable[Name], what: str) -> tuple[Name, ...]:
    """Return the names in order, and raise an InputError if a name is repeated.

    >>> require_unique(["WY", "VT"], "state")
    ('WY', 'VT')
    """
    found: dict[Name, None] = {}
    for name in names:
        if name in found:
            raise InputError(f"{what} {str(name)!r} is given twice, so it would count twice; give it once")
        found[name] = None
    return tuple(found)
