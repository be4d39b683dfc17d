"""Errors that are meant for people: one sentence, and the exit code of a command that ends by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class EquistrataError(Exception):
    """Something failed. Its message is one sentence: what is wrong, where (file, column, key), how to mend it.

    The message may quote a setting or a declared value, never a value or a count read from private rows:
    it travels into logs and into the orchestrator's database.
    """

    exit_code = 1


class InputError(EquistrataError, ValueError):
    """Bad input. Nothing was written or charged."""

    exit_code = 2


@contextmanager
def enough_memory(what: str, mend: str) -> Iterator[None]:
    """Raise InputError where what is done inside finds no memory.

    >>> with enough_memory("a table of A, B, C", "ask about two of them at a time"):
    ...     raise MemoryError
    Traceback (most recent call last):
    equistrata.errors.InputError: a table of A, B, C takes more memory than is free; ask about two of them at a time
    """
    try:
        yield
    except MemoryError:
        raise InputError(f"{what} takes more memory than is free; {mend}") from None
