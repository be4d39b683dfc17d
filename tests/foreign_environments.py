"""The environments of other projects' packages, for tests that run in them: `make test-foreign`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from equistrata.environments import STAMP, Environment, interpreter_in

WANTED = "EQUISTRATA_TEST_FOREIGN"  # set where they must be there: no such test may be skipped then


def interpreter_or_skip(environment: Environment, root: Path) -> str:
    """Its interpreter: as its variable names it, or of this checkout; skips where there is none."""
    folder = root / environment.of_checkout
    named = os.environ.get(environment.variable)
    if named is None and (folder / STAMP).is_file():
        named = str(interpreter_in(folder))
    if named is None or not Path(named).is_file():
        told = f"{environment.project}'s environment is not there; run make {environment.name}"
        if os.environ.get(WANTED):
            pytest.fail(told)
        pytest.skip(told)
    return named
