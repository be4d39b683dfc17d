"""Leases: while a release runs, no other machine that shares its ledger can run it.

A lock on a local folder means nothing to another machine. A lease is a row in the ledger's database, outside of
history: taken before a release does anything, renewed while the run lives, and given back when it ends. A killed run's
lease ends after LEASE_SECONDS. The next run from the same journal on the same machine, where the journal's own lock
shows that the last one is dead, has the same token and may take the lease over at once. The token is kept as a hash.

Time is this machine's on SQLite, the server's on PostgreSQL.
"""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from contextlib import suppress

from sqlalchemy import Connection, text

from equistrata.privacy.ledger.sqlite import LEASES_TABLE
from equistrata.privacy.ledger.store import LedgerError, Store
from equistrata.privacy.ledger.tables import LEASES

LEASE_SECONDS = 180.0
RENEWALS = 4  # in the time of one lease: so many may fail before it ends


class Lease:
    """A release that this process holds in a ledger while a `with` block runs; see `Lease.check`."""

    def __init__(self, store: Store, dataset: str, release_id: str, token: str) -> None:
        self._store, self._named, self._token = store, (dataset, release_id), token
        self._over = threading.Event()
        self._lost = False
        self._renewing = threading.Thread(target=self._renew, name="lease of a release", daemon=True)

    def __enter__(self) -> Lease:
        host = self._take()
        if host is not None:
            raise LedgerError(
                f"release {self._named[1]!r} is running already, on {host!r}; wait for it to end (if it was killed "
                f"there, for {LEASE_SECONDS / 60:g} minutes)"
            )
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._renewing.join()
        with suppress(LedgerError):  # then it ends by itself
            self._let_go()

    def check(self) -> None:
        """Raise LedgerError if another run has taken the release, after this one was silent for too long."""
        if self._lost:
            raise LedgerError(
                f"release {self._named[1]!r} was taken over by another run, since this one was silent for over "
                f"{LEASE_SECONDS / 60:g} minutes; it stops here"
            )

    def _take(self) -> str | None:
        """Take or renew it; the host of whoever has it instead."""
        with self._store.writing() as (connection, _):
            if self._store.path is not None:
                return _take_in_file(connection, *self._named, _sealed(self._token))
            taken = text("SELECT equistrata_lease(:dataset, :release, :token, :host, :seconds)")
            return connection.execute(taken, self._arguments() | {"host": _host(), "seconds": LEASE_SECONDS}).scalar()

    def _let_go(self) -> None:
        with self._store.writing() as (connection, _):
            if self._store.path is None:
                connection.execute(text("SELECT equistrata_let_go(:dataset, :release, :token)"), self._arguments())
            else:
                mine = f"DELETE FROM {LEASES} WHERE dataset = :dataset AND release_id = :release AND token = :token"
                connection.execute(text(mine), self._arguments() | {"token": _sealed(self._token)})

    def _arguments(self) -> dict[str, object]:
        return {"dataset": self._named[0], "release": self._named[1], "token": self._token}

    def _renew(self) -> None:
        while not self._over.wait(LEASE_SECONDS / RENEWALS):
            with suppress(LedgerError):  # out of reach for a moment; the next renewal may be in time
                self._lost = self._lost or self._take() is not None


def _take_in_file(connection: Connection, dataset: str, release_id: str, sealed: str) -> str | None:
    if not _has_leases(connection):
        connection.exec_driver_sql(LEASES_TABLE)
    now = time.time()
    connection.execute(text(f"DELETE FROM {LEASES} WHERE until < :now"), {"now": now})
    mine = {"dataset": dataset, "release": release_id}
    at = "WHERE dataset = :dataset AND release_id = :release"
    theirs = connection.execute(text(f"SELECT token, host FROM {LEASES} {at}"), mine).one_or_none()
    if theirs is not None and theirs.token != sealed:
        return str(theirs.host)
    row = mine | {"token": sealed, "host": _host(), "until": now + LEASE_SECONDS}
    connection.execute(text(f"INSERT OR REPLACE INTO {LEASES} VALUES (:dataset, :release, :token, :host, :until)"), row)
    return None


def lease_holder(store: Store, dataset: str, release_id: str) -> str | None:
    """The host of the run that holds a release now; None if none does. Raises LedgerError."""
    with store.reading() as (connection, _):
        if store.path is not None and not _has_leases(connection):
            return None
        now = ":now" if store.path is not None else "clock_timestamp()"
        held = f"SELECT host FROM {LEASES} WHERE dataset = :dataset AND release_id = :release AND until >= {now}"
        given = {"dataset": dataset, "release": release_id, "now": time.time()}
        host = connection.execute(text(held), given).scalar()
    return None if host is None else str(host)


def _has_leases(connection: Connection) -> bool:
    found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"
    return connection.execute(text(found), {"name": LEASES}).scalar() is not None


def _host() -> str:
    return socket.gethostname()[:100]


def _sealed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
