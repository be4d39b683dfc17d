"""A ledger in a SQLite file: triggers that let it only grow, durable commits, and a fair queue of writers.

What is committed is in the one file, so a copy of that file is a copy of the ledger.
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
# Made when the first lease is taken (`equistrata.privacy.ledger.lease`).
LEASES_TABLE = (
    f"CREATE TABLE {LEASES} (dataset TEXT, release_id TEXT, token TEXT NOT NULL, host TEXT NOT NULL, "
    "until REAL NOT NULL, PRIMARY KEY (dataset, release_id)) WITHOUT ROWID"
)


def sqlite_engine(path: Path, writes: bool, lock_seconds: float) -> Engine:
    """Connections to the file; a writing one begins as SQLite's one writer.

    There is no pool: a resting connection would keep a ledger of an earlier version from leaving its write-ahead log.
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
    """Become the one writer. SQLite's own waiting starves the earliest of many; here all have the same chance."""
    raw: Any = connection.connection.dbapi_connection  # an error through SQLAlchemy costs twenty times as much
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
    # "rw" never makes a file: a mistyped path must not become an empty ledger. A copy on a read-only medium can be
    # verified, if it was complete when copied (no journal beside it).
    mode = "mode=rw"
    if not writes and not writable(path):
        mode = "mode=ro" if any(other.exists() for other in beside(path)) else "mode=ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=lock_seconds, isolation_level=None)
    try:
        # EXTRA also syncs the journal's removal, which is what commits: it is still so after a power cut.
        connection.execute("PRAGMA synchronous = EXTRA")
        if writes and connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):  # of an earlier version
            with suppress(sqlite3.OperationalError):  # others have it open: the next writer then
                connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create_file(path: Path, first_head: Callable[[str], dict[str, Any]], lock_seconds: float) -> None:
    """Make the file beside its place, complete, and link it there: of two creators, one wins. Raises OSError."""
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
    """A hash of the file's tables, indices and triggers, without the leases' table: it finds a change to them."""
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").all()
    leases = ("table", LEASES, LEASES, LEASES_TABLE)
    return hashlib.sha256(repr([tuple(row) for row in rows if tuple(row) != leases]).encode()).hexdigest()


def file_damage(connection: Connection, layout: str) -> str | None:
    """What SQLite finds wrong with its file or its tables, or None."""
    if connection.exec_driver_sql("PRAGMA integrity_check").scalars().all() != ["ok"]:
        return "its file is damaged (SQLite's integrity check fails)"
    return None if layout_hash(connection) == layout else "its tables or triggers were changed"


def key_file(path: Path) -> Path:
    """The file of the key of a ledger's fingerprints."""
    return path.with_name(path.name + ".key")


def beside(path: Path) -> list[Path]:
    """Files that SQLite may keep beside its own while it works, and that a copy of it needs."""
    return [path.with_name(path.name + ending) for ending in ("-journal", "-wal", "-shm")]


def writable(path: Path) -> bool:
    """Whether the file may be written, by its mode too: the superuser could write to a read-only file."""
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)
