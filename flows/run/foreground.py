"""Running a flow in the terminal's own process: quiet, with a bar, with or without a Prefect server configured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from equistrata.flows.config.places import prepare_prefect
from equistrata.flows.run.server import TemporaryServer, temporary_server

Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []
_PATIENCE = 2.0  # seconds, for what Prefect has not sent when a command ends


WHOLE = "whole"  # the stage of a release that is in its place, and committed


def tell(stage: str, done: int = 0, of: int = 0) -> None:
    """Say that a stage has done so many of its steps (0 of 0 without). Stages and counts of strata are public."""
    for listener in _listeners:
        listener(stage, done, of)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have the stages of the block told to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def foreground(listener: Listener, verbose: bool = False, ahead: TemporaryServer | None = None) -> Iterator[None]:
    """Prefect as a command of the terminal wants it, in the block. Each step calls `listener(stage, done, of)`.

    Without a server that was started `ahead`, one is started now, unless one is configured.
    """
    prepare_prefect(verbose)
    with temporary_server() if ahead is None else nullcontext(ahead) as server:
        if server is not None:
            server.serve()
        with uncollected():  # all of the client, before the server is waited for
            import prefect.main  # noqa: F401
        from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

        # A heartbeat sleeps for a second at the end of every flow; a foreground run needs none.
        settings: dict[Any, Any] = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
        if server is not None and not PREFECT_API_URL.value() and (url := server.ready()):
            settings[PREFECT_API_URL] = url
        try:
            with listening(listener), temporary_settings(settings):
                yield
        finally:
            if server is not None:
                _send_what_is_left()


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is looked for while modules are imported in the block, nor ever among them: there is none.

    It saves 0.2 of 1.7 s of imports, and 0.4 s when the interpreter ends.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if before:
            gc.enable()


def _send_what_is_left() -> None:
    """Prefect's events and logs to the server, which ends before Prefect would send them."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    # In a notebook a loop runs in this thread, and there drain_all would only begin.
    with ThreadPoolExecutor(1) as thread:
        for service in (EventsWorker, APILogWorker):
            thread.submit(service.drain_all, timeout=_PATIENCE).result()


@contextmanager
def progress_bars(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; nothing when the output is piped."""
    columns = [SpinnerColumn(), TextColumn("{task.description:<12}", markup=False), BarColumn(), MofNCompleteColumn()]
    # Not redirected: what is printed beside the bar goes the way of all text (`equistrata.flows.cli.console`).
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal,
        redirect_stdout=False, redirect_stderr=False,
    ) as bars:  # fmt: skip
        current = bars.add_task("start Prefect", total=None)

        def listener(stage: str, done: int, of: int) -> None:
            bars.update(current, description=stage, completed=done, total=of or None)

        yield listener
