"""Where a ledger lies: a SQLite file or a PostgreSQL database, one writer at a time, and no driver's words in an error.

Two tables. `equistrata_entries` holds what happened and only grows: triggers refuse to change or remove a row.
`equistrata_ledger` holds one row: the format's version, the ledger's own name, and the head (number of entries, hash of
the last). Only its head moves, one step with each entry. Beside them, and no part of history, lie the leases of releases that run.
"""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    NullPool,
    RowMapping,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from equistrata.errors import EquistrataError
from equistrata.privacy.ledger import postgres as ledger_postgres

VERSION = 1
LOCK_SECONDS = 20.0
APPLICATION_ID = 0x45515354  # "EQST", in the SQLite file's header

METADATA = MetaData()
ENTRY_TEXTS = (
    "at", "who", "kind", "dataset", "release_id", "rho", "spent", "epsilon", "delta", "relation", "mechanism", "strata",
    "parts", "fingerprint", "config", "journal", "software", "reason", "previous", "hash",
)  # fmt: skip
# Numbers are kept as text: a fraction or a float's shortest repr is the same on every database, to the last digit.
ENTRIES = Table(
    "equistrata_entries",
    METADATA,
    Column("entry", Integer, primary_key=True, autoincrement=False),
    Column("settles", Integer),
    *(Column(name, Text) for name in ENTRY_TEXTS),
)
Index("equistrata_entries_dataset", ENTRIES.c.dataset, ENTRIES.c.entry)
Index("equistrata_entries_settles", ENTRIES.c.settles)
Index("equistrata_entries_kind", ENTRIES.c.kind, ENTRIES.c.dataset)
Index("equistrata_entries_release", ENTRIES.c.release_id)
HEAD = Table(
    "equistrata_ledger",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("ledger", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("layout", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)

_NOT_NEXT = f"new.entry <> (SELECT entries + 1 FROM {HEAD.name})"


def _sqlite_guard(name: str, when: str, condition: str = "1") -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {when} WHEN {condition} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    )  # fmt: skip


SQLITE_GUARDS = (
    _sqlite_guard("equistrata_entries_update", f"UPDATE ON {ENTRIES.name}"),
    _sqlite_guard("equistrata_entries_delete", f"DELETE ON {ENTRIES.name}"),
    _sqlite_guard("equistrata_entries_insert", f"INSERT ON {ENTRIES.name}", _NOT_NEXT),
    _sqlite_guard("equistrata_ledger_update", f"UPDATE ON {HEAD.name}", ledger_postgres.HEAD_MOVED),
    _sqlite_guard("equistrata_ledger_delete", f"DELETE ON {HEAD.name}"),
    _sqlite_guard("equistrata_ledger_insert", f"INSERT ON {HEAD.name}", f"EXISTS (SELECT 1 FROM {HEAD.name})"),
)


# Leases are not history (see `equistrata.privacy.ledger.lease`): their table is made when the first is taken, and no hash holds it.
SQLITE_LEASES = (
    f"CREATE TABLE {ledger_postgres.LEASES} (dataset TEXT, release_id TEXT, token TEXT NOT NULL, host TEXT NOT NULL, "
    "until REAL NOT NULL, PRIMARY KEY (dataset, release_id)) WITHOUT ROWID"
)


class LedgerError(EquistrataError, ValueError):
    """The ledger can't be used, or an entry doesn't fit: one sentence, without credentials and without a driver's text."""

    exit_code = 2


class Store:
    """Transactions on one ledger database.

    Args:
        url: a SQLAlchemy URL (sqlite or postgresql), or the path of a SQLite file.
        lock_seconds: how long to wait for other writers.

    Raises:
        LedgerError: an unusable URL.
    """

    def __init__(self, url: str | os.PathLike[str], lock_seconds: float = LOCK_SECONDS) -> None:
        self.lock_seconds = lock_seconds
        self._url = _parsed(url)
        self.path = Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None
        self._engines: dict[tuple[int, bool], Engine] = {}
        weakref.finalize(self, _close, self._engines)
        if self.path is None and find_spec("psycopg") is None:
            raise LedgerError("a ledger on PostgreSQL needs psycopg; install the extra, equistrata[postgres]")

    def describe(self) -> str:
        """Where the ledger lies, without user or password."""
        if self.path is not None:
            return f"ledger {str(self.path)!r}"
        return f"ledger in PostgreSQL database {self._url.database!r} at {self._url.host or 'the local socket'}"

    @contextmanager
    def writing(self) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """One transaction that nobody else's overlaps, durable when the block ends; rolled back if it raises.

        Gives the connection and the ledger's own row.
        """
        if self.path is not None:
            self._check_file(self.path, to_write=True)
        with self._sentences(), self._engine(writes=True).begin() as connection:
            if self.path is None:
                # Writers queue here, in order. On the row's own lock alone, each would wake and follow every version of the row
                # that was made while it waited: with 50 of them, ten times slower.
                connection.execute(text(f"SELECT pg_advisory_xact_lock({ledger_postgres.WRITERS})"))
            yield connection, self._checked(connection.execute(select(HEAD)).mappings().all())

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """One consistent view, which nobody's writing disturbs: the connection and the ledger's own row."""
        if self.path is not None:
            self._check_file(self.path, to_write=False)
        with self._sentences(), self._engine(writes=False).begin() as connection:
            if self.path is None:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection, self._checked(connection.execute(select(HEAD)).mappings().all())

    def create(self, head: Callable[[str], dict[str, Any]]) -> None:
        """Make the tables unless they are there already; `head` gives the first head, told the layout's hash.

        A half-made ledger is never seen, and of two that create at once, both find the same ledger afterwards.
        """
        if self.path is None:
            with self._sentences(), self._engine(writes=True).begin() as connection:
                # Two creators at once would trip over each other in PostgreSQL's catalogue.
                connection.execute(text(f"SELECT pg_advisory_xact_lock({ledger_postgres.WRITERS})"))
                if not inspect(connection).has_table(HEAD.name):
                    METADATA.create_all(connection)
                    for guard in ledger_postgres.GUARDS:
                        connection.execute(text(guard))
                    connection.execute(HEAD.insert().values(id=1, **head("postgresql")))
                    self._install(connection)
        elif not self.path.exists():
            orphan = next(filter(Path.exists, (key_file(self.path), *_beside(self.path))), None)
            if orphan is not None:
                raise LedgerError(
                    f"{self.describe()} does not exist, but {orphan.name!r} lies in its place: the ledger was deleted or moved. "
                    f"Restore it from a copy; or, to begin anew though its history is lost, move {orphan.name!r} away"
                )
            self._create_file(self.path, head)

    def upgrade(self) -> None:
        """Bring what surrounds history to this version: functions and rights on PostgreSQL, the journal's mode on SQLite."""
        with self.writing() as (connection, _):
            if self.path is None:
                self._install(connection)

    def _install(self, connection: Connection) -> None:
        if connection.execute(text("SHOW server_encoding")).scalar_one() != "UTF8":
            raise LedgerError(f"{self.describe()} is not in UTF-8; make the database with ENCODING 'UTF8'")
        owned = "SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = to_regclass(:table)"
        if not connection.execute(text(owned), {"table": HEAD.name}).scalar():
            raise LedgerError(f"{self.describe()} belongs to another role; do this as its steward, who made it")
        ledger_postgres.install(connection)

    def damage(self, connection: Connection, layout: str) -> str | None:
        """What the database itself finds wrong with its file, its tables or who may write to them, or None."""
        if self.path is None:
            if not connection.execute(text(ledger_postgres.OTHERS_WRITE)).scalar_one():
                return None
            return "roles that do not own its tables may write to them; run equistrata budget upgrade as its steward"
        rows = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        if rows != ["ok"]:
            return "its file is damaged (SQLite's integrity check fails)"
        return None if sqlite_layout(connection) == layout else "its tables or triggers were changed"

    def _engine(self, writes: bool) -> Engine:
        """This process's engine: a connection that a fork has inherited is its parent's."""
        key = os.getpid(), writes and self.path is not None
        if key not in self._engines:
            self._engines[key] = self._postgres() if self.path is None else self._sqlite(self.path, writes)
        return self._engines[key]

    def _postgres(self) -> Engine:
        arguments: dict[str, Any] = {"application_name": "equistrata", "client_encoding": "utf8"}
        if "connect_timeout" not in self._url.query:
            arguments["connect_timeout"] = 10
        engine = create_engine(
            self._url, connect_args=arguments, isolation_level="READ COMMITTED", use_native_hstore=False,
            pool_size=1, max_overflow=-1, pool_pre_ping=True,
        )  # fmt: skip

        @event.listens_for(engine, "connect")
        def _settings(connection: Any, record: object) -> None:
            connection.execute(f"SET lock_timeout = {int(self.lock_seconds * 1000)}")
            # A server may be set to forget its last commits in a crash; a charge must not be forgotten.
            connection.execute("SET synchronous_commit = on")
            connection.commit()

        return engine

    def _sqlite(self, path: Path, writes: bool) -> Engine:
        # No pool: a connection that rests would keep a ledger of an earlier version from leaving its write-ahead log.
        engine = create_engine("sqlite://", poolclass=NullPool, creator=lambda: self._open(path, writes))

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            if writes:
                self._begin_writing(connection)
            else:
                connection.exec_driver_sql("BEGIN")

        return engine

    def _begin_writing(self, connection: Connection) -> None:
        """Become SQLite's one writer. Its own waiting sleeps the longer the longer it has waited, so that of many writers the
        latest win and the earliest starve; here all who wait have the same chance.
        """
        raw: Any = (
            connection.connection.dbapi_connection
        )  # SQLAlchemy's own way through an error costs twenty times as much
        deadline = time.monotonic() + self.lock_seconds
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
        raw.execute(f"PRAGMA busy_timeout = {int(self.lock_seconds * 1000)}")

    def _open(self, path: Path, writes: bool) -> sqlite3.Connection:
        # "rw" never makes a file: a mistyped path must not become an empty ledger. A copy on a read-only medium can be
        # verified, if it was complete when copied (no journal beside it).
        mode = "mode=rw"
        if not writes and not _writable(path):
            mode = "mode=ro" if any(beside.exists() for beside in _beside(path)) else "mode=ro&immutable=1"
        uri = f"{path.absolute().as_uri()}?{mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.lock_seconds, isolation_level=None)
        try:
            # What is committed is in the one file, so that a copy of that file has it; and it is still so after a power cut:
            # EXTRA puts the journal's removal on the disk, too, which is what commits.
            connection.execute("PRAGMA synchronous = EXTRA")
            if writes:
                _leave_write_ahead_log(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _create_file(self, path: Path, head: Callable[[str], dict[str, Any]]) -> None:
        """Make the file beside its place, complete, and link it there: of two creators, one wins."""
        try:
            handle, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)  # 0600
        except OSError:
            raise LedgerError(f"{self.describe()} cannot be made; its folder must exist and be writable") from None
        os.close(handle)
        part = Path(made)
        try:
            engine = create_engine("sqlite://", poolclass=NullPool, creator=lambda: self._open(part, True))
            with self._sentences(), engine.begin() as connection:
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                METADATA.create_all(connection)
                for guard in SQLITE_GUARDS:
                    connection.exec_driver_sql(guard)
                connection.execute(HEAD.insert().values(id=1, **head(sqlite_layout(connection))))
            with suppress(FileExistsError):
                os.link(part, path)
        except OSError:
            raise LedgerError(f"{self.describe()} cannot be made; use a file system with hard links") from None
        finally:
            for leftover in (part, *_beside(part)):
                leftover.unlink(missing_ok=True)

    def _checked(self, rows: Sequence[RowMapping]) -> dict[str, Any]:
        version = rows[0]["version"] if len(rows) == 1 else None
        if version != VERSION:
            found = version if isinstance(version, int) else "unknown"
            raise LedgerError(
                f"{self.describe()} is of format {found}, and this equistrata reads format {VERSION}; use one that fits"
            )
        return {str(name): value for name, value in rows[0].items()}

    def _check_file(self, path: Path, to_write: bool) -> None:
        if not path.exists():
            if key_file(path).exists():
                raise LedgerError(
                    f"{self.describe()} does not exist, but its key does: it was deleted or moved; restore it from a copy"
                )
            raise LedgerError(f"{self.describe()} does not exist; correct the path, or run equistrata budget create")
        if not path.is_file():
            raise LedgerError(f"{self.describe()} is not a file; correct the path")
        if to_write and not _writable(path):
            raise LedgerError(f"{self.describe()} is read-only, so nothing can be charged; make it writable")

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Replace errors of SQLAlchemy and its drivers, whose text may hold addresses, users and values."""
        try:
            yield
        except DBAPIError as error:
            sentence = self._sentence(error.orig)
        except sqlite3.Error as error:
            sentence = self._sentence(error)
        except (SQLAlchemyError, UnicodeError):
            sentence = f"{self.describe()} cannot be used; check it with equistrata budget verify"
        else:
            return
        raise LedgerError(sentence) from None

    def _sentence(self, cause: BaseException | None) -> str:
        name = str(getattr(cause, "sqlite_errorname", ""))
        state = str(getattr(cause, "sqlstate", None) or "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or state == "55P03":
            return (
                f"{self.describe()} is locked by another process for over {self.lock_seconds:g} s; try again when it "
                "is done"
            )
        if state == "42501":
            return f"{self.describe()} does not let this role do that; its steward opens accounts and runs equistrata budget upgrade"
        if state == "42883":
            return f"{self.describe()} was made by an earlier version; run equistrata budget upgrade as its steward"
        if state == ledger_postgres.REFUSED:
            return f"{self.describe()} refuses that entry, which would not fit; check it with equistrata budget verify"
        if state == ledger_postgres.OTHER_KEY:
            return (
                f"{self.describe()} knows its rows by fingerprints that were made with another key; bring that key back "
                "(EQUISTRATA_LEDGER_KEY)"
            )
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or state == "25006":
            return f"{self.describe()} is read-only, so nothing can be charged; make it writable"
        if name.startswith("SQLITE_CANTOPEN"):
            return f"{self.describe()} cannot be opened; check its permissions and those of its folder"
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) or state.startswith("53"):
            return f"{self.describe()} cannot be written; check that its disk is whole and has room"
        if self.path is None and not state:
            return f"{self.describe()} cannot be reached, or refuses the login; check its address and credentials"
        if state == "42P01":
            return f"{self.describe()} holds no ledger; run equistrata budget create"
        if self.path is None and state.startswith("28"):
            return f"{self.describe()} refuses the login; check its credentials"
        if self.path is None:
            return f"{self.describe()} refuses to answer (SQLSTATE {state}); check the database"
        return f"{self.describe()} is damaged or no ledger; restore it from a copy"


def sqlite_layout(connection: Connection) -> str:
    """A hash of a SQLite ledger's tables, indices and triggers, so that a change to them is found; but for the leases' table."""
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").all()
    leases = ("table", ledger_postgres.LEASES, ledger_postgres.LEASES, SQLITE_LEASES)
    return hashlib.sha256(repr([tuple(row) for row in rows if tuple(row) != leases]).encode()).hexdigest()


def _close(engines: Mapping[tuple[int, bool], Engine]) -> None:
    """Close this process's connections; those that a fork has inherited are its parent's to close."""
    for (process, _), engine in engines.items():
        if process == os.getpid():
            engine.dispose()


def _leave_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Have a ledger of an earlier version without a log beside it, which a copy of the file would not have had."""
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        with suppress(sqlite3.OperationalError):  # others still have it open: the next writer then
            connection.execute("PRAGMA journal_mode = DELETE")


def key_file(path: Path) -> Path:
    """Where the key of a SQLite ledger's fingerprints lies."""
    return path.with_name(path.name + ".key")


def _beside(path: Path) -> list[Path]:
    """Files that SQLite may keep beside its own while it works, and that a copy of it needs."""
    return [path.with_name(path.name + ending) for ending in ("-journal", "-wal", "-shm")]


def _writable(path: Path) -> bool:
    # The superuser may write to a file that is marked read-only; whoever marked it did not want that.
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)


def _parsed(url: str | os.PathLike[str]) -> URL:
    """The URL as SQLAlchemy's. What cannot be read is not quoted: it may hold a password."""
    named = os.fspath(url)
    if not named:
        raise LedgerError("a ledger needs a path or a URL, not an empty text")
    if "://" not in named and not named.startswith(("postgres", "sqlite:")):
        return URL.create("sqlite", database=named)
    try:
        parsed = make_url(named)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise LedgerError("the ledger's URL cannot be read; write postgresql://user:password@host/database") from None
    if backend == "sqlite" and parsed.database and parsed.database != ":memory:":
        return parsed
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise LedgerError("a ledger lies in a SQLite file or a PostgreSQL database; give a path or postgresql://…")
