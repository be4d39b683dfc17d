"""Transactions on the database of a ledger, which is SQLite or PostgreSQL.

There is one writer at a time. Error messages never contain the text of a database driver.

The database has two tables. The table `equistrata_entries` contains the history. Triggers prevent that its rows are
changed or removed. The table `equistrata_ledger` has one row with the version of the format, the name of the ledger,
and the head. The head consists of the number of entries and the hash of the last entry. It is the only part of the row
that changes, by one step with each entry. The leases of running releases are not part of the history.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from equistrata.errors import EquistrataError
from equistrata.privacy.ledger import postgres, sqlite
from equistrata.privacy.ledger.tables import HEAD, VERSION

LOCK_SECONDS = 20.0


class LedgerError(EquistrataError, ValueError):
    """Error that is raised if the ledger cannot be used or if an entry is not valid.

    The message never contains credentials or the text of a database driver.
    """

    exit_code = 2


class OlderCopy(LedgerError):
    """Error that is raised if the ledger lacks an entry that is known from another source.

    The ledger is then an older copy, and another copy was charged after it was made.
    """


class Store:
    """Transactions on one database.

    Parameters
    ----------
    url : str or path-like
        A URL or a path, as in `Ledger`.
    lock_seconds : float
        The time to wait for other writers, in seconds.

    Raises
    ------
    LedgerError
        If the URL cannot be used.
    """

    def __init__(self, url: str | os.PathLike[str], lock_seconds: float = LOCK_SECONDS) -> None:
        self.lock_seconds = lock_seconds
        self._url = _parsed(url)
        self.path = Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None
        self._engines: dict[tuple[int, bool], Engine] = {}
        weakref.finalize(self, _close, self._engines)
        if self.path is None and find_spec("psycopg") is None:
            raise LedgerError("a ledger on PostgreSQL needs psycopg; install equistrata[postgres]")

    def describe(self) -> str:
        """Return a description of the database without user and password."""
        if self.path is not None:
            return f"ledger {str(self.path)!r}"
        return f"ledger in PostgreSQL database {self._url.database!r} at {self._url.host or 'the local socket'}"

    def _fault(self, sentence: str) -> LedgerError:
        return LedgerError(f"{self.describe()} {sentence}")

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """Run a transaction with one consistent view of the database.

        Parameters
        ----------
        writes : bool, default=False
            If True, the transaction does not overlap with any other writer. It is durable when the block ends, and it
            is rolled back if the block raises an error.

        Yields
        ------
        connection : Connection
            The connection.
        row : dict
            The values of the ledger's own row.

        Raises
        ------
        LedgerError
            If the database cannot be used.
        """
        if self.path is not None:
            self._check_file(self.path, writes)
        with self._sentences(), self._engine(writes).begin() as connection:
            if self.path is None and writes:
                postgres.queue(connection)
            elif self.path is None:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            rows = connection.execute(select(HEAD)).mappings().all()
            version = rows[0]["version"] if len(rows) == 1 else None
            if version != VERSION:
                found = version if isinstance(version, int) else "unknown"
                raise self._fault(
                    f"has format {found}, but this version of equistrata reads format {VERSION}; use a version that "
                    "fits"
                )
            yield connection, {str(name): value for name, value in rows[0].items()}

    def create(self, first_head: Callable[[str], dict[str, Any]]) -> None:
        """Create the tables if they do not exist.

        If two processes do this at the same time, both use the same complete ledger afterwards.

        Parameters
        ----------
        first_head : callable
            Function that returns the first head for the hash of a layout.

        Raises
        ------
        LedgerError
            If the files of a deleted ledger are found at this place, or if the ledger cannot be created.
        """
        if self.path is None:
            with self._sentences(), self._engine(writes=True).begin() as connection:
                if postgres.create_tables(connection, first_head):
                    self._install(connection)
        elif not self.path.exists():
            orphan = next(filter(Path.exists, (sqlite.key_file(self.path), *sqlite.beside(self.path))), None)
            if orphan is not None:
                raise self._fault(
                    f"does not exist, but {orphan.name!r} lies in its place: the ledger was deleted or moved. Restore "
                    f"it from a copy; or, to begin anew though its history is lost, move {orphan.name!r} away"
                )
            try:
                with self._sentences():
                    sqlite.create_file(self.path, first_head, self.lock_seconds)
            except OSError:
                raise self._fault(
                    "cannot be made; it needs a writable folder, on a file system with hard links"
                ) from None

    def upgrade(self) -> None:
        """Update the parts of the database other than the history.

        These are functions and rights on PostgreSQL, and the journal mode on SQLite.
        """
        with self.transaction(writes=True) as (connection, _):
            if self.path is None:
                self._install(connection)

    def damage(self, connection: Connection, layout: str) -> str | None:
        """Return a description of the damage that the database finds.

        Parameters
        ----------
        connection : Connection
            The connection.
        layout : str
            The hash of the layout when the ledger was created.

        Returns
        -------
        str or None
            The damage to the file or the tables, or the fact that other roles may write to them. If None, the database
            is intact.
        """
        if self.path is not None:
            return sqlite.file_damage(connection, layout)
        if connection.execute(text(postgres.OTHERS_WRITE)).scalar_one():
            return "roles that do not own its tables may write to them; run equistrata budget upgrade as its steward"
        return None

    def _install(self, connection: Connection) -> None:
        if connection.execute(text("SHOW server_encoding")).scalar_one() != "UTF8":
            raise self._fault("is not in UTF-8; make the database with ENCODING 'UTF8'")
        owned = "SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = to_regclass(:table)"
        if not connection.execute(text(owned), {"table": HEAD.name}).scalar():
            raise self._fault("belongs to another role; log in as its steward, who created it")
        postgres.install(connection)

    def _engine(self, writes: bool) -> Engine:
        """Return the engine of this process. A connection that was inherited in a fork must not be used."""
        key = os.getpid(), writes and self.path is not None
        if key not in self._engines:
            if self.path is None:
                self._engines[key] = postgres.postgres_engine(self._url, self.lock_seconds)
            else:
                self._engines[key] = sqlite.sqlite_engine(self.path, writes, self.lock_seconds)
        return self._engines[key]

    def _check_file(self, path: Path, to_write: bool) -> None:
        if not path.exists():
            if sqlite.key_file(path).exists():
                raise self._fault("does not exist, but its key does: it was deleted or moved; restore it from a copy")
            raise self._fault("does not exist; correct the path, or run equistrata budget create")
        if not path.is_file():
            raise self._fault("is not a file; correct the path")
        if to_write and not sqlite.writable(path):
            raise self._fault("is read-only, so nothing can be charged; make it writable")

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Replace the errors of SQLAlchemy and the drivers, because they may contain addresses, users and values."""
        try:
            yield
        except DBAPIError as error:
            sentence = self._sentence(error.orig)
        except sqlite3.Error as error:
            sentence = self._sentence(error)
        except (SQLAlchemyError, UnicodeError):
            sentence = "cannot be used; check it with equistrata budget verify"
        else:
            return
        raise self._fault(sentence) from None

    def _sentence(self, cause: BaseException | None) -> str:
        name = str(getattr(cause, "sqlite_errorname", ""))
        state = str(getattr(cause, "sqlstate", None) or "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or state == "55P03":
            return f"has been locked by another process for over {self.lock_seconds:g} s; try again when it is done"
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or state == "25006":
            return "is read-only, so nothing can be charged; make it writable"
        if name.startswith("SQLITE_CANTOPEN"):
            return "cannot be opened; check its permissions and those of its folder"
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) or state.startswith("53"):
            return "cannot be written; check that its disk works and has free space"
        if self.path is not None:
            return "is damaged or is not a ledger; restore it from a copy"
        if state.startswith("28"):
            return "refuses the login; check its credentials"
        return postgres.SENTENCES.get(state, f"refuses to answer (SQLSTATE {state}); check the database")


def _close(engines: Mapping[tuple[int, bool], Engine]) -> None:
    """Close the connections of this process.

    Connections that were inherited in a fork are closed by the parent process.
    """
    for (process, _), engine in engines.items():
        if process == os.getpid():
            engine.dispose()


def _parsed(url: str | os.PathLike[str]) -> URL:
    """Convert a URL for SQLAlchemy. An invalid URL is not quoted in the error, because it may contain a password."""
    named = os.fspath(url)
    if not named:
        raise LedgerError("the path or URL of the ledger is empty; give one")
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
    raise LedgerError("a ledger must be a SQLite file or a PostgreSQL database; give a path or postgresql://…")
