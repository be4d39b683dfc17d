"""What a command does on SIGTERM and Ctrl-C: it ends as by an error, so that nothing half-written stays."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """On SIGTERM the block ends as by Ctrl-C, and Prefect's own server. Prefect ends a flow, then passes it on."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def finished_first() -> Iterator[None]:
    """Let the block come to its end before SIGTERM or Ctrl-C ends the command; the second one does so at once.

    For what was paid for and is not saved yet.
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
