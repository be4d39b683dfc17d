"""A ledger of each kind: a SQLite file, and a database of a real PostgreSQL server of the session."""

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a ledger may be made: a path, then a PostgreSQL URL."""
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("new_database")()
