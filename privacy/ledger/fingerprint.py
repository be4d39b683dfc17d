"""Fingerprints of snapshots: keyed hashes that show whether two charges are about the same people.

A plain hash of a small table could be guessed by trying tables; HMAC-SHA256 under a key outside the ledger cannot.
The ledger's own name goes in, so the same rows have unrelated fingerprints in two ledgers. docs/ledger.md says what
they recognise, docs/proofs/budget.md why the prices of two accounts of the same people add up.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.chain import Entry
from equistrata.privacy.ledger.postgres import SAME_COLUMNS
from equistrata.privacy.ledger.sqlite import key_file
from equistrata.privacy.ledger.store import LedgerError

KEY_VARIABLE = "EQUISTRATA_LEDGER_KEY"
SHORTEST_KEY = 16  # characters


def content_digest(paths: Iterable[Path]) -> bytes:
    """SHA-256 of the files' bytes, in order. Not to be shown: it can be guessed."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.digest()


@dataclass(frozen=True)
class Fingerprint:
    """The rows that were charged for, as the ledger keeps them. Every part is hexadecimal and keyed.

    Attributes:
        key: identifies the key; empty in early entries, which have `file` alone.
        file: of the files' bytes.
        rows: of the multiset of rows, in the released columns; empty in early entries.
        columns: one for each of these columns.
    """

    key: str
    file: str
    rows: str
    columns: frozenset[str]

    @classmethod
    def of(cls, content: bytes, seen: Mapping[str, Any], key: bytes, ledger: str) -> Fingerprint:
        """From a `content_digest` and a Snapshot's digests, in the ledger of that name (`Ledger.identity`)."""
        own = hmac.digest(key, b"equistrata snapshot " + ledger.encode(), "sha256")

        def keyed(what: str, content: bytes) -> str:
            return hmac.digest(own, what.encode() + b" " + content, "sha256").hex()

        columns = (keyed("column", f"{name}={digest}".encode())[:16] for name, digest in seen["columns"].items())
        file = hmac.digest(own, content, "sha256").hex()
        return cls(key_name(key, ledger), file, keyed("rows", seen["rows"].encode()), frozenset(columns))

    @classmethod
    def parse(cls, text: str | None) -> Fingerprint | None:
        """What `str` wrote, or an earlier version; None if there is none."""
        if not text:
            return None
        parts = dict(part.partition("=")[::2] for part in text.split())
        if "rows" not in parts:
            return cls("", text, "", frozenset())
        columns = frozenset(filter(None, parts.get("columns", "").split(",")))
        return cls(parts.get("key", ""), parts.get("file", ""), parts["rows"], columns)

    def __str__(self) -> str:
        return f"key={self.key} file={self.file} rows={self.rows} columns={','.join(sorted(self.columns))}"

    def same_rows(self, other: Fingerprint) -> bool:
        """Whether both are of the same rows: the same files, or the same rows in the same columns."""
        return self.file == other.file or bool(self.rows and self.rows == other.rows)

    def alike(self, other: Fingerprint) -> bool:
        """Whether both are of the same people: the same rows, or at least SAME_COLUMNS equal columns."""
        return self.same_rows(other) or len(self.columns & other.columns) >= SAME_COLUMNS


def key_name(key: bytes | None, ledger: str) -> str:
    """What shows in a fingerprint which key it was made with, in the ledger of that identity; "" for no key."""
    if key is None:
        return ""
    own = hmac.digest(key, b"equistrata snapshot " + ledger.encode(), "sha256")
    return hmac.digest(own, b"key ", "sha256").hex()[:16]


def check_key(wanted: str, used: str) -> None:
    """Raise LedgerError unless a fingerprint's key is the ledger's ("" for none)."""
    if used != wanted:
        why = (
            "the ledger's fingerprints were made with another key; bring that key back"
            if wanted
            else "the ledger was opened without a key for fingerprints; use none"
        )
        raise LedgerError(
            f"rows cannot be recognised, since {why} ({KEY_VARIABLE}, or the file .key beside the ledger), or have its "
            "steward set this key (equistrata budget key)"
        )


