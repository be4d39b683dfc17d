"""The budget ledger: what every release from a data set has cost, written down before it is paid.

A data set has a lifetime budget (ε, δ), which is an amount of ρ in zCDP. A release reserves its ρ in one transaction
before a mechanism sees a row; the reservation is then committed, or marked failed. Both are spent: noise that may have
been drawn is not given back. Amounts of ρ add up over adaptively chosen releases (Bun and Steinke, arXiv:1605.02065,
Lemma 2.3), so while their sum stays within the budget, all releases together are (ε, δ)-differentially private, under
the neighbouring relation of the releases. Sums are exact fractions; nothing is rounded.

**What an edit of history leaves to find.** Rows are only added (triggers refuse the rest), and each holds the SHA-256
of its own content and of the row before it, so one changed, missing, added or moved row breaks the chain at a place
that `verify` names. The head (number of entries, hash of the last) is kept apart, so that rows cut off the end are
missed too. Whoever may write to the database and knows this code can still make a new, whole chain, or put an older
copy of the whole ledger in its place: no ledger can find that by itself. So every release card and `equistrata budget show` print
the head: a head that was published is an anchor, and `verify(anchors=…)` checks that the chain still passes through it.

>>> import tempfile
>>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.db")
>>> budget = ledger.create("census", epsilon=2, delta=1e-9)
>>> reservation = ledger.reserve("census", Rho.from_epsilon_delta(1, 1e-9), "2026-11")
>>> ledger.commit(reservation)
>>> ledger.remaining("census") == budget - Rho.from_epsilon_delta(1, 1e-9)
True
>>> [entry.kind for entry in ledger.history("census")], ledger.verify().entries
(['create', 'reserve', 'commit'], 3)
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select, text, update

from equistrata.privacy.budget import ADD_REMOVE, BudgetExceeded, Relation, Rho
from equistrata.privacy.ledger.chain import OUTCOMES, Books, Entry, Head, Kind, Outcome, digest, genesis
from equistrata.privacy.ledger.lease import Lease, lease_holder, leased
from equistrata.privacy.ledger.people import SamePeople, check_people, same_people
from equistrata.privacy.ledger.store import ENTRIES, HEAD, LOCK_SECONDS, VERSION, LedgerError, Store

__all__ = ["Charge", "Entry", "Head", "Ledger", "LedgerError", "Reservation", "SamePeople"]


@dataclass(frozen=True)
class Reservation:
    """A charge that was made. Hand it to `commit` or `fail`.

    Attributes:
        entry: the number of its entry.
        head: the ledger's head just after it.
    """

    dataset: str
    release_id: str
    rho: Rho
    entry: int
    head: Head


@dataclass(frozen=True)
class Charge:
    """A reservation with what became of it. Every charge is spent, whatever its outcome."""

    entry: Entry
    outcome: Outcome
    settled: str | None

    @property
    def reservation(self) -> Reservation:
        """What `Ledger.reserve` gave."""
        assert self.entry.release_id is not None
        head = Head(self.entry.entry, self.entry.hash)
        return Reservation(self.entry.dataset, self.entry.release_id, self.entry.rho, self.entry.entry, head)


class Ledger:
    """The budgets of data sets, in one SQLite file or one PostgreSQL database. Any number of processes may use it.

    Every method is one transaction. A ledger may be used by several threads, cross a fork, and be pickled.

    Args:
        url: a SQLAlchemy URL (sqlite:///…, postgresql://…), or the path of a SQLite file.
        lock_seconds: how long to wait while others write.

    Raises:
        LedgerError: by every method, if the ledger is missing, read-only, locked, damaged, of another version or out of
            reach; in one sentence without credentials. Then nothing was charged, unless the connection broke while
            the database was committing: then the charge may stand, and is found under its release id.
    """

    def __init__(self, url: str | os.PathLike[str], *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._arguments = os.fspath(url), lock_seconds
        self._store = Store(url, lock_seconds)

    def __repr__(self) -> str:
        return f"<{self._store.describe()}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._arguments

    @property
    def path(self) -> Path | None:
        """The SQLite file, or None on PostgreSQL."""
        return self._store.path

    @property
    def identity(self) -> str:
        """The ledger's own name, drawn at random when it was made."""
        with self._store.reading() as (_, ledger):
            return str(ledger["ledger"])

    @property
    def head(self) -> Head:
        """Where the chain ends now."""
        with self._store.reading() as (_, ledger):
            return _head(ledger)

    def create(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        *,
        relation: Relation = ADD_REMOVE,
        same_people_as: Sequence[str] = (),
        who: str | None = None,
    ) -> Rho:
        """Open a data set's account with a lifetime budget; make the ledger itself if it is not there.

        Args:
            dataset: a name of 1 to 100 printable characters.
            epsilon, delta: the guarantee that all releases together must keep; 0 < ε ≤ 500, 0 < δ < 1.
            relation: what neighbours are; every release must be under the same.
            same_people_as: accounts whose rows may be the same people's. Without it, their rows are refused under this name; with
                it, the prices of all of them add up for these people, and `same_people` says to what.

        Returns:
            The budget in zCDP.

        Raises:
            LedgerError: the data set has an account already (budgets are never changed), one of `same_people_as` has none, what
                is left of a deleted ledger lies there, or as the class says.
            ValueError: (ε, δ) is no budget.
        """
        _check_name(dataset, "a data set")
        budget = Rho.from_epsilon_delta(epsilon, delta)
        self._store.create(_first_head)
        with self._store.writing() as (connection, ledger):
            if any(_rows(connection, _CREATIONS.where(ENTRIES.c.dataset == dataset))):
                raise LedgerError(
                    f"data set {dataset!r} has a budget already, which is never changed; use another name"
                )
            for named in same_people_as:
                self._account(connection, ledger, named)
            _append(
                connection, _head(ledger), "create", dataset, who, rho=budget, spent=Rho(0), epsilon=repr(float(epsilon)),
                delta=repr(float(delta)), relation=relation, parts=_list(same_people_as) if same_people_as else None,
            )  # fmt: skip
        return budget

    def upgrade(self) -> None:
        """Bring a ledger of an earlier version to what this one expects of its database. Its history stays as it is.

        On PostgreSQL it makes the functions by which releases are charged, and takes from every role but the owner what lets it
        write to the tables. Raises LedgerError for anyone but the owner.
        """
        self._store.upgrade()

    def lease(self, dataset: str, release_id: str, token: str) -> AbstractContextManager[Lease]:
        """Hold a release while the block runs, for everyone who shares the ledger (`equistrata.privacy.ledger.lease`).

        Raises LedgerError on entering if another run holds it: one that was given another token.
        """
        return leased(self._store, dataset, release_id, token)

    def lease_holder(self, dataset: str, release_id: str) -> str | None:
        """The host of the run that holds a release now; None if none does."""
        return lease_holder(self._store, dataset, release_id)

    def same_people(self) -> list[SamePeople]:
        """The groups of accounts that were opened as the same people's."""
        return same_people(self.accounts())

    def reserve(
        self,
        dataset: str,
        rho: Rho | Fraction | float,
        release_id: str,
        *,
        reason: str | None = None,
        parts: Sequence[str] = (),
        epsilon: float | None = None,
        delta: float | None = None,
        relation: Relation = ADD_REMOVE,
        mechanism: str | None = None,
        strata: str | None = None,
        fingerprint: str | None = None,
        config: str | None = None,
        journal: str | None = None,
        who: str | None = None,
    ) -> Reservation:
        """Charge a release, in one transaction, before any mechanism sees a row. There are no refunds.

        Args:
            dataset: whose budget.
            rho: the whole cost, positive, under `relation`.
            release_id: the release's own name, 1 to 100 printable characters, new to this data set.
            reason: why the same release is charged again (noise had to be drawn anew); without one it is refused.
            parts, epsilon, delta, mechanism, strata, fingerprint, config, journal, who: kept with the entry, see `Entry`.

        Raises:
            BudgetExceeded: more than is left; it carries both amounts, and nothing was charged.
            LedgerError: no such data set, another relation than its own, the release has been charged and no reason
                is given, or the rows are those of another account that was not opened as the same people's.
        """
        amount = Rho.of(rho)
        if not amount:
            raise ValueError("a reservation needs a positive amount of ρ")
        _check_name(release_id, "a release")
        with self._store.writing() as (connection, ledger):
            account, spent, again = self._account(connection, ledger, dataset, release_id)
            if relation != account.relation:
                raise LedgerError(
                    f"the budget of data set {dataset!r} is under {account.relation!r}, and a release under {relation!r} "
                    "does not add up with it"
                )
            if again and not reason:
                raise LedgerError(
                    f"release {release_id!r} of data set {dataset!r} was charged already; resume it, or choose another id"
                )
            if reason and not again:
                raise LedgerError(
                    f"release {release_id!r} of data set {dataset!r} was never charged before; leave out the reason"
                )
            check_people(dataset, fingerprint, *self._others(connection, dataset))
            if spent + amount > account.rho:
                raise BudgetExceeded(amount, account.rho - spent, f"release {release_id!r} of data set {dataset!r}")
            head = _append(
                connection,
                _head(ledger),
                "reserve",
                dataset,
                who,
                rho=amount,
                spent=spent + amount,
                release_id=release_id,
                reason=reason or None,
                parts=_list(parts),
                epsilon=None if epsilon is None else repr(float(epsilon)),
                delta=None if delta is None else repr(float(delta)),
                relation=relation,
                mechanism=mechanism,
                strata=strata,
                fingerprint=fingerprint,
                config=config,
                journal=journal,
            )
        return Reservation(dataset, release_id, amount, head.entries, head)

    def commit(self, reservation: Reservation, *, who: str | None = None) -> None:
        """Say that the release exists. Saying it twice is saying it once.

        Raises LedgerError if it was marked failed (`resume` it first) or is not in this ledger.
        """
        self._settle(reservation, "commit", None, who)

    def fail(self, reservation: Reservation, reason: str | None = None, *, who: str | None = None) -> None:
        """Say that the release came to nothing. It stays spent. Saying it twice is saying it once.

        Raises LedgerError if it was committed or is not in this ledger.
        """
        self._settle(reservation, "fail", reason, who)

    def resume(self, reservation: Reservation, reason: str | None = None, *, who: str | None = None) -> None:
        """Say that a release goes on after a crash or a failure, from what it had paid for. No cost.

        Raises LedgerError if it was committed or is not in this ledger.
        """
        self._settle(reservation, "resume", reason, who)

    def account(self, dataset: str) -> Entry:
        """The entry that opened a data set's account. Raises LedgerError if there is none."""
        with self._store.reading() as (connection, ledger):
            return self._account(connection, ledger, dataset)[0]

    def budget(self, dataset: str) -> Rho:
        """The lifetime budget."""
        return self.account(dataset).rho

    def spent(self, dataset: str) -> Rho:
        """The sum of all reservations, whatever became of them."""
        with self._store.reading() as (connection, ledger):
            return self._account(connection, ledger, dataset)[1]

    def remaining(self, dataset: str) -> Rho:
        """What is left of the lifetime budget."""
        with self._store.reading() as (connection, ledger):
            account, spent, _ = self._account(connection, ledger, dataset)
        return account.rho - spent

    def accounts(self) -> list[Entry]:
        """The entries that opened accounts, in order; their `spent` is of that moment."""
        with self._store.reading() as (connection, _):
            return [self._entry(row) for row in _rows(connection, _CREATIONS.order_by(ENTRIES.c.entry))]

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Every entry of one data set, or of all, in order. Raises LedgerError if there is no such data set."""
        with self._store.reading() as (connection, ledger):
            query = select(ENTRIES).order_by(ENTRIES.c.entry)
            if dataset is not None:
                self._account(connection, ledger, dataset)
                query = query.where(ENTRIES.c.dataset == dataset)
            return [self._entry(row) for row in _rows(connection, query)]

    def charges(self, dataset: str, release_id: str | None = None) -> list[Charge]:
        """The reservations of a data set, or of one of its releases, with what became of them."""
        entries = self.history(dataset)
        last = {entry.settles: entry for entry in entries if entry.settles is not None}
        reserved = [entry for entry in entries if entry.kind == "reserve" and release_id in (None, entry.release_id)]
        return [Charge(e, OUTCOMES[last.get(e.entry, e).kind], last.get(e.entry, e).at) for e in reserved]

    def verify(self, anchors: Sequence[Head] = ()) -> Head:
        """Check all of history: the database's own integrity, every hash, every sum, and that no budget is overspent.

        Args:
            anchors: heads that were printed earlier; the chain must pass through each.

        Returns:
            The head. See the module on what no check can find.

        Raises:
            LedgerError: naming the first entry that does not fit.
        """
        wanted: dict[int, set[str]] = {}
        for anchor in anchors:
            wanted.setdefault(anchor.entries, set()).add(anchor.hash)
        where = self._store.describe()
        with self._store.reading() as (connection, ledger):
            damage = self._store.damage(connection, str(ledger["layout"]))
            if damage:
                raise LedgerError(f"{where}: {damage}")
            books = Books(genesis(ledger))
            for row in _rows(connection, select(ENTRIES).order_by(ENTRIES.c.entry)):
                fault = books.add(row)
                if fault:
                    raise LedgerError(f"{where}: entry {books.head.entries + 1} {fault}")
                if not wanted.pop(books.head.entries, set()) <= {books.head.hash}:
                    raise LedgerError(f"{where}: entry {books.head.entries} is not the one that was anchored")
        if wanted:
            raise LedgerError(f"{where} ends before entry {max(wanted)}, which was anchored: its end is missing")
        if books.head != _head(ledger):
            raise LedgerError(f"{where}: its head does not fit its last entry; entries are missing at the end")
        return books.head

    def _settle(self, reservation: Reservation, kind: Kind, reason: str | None, who: str | None) -> None:
        name = reservation.release_id
        with self._store.writing() as (connection, ledger):
            _, spent, _ = self._account(connection, ledger, reservation.dataset)
            events = select(ENTRIES).where(
                (ENTRIES.c.entry == reservation.entry) | (ENTRIES.c.settles == reservation.entry)
            )
            entries = [self._entry(row) for row in _rows(connection, events.order_by(ENTRIES.c.entry))]
            if not entries or _key(entries[0]) != (reservation.dataset, name, reservation.rho):
                raise LedgerError(f"release {name!r} has no such reservation in {self._store.describe()}")
            now, wanted = OUTCOMES[entries[-1].kind], OUTCOMES[kind]
            if now == wanted != "reserved":
                return
            if now == "committed" or (now, wanted) == ("failed", "committed"):
                raise LedgerError(f"release {name!r} is {now} in the ledger already, which {kind!r} cannot follow")
            _append(
                connection, _head(ledger), kind, reservation.dataset, who, rho=Rho(0), spent=spent, release_id=name,
                settles=reservation.entry, reason=reason,
            )  # fmt: skip

    def _account(
        self, connection: Connection, ledger: Mapping[str, Any], dataset: str, release_id: str | None = None
    ) -> tuple[Entry, Rho, bool]:
        """How the account was opened, what is spent, and whether that release was charged; in one query.

        What is relied on was checked: those rows match their hashes, and the ledger's head fits its last row.
        """
        mine = ENTRIES.c.dataset == dataset
        newest = select(func.max(ENTRIES.c.entry)).where(mine).scalar_subquery()
        wanted = [ENTRIES.c.entry == ledger["entries"], mine & (ENTRIES.c.kind == "create"), ENTRIES.c.entry == newest]
        if release_id is not None:
            wanted.append(mine & (ENTRIES.c.kind == "reserve") & (ENTRIES.c.release_id == release_id))
        rows = list(_rows(connection, select(ENTRIES).where(or_(*wanted)).order_by(ENTRIES.c.entry)))
        entries = [self._entry(row) for row in rows if row["dataset"] == dataset]
        if not entries or entries[0].kind != "create":
            known = ", ".join(str(row["dataset"]) for row in _rows(connection, _CREATIONS)) or "none"
            raise LedgerError(
                f"data set {dataset!r} has no budget in {self._store.describe()} (it has: {known}); run equistrata "
                "budget create"
            )
        if Head(rows[-1]["entry"], self._entry(rows[-1]).hash) != _head(ledger):
            raise LedgerError(f"{self._store.describe()} is damaged: its head does not fit its last entry")
        charged = any((entry.kind, entry.release_id) == ("reserve", release_id) for entry in entries)
        return entries[0], entries[-1].spent, charged

    def _others(self, connection: Connection, dataset: str) -> tuple[list[Entry], list[Entry]]:
        """How all accounts were opened, and the charges of the others."""
        theirs = (ENTRIES.c.kind == "reserve") & (ENTRIES.c.dataset != dataset)
        rows = _rows(connection, select(ENTRIES).where((ENTRIES.c.kind == "create") | theirs).order_by(ENTRIES.c.entry))
        entries = [self._entry(row) for row in rows]
        return [each for each in entries if each.kind == "create"], [each for each in entries if each.kind != "create"]

    def _entry(self, row: Mapping[str, Any]) -> Entry:
        """A row as an entry, once its hash was checked."""
        if digest(row) != row["hash"]:
            raise LedgerError(
                f"{self._store.describe()} is damaged: an entry does not match its hash; see equistrata budget verify"
            )
        return Entry.of(row)


_CREATIONS = select(ENTRIES).where(ENTRIES.c.kind == "create")


def _append(
    connection: Connection,
    head: Head,
    kind: Kind,
    dataset: str,
    who: str | None,
    *,
    rho: Rho,
    spent: Rho,
    settles: int | None = None,
    **texts: str | None,
) -> Head:
    """Add the next entry and move the head on to it, inside the caller's transaction.

    On PostgreSQL only the owner, who opens accounts, may write; everything else is added by the database's own functions.
    """
    if connection.dialect.name == "postgresql" and kind != "create":
        return _append_by_function(connection, kind, dataset, who or _whoever(), rho, settles, texts)
    row: dict[str, Any] = dict.fromkeys(ENTRIES.c.keys())
    row |= {
        "entry": head.entries + 1,
        "settles": settles,
        "at": datetime.now(UTC).isoformat(timespec="microseconds"),
        "who": who or _whoever(),
        "kind": kind,
        "dataset": dataset,
        "rho": str(rho.exact),
        "spent": str(spent.exact),
        "software": _software(),
        "previous": head.hash,
        **texts,
    }
    row["hash"] = digest(row)
    connection.execute(ENTRIES.insert().values(**row))
    connection.execute(update(HEAD).values(entries=row["entry"], hash=row["hash"]))
    return Head(row["entry"], row["hash"])


def _append_by_function(
    connection: Connection,
    kind: Kind,
    dataset: str,
    who: str,
    rho: Rho,
    settles: int | None,
    texts: Mapping[str, str | None],
) -> Head:
    if kind == "reserve":
        names = [
            "dataset",
            "release",
            "rho",
            "reason",
            "parts",
            "epsilon",
            "delta",
            "relation",
            "mechanism",
            "strata",
            "fingerprint",
            "config",
            "journal",
        ]
        given = {name: texts.get(name) for name in names}
        given |= {"dataset": dataset, "release": texts["release_id"], "rho": str(rho.exact)}
        values: dict[str, Any] = given | {"parts": json.loads(given["parts"] or "[]")}
    else:
        names = ["entry", "kind", "reason"]
        values = {"entry": settles, "kind": kind, "reason": texts.get("reason")}
    function = "equistrata_charge" if kind == "reserve" else "equistrata_settle"
    named = ", ".join(f":{name}" for name in [*names, "who", "software"])
    head = connection.execute(text(f"SELECT {function}({named})"), values | {"who": who, "software": _software()})
    made = Head.parse(head.scalar_one())
    (row,) = _rows(connection, select(ENTRIES).where(ENTRIES.c.entry == made.entries))
    if digest(row) != made.hash:  # raised, so that it is rolled back
        raise LedgerError("the ledger's database wrote an entry that does not match its hash; nothing was charged")
    return made


def _list(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)


def _first_head(layout: str) -> dict[str, Any]:
    first = {
        "version": VERSION,
        "ledger": str(uuid.uuid4()),
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "layout": layout,
    }
    return first | {"entries": 0, "hash": genesis(first)}


def _head(ledger: Mapping[str, Any]) -> Head:
    return Head(ledger["entries"], ledger["hash"])


def _rows(connection: Connection, query: Select[Any]) -> Iterator[dict[str, Any]]:
    for row in connection.execute(query).mappings():
        yield dict(row)


def _key(entry: Entry) -> tuple[str, str | None, Rho]:
    return entry.dataset, entry.release_id, entry.rho


def _check_name(name: str, what: str) -> None:
    if not (1 <= len(name) <= 100 and name.isprintable() and name.strip() == name):
        raise LedgerError(f"the name of {what} needs 1 to 100 printable characters, without blanks at its ends")


def _whoever() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in some containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@cache
def _software() -> str:
    try:
        return f"equistrata {installed('equistrata')}"
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "equistrata"


def _again(url: str, lock_seconds: float) -> Ledger:
    return Ledger(url, lock_seconds=lock_seconds)
