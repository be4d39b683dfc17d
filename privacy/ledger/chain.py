"""The entries of a ledger, and the hash chain that protects their history."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from equistrata.privacy.budget import ADD_REMOVE, Rho
from equistrata.privacy.ledger.store import LedgerError

Kind = Literal["create", "key", "reserve", "commit", "fail", "resume"]
Outcome = Literal["reserved", "committed", "failed"]
OUTCOMES: Mapping[str, Outcome] = {"reserve": "reserved", "resume": "reserved", "commit": "committed", "fail": "failed"}
HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Head:
    """The end of the hash chain.

    Attributes
    ----------
    entries : int
        The number of entries.
    hash : str
        The hash of the last entry, which has 64 hexadecimal digits.
    """

    entries: int
    hash: str

    def __str__(self) -> str:
        return f"{self.entries}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read a head from the text that `str` returns, as printed on a release card.

        Parameters
        ----------
        text : str
            The number of entries and the hash, separated by a colon.

        Returns
        -------
        Head
            The head.

        Raises
        ------
        LedgerError
            If the text does not have this form.
        """
        entries, _, digest = text.strip().partition(":")
        if not entries.isdecimal() or len(entries) > 18 or len(digest) != 64 or not HEXADECIMAL.issuperset(digest):
            raise LedgerError(f"{text!r} is not the head of a ledger; give ENTRIES:HASH as on a release card")
        return cls(int(entries), digest)


@dataclass(frozen=True)
class ChargeDetails:
    """Details of a charge other than its amount.

    The attributes are described in `Entry`. If the same release is charged again, a `reason` is required.
    """

    parts: Sequence[str] = ()
    epsilon: float | None = None
    delta: float | None = None
    relation: str = ADD_REMOVE
    mechanism: str | None = None
    strata: str | None = None
    fingerprint: str | None = None
    config: str | None = None
    journal: str | None = None
    reason: str | None = None

    @property
    def texts(self) -> dict[str, str | None]:
        """The details by name, in the form in which the ledger's table stores them."""
        said: dict[str, str | None] = {"parts": names_text(self.parts), "reason": self.reason or None}
        said |= {"epsilon": number_text(self.epsilon), "delta": number_text(self.delta), "relation": self.relation}
        said |= {"mechanism": self.mechanism, "strata": self.strata, "fingerprint": self.fingerprint}
        return said | {"config": self.config, "journal": self.journal}


def names_text(names: Sequence[str]) -> str:
    """Return names as a JSON list, which is the form that is stored and hashed."""
    return json.dumps(list(names), ensure_ascii=False)


def number_text(value: float | None) -> str | None:
    """Return a number as the shortest text that is read as the same float."""
    return None if value is None else repr(float(value))


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger. Attributes that do not apply are None.

    Attributes
    ----------
    entry : int
        The number of the entry. Numbers start at 1 and have no gaps.
    settles : int or None
        The number of the reservation to which a commit, fail or resume entry belongs.
    at : str
        The time of the entry in UTC.
    who : str
        The user and the machine, in the form `user@host`.
    kind : {"create", "key", "reserve", "commit", "fail", "resume"}
        The kind of the entry.
    dataset : str
        The name of the data set.
    release_id : str or None
        The name of the release.
    rho : Rho
        The budget of a create entry or the cost of a reserve entry. It is zero for all other entries.
    spent : Rho
        The amount that is spent of the data set's budget, including this entry.
    epsilon, delta : float or None
        The parameters with which the amount was stated.
    relation : str or None
        The neighbouring relation.
    mechanism : str or None
        The mechanism of the release.
    strata : str or None
        The columns that define the strata of the release.
    parts : tuple of str
        The names of the parts that were paid for. For a create entry, the accounts of the same people (see
        `same_people_as`).
    fingerprint : str or None
        The fingerprint of the rows. For a create or key entry, the key with which all later fingerprints are made (see
        `equistrata.privacy.ledger.fingerprint`).
    config : str or None
        A hash of the settings and of everything else that determines the release.
    journal : str or None
        The mark of the journal from which the release can be resumed.
    software : str
        The version of equistrata that wrote the entry.
    reason : str or None
        The reason for an unusual entry, in one sentence.
    previous, hash : str
        The hash of the previous entry and the hash of this entry.
    """

    entry: int
    settles: int | None
    at: str
    who: str
    kind: Kind
    dataset: str
    release_id: str | None
    rho: Rho
    spent: Rho
    epsilon: float | None
    delta: float | None
    relation: str | None
    mechanism: str | None
    strata: str | None
    parts: tuple[str, ...]
    fingerprint: str | None
    config: str | None
    journal: str | None
    software: str
    reason: str | None
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """The head of the ledger directly after this entry."""
        return Head(self.entry, self.hash)

    @property
    def same_people_as(self) -> tuple[str, ...]:
        """The accounts of the same people as the account that this entry opens, as declared by the steward."""
        return self.parts if self.kind == "create" else ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """Convert a row of the table to an entry, without a check of its hash.

        Parameters
        ----------
        row : mapping of str to object
            The values of the row by column name.

        Returns
        -------
        Entry
            The entry.

        Raises
        ------
        ValueError, TypeError
            If the row is not a valid entry.
        """
        values = dict(row)
        if values["kind"] not in ("create", "key", *OUTCOMES):
            raise ValueError("unknown kind")
        for name in ("rho", "spent"):
            values[name] = Rho(Fraction(values[name]))
        for name in ("epsilon", "delta"):
            values[name] = None if values[name] is None else float(values[name])
        values["parts"] = tuple(json.loads(values["parts"] or "[]"))
        return cls(**values)


@dataclass(frozen=True)
class Charge:
    """A reservation and its outcome. Every charge is spent, regardless of the outcome.

    Attributes
    ----------
    entry : Entry
        The reservation.
    outcome : {"reserved", "committed", "failed"}
        The outcome so far.
    settled : str or None
        The time of the last entry that belongs to the reservation, in UTC.
    """

    entry: Entry
    outcome: Outcome
    settled: str | None


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """Return the reservations of a data set with their outcomes.

    Parameters
    ----------
    entries : iterable of Entry
        All entries of the data set, in order.

    Returns
    -------
    list of Charge
        The charges, one per reservation.
    """
    entries = list(entries)
    last = {entry.settles: entry for entry in entries if entry.settles is not None}
    reserved = [entry for entry in entries if entry.kind == "reserve"]
    return [Charge(e, OUTCOMES[last.get(e.entry, e).kind], last.get(e.entry, e).at) for e in reserved]


def genesis(ledger: Mapping[str, Any]) -> str:
    """Return the hash that precedes the first entry. It covers the values in the ledger's own row that never change."""
    return _sha256({name: ledger[name] for name in ("version", "ledger", "created", "layout")})