def ledger_key(ledger_file: Path | None, given: str | None = None) -> bytes | None:
    """The key: `given`, or from EQUISTRATA_LEDGER_KEY, or a random one kept beside a SQLite ledger (mode 0600).

    None for a ledger on PostgreSQL where none is given: its releases carry no fingerprint. Raises LedgerError if the
    key is shorter than 16 characters, or the key file can be neither read nor made.
    """
    given = given or os.environ.get(KEY_VARIABLE)
    if given:
        if len(given) < SHORTEST_KEY:
            raise LedgerError(f"the key for fingerprints ({KEY_VARIABLE}) is too short; give {SHORTEST_KEY} characters")
        return given.encode()
    if ledger_file is None:
        return None
    path = key_file(ledger_file)
    try:
        if not path.exists():
            _make(path)
        key = bytes.fromhex(path.read_text("ascii"))
        if not key:
            raise ValueError
        return key
    except (OSError, ValueError):
        raise LedgerError(f"key file {str(path)!r} cannot be used; mend its mode, or set {KEY_VARIABLE}") from None


@dataclass(frozen=True)
class SamePeople:
    """Accounts of the same people.

    Attributes:
        datasets: their names, in the order in which they were opened; two at least.
        rho: what their budgets allow together.
        delta: the smallest of theirs.
        of_rows: whether their units or relations differ, so that this is a price for one row that is added or removed,
            and of a larger unit, or of one that is replaced, nothing is said.
    """

    datasets: tuple[str, ...]
    rho: Rho
    delta: float
    of_rows: bool = False

    @property
    def epsilon(self) -> float:
        """What `rho` is at `delta`."""
        return self.rho.epsilon(self.delta)

    def __str__(self) -> str:
        named = ", ".join(self.datasets[:-1]) + f" and {self.datasets[-1]}"
        return (
            f"{named} hold the same people, so their prices add up: all their budgets together are "
            f"ρ = {float(self.rho):.6g} (ε = {self.epsilon:.4g} at δ = {self.delta:g})"
            + (
                ", for one row that is added: they protect different units, or in another relation"
                if self.of_rows
                else ""
            )
        )


def same_people(accounts: Sequence[Entry]) -> list[SamePeople]:
    """The groups of accounts that were opened as the same people's, in order."""
    groups: list[list[Entry]] = []
    for account in accounts:
        joined = [group for group in groups if any(each.dataset in account.same_people_as for each in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(each for group in joined for each in group), account])
    found = []
    for group in groups:
        if len(group) > 1:
            names = tuple(each.dataset for each in sorted(group, key=lambda each: each.entry))
            delta = min(each.delta for each in group if each.delta is not None)
            several = len({each.relation for each in group}) > 1
            found.append(SamePeople(names, sum((each.rho for each in group), start=Rho(0)), delta, several))
    return sorted(found, key=lambda group: group.datasets)


def check_people(
    dataset: str, fingerprint: str | None, accounts: Sequence[Entry], charges: Iterable[Entry], key: str | None
) -> None:
    """Raise LedgerError if the rows to be charged to `dataset` are those of an account of other people, or if their
    fingerprint is missing or of a foreign key, so that it cannot be compared with the other accounts' charges.

    Args:
        dataset, fingerprint: of the charge to come.
        accounts, charges: of the ledger, and of its other data sets.
        key: the name of the ledger's key (`Ledger.key_name`). Charges of another key are left out: the steward said so.
    """
    mine: set[str] = {dataset}
    for group in same_people(accounts):
        mine.update(group.datasets if dataset in group.datasets else ())
    told = Fingerprint.parse(fingerprint)
    if told is not None and key is not None:
        check_key(key, told.key)
    for charge in charges:
        theirs = Fingerprint.parse(charge.fingerprint)
        if theirs is None or charge.dataset in mine or theirs.key not in ("", key):
            continue
        if told is None and theirs.key:
            raise LedgerError(
                f"whether these rows are those of data set {charge.dataset!r} cannot be told, since its fingerprints "
                f"were made with a key; bring that key back ({KEY_VARIABLE}, or the file .key beside the ledger)"
            )
        if told is not None and told.alike(theirs):
            raise LedgerError(
                f"these rows are those of data set {charge.dataset!r} (release {charge.release_id!r}), and a budget "
                f"belongs to people, not to a name; charge that account, or open one with equistrata budget create "
                f"NAME --same-people-as {charge.dataset}"
            )


def _make(path: Path) -> None:
    """Complete or not at all, and never in place of another process's."""
    with NamedTemporaryFile("w", prefix=f".{path.name}.", suffix=".part", dir=path.parent) as part:  # mode 0600
        part.write(secrets.token_hex(32))
        part.flush()
        with suppress(FileExistsError):
            os.link(part.name, path)
