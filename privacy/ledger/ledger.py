"""The budget ledger: what every release from a data set costs, charged before it draws noise.

A data set has a lifetime budget (ε, δ), converted to ρ in zCDP. A release reserves its ρ in one transaction before a
mechanism sees a row; the reservation is then committed, or marked failed. Both are spent: there are no refunds. The sum
stays within the budget, so all releases together are (ε, δ)-differentially private under the account's neighbouring
relation. See docs/proofs/budget.md, also on what an edit of the history leaves to find (`Ledger.verify`).

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

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from equistrata.errors import InputError
from equistrata.privacy.budget import ADD_REMOVE, BudgetExceeded, Rho
from equistrata.privacy.ledger.chain import (
    OUTCOMES,
    Books,
    Charge,
    Entry,
    Head,
    Kind,
    Particulars,
    charges_of,
    genesis,
    names_text,
    number_text,
)  # fmt: skip
from equistrata.privacy.ledger.fingerprint import (
    KEY_VARIABLE,
    SamePeople,
    check_key,
    check_people,
    key_name,
    ledger_key,
    same_people,
)
from equistrata.privacy.ledger.heads import keep_head, kept_head
from equistrata.privacy.ledger.lease import Lease, lease_holder
from equistrata.privacy.ledger.series import Standing
from equistrata.privacy.ledger.sqlite import key_file
from equistrata.privacy.ledger.store import LOCK_SECONDS, LedgerError, OlderCopy, Store
from equistrata.privacy.ledger.tables import ENTRIES, VERSION
from equistrata.privacy.ledger.transaction import IS_CREATE, IS_RESERVE, SETS_KEY, Transaction

__all__ = ["Charge", "Entry", "Head", "Ledger", "LedgerError", "OlderCopy", "Particulars", "SamePeople"]

NO_PARTICULARS = Particulars()
REMEDY = (
    "bring the newest copy back; if it is lost, open a new ledger with what the newest release card says is left "
    "(docs/ledger.md)"
)


class Ledger:
    """The budgets of data sets, in one SQLite file or one PostgreSQL database. Any number of processes may use it.

    Every method is one transaction. A ledger may be used by several threads, cross a fork, and be pickled.

    Args:
        url: a SQLAlchemy URL (sqlite:///…, postgresql://…), or the path of a SQLite file.
        lock_seconds: how long to wait while others write.
        heads: a folder that keeps the newest head of each ledger (`equistrata.privacy.ledger.heads`). Then `verify`,
            and everything that writes, refuses an older copy. None keeps and checks nothing.

    Raises:
        LedgerError: by every method, if the ledger is missing, read-only, locked, damaged, of another version or out of
            reach; in one sentence without credentials. Then nothing was charged, unless the connection broke while
            the database was committing: then the charge may stand, and is found under its release id.
    """

    def __init__(
        self, url: str | os.PathLike[str], *, lock_seconds: float = LOCK_SECONDS, heads: Path | None = None
    ) -> None:
        self._arguments = os.fspath(url), lock_seconds
        self._store = Store(url, lock_seconds)
        self._heads = heads

    def __repr__(self) -> str:
        return f"<{self._store.describe()}>"

    def __reduce__(self) -> tuple[Any, ...]:
        url, lock_seconds = self._arguments
        return partial(Ledger, lock_seconds=lock_seconds, heads=self._heads), (url,)

    @property
    def path(self) -> Path | None:
        """The SQLite file, or None on PostgreSQL."""
        return self._store.path

    @property
    def identity(self) -> str:
        """The ledger's own name, drawn at random when it was made."""
        with self._now() as now:
            return str(now.row["ledger"])

    @property
    def head(self) -> Head:
        """The end of the chain."""
        with self._now() as now:
            return now.head

    @property
    def key_name(self) -> str | None:
        """The name of the key that fingerprints are made with; "" for none, None if nothing sets it yet."""
        with self._now() as now:
            return now.key()

    def key(self, given: str | None = None) -> bytes | None:
        """The key for fingerprints at hand (`ledger_key`); None on PostgreSQL where none is given.

        Raises LedgerError if it cannot be used, or is gone from beside a ledger with fingerprints made with it.
        """
        filed = self.path is not None and not given and not os.environ.get(KEY_VARIABLE)
        # A key is made once: another one in its place would make all rows look new. Its file is there before the ledger
        # names it, so the name is read first: another process may be making both.
        if filed and self.key_name and not key_file(Path(self.path or "")).exists():
            raise LedgerError(
                f"key file {str(key_file(Path(self.path or '')))!r} is gone, so rows cannot be recognised; restore it "
                "from a copy, or, if it is lost, set a new key: equistrata budget key"
            )
        return ledger_key(self.path, given)

    def create(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        *,
        relation: str = ADD_REMOVE,
        same_people_as: Sequence[str] = (),
        key: str | None = None,
        who: str | None = None,
    ) -> Rho:
        """Open a data set's account with a lifetime budget, returned in zCDP; make the ledger itself if there is none.

        Args:
            dataset: a name of 1 to 100 printable characters.
            epsilon, delta: the guarantee that all releases together must keep; 0 < ε ≤ 500, 0 < δ < 1.
            relation: neighbouring tables (`privacy.budget.relation_of`); every release must be under the same.
            same_people_as: accounts whose rows may be the same people's. Without it, their rows are refused under this
                name; with it, their prices add up (`same_people`).
            key: for fingerprints, as for `key`. It is set here: charges with fingerprints of another key are refused.

        Raises LedgerError if the data set has an account (budgets are never changed), one of `same_people_as` has none,
        the ledger has another key, or what is left of a deleted ledger lies there; InputError if (ε, δ) is no budget.
        """
        _check_name(dataset, "a data set")
        budget = Rho.from_epsilon_delta(epsilon, delta)
        self._store.create(_first_head)
        at_hand = self.key(key)
        with self._now(writes=True) as now:
            if any(now.rows(select(ENTRIES).where(IS_CREATE, ENTRIES.c.dataset == dataset))):
                raise LedgerError(f"data set {dataset!r} has a budget, which is never changed; use another name")
            for named in same_people_as:
                now.account(named)
            parts = names_text(same_people_as) if same_people_as else None
            name, before = key_name(at_hand, str(now.row["ledger"])), now.key()
            if name:
                check_key(before or name, name)
            stated = None if before and not name else f"key={name}"
            about = {"epsilon": number_text(epsilon), "delta": number_text(delta), "relation": relation, "parts": parts}
            about["fingerprint"] = stated
            now.append("create", dataset, budget, Rho(0), about | {"who": who})
        return budget

    def upgrade(self) -> None:
        """Bring a ledger of an earlier version to what this one expects of its database. Its history stays.

        On PostgreSQL that is for the owner (see `equistrata.privacy.ledger.postgres`); LedgerError for anyone else.
        """
        self._store.upgrade()

    def set_key(self, key: str | None = None, *, who: str | None = None) -> bool:
        """Set the key of fingerprints to the one at hand, as an entry of its own; whether it was another.

        For a lost key, or one that a charge with a foreign key has set. Charges that were made with other
        keys are not compared with later ones any more. On PostgreSQL it is for the owner; LedgerError for anyone else,
        or where no key is at hand.
        """
        self.verify()  # before a key file is made
        at_hand = ledger_key(self.path, key)
        if at_hand is None:
            raise LedgerError(f"no key for fingerprints is at hand; set {KEY_VARIABLE}")
        with self._now(writes=True) as now:
            name, before = key_name(at_hand, str(now.row["ledger"])), now.key()
            if name == before and any(now.rows(select(ENTRIES).where(SETS_KEY))):
                return False
            reason = "the key of fingerprints is set" + f", in place of {before}" * bool(before and name != before)
            now.append("key", "", Rho(0), Rho(0), {"fingerprint": f"key={name}", "reason": reason, "who": who})
        return name != before

    def lease(self, dataset: str, release_id: str, token: str) -> Lease:
        """Hold a release while the block runs, for everyone who shares the ledger (`equistrata.privacy.ledger.lease`).

        Raises LedgerError on entering if another run, with another token, holds it.
        """
        return Lease(self._store, dataset, release_id, token)

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
        particulars: Particulars = NO_PARTICULARS,
        *,
        series: Standing | None = None,
        who: str | None = None,
    ) -> Entry:
        """Charge a release, in one transaction, before any mechanism sees a row. There are no refunds.

        Args:
            rho: the whole cost, positive, under the relation of the particulars.
            release_id: 1 to 100 printable characters, new to this data set unless the particulars have a reason why
                the same release is charged again (noise had to be drawn again).
            series: the month that it is of a series; the mark of the series is added to the parts.
            who: as in `Entry`.

        Returns the entry, for `commit` or `fail`. Raises, when nothing was charged:
            BudgetExceeded: more than is left, of the account or the series; it carries both amounts.
            LedgerError: no such data set, another relation than its own, the release has been charged and no reason
                is given, the fingerprint is of a foreign key or of other rows than at the release's first charge, or
                the rows are those of another account that was not opened as the same people's.
            InputError: no positive amount, or a month beyond the series' horizon.
        """
        amount = Rho.of(rho)
        if not amount:
            raise InputError("a reservation needs a positive amount of ρ")
        _check_name(release_id, "a release")
        if series is not None:
            particulars = replace(particulars, parts=[*particulars.parts, series.series.mark])
        reason, relation = particulars.reason, particulars.relation
        named = f"release {release_id!r} of data set {dataset!r}"
        with self._now(writes=True) as now:
            account, spent, first = now.account(dataset, release_id)
            if relation != account.relation:
                raise LedgerError(
                    f"the budget of data set {dataset!r} is under {account.relation!r}, and a release under "
                    f"{relation!r} does not add up with it; release under the first, or open another account"
                )
            if first and not reason:
                raise LedgerError(f"{named} was charged already; resume it, or choose another id")
            if reason and not first:
                raise LedgerError(f"{named} was never charged before; leave out the reason")
            if first is None:
                others = now.entries(IS_RESERVE, ENTRIES.c.dataset != dataset)
                check_people(dataset, particulars.fingerprint, now.entries(IS_CREATE), others, now.key())
            elif first.fingerprint != particulars.fingerprint:
                raise LedgerError(f"{named} was charged for other rows; charge them under another id")
            if spent + amount > account.rho:
                raise BudgetExceeded(amount, account.rho - spent, named)
            if series is not None:
                series.check(now.entries(IS_RESERVE, ENTRIES.c.dataset == dataset), release_id, amount)
            texts = particulars.texts | {"release_id": release_id, "who": who}
            return now.append("reserve", dataset, amount, spent + amount, texts)

    def commit(self, reservation: Entry, *, who: str | None = None) -> None:
        """Mark a release as made. Idempotent. Raises LedgerError if it was marked failed, or is not in this ledger."""
        self._settle(reservation, "commit", None, who)

    def fail(self, reservation: Entry, reason: str | None = None, *, who: str | None = None) -> None:
        """Mark a release as failed: spent, all the same. Idempotent. Raises LedgerError if committed, or not here."""
        self._settle(reservation, "fail", reason, who)

    def resume(self, reservation: Entry, reason: str | None = None, *, who: str | None = None) -> None:
        """Mark a release as resumed from what it had paid for, at no cost. Raises LedgerError as `fail`."""
        self._settle(reservation, "resume", reason, who)

    def account(self, dataset: str) -> Entry:
        """The entry that opened a data set's account. Raises LedgerError if there is none."""
        with self._now() as now:
            return now.account(dataset)[0]

    def budget(self, dataset: str) -> Rho:
        """The lifetime budget."""
        return self.account(dataset).rho

    def spent(self, dataset: str) -> Rho:
        """The sum of all reservations, whatever their outcome."""
        with self._now() as now:
            return now.account(dataset)[1]

    def remaining(self, dataset: str) -> Rho:
        """What is left of the lifetime budget."""
        with self._now() as now:
            account, spent, _ = now.account(dataset)
        return account.rho - spent

    def accounts(self) -> list[Entry]:
        """The entries that opened accounts, in order; their `spent` is of that moment."""
        with self._now() as now:
            return now.entries(IS_CREATE)

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Every entry of one data set, or of all, in order. Raises LedgerError if there is no such data set."""
        with self._now() as now:
            if dataset is None:
                return now.entries()
            now.account(dataset)
            return now.entries(ENTRIES.c.dataset == dataset)

    def charges(self, dataset: str, release_id: str | None = None) -> list[Charge]:
        """The reservations of a data set, or of one of its releases, with their outcomes."""
        found = charges_of(self.history(dataset))
        return [charge for charge in found if release_id in (None, charge.entry.release_id)]

    def verify(self, anchors: Sequence[Head] = (), *, keep: bool = False) -> Head:
        """Check all of history: the database's own integrity, every hash, every sum, and that no budget is overspent.

        It finds a changed, missing, added or moved entry. It cannot find a new, whole chain, or an older copy of the
        whole ledger: anchors do, heads that were printed earlier (on release cards), through which it must pass. So
        does the newest head in the folder `heads`, where the ledger's own is kept then if `keep`.
        Returns the head. Raises LedgerError naming the first entry that does not fit; OlderCopy for an anchor.
        """
        wanted: dict[int, set[str]] = {}
        for anchor in anchors:
            wanted.setdefault(anchor.entries, set()).add(anchor.hash)
        where = self._store.describe()
        with self._now(newest=True, keep=keep) as now:
            damage = self._store.damage(now.connection, str(now.row["layout"]))
            if damage:
                raise LedgerError(f"{where}: {damage}")
            books = Books(genesis(now.row))
            for row in now.rows(select(ENTRIES).order_by(ENTRIES.c.entry)):
                fault = books.add(row)
                if fault:
                    raise LedgerError(f"{where}: entry {books.head.entries + 1} {fault}")
                if not wanted.pop(books.head.entries, set()) <= {books.head.hash}:
                    raise OlderCopy(f"{where}: entry {books.head.entries} is not the one that was anchored; {REMEDY}")
            if wanted:
                raise OlderCopy(
                    f"{where} ends before entry {max(wanted)}, which was anchored: its end is missing; {REMEDY}"
                )
            if books.head != now.head:
                raise LedgerError(f"{where}: its head does not fit its last entry; entries are missing at the end")
        return books.head

    def _settle(self, reservation: Entry, kind: Kind, reason: str | None, who: str | None) -> None:
        dataset, name, number = reservation.dataset, reservation.release_id, reservation.entry
        with self._now(writes=True) as now:
            _, spent, _ = now.account(dataset)
            entries = now.entries((ENTRIES.c.entry == number) | (ENTRIES.c.settles == number))
            if entries[:1] != [reservation]:
                raise LedgerError(f"release {name!r} has no such reservation in {self._store.describe()}")
            outcome, wanted = OUTCOMES[entries[-1].kind], OUTCOMES[kind]
            if outcome == wanted != "reserved":
                return
            if outcome == "committed" or (outcome, wanted) == ("failed", "committed"):
                raise LedgerError(f"release {name!r} is {outcome} in the ledger already, which {kind!r} cannot follow")
            now.append(kind, dataset, Rho(0), spent, {"release_id": name, "reason": reason, "who": who}, number)

    @contextmanager
    def _now(self, *, writes: bool = False, newest: bool = False, keep: bool = False) -> Iterator[Transaction]:
        """One transaction. It refuses an older copy if it writes, or `newest`; and keeps the head if it writes, or
        `keep`."""
        heads = self._heads if writes or newest else None
        with self._store.transaction(writes=writes) as (connection, row):
            now = Transaction(connection, row, self._store.describe())
            kept = None if heads is None else kept_head(heads, str(row["ledger"]))
            if kept is not None:
                now.check_holds(kept, f"which was seen on this machine, so it is an older copy; {REMEDY}")
            yield now
        if heads is not None and (writes or keep):
            keep_head(heads, str(row["ledger"]), now.head)


def _first_head(layout: str) -> dict[str, Any]:
    made = datetime.now(UTC).isoformat(timespec="microseconds")
    first = {"version": VERSION, "ledger": str(uuid.uuid4()), "created": made, "layout": layout}
    return first | {"entries": 0, "hash": genesis(first)}


def _check_name(name: str, what: str) -> None:
    if not (1 <= len(name) <= 100 and name.isprintable() and name.strip() == name):
        raise LedgerError(f"the name of {what} needs 1 to 100 printable characters, without blanks at its ends")
