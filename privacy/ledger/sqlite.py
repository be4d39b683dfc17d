"""Ledgers in a SQLite file, with triggers that protect the history, durable commits and a fair order of writers.

All committed data are in a single file, so that a copy of this file is a copy of the ledger.
"""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, event

from equistrata.privacy.ledger.tables import ENTRIES, HEAD, HEAD_MOVED, LEASES, METADATA

APPLICATION_ID = 0x45515354  # "EQST", in the file's header


def _guard(name: str, when: str, condition: str = "1") -> str:
    refuse = "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    return f"CREATE TRIGGER {name} BEFORE {when} WHEN {condition} {refuse}"


FILE_GUARDS = (
    _guard("equistrata_entries_update", f"UPDATE ON {ENTRIES.name}"),
    _guard("equistrata_entries_delete", f"DELETE ON {ENTRIES.name}"),
    _guard(
        "equistrata_entries_insert", f"INSERT ON {ENTRIES.name}", f"new.entry <> (SELECT entries + 1 FROM {HEAD.name})"
    ),
    _guard("equistrata_ledger_update", f"UPDATE ON {HEAD.name}", HEAD_MOVED),
    _guard("equistrata_ledger_delete", f"DELETE ON {HEAD.name}"),
    _guard("equistrata_ledger_insert", f"INSERT ON {HEAD.name}", f"EXISTS (SELECT 1 FROM {HEAD.name})"),
)
# This table is created with the first lease (`equistrata.privacy.ledger.lease`).
LEASES_TABLE = (
    f"CREATE TABLE {LEASES} (dataset TEXT, release_id TEXT, token TEXT NOT NULL, host TEXT NOT NULL, "
    "until REAL NOT NULL, PRIMARY KEY (dataset, release_id)) WITHOUT ROWID"
)


def sqlite_engine(path: Path, writes: bool, lock_seconds: float) -> Engine:
    """Create an engine with connections to the file.

    A connection that writes begins as the only writer. There is no connection pool, because an idle connection would
    prevent a ledger of an earlier version from leaving its write-ahead log.
    """
    engine = create_engine("sqlite://", poolclass=NullPool, creator=lambda: _connect(path, writes, lock_seconds))

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if writes:
            _begin_writing(connection, lock_seconds)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_writing(connection: Connection, lock_seconds: float) -> None:
    """Begin a transaction as the only writer.

    All waiting processes have the same chance, unlike with the timeout of SQLite.
    """
    raw: Any = connection.connection.dbapi_connection  # raising an error through SQLAlchemy is twenty times slower
    deadline = time.monotonic() + lock_seconds
    raw.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            raw.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.002, 0.06))
    raw.execute(f"PRAGMA busy_timeout = {int(lock_seconds * 1000)}")


def _connect(path: Path, writes: bool, lock_seconds: float) -> sqlite3.Connection:
    # The mode "rw" does not create a file, so that a mistyped path does not become an empty ledger. A copy on a
    # read-only medium can be verified if it was complete when it was copied, so that there is no journal next to it.
    mode = "mode=rw"
    if not writes and not writable(path):
        mode = "mode=ro" if any(other.exists() for other in beside(path)) else "mode=ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=lock_seconds, isolation_level=None)
    try:
        # EXTRA also syncs the removal of the journal, which commits the transaction, so it survives a power failure.
        connection.execute("PRAGMA synchronous = EXTRA")
        if writes and connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):  # set by an earlier version
            with suppress(sqlite3.OperationalError):  # if the file is in use, the next writer will try again
                connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create_file(path: Path, first_head: Callable[[str], dict[str, Any]], lock_seconds: float) -> None:
    """Create the file of a ledger in one step.

    The file is completed in a temporary folder and then linked to its path. If two processes do this at the same time,
    one of the files is used.

    Parameters
    ----------
    path : Path
        The path of the file.
    first_head : callable
        Function that returns the first head for the hash of a layout.
    lock_seconds : float
        The time to wait for a lock, in seconds.

    Raises
    ------
    OSError
        If the file cannot be created.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent) as folder:
        part = Path(folder) / path.name
        part.touch(0o600)
        engine = create_engine("sqlite://", poolclass=NullPool, creator=lambda: _connect(part, True, lock_seconds))
        with engine.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            METADATA.create_all(connection)
            for guard in FILE_GUARDS:
                connection.exec_driver_sql(guard)
            connection.execute(HEAD.insert().values(id=1, **first_head(layout_hash(connection))))
        with suppress(FileExistsError):
            os.link(part, path)


def layout_hash(connection: Connection) -> str:
    """Return a hash of the tables, indices and triggers of the file, which detects changes.

    The table of leases is excluded.
    """
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").all()
    leases = ("table", LEASES, LEASES, LEASES_TABLE)
    return hashlib.sha256(repr([tuple(row) for row in rows if tuple(row) != leases]).encode()).hexdigest()


def file_damage(connection: Connection, layout: str) -> str | None:
    """Return a description of the damage that SQLite finds in its file or its tables. If there is none, return None."""
    if connection.exec_driver_sql("PRAGMA integrity_check").scalars().all() != ["ok"]:
        return "its file is damaged (SQLite's integrity check fails)"
    return None if layout_hash(connection) == layout else "its tables or triggers were changed"


def key_file(path: Path) -> Path:
    """Return the path of the file that stores the key for fingerprints."""
    return path.with_name(path.name + ".key")


def beside(path: Path) -> list[Path]:
    """Return the paths of the files that SQLite may use next to its own file.

    A copy of the ledger needs these files as well.
    """
    return [path.with_name(path.name + ending) for ending in ("-journal", "-wal", "-shm")]


def writable(path: Path) -> bool:
    """Return True if the file is writable.

    Its mode is checked as well, because the superuser can write to a read-only file.
    """
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)
