"""The entries of a ledger, and the chain of hashes that holds them together."""

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
    """Where the chain ends: the number of entries, and the hash of the last one (64 hexadecimal digits)."""

    entries: int
    hash: str

    def __str__(self) -> str:
        return f"{self.entries}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read what `str` wrote, as on a release card. Raises LedgerError if it is not that."""
        entries, _, digest = text.strip().partition(":")
        if not entries.isdecimal() or len(entries) > 18 or len(digest) != 64 or not HEXADECIMAL.issuperset(digest):
            raise LedgerError(f"{text!r} is no head of a ledger; give ENTRIES:HASH as a release card prints it")
        return cls(int(entries), digest)


@dataclass(frozen=True)
class Particulars:
    """What a charge says of itself beside its amount; `Entry` says what each of them is.

    A release that was charged before is charged again only for a `reason`.
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
        """By name, as the ledger's table holds them."""
        said: dict[str, str | None] = {"parts": names_text(self.parts), "reason": self.reason or None}
        said |= {"epsilon": number_text(self.epsilon), "delta": number_text(self.delta), "relation": self.relation}
        said |= {"mechanism": self.mechanism, "strata": self.strata, "fingerprint": self.fingerprint}
        return said | {"config": self.config, "journal": self.journal}


def names_text(names: Sequence[str]) -> str:
    """Names as the ledger's table holds them, and as they are hashed: a JSON list."""
    return json.dumps(list(names), ensure_ascii=False)


def number_text(value: float | None) -> str | None:
    """A number as the ledger's table holds it: the shortest text that reads as the same float."""
    return None if value is None else repr(float(value))


@dataclass(frozen=True)
class Entry:
    """One thing that happened, as the ledger keeps it. What does not apply is None.

    Attributes:
        entry: its number, from 1 without gaps.
        settles: the number of the reservation that a commit, fail or resume belongs to.
        at: when, UTC.
        who: user and machine.
        rho: the budget (create), the charge (reserve), else nothing.
        spent: what has been spent of the data set's budget, this entry included.
        epsilon, delta: how the amount was stated.
        relation: the neighbouring relation.
        mechanism, strata: what the release was made with, and over which columns.
        parts: what was bought, by name; of a create, the accounts of the same people (`same_people_as`).
        fingerprint: of the snapshot of rows; of a create or key entry, the key that fingerprints are made with from now
            on (see `equistrata.privacy.ledger.fingerprint`).
        config: a hash of the settings, and of what else decides the release.
        journal: the mark of the journal that a release may be resumed from.
        software: the version that wrote the entry.
        reason: why, in a sentence, for what is not the usual course.
        previous, hash: the chain.
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
        """The ledger's head just after it."""
        return Head(self.entry, self.hash)

    @property
    def same_people_as(self) -> tuple[str, ...]:
        """Accounts of the same people as the one that this entry opens, as its steward declared."""
        return self.parts if self.kind == "create" else ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """A row of the table as an entry. Raises ValueError or TypeError if it is none; its hash is not checked."""
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
    """A reservation and its outcome. Every charge is spent, whatever its outcome."""

    entry: Entry
    outcome: Outcome
    settled: str | None


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """The reservations among a data set's entries, with the outcomes that these tell."""
    entries = list(entries)
    last = {entry.settles: entry for entry in entries if entry.settles is not None}
    reserved = [entry for entry in entries if entry.kind == "reserve"]
    return [Charge(e, OUTCOMES[last.get(e.entry, e).kind], last.get(e.entry, e).at) for e in reserved]


def genesis(ledger: Mapping[str, Any]) -> str:
    """What the first entry follows: a hash of all that never changes in the ledger's own row."""
    return _sha256({name: ledger[name] for name in ("version", "ledger", "created", "layout")})


def digest(row: Mapping[str, Any]) -> str:
    """The SHA-256 that a row must carry: of its canonical JSON, without the hash but with the one before it."""
    return _sha256({name: value for name, value in row.items() if name != "hash"})


class Books:
    """Goes through the rows of a ledger in order, and finds the first that does not fit."""

    def __init__(self, start: str) -> None:
        self.head = Head(0, start)
        self._budget: dict[str, Rho] = {}
        self._spent: dict[str, Rho] = {}
        self._charges: dict[int, tuple[Entry, Outcome]] = {}

    def add(self, row: Mapping[str, Any]) -> str | None:
        """Take one more row; what is wrong with it (completing "entry 7 …"), or None."""
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
                return "opens an account that is open already"
            if not self._budget.keys() >= set(entry.same_people_as):
                return "names an account that is not open"
            self._budget[entry.dataset], self._spent[entry.dataset] = entry.rho, Rho(0)
            return None
        if entry.kind == "key":
            plain = not (entry.dataset or entry.rho or entry.spent or entry.release_id or entry.settles)
            return None if plain and entry.fingerprint else "sets no key"
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
                return "settles a reservation that was settled"
            self._charges[charge.entry] = charge, OUTCOMES[entry.kind]
        if entry.spent != self._spent[entry.dataset]:
            return "does not add up"
        return "overspends the budget" if entry.spent > self._budget[entry.dataset] else None


def _sha256(content: Mapping[str, Any]) -> str:
    # A damaged file may hold bytes where text was; repr keeps them apart from the text.
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(canonical.encode()).hexdigest()
