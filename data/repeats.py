"""Lists in which everything is named once: a name that is there twice would count its rows twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from equistrata.errors import InputError

Name = TypeVar("Name", bound=Hashable)


def each_once(names: Iterable[Name], what: str) -> tuple[Name, ...]:
    """The names, in order. Raises InputError if one is there twice.

    >>> each_once(["WY", "VT"], "state")
    ('WY', 'VT')
    """
    found: dict[Name, None] = {}
    for name in names:
        if name in found:
            raise InputError(f"{what} {str(name)!r} is named twice, so it would count twice; name each once")
        found[name] = None
    return tuple(found)