def digest(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 hash of a row. It covers the canonical JSON of the row, including the previous hash."""
    return _sha256({name: value for name, value in row.items() if name != "hash"})


class LedgerCheck:
    """A check of all rows of a ledger, in order, which finds the first invalid entry."""

    def __init__(self, start: str) -> None:
        self.head = Head(0, start)
        self._budget: dict[str, Rho] = {}
        self._spent: dict[str, Rho] = {}
        self._charges: dict[int, tuple[Entry, Outcome]] = {}

    def add(self, row: Mapping[str, Any]) -> str | None:
        """Check the next row.

        Parameters
        ----------
        row : mapping of str to object
            The values of the row by column name.

        Returns
        -------
        str or None
            A description of the fault, which completes a sentence such as "entry 7 is missing". If None, the row is
            valid.
        """
        if row["entry"] != self.head.entries + 1:
            return "is missing"
        if row["previous"] != self.head.hash:
            return "does not follow from the one before it"
        if digest(row) != row["hash"]:
            return "does not match its hash"
        try:
            entry = Entry.of(row)
        except (ValueError, TypeError, ZeroDivisionError):
            return "cannot be read"
        fault = self._fault(entry)
        if fault is None:
            self.head = entry.head
        return fault

    def _fault(self, entry: Entry) -> str | None:
        if entry.kind == "create":
            if entry.dataset in self._budget or entry.spent:
                return "opens an account that is already open"
            if not self._budget.keys() >= set(entry.same_people_as):
                return "names an account that is not open"
            self._budget[entry.dataset], self._spent[entry.dataset] = entry.rho, Rho(0)
            return None
        if entry.kind == "key":
            plain = not (entry.dataset or entry.rho or entry.spent or entry.release_id or entry.settles)
            return None if plain and entry.fingerprint else "does not set a key"
        if entry.dataset not in self._budget:
            return "belongs to a data set without a budget"
        if entry.kind == "reserve":
            self._spent[entry.dataset] += entry.rho
            self._charges[entry.entry] = entry, "reserved"
        else:
            charge, outcome = self._charges.get(entry.settles or 0, (None, "committed"))
            if charge is None or (charge.dataset, charge.release_id) != (entry.dataset, entry.release_id):
                return "settles a reservation that does not exist"
            if outcome == "committed" or entry.rho:
                return "settles a reservation that is already settled"
            self._charges[charge.entry] = charge, OUTCOMES[entry.kind]
        if entry.spent != self._spent[entry.dataset]:
            return "has a sum that does not match its charges"
        return "overspends the budget" if entry.spent > self._budget[entry.dataset] else None


def _sha256(content: Mapping[str, Any]) -> str:
    # A damaged file may contain bytes instead of text. Their repr differs from the repr of any text.
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(canonical.encode()).hexdigest()
