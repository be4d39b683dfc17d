"""Signal handlers for SIGTERM and Ctrl-C.

The command is stopped in the same way as after an error, so that it does not leave incomplete files.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Stop the block on SIGTERM in the same way as on Ctrl-C. This also stops the server of Prefect.

    If a flow is running, Prefect stops the flow before it passes the signal on.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # a handler can only be set in the main thread
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def finish_before_stopping() -> Iterator[None]:
    """Complete the block before the command is stopped by SIGTERM or Ctrl-C.

    If the signal is sent again, the command is stopped immediately. Use this function to save results that were paid
    for.
    """
    numbers = signal.SIGTERM, signal.SIGINT
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    waiting: list[int] = []

    def restore() -> None:
        for number in numbers:
            signal.signal(number, before[number])

    def wait(number: int, _: FrameType | None) -> None:
        waiting.append(number)
        restore()

    for number in numbers:
        signal.signal(number, wait)
    try:
        yield
    finally:
        restore()
        if waiting:
            os.kill(os.getpid(), waiting[0])
