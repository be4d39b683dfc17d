"""A fixture for the tests of series, which must define `office` and `two_months`."""

import shutil

import pytest


@pytest.fixture
def made(office, two_months):
    """Return an office with a copy of months 1 and 2, which are not in the ledger of this office."""
    shutil.copytree(two_months, office.out)
    return office
