"""Tests of imports without garbage collection, and of the last messages of a flow that is run in a notebook."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest

from equistrata.flows.run.foreground import _send_what_is_left, pause_garbage_collection


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_collected_in_the_block_and_nothing_of_it_later(before: bool) -> None:
    enabled = gc.isenabled()
    gc.unfreeze()
    try:
        (gc.enable if before else gc.disable)()
        with suppress(ImportError), pause_garbage_collection():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() is before
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        (gc.enable if enabled else gc.disable)()


def test_what_is_left_is_sent_from_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook has a running event loop.

    The drain of Prefect would only start in this loop, with a warning at the end of each release.
    """
    from prefect._internal.concurrency.services import QueueService

    calls, loops = [], []

    def drained(cls: type, timeout: float | None = None, at_exit: bool = True) -> None:
        calls.append(cls)
        with suppress(RuntimeError):
            loops.append(asyncio.get_running_loop())

    monkeypatch.setattr(QueueService, "drain_all", classmethod(drained))

    async def cell() -> None:
        _send_what_is_left()

    asyncio.run(cell())
    assert len(calls) == 2
    assert loops == []
