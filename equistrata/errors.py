"""Errors with messages for users.

Each message is one sentence. Each error has the exit code of a command that fails with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class EquistrataError(Exception):
    """Base class of all errors of equistrata.

    The message is one sentence. It states what is wrong, in which file, column or key, and how to correct it. It can
    quote a setting or a declared value. It never quotes a value or a count from private rows, because messages are
    stored in logs and in the database of the orchestrator.
    """

    exit_code = 1


class InputError(EquistrataError, ValueError):
    """Error that is raised if the input is invalid. Nothing was written or charged."""

    exit_code = 2


@contextmanager
def enough_memory(what: str, mend: str) -> Iterator[None]:
    """Raise an InputError if the block runs out of memory.

    Parameters
    ----------
    what : str
        Description of the object that needs the memory.
    mend : str
        Description of what the user can do.

    Examples
    --------
    >>> with enough_memory("a table of A, B, C", "ask about two of them at a time"):
    ...     raise MemoryError
    Traceback (most recent call last):
    equistrata.errors.InputError: a table of A, B, C takes more memory than is free; ask about two of them at a time
    """
    try:
        yield
    except MemoryError:
        raise InputError(f"{what} takes more memory than is free; {mend}") from None
