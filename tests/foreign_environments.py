"""Environments with the packages of other projects, for the tests that are run by `make test-foreign`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from equistrata.environments import STAMP, Environment, interpreter_in

WANTED = "EQUISTRATA_TEST_FOREIGN"  # If this variable is set, these tests fail instead of being skipped.


def interpreter_or_skip(environment: Environment, root: Path) -> str:
    """Return the interpreter of an environment, or skip the test if there is none.

    It is set by a variable or found in this checkout.
    """
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
