"""Fingerprints of snapshots, which show whether two charges are about the same people.

An ordinary hash of a small table could be guessed by hashing many candidate tables. A fingerprint is therefore an
HMAC-SHA256 with a key that is stored outside the ledger. It also depends on the ledger's own name, so that the same
rows have unrelated fingerprints in two ledgers. The page docs/ledger.md describes which changes of the rows are
recognised. The page docs/proofs/budget.md explains why the costs of two accounts of the same people add up.
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
    """Return the SHA-256 hash of the content of files, in order.

    Do not show this hash to anyone, because the content can be guessed from it.
    """
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.digest()


@dataclass(frozen=True)
class Fingerprint:
    """Fingerprint of the rows that were charged. All parts are hexadecimal and depend on the key.

    Attributes
    ----------
    key : str
        Identifier of the key. It is empty in early entries, which only have `file`.
    file : str
        Keyed hash of the content of the files.
    rows : str
        Keyed hash of the multiset of rows in the released columns. It is empty in early entries.
    columns : frozenset of str
        Keyed hashes of these columns, one per column.
    """

    key: str
    file: str
    rows: str
    columns: frozenset[str]

    @classmethod
    def of(cls, content: bytes, seen: Mapping[str, Any], key: bytes, ledger: str) -> Fingerprint:
        """Compute the fingerprint of a snapshot.

        Parameters
        ----------
        content : bytes
            The hash from `content_digest`.
        seen : mapping of str to object
            The digests of a Snapshot.
        key : bytes
            The secret key.
        ledger : str
            The name of the ledger, from `Ledger.identity`.

        Returns
        -------
        Fingerprint
            The fingerprint for this ledger.
        """
        own = hmac.digest(key, b"equistrata snapshot " + ledger.encode(), "sha256")

        def keyed(what: str, content: bytes) -> str:
            return hmac.digest(own, what.encode() + b" " + content, "sha256").hex()

        columns = (keyed("column", f"{name}={digest}".encode())[:16] for name, digest in seen["columns"].items())
        file = hmac.digest(own, content, "sha256").hex()
        return cls(key_name(key, ledger), file, keyed("rows", seen["rows"].encode()), frozenset(columns))

    @classmethod
    def parse(cls, text: str | None) -> Fingerprint | None:
        """Read a fingerprint from text, including the texts of earlier versions. If the text is empty, return None."""
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
        """Return True if both fingerprints are of the same rows.

        This means that the files are equal, or that the rows are equal in the same columns.
        """
        return self.file == other.file or bool(self.rows and self.rows == other.rows)

    def alike(self, other: Fingerprint) -> bool:
        """Return True if both fingerprints are of the same people.

        This means that the rows are the same, or that at least SAME_COLUMNS columns are equal.
        """
        return self.same_rows(other) or len(self.columns & other.columns) >= SAME_COLUMNS


def key_name(key: bytes | None, ledger: str) -> str:
    """Return the identifier of a key that is shown in fingerprints. If there is no key, it is empty."""
    if key is None:
        return ""
    own = hmac.digest(key, b"equistrata snapshot " + ledger.encode(), "sha256")
    return hmac.digest(own, b"key ", "sha256").hex()[:16]


def check_key(wanted: str, used: str) -> None:
    """Check that a fingerprint was made with the key of the ledger.

    Parameters
    ----------
    wanted : str
        The name of the ledger's key. It is empty if the ledger does not use a key.
    used : str
        The name of the key of the fingerprint.

    Raises
    ------
    LedgerError
        If the names differ.
    """
    if used != wanted:
        why = (
            "the ledger's fingerprints were made with another key; restore that key"
            if wanted
            else "the ledger's fingerprints were made without a key; use no key"
        )
        raise LedgerError(
            f"the rows cannot be recognised, because {why} ({KEY_VARIABLE}, or the file .key beside the "
            "ledger), or ask its steward to set this key (equistrata budget key)"
        )


def ledger_key(ledger_file: Path | None, given: str | None = None) -> bytes | None:
    """Return the key for fingerprints.

    The key is `given`, or the value of EQUISTRATA_LEDGER_KEY, or a random key that is stored next to a SQLite ledger
    with mode 0600.

    Parameters
    ----------
    ledger_file : Path or None
        The SQLite file. If None, the ledger is on PostgreSQL.
    given : str or None, default=None
        The key. If None, it is looked up as described above.

    Returns
    -------
    bytes or None
        The key. It is None if no key is given for a ledger on PostgreSQL. Releases are then charged without a
        fingerprint.

    Raises
    ------
    LedgerError
        If the key has fewer than 16 characters, or if the key file can neither be read nor created.
    """
    given = given or os.environ.get(KEY_VARIABLE)
    if given:
        if len(given) < SHORTEST_KEY:
            raise LedgerError(
                f"the key for fingerprints ({KEY_VARIABLE}) is too short; give at least {SHORTEST_KEY} characters"
            )
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
        raise LedgerError(
            f"key file {str(path)!r} cannot be used; correct its permissions, or set {KEY_VARIABLE}"
        ) from None


@dataclass(frozen=True)
class SamePeople:
    """Accounts that belong to the same people.

    Attributes
    ----------
    datasets : tuple of str
        The names of the accounts, at least two, in the order in which they were opened.
    rho : Rho
        The sum of their budgets.
    delta : float
        The smallest δ of the accounts.
    of_rows : bool
        If True, the units or the neighbouring relations of the accounts differ. In this case `rho` is the cost of
        adding or removing one row. Nothing is guaranteed for larger units or for the replacement of a row.
    """

    datasets: tuple[str, ...]
    rho: Rho
    delta: float
    of_rows: bool = False

    @property
    def epsilon(self) -> float:
        """The ε for which `rho` implies (ε, δ)-differential privacy."""
        return self.rho.epsilon(self.delta)

    def __str__(self) -> str:
        named = ", ".join(self.datasets[:-1]) + f" and {self.datasets[-1]}"
        return (
            f"{named} contain the same people, so their costs add up: all their budgets together are "
            f"ρ = {float(self.rho):.6g} (ε = {self.epsilon:.4g} at δ = {self.delta:g})"
            + (", for adding or removing one row, because their units or relations differ" if self.of_rows else "")
        )


def same_people(accounts: Sequence[Entry]) -> list[SamePeople]:
    """Return the groups of accounts that were opened for the same people.

    Parameters
    ----------
    accounts : sequence of Entry
        The entries that opened the accounts.

    Returns
    -------
    list of SamePeople
        The groups, sorted by the names of their accounts.
    """
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
    """Check that the rows of a charge do not belong to an account of other people.

    Parameters
    ----------
    dataset : str
        The data set that is charged.
    fingerprint : str or None
        The fingerprint of the rows.
    accounts : sequence of Entry
        The entries that opened the accounts of the ledger.
    charges : iterable of Entry
        The charges of the other data sets.
    key : str or None
        The name of the ledger's key (see `Ledger.key_name`). Charges that were made with another key are ignored,
        because the steward has changed the key.

    Raises
    ------
    LedgerError
        If the rows are those of another account that was not opened for the same people, if the fingerprint was made
        with another key, or if it is missing although the other charges have one. Without a fingerprint, the rows
        cannot be compared.
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
                f"it cannot be checked whether these rows are those of data set {charge.dataset!r}, because its "
                f"fingerprints were made with a key that is missing; restore the key ({KEY_VARIABLE}, or the file "
                ".key beside the ledger)"
            )
        if told is not None and told.alike(theirs):
            raise LedgerError(
                f"these rows are those of data set {charge.dataset!r} (release {charge.release_id!r}), and a budget "
                f"belongs to people, not to a name; charge that account, or open one with equistrata budget create "
                f"NAME --same-people-as {charge.dataset}"
            )


def _make(path: Path) -> None:
    """Write a new key file in one step. An existing file of another process is not replaced."""
    with NamedTemporaryFile("w", prefix=f".{path.name}.", suffix=".part", dir=path.parent) as part:  # mode 0600
        part.write(secrets.token_hex(32))
        part.flush()
        with suppress(FileExistsError):
            os.link(part.name, path)
