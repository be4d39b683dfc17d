"""Leases, which prevent two machines that share a ledger from running the same release. See docs/ledger.md.

A lease is a row in the ledger's database that is not part of the history. If a run is killed, its lease ends after
LEASE_SECONDS. The next run from the same journal on the same machine has the same token and can take over the lease at
once. This is safe because the lock of the journal shows that the previous run is dead. Only a hash of the token is
stored.

The time is the time of this machine on SQLite, and the time of the server on PostgreSQL.
"""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, inspect, text

from equistrata.privacy.ledger.sqlite import LEASES_TABLE
from equistrata.privacy.ledger.store import LedgerError, Store
from equistrata.privacy.ledger.tables import LEASES

LEASE_SECONDS = 180.0
_NAMED = "dataset = :dataset AND release_id = :release"
RENEWALS = 4  # the number of renewals during one lease, so that some of them may fail


class Lease:
    """Context manager that holds a release in a ledger. See also `Lease.check`."""

    def __init__(self, store: Store, dataset: str, release_id: str, token: str) -> None:
        self._store, self._mine = store, {"dataset": dataset, "release": release_id, "token": token}
        self._over = threading.Event()
        self._lost = False
        self._renewing = threading.Thread(target=self._renew, name="lease of a release", daemon=True)

    def __enter__(self) -> Lease:
        host = self._take()
        if host is not None:
            minutes = f"or, if it was killed there, for {LEASE_SECONDS / 60:g} minutes"
            raise LedgerError(
                f"release {self._mine['release']!r} is already running on {host!r}; wait until it has ended, {minutes}"
            )
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._renewing.join()
        with suppress(LedgerError):  # if this fails, the lease will expire
            self._let_go()

    def check(self) -> None:
        """Check that this process still holds the release.

        Raises
        ------
        LedgerError
            If another run has taken over the release because the lease was not renewed for too long.
        """
        if self._lost:
            raise LedgerError(
                f"release {self._mine['release']!r} was taken over by another run, because this run had not "
                f"answered for over {LEASE_SECONDS / 60:g} minutes; this run stops"
            )

    def _take(self) -> str | None:
        """Take or renew the lease. If another run holds it, return the name of its host."""
        mine = self._mine | {"host": _host(), "seconds": LEASE_SECONDS}
        with self._store.transaction(writes=True) as (connection, _):
            if self._store.path is not None:
                return _take_in_file(connection, mine)
            taken = text("SELECT equistrata_lease(:dataset, :release, :token, :host, :seconds)")
            return connection.execute(taken, mine).scalar()

    def _let_go(self) -> None:
        with self._store.transaction(writes=True) as (connection, _):
            if self._store.path is not None:
                connection.execute(text(f"DELETE FROM {LEASES} WHERE {_NAMED} AND token = :token"), _sealed(self._mine))
            else:
                connection.execute(text("SELECT equistrata_let_go(:dataset, :release, :token)"), self._mine)

    def _renew(self) -> None:
        while not self._over.wait(LEASE_SECONDS / RENEWALS):
            with suppress(LedgerError):  # the database is not reachable now, but the next renewal may still be in time
                self._lost = self._lost or self._take() is not None


def _take_in_file(connection: Connection, mine: Mapping[str, Any]) -> str | None:
    now = time.time()
    row = _sealed(mine) | {"now": now, "until": now + mine["seconds"]}
    connection.exec_driver_sql(LEASES_TABLE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    connection.execute(text(f"DELETE FROM {LEASES} WHERE until < :now OR ({_NAMED} AND token = :token)"), row)
    theirs = connection.execute(text(f"SELECT host FROM {LEASES} WHERE {_NAMED}"), row).scalar()
    if theirs is None:
        connection.execute(text(f"INSERT INTO {LEASES} VALUES (:dataset, :release, :token, :host, :until)"), row)
    return theirs


def lease_holder(store: Store, dataset: str, release_id: str) -> str | None:
    """Return the host of the run that holds a release.

    Parameters
    ----------
    store : Store
        The database of the ledger.
    dataset : str
        The name of the data set.
    release_id : str
        The name of the release.

    Returns
    -------
    str or None
        The name of the host. If None, the release is not running.

    Raises
    ------
    LedgerError
        If the database cannot be used.
    """
    with store.transaction() as (connection, _):
        if store.path is not None and not inspect(connection).has_table(LEASES):  # there has never been a lease
            return None
        now = ":now" if store.path is not None else "clock_timestamp()"
        held = text(f"SELECT host FROM {LEASES} WHERE {_NAMED} AND until >= {now}")
        given = {"dataset": dataset, "release": release_id, "now": time.time()}
        return connection.execute(held, given).scalar()


def _host() -> str:
    return socket.gethostname()[:100]


def _sealed(mine: Mapping[str, Any]) -> dict[str, Any]:
    return dict(mine) | {"token": hashlib.sha256(mine["token"].encode()).hexdigest()}
