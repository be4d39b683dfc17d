"""Linear algebra with a single thread. For small arrays, a second thread would only wait, and it would use the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Return a context manager that limits BLAS to one thread."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Return the controller, which is cached because searching the loaded libraries is slow."""
    return ThreadpoolController()
