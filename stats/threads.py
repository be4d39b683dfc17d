"""One thread for linear algebra on small arrays: a second one would only wait, and it waits by spinning."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """No more than one thread of BLAS within."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Remembered: looking through the loaded libraries takes longer than a step of a descent."""
    return ThreadpoolController()
