"""The budget ledger, which records the cost of each release from a data set before its noise is drawn.

Each data set has a lifetime budget (ε, δ), which is converted to ρ in zCDP. A release reserves its ρ in one transaction
before a mechanism reads any row. The reservation is then committed or marked as failed. Both count as spent, so there
are no refunds. The sum of all reservations stays within the budget. Therefore, all releases together are (ε,
δ)-differentially private under the neighbouring relation of the account. See docs/proofs/budget.md for the proof, and
for the changes of the history that `Ledger.verify` can detect.

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
    Charge,
    ChargeDetails,
    Entry,
    Head,
    Kind,
    LedgerCheck,
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
from equistrata.privacy.ledger.heads import keep_head, load_head
from equistrata.privacy.ledger.lease import Lease, lease_holder
from equistrata.privacy.ledger.series import Standing
from equistrata.privacy.ledger.sqlite import key_file
from equistrata.privacy.ledger.store import LOCK_SECONDS, LedgerError, OlderCopy, Store
from equistrata.privacy.ledger.tables import ENTRIES, VERSION
from equistrata.privacy.ledger.transaction import IS_CREATE, IS_RESERVE, SETS_KEY, Transaction

__all__ = ["Charge", "ChargeDetails", "Entry", "Head", "Ledger", "LedgerError", "OlderCopy", "SamePeople"]

NO_PARTICULARS = ChargeDetails()
REMEDY = (
    "restore the newest copy; if it is lost, create a new ledger with the budget that is left on the "
    "newest release card (docs/ledger.md)"
)


class Ledger:
    """Privacy budgets of data sets, stored in a SQLite file or a PostgreSQL database.

    Each method is one transaction. Any number of processes can use the ledger at the same time. A ledger can be used by
    several threads and after a fork, and it can be pickled.

    Parameters
    ----------
    url : str or path-like
        A SQLAlchemy URL that starts with `sqlite:///` or `postgresql://`, or the path of a SQLite file.
    lock_seconds : float, default=20.0
        The time to wait for other writers, in seconds.
    heads : Path or None, default=None
        A folder that stores the newest head of each ledger (see `equistrata.privacy.ledger.heads`). If it is given,
        then `verify` and all methods that write refuse an older copy of the ledger. If None, heads are neither stored
        nor checked.

    Raises
    ------
    LedgerError
        Raised by every method if the ledger is missing, read-only, locked, damaged, not reachable or of another
        version. The message does not contain credentials. In this case nothing was charged, unless the connection was
        lost while the database committed. Then the charge may exist, and it can be found by the name of the release.
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
        """The path of the SQLite file, or None for a ledger on PostgreSQL."""
        return self._store.path

    @property
    def identity(self) -> str:
        """The name of the ledger, which was chosen at random when the ledger was created."""
        with self._now() as now:
            return str(now.row["ledger"])

    @property
    def head(self) -> Head:
        """The end of the hash chain."""
        with self._now() as now:
            return now.head

    @property
    def key_name(self) -> str | None:
        """The name of the key with which fingerprints are made.

        It is empty if there is no key, and None if it is not yet set.
        """
        with self._now() as now:
            return now.key()

    def key(self, given: str | None = None) -> bytes | None:
        """Return the key for fingerprints that is available here (see `ledger_key`).

        Parameters
        ----------
        given : str or None, default=None
            The key. If None, the environment variable or the key file is used.

        Returns
        -------
        bytes or None
            The key. It is None if no key is given for a ledger on PostgreSQL.

        Raises
        ------
        LedgerError
            If the key cannot be used, or if the key file is missing although the ledger has fingerprints that were made
            with it.
        """
        filed = self.path is not None and not given and not os.environ.get(KEY_VARIABLE)
        # A key is created only once, because all rows would look new under another key. The file of the key is written
        # before the ledger names the key, so the name is read first in case that another process creates both.
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
        """Open an account with a lifetime budget for a data set. The ledger is created if it does not exist.

        Parameters
        ----------
        dataset : str
            The name of the data set, which has 1 to 100 printable characters.
        epsilon : float
            Parameter of the guarantee that all releases together must satisfy, 0 < ε ≤ 500.
        delta : float
            Parameter of the guarantee that all releases together must satisfy, 0 < δ < 1.
        relation : str, default="add-remove"
            The neighbouring relation (see `privacy.budget.relation_of`). All releases must use the same relation.
        same_people_as : sequence of str, default=()
            The accounts that may contain the same people. The rows of all other accounts are refused for this data set.
            The costs of accounts with the same people add up (see `same_people`).
        key : str or None, default=None
            The key for fingerprints, as in the method `key`. The ledger will refuse charges with fingerprints of
            another key.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Returns
        -------
        Rho
            The budget in zCDP.

        Raises
        ------
        LedgerError
            If the data set already has an account, because budgets are never changed. It is also raised if an account
            in `same_people_as` does not exist, if the ledger uses another key, or if files of a deleted ledger are
            found at this place.
        InputError
            If `epsilon` or `delta` is out of its range.
        """
        _check_name(dataset, "a data set")
        budget = Rho.from_epsilon_delta(epsilon, delta)
        self._store.create(_first_head)
        at_hand = self.key(key)
        with self._now(writes=True) as now:
            if any(now.rows(select(ENTRIES).where(IS_CREATE, ENTRIES.c.dataset == dataset))):
                raise LedgerError(
                    f"data set {dataset!r} already has a budget, which cannot be changed; use another name"
                )
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
        """Update a ledger that was created by an earlier version. The history is not changed.

        On PostgreSQL, only the owner of the database can do this (see `equistrata.privacy.ledger.postgres`).

        Raises
        ------
        LedgerError
            If the user is not the owner.
        """
        self._store.upgrade()

    def set_key(self, key: str | None = None, *, who: str | None = None) -> bool:
        """Set the key for fingerprints to the one that is available here, as a new entry.

        Use this method if the key was lost, or if a charge has set a wrong key. Charges with fingerprints of other keys
        are no longer compared with later charges. On PostgreSQL, only the owner of the database can do this.

        Parameters
        ----------
        key : str or None, default=None
            The key, as in the method `key`.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Returns
        -------
        bool
            True if the key was changed.

        Raises
        ------
        LedgerError
            If no key is available, or if the user is not the owner.
        """
        self.verify()  # must be called before a key file is created
        at_hand = ledger_key(self.path, key)
        if at_hand is None:
            raise LedgerError(f"there is no key for fingerprints; set {KEY_VARIABLE}")
        with self._now(writes=True) as now:
            name, before = key_name(at_hand, str(now.row["ledger"])), now.key()
            if name == before and any(now.rows(select(ENTRIES).where(SETS_KEY))):
                return False
            reason = "the key of fingerprints is set" + f", in place of {before}" * bool(before and name != before)
            now.append("key", "", Rho(0), Rho(0), {"fingerprint": f"key={name}", "reason": reason, "who": who})
        return name != before

    def lease(self, dataset: str, release_id: str, token: str) -> Lease:
        """Return a context manager that holds a release for all users of the ledger.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        release_id : str
            The name of the release.
        token : str
            A secret that identifies the run (see `equistrata.privacy.ledger.lease`).

        Returns
        -------
        Lease
            The context manager. It raises a LedgerError if another run with another token holds the release.
        """
        return Lease(self._store, dataset, release_id, token)

    def lease_holder(self, dataset: str, release_id: str) -> str | None:
        """Return the host of the run that holds a release. If it is not running, return None."""
        return lease_holder(self._store, dataset, release_id)

    def same_people(self) -> list[SamePeople]:
        """Return the groups of accounts that were opened for the same people."""
        return same_people(self.accounts())

    def reserve(
        self,
        dataset: str,
        rho: Rho | Fraction | float,
        release_id: str,
        particulars: ChargeDetails = NO_PARTICULARS,
        *,
        series: Standing | None = None,
        who: str | None = None,
    ) -> Entry:
        """Charge a release in one transaction before a mechanism reads any row. There are no refunds.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        rho : Rho, Fraction or float
            The total cost of the release, ρ > 0, under the neighbouring relation in `particulars`.
        release_id : str
            The name of the release, which has 1 to 100 printable characters. It must be new to the data set, unless
            `particulars` has a reason to charge the release again because noise had to be drawn again.
        particulars : ChargeDetails, default=NO_PARTICULARS
            The details of the charge. By default, there are none.
        series : Standing or None, default=None
            The month, if the release belongs to a series. The mark of the series is added to the parts of the charge.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Returns
        -------
        Entry
            The reservation, which is an argument of `commit` and `fail`.

        Raises
        ------
        BudgetExceeded
            If the cost is larger than the remaining amount of the account or of the series. Nothing is charged.
        LedgerError
            If the data set has no account or another relation, if the release was charged before and no reason is
            given, if the fingerprint was made with another key, if it differs from the first charge of the release, or
            if the rows belong to another account that was not opened for the same people. Nothing is charged.
        InputError
            If the amount is not positive, or if the month is beyond the horizon of the series. Nothing is charged.
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
                    f"the budget of data set {dataset!r} is for {account.relation!r}, so the cost of a release for "
                    f"{relation!r} cannot be added; use the same relation and unit, or create another account"
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
        """Mark a release as complete. A second call has no effect.

        Parameters
        ----------
        reservation : Entry
            The reservation of the release.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Raises
        ------
        LedgerError
            If the release was marked as failed, or if the reservation is not in this ledger.
        """
        self._settle(reservation, "commit", None, who)

    def fail(self, reservation: Entry, reason: str | None = None, *, who: str | None = None) -> None:
        """Mark a release as failed. Its cost remains spent, and a second call has no effect.

        Parameters
        ----------
        reservation : Entry
            The reservation of the release.
        reason : str or None, default=None
            The reason of the failure.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Raises
        ------
        LedgerError
            If the release was committed, or if the reservation is not in this ledger.
        """
        self._settle(reservation, "fail", reason, who)

    def resume(self, reservation: Entry, reason: str | None = None, *, who: str | None = None) -> None:
        """Mark a release as resumed from the noise that it has paid for. This does not cost anything.

        Parameters
        ----------
        reservation : Entry
            The reservation of the release.
        reason : str or None, default=None
            The reason.
        who : str or None, default=None
            The name of the user. If None, the current user and machine are used.

        Raises
        ------
        LedgerError
            If the release was committed, or if the reservation is not in this ledger.
        """
        self._settle(reservation, "resume", reason, who)

    def account(self, dataset: str) -> Entry:
        """Return the entry that opened the account of a data set.

        Parameters
        ----------
        dataset : str
            The name of the data set.

        Returns
        -------
        Entry
            The entry.

        Raises
        ------
        LedgerError
            If the account does not exist.
        """
        with self._now() as now:
            return now.account(dataset)[0]

    def budget(self, dataset: str) -> Rho:
        """Return the lifetime budget of a data set."""
        return self.account(dataset).rho

    def spent(self, dataset: str) -> Rho:
        """Return the sum of all reservations of a data set, regardless of their outcomes."""
        with self._now() as now:
            return now.account(dataset)[1]

    def remaining(self, dataset: str) -> Rho:
        """Return the amount that is left of the lifetime budget of a data set."""
        with self._now() as now:
            account, spent, _ = now.account(dataset)
        return account.rho - spent

    def accounts(self) -> list[Entry]:
        """Return the entries that opened accounts, in order. Their attribute `spent` refers to that time."""
        with self._now() as now:
            return now.entries(IS_CREATE)

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Return the entries of a data set, in order.

        Parameters
        ----------
        dataset : str or None, default=None
            The name of the data set. If None, the entries of all data sets are returned.

        Returns
        -------
        list of Entry
            The entries.

        Raises
        ------
        LedgerError
            If the data set does not exist.
        """
        with self._now() as now:
            if dataset is None:
                return now.entries()
            now.account(dataset)
            return now.entries(ENTRIES.c.dataset == dataset)

    def charges(self, dataset: str, release_id: str | None = None) -> list[Charge]:
        """Return the reservations of a data set with their outcomes.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        release_id : str or None, default=None
            The name of a release. If None, the charges of all releases are returned.

        Returns
        -------
        list of Charge
            The charges.
        """
        found = charges_of(self.history(dataset))
        return [charge for charge in found if release_id in (None, charge.entry.release_id)]

    def verify(self, anchors: Sequence[Head] = (), *, keep: bool = False) -> Head:
        """Check the whole history of the ledger.

        The method checks the integrity of the database, every hash, every sum, and that no budget is exceeded. It
        detects entries that were changed, removed, added or moved. It cannot detect an older copy of the whole ledger
        or a new chain that is complete. Such a replacement is detected with anchors, and with the newest head in the
        folder `heads`.

        Parameters
        ----------
        anchors : sequence of Head, default=()
            Heads that were printed earlier, for example on release cards. The chain must contain all of them.
        keep : bool, default=False
            If True, store the head of the ledger in the folder `heads`.

        Returns
        -------
        Head
            The head of the ledger.

        Raises
        ------
        LedgerError
            If an entry is not valid. The message names the first of these entries.
        OlderCopy
            If the chain does not contain an anchor.
        """
        wanted: dict[int, set[str]] = {}
        for anchor in anchors:
            wanted.setdefault(anchor.entries, set()).add(anchor.hash)
        where = self._store.describe()
        with self._now(newest=True, keep=keep) as now:
            damage = self._store.damage(now.connection, str(now.row["layout"]))
            if damage:
                raise LedgerError(f"{where}: {damage}")
            books = LedgerCheck(genesis(now.row))
            for row in now.rows(select(ENTRIES).order_by(ENTRIES.c.entry)):
                fault = books.add(row)
                if fault:
                    raise LedgerError(f"{where}: entry {books.head.entries + 1} {fault}")
                if not wanted.pop(books.head.entries, set()) <= {books.head.hash}:
                    raise OlderCopy(f"{where}: entry {books.head.entries} is not the one that was anchored; {REMEDY}")
            if wanted:
                raise OlderCopy(
                    f"{where} ends before entry {max(wanted)}, which was anchored, so its end is missing; {REMEDY}"
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
                raise LedgerError(f"release {name!r} is already {outcome} in the ledger, so it cannot become {wanted}")
            now.append(kind, dataset, Rho(0), spent, {"release_id": name, "reason": reason, "who": who}, number)

    @contextmanager
    def _now(self, *, writes: bool = False, newest: bool = False, keep: bool = False) -> Iterator[Transaction]:
        """Run one transaction.

        An older copy is refused if `writes` or `newest`, and the head is stored if `writes` or `keep`.
        """
        heads = self._heads if writes or newest else None
        with self._store.transaction(writes=writes) as (connection, row):
            now = Transaction(connection, row, self._store.describe())
            kept = None if heads is None else load_head(heads, str(row["ledger"]))
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
        raise LedgerError(f"the name of {what} needs 1 to 100 printable characters, without spaces at its start or end")
