"""What tests of series share: their `office`, with a copy of the `two_months` that their module made."""

import shutil

import pytest


@pytest.fixture
def made(office, two_months):
    """Months 1 and 2 are there, to be read and edited; this office's own ledger knows nothing of them."""
    shutil.copytree(two_months, office.out)
    return office
