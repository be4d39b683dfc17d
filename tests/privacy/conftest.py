"""A ledger of each kind: a SQLite file, and a database of a real PostgreSQL server of the session."""

import pytest

from equistrata.privacy.ledger.ledger import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a ledger may be made: a path, then a PostgreSQL URL."""
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("new_database")()


@pytest.fixture
def ledger(place):
    """A ledger with one data set, whose budget is ε = 2, δ = 1e-9."""
    made = Ledger(place)
    made.create("people", 2, 1e-9)
    return made
