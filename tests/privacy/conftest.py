"""Fixtures of ledgers in a SQLite file and in a PostgreSQL database."""

import pytest

from equistrata.privacy.ledger.ledger import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Return the place of a new ledger, which is a path or a PostgreSQL URL."""
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("new_database")()


@pytest.fixture
def ledger(place):
    """Return a ledger with one data set and a budget of ε = 2 and δ = 1e-9."""
    made = Ledger(place)
    made.create("people", 2, 1e-9)
    return made
