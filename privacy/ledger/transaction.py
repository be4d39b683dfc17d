"""One transaction on a ledger: entries are read only if they match their hashes; one is added with the head."""

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
from equistrata.privacy.ledger.store import LedgerError
from equistrata.privacy.ledger.tables import ENTRIES, HEAD

IS_CREATE, IS_RESERVE = ENTRIES.c.kind == "create", ENTRIES.c.kind == "reserve"
# The arguments of equistrata_charge and equistrata_settle, in order.
_CHARGE_NAMES = (
    "dataset", "release", "rho", "reason", "parts", "epsilon", "delta", "relation", "mechanism", "strata",
    "fingerprint", "config", "journal", "who", "software",
)  # fmt: skip
_SETTLE_NAMES = ("entry", "kind", "reason", "who", "software")


class Transaction:
    """What is read and added within one transaction of `Store`; `row` is the ledger's own, `where` for messages."""

    def __init__(self, connection: Connection, row: Mapping[str, Any], where: str) -> None:
        self.connection, self.row, self._where = connection, row, where
        self.head = Head(row["entries"], row["hash"])

    def rows(self, query: Select[Any]) -> Iterator[dict[str, Any]]:
        """The rows of a query, unchecked."""
        yield from map(dict, self.connection.execute(query).mappings())

    def entries(self, *where: ColumnElement[bool]) -> list[Entry]:
        """The entries for which all of `where` holds, in order. Raises LedgerError if one does not match its hash."""
        return [self._entry(row) for row in self.rows(select(ENTRIES).where(*where).order_by(ENTRIES.c.entry))]

    def account(self, dataset: str, release_id: str | None = None) -> tuple[Entry, Rho, bool]:
        """The entry that opened an account, what is spent, and whether that release was charged; in one query.

        Raises LedgerError without such an account, or if an entry or the head does not fit.
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
        charged = any((entry.kind, entry.release_id) == ("reserve", release_id) for entry in entries)
        return entries[0], entries[-1].spent, charged

    def append(
        self,
        kind: Kind,
        dataset: str,
        rho: Rho,
        spent: Rho,
        texts: Mapping[str, str | None],
        settles: int | None = None,
    ) -> Entry:
        """Add the next entry, and move the head to it.

        Args:
            rho, spent: its amount, and what is spent of the account with it.
            texts: its other texts, by the names of the table; without `who`, this user and machine.
            settles: the number of the reservation that it belongs to.

        On PostgreSQL only the owner, who opens accounts, may write; the database's own functions add everything else.
        """
        row: dict[str, Any] = dict.fromkeys(ENTRIES.c.keys()) | dict(texts)
        row |= {"settles": settles, "kind": kind, "dataset": dataset, "who": texts.get("who") or _user()}
        row |= {"rho": str(rho.exact), "spent": str(spent.exact), "software": _software()}
        if self.connection.dialect.name == "postgresql" and kind != "create":
            return self._append_by_function(row)
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        row |= {"entry": self.head.entries + 1, "previous": self.head.hash, "at": at}
        row["hash"] = digest(row)
        self.connection.execute(ENTRIES.insert().values(**row))
        self.connection.execute(update(HEAD).values(entries=row["entry"], hash=row["hash"]))
        return Entry.of(row)

    def _append_by_function(self, row: Mapping[str, Any]) -> Entry:
        given = dict(row) | {"release": row["release_id"], "entry": row["settles"]}
        given["parts"] = json.loads(row["parts"] or "[]")
        function, names = ("charge", _CHARGE_NAMES) if row["kind"] == "reserve" else ("settle", _SETTLE_NAMES)
        call = text(f"SELECT equistrata_{function}({', '.join(f':{name}' for name in names)})")
        made = Head.parse(self.connection.execute(call, {name: given[name] for name in names}).scalar_one())
        (written,) = self.rows(select(ENTRIES).where(ENTRIES.c.entry == made.entries))
        if not digest(written) == written["hash"] == made.hash:  # raised, so that it is rolled back
            raise LedgerError("the ledger's database wrote an entry that does not match its hash; nothing was charged")
        return Entry.of(written)

    def _entry(self, row: Mapping[str, Any]) -> Entry:
        if digest(row) != row["hash"]:
            raise LedgerError(
                f"{self._where} is damaged: an entry does not match its hash; run equistrata budget verify"
            )
        return Entry.of(row)


def _user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in some containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@cache
def _software() -> str:
    try:
        return f"equistrata {version('equistrata')}"
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "equistrata"
