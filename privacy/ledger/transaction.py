"""A single transaction on a ledger.

Entries are read only if they match their hashes. A new entry is always added together with the new head.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, text, update

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.chain import Entry, Head, Kind, digest
from equistrata.privacy.ledger.store import LedgerError, OlderCopy
from equistrata.privacy.ledger.tables import ENTRIES, HEAD

IS_CREATE, IS_RESERVE = ENTRIES.c.kind == "create", ENTRIES.c.kind == "reserve"
SETS_KEY = ENTRIES.c.kind.in_(["create", "key"]) & ENTRIES.c.fingerprint.is_not(None)
# The names of the arguments of equistrata_charge and equistrata_settle, in order.
_CHARGE_NAMES = (
    "dataset", "release", "rho", "reason", "parts", "epsilon", "delta", "relation", "mechanism", "strata",
    "fingerprint", "config", "journal", "who", "software",
)  # fmt: skip
_SETTLE_NAMES = ("entry", "kind", "reason", "who", "software")


class Transaction:
    """Queries and additions within one transaction of `Store`.

    Parameters
    ----------
    connection : Connection
        The connection.
    row : mapping of str to object
        The values of the ledger's own row.
    where : str
        A description of the ledger for error messages.
    """

    def __init__(self, connection: Connection, row: Mapping[str, Any], where: str) -> None:
        self.connection, self.row, self._where = connection, row, where
        self.head = Head(row["entries"], row["hash"])

    def rows(self, query: Select[Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query, without a check of their hashes."""
        yield from map(dict, self.connection.execute(query).mappings())

    def entries(self, *where: ColumnElement[bool]) -> list[Entry]:
        """Return the entries that satisfy all conditions, in order.

        Parameters
        ----------
        *where : ColumnElement of bool
            The conditions.

        Returns
        -------
        list of Entry
            The entries.

        Raises
        ------
        LedgerError
            If an entry does not match its hash.
        """
        return [self._entry(row) for row in self.rows(select(ENTRIES).where(*where).order_by(ENTRIES.c.entry))]

    def key(self) -> str | None:
        """Return the name of the key with which fingerprints are made.

        Returns
        -------
        str or None
            The name that the steward set last. It is empty if the steward set no key. If nothing was set, it is the key
            of the first charge with a fingerprint. If there is no such charge, it is None.
        """
        stated = self.entries(SETS_KEY)[-1:]
        if not stated:
            first = select(func.min(ENTRIES.c.entry)).where(IS_RESERVE, ENTRIES.c.fingerprint.like("key=%"))
            stated = self.entries(ENTRIES.c.entry == first.scalar_subquery())
        return str(stated[0].fingerprint).partition(" ")[0].removeprefix("key=") if stated else None

    def check_holds(self, head: Head, remedy: str) -> None:
        """Check that the hash chain contains a head.

        Parameters
        ----------
        head : Head
            The head.
        remedy : str
            The end of the error message, which describes what to do.

        Raises
        ------
        OlderCopy
            If the chain does not contain the head.
        """
        found = [row["hash"] for row in self.rows(select(ENTRIES.c.hash).where(ENTRIES.c.entry == head.entries))]
        if head.entries and found != [head.hash]:
            raise OlderCopy(f"{self._where} lacks entry {head.entries}, {remedy}")

    def account(self, dataset: str, release_id: str | None = None) -> tuple[Entry, Rho, Entry | None]:
        """Return the state of an account, using one query.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        release_id : str or None, default=None
            The name of a release.

        Returns
        -------
        opened : Entry
            The entry that opened the account.
        spent : Rho
            The amount that is spent.
        first : Entry or None
            The first charge of the release.

        Raises
        ------
        LedgerError
            If the account does not exist, if an entry does not match its hash, or if the head does not match the last
            entry.
        """
        mine = ENTRIES.c.dataset == dataset
        newest = select(func.max(ENTRIES.c.entry)).where(mine).scalar_subquery()
        wanted = [ENTRIES.c.entry == self.head.entries, mine & IS_CREATE, ENTRIES.c.entry == newest]
        if release_id is not None:
            wanted.append(mine & IS_RESERVE & (ENTRIES.c.release_id == release_id))
        rows = list(self.rows(select(ENTRIES).where(or_(*wanted)).order_by(ENTRIES.c.entry)))
        entries = [self._entry(row) for row in rows if row["dataset"] == dataset]
        if not entries or entries[0].kind != "create":
            known = ", ".join(str(row["dataset"]) for row in self.rows(select(ENTRIES).where(IS_CREATE))) or "none"
            raise LedgerError(
                f"data set {dataset!r} has no budget in {self._where} (it has: {known}); see equistrata budget create"
            )
        if self._entry(rows[-1]).head != self.head:
            raise LedgerError(f"{self._where} is damaged: its head does not fit its last entry")
        charged = (each for each in entries if (each.kind, each.release_id) == ("reserve", release_id))
        return entries[0], entries[-1].spent, next(charged, None)

    def append(
        self,
        kind: Kind,
        dataset: str,
        rho: Rho,
        spent: Rho,
        texts: Mapping[str, str | None],
        settles: int | None = None,
    ) -> Entry:
        """Add the next entry and move the head to it.

        On PostgreSQL, only the owner can open accounts and set keys. All other entries are added by functions of the
        database.

        Parameters
        ----------
        kind : str
            The kind of the entry.
        dataset : str
            The name of the data set.
        rho : Rho
            The amount of the entry.
        spent : Rho
            The amount that is spent of the account, including this entry.
        texts : mapping of str to str or None
            The other values of the entry, by column name. If `who` is missing, it is this user and machine.
        settles : int or None, default=None
            The number of the reservation to which the entry belongs.

        Returns
        -------
        Entry
            The new entry.

        Raises
        ------
        LedgerError
            If the database wrote an entry that does not match its hash.
        """
        row: dict[str, Any] = dict.fromkeys(ENTRIES.c.keys()) | dict(texts)
        row |= {"settles": settles, "kind": kind, "dataset": dataset, "who": texts.get("who") or _user()}
        row |= {"rho": str(rho.exact), "spent": str(spent.exact), "software": _software()}
        if self.connection.dialect.name == "postgresql" and kind not in ("create", "key"):
            return self._append_by_function(row)
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        row |= {"entry": self.head.entries + 1, "previous": self.head.hash, "at": at}
        row["hash"] = digest(row)
        self.connection.execute(ENTRIES.insert().values(**row))
        self.connection.execute(update(HEAD).values(entries=row["entry"], hash=row["hash"]))
        return self._added(row)

    def _append_by_function(self, row: Mapping[str, Any]) -> Entry:
        given = dict(row) | {"release": row["release_id"], "entry": row["settles"]}
        given["parts"] = json.loads(row["parts"] or "[]")
        function, names = ("charge", _CHARGE_NAMES) if row["kind"] == "reserve" else ("settle", _SETTLE_NAMES)
        call = text(f"SELECT equistrata_{function}({', '.join(f':{name}' for name in names)})")
        made = Head.parse(self.connection.execute(call, {name: given[name] for name in names}).scalar_one())
        (written,) = self.rows(select(ENTRIES).where(ENTRIES.c.entry == made.entries))
        if not digest(written) == written["hash"] == made.hash:  # the error causes a rollback
            raise LedgerError("the ledger's database wrote an entry that does not match its hash; nothing was charged")
        return self._added(written)

    def _added(self, row: Mapping[str, Any]) -> Entry:
        entry = Entry.of(row)
        self.head = entry.head
        return entry

    def _entry(self, row: Mapping[str, Any]) -> Entry:
        if digest(row) != row["hash"]:
            raise LedgerError(
                f"{self._where} is damaged: an entry does not match its hash; run equistrata budget verify"
            )
        return Entry.of(row)


def _user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # the user id has no name, for example in some containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@cache
def _software() -> str:
    try:
        return f"equistrata {version('equistrata')}"
    except PackageNotFoundError:  # equistrata runs from a checkout and is not installed
        return "equistrata"
