"""Flows that run in the process of a command, with a progress bar and with or without a configured Prefect server."""

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
_PATIENCE = 2.0  # seconds that Prefect has to send its remaining events when a command ends


WHOLE = "whole"  # the stage in which a release is complete and committed


def report_progress(stage: str, done: int = 0, of: int = 0) -> None:
    """Report the progress of a stage to all listeners.

    The names of stages and the numbers of strata are public.

    Parameters
    ----------
    stage : str
        The name of the stage.
    done, of : int, default=0
        The number of completed steps and the total number of steps. Both are 0 if the stage does not have steps.
    """
    for listener in _listeners:
        listener(stage, done, of)


@contextmanager
def listen_to_progress(listener: Listener) -> Iterator[None]:
    """Report the progress of the block to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def foreground(listener: Listener, verbose: bool = False, ahead: TemporaryServer | None = None) -> Iterator[None]:
    """Set up Prefect for a command while the block runs.

    Parameters
    ----------
    listener : callable
        Function that is called as `listener(stage, done, of)` after each step.
    verbose : bool, default=False
        If True, show the log of Prefect.
    ahead : TemporaryServer or None, default=None
        A server that was already started. If None, a server is started now, unless one is configured.
    """
    prepare_prefect(verbose)
    with temporary_server() if ahead is None else nullcontext(ahead) as server:
        if server is not None:
            server.serve()
        with pause_garbage_collection():  # import the whole client before waiting for the server
            import prefect.main  # noqa: F401
        from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

        # A heartbeat would sleep for a second at the end of every flow, and a foreground run does not need it.
        settings: dict[Any, Any] = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
        if server is not None and not PREFECT_API_URL.value() and (url := server.ready()):
            settings[PREFECT_API_URL] = url
        try:
            with listen_to_progress(listener), temporary_settings(settings):
                yield
        finally:
            if server is not None:
                _send_what_is_left()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable garbage collection while modules are imported in the block, because imported modules are never garbage.

    The imported objects are also excluded from later collections. This saves 0.2 of 1.7 seconds of imports, and 0.4
    seconds when the interpreter ends.
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
    """Send the remaining events and logs to the server, which ends before Prefect would send them."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    # In a notebook, an event loop runs in this thread, so that drain_all would not wait for the result.
    with ThreadPoolExecutor(1) as thread:
        for service in (EventsWorker, APILogWorker):
            thread.submit(service.drain_all, timeout=_PATIENCE).result()


@contextmanager
def progress_bars(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal. If the output is redirected, nothing is shown."""
    columns = [SpinnerColumn(), TextColumn("{task.description:<12}", markup=False), BarColumn(), MofNCompleteColumn()]
    # The output is not redirected, because all text is printed by `equistrata.flows.cli.console`.
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal,
        redirect_stdout=False, redirect_stderr=False,
    ) as bars:  # fmt: skip
        current = bars.add_task("start Prefect", total=None)

        def listener(stage: str, done: int, of: int) -> None:
            bars.update(current, description=stage, completed=done, total=of or None)

        yield listener
