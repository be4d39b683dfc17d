"""Importing without looking for garbage."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from equistrata.flows.run.foreground import uncollected


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_collected_in_the_block_and_nothing_of_it_later(before: bool) -> None:
    enabled = gc.isenabled()
    gc.unfreeze()
    try:
        (gc.enable if before else gc.disable)()
        with suppress(ImportError), uncollected():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() is before
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        (gc.enable if enabled else gc.disable)()
