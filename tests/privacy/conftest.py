"""A ledger of each kind: a SQLite file, and a database of a real PostgreSQL server of the session."""

import secrets

import pytest
from postgres import NoPostgres, postgres_server


@pytest.fixture(scope="session")
def postgres():
    """The URL of a real server for the session; skips, with the reason, where none can be started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
    try:
        server = postgres_server("fsync=on", "max_connections=100")
        url = server.__enter__()
    except NoPostgres as reason:
        pytest.skip(str(reason))
    yield url
    server.__exit__(None, None, None)


@pytest.fixture
def new_database(postgres):
    """Makes an empty database on the session's server, for one test, and gives its URL."""
    import psycopg

    def make():
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return postgres.rsplit("/", 1)[0] + f"/{name}"

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a ledger may be made: a path, then a PostgreSQL URL."""
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("new_database")()
