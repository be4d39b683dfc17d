"""The account of a ledger to which a release is charged."""

from __future__ import annotations

import hmac
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from equistrata.analysis.contents.card import read_card
from equistrata.data.sources import Source
from equistrata.errors import InputError
from equistrata.flows.config.places import URL_VARIABLE, place_of
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.ledgers import open_ledger
from equistrata.flows.run.workspace import SNAPSHOT, Workspace
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.fingerprint import Fingerprint, check_key, content_digest, key_name
from equistrata.privacy.ledger.lease import Lease
from equistrata.privacy.ledger.ledger import Charge, Head, Ledger, LedgerError, OlderCopy


def new_id(name: str, unique: str | None = None) -> str:
    """Return a new id for the ledger.

    It consists of the name of a folder, in which invalid characters are replaced by dashes, and a unique part.

    >>> new_id("März 2026.v2", "0f3c21")
    'M-rz-2026.v2-0f3c21'
    """
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip("._-")
    return f"{stem[:60] or 'release'}-{(unique or uuid4().hex).replace('-', '')[:12]}"


@dataclass(frozen=True)
class Account:
    """The account of a data set in a ledger, for one release or audit.

    Attributes
    ----------
    ledger : Ledger
        The ledger.
    dataset : str
        The name of the data set.
    release : str
        The id of the release or the audit.
    key : str or None
        The key for fingerprints, if it is given.
    """

    ledger: Ledger
    dataset: str
    release: str  # the release id of its charges
    key: str | None = field(default=None, repr=False)

    def check_price(self, price: Rho, relation: str, why: str = "") -> None:
        """Check that the account can pay a price and uses the same neighbouring relation.

        Parameters
        ----------
        price : Rho
            The price.
        relation : str
            The neighbouring relation.
        why : str, default=""
            An explanation for the error message, if the price is higher than usual for its ε.

        Raises
        ------
        BudgetExceeded
            If the price is larger than the amount that is currently left.
        InputError
            If the account uses another relation.
        """
        self.check_relation(relation)
        left = self.ledger.remaining(self.dataset)
        if price > left:
            raise BudgetExceeded(price, left, f"release {self.release!r} of data set {self.dataset!r}{why}")

    def check_relation(self, relation: str) -> None:
        """Raise an InputError if the account uses another neighbouring relation."""
        kept = self.ledger.account(self.dataset).relation
        if relation != kept:
            raise InputError(
                f"the budget of data set {self.dataset!r} is for {kept!r}, but this release only guarantees "
                f"{relation!r}, so its cost cannot be charged; choose another --synthesizer, --unit or "
                "--relation, or create a budget for it (equistrata budget create NAME --unit COLUMN --relation … "
                f"--same-people-as {self.dataset})"
            )

    def charges(self) -> list[Charge]:
        """Return the charges that were made under this id so far."""
        return self.ledger.charges(self.dataset, self.release)

    def fingerprint(self, work: Workspace, content: bytes) -> Fingerprint | None:
        """Return the fingerprint of the rows that a run has read.

        Parameters
        ----------
        work : Workspace
            The working folder with the digests of the rows.
        content : bytes
            The `content_digest` of the files.

        Returns
        -------
        Fingerprint or None
            The fingerprint. If there is no key, it is None. The key is the key of the ledger's place, of the
            environment, or next to the ledger.

        Raises
        ------
        LedgerError
            If the key cannot be used, or if it is not the key of the ledger.
        """
        key, wanted = self.ledger.key(self.key), self.ledger.key_name
        if key is None:
            return None
        name = key_name(key, self.ledger.identity)
        check_key(name if wanted is None else wanted, name)
        return Fingerprint.of(content, json.loads((work.root / SNAPSHOT).read_text("utf-8")), key, self.ledger.identity)

    def lease(self, journal: Journal) -> Lease:
        """Return a context manager that holds the release for all users of the ledger.

        Raises
        ------
        LedgerError
            If the release is running on another machine.
        """
        # With this secret, the next run from the journal on this machine can take over the lease of a run that died.
        secret = hmac.digest(journal.key, f"lease {platform.node()}".encode(), "sha256").hex()
        return self.ledger.lease(self.dataset, self.release, secret)


def cards_in(place: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the releases in a folder with their cards, in order of their names. Other folders are skipped."""
    for path in sorted(place.glob("*/card.json")):
        with suppress(InputError):
            yield path.parent, read_card(path.parent)


def verify_with_cards(ledger: Ledger, *places: Path) -> None:
    """Verify a ledger and check that it contains the heads on the cards of its releases.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    *places : Path
        The folders that contain the releases.

    Raises
    ------
    LedgerError
        If the ledger is not valid.
    OlderCopy
        If the ledger does not contain a head.
    """
    identity, heads = ledger.identity, list[Head]()
    for _, card in (each for place in dict.fromkeys(places) for each in cards_in(place)):
        told = card.get("ledger")
        if isinstance(told, Mapping) and told.get("ledger") == identity:  # a test run may have used another ledger
            with suppress(LedgerError):
                heads.append(Head.parse(str(told.get("head"))))
    ledger.verify(keep=not heads)
    try:
        if heads:
            ledger.verify(heads, keep=True)
    except OlderCopy as error:
        where = " and ".join(repr(str(place)) for place in dict.fromkeys(places))
        raise OlderCopy(
            f"{error}; releases in {where} were charged to it, so this is an older copy of it, or one of their cards "
            "was edited"
        ) from None


def unchanged(source: Source, read: Callable[[], None]) -> bytes:
    """Read the files of a source and check that they do not change in the meantime.

    Parameters
    ----------
    source : Source
        The source.
    read : callable
        Function that reads the files.

    Returns
    -------
    bytes
        The `content_digest` of the files. If the files are downloaded, only the digest after the download is known.

    Raises
    ------
    InputError
        If the files were changed in the meantime, because it is then not known which rows were read.
    """

    before = None
    with suppress(InputError, OSError):  # `read` reports files that cannot be read
        before = content_digest(source.files())
    read()
    after = content_digest(source.files())
    if before is not None and before != after:
        raise InputError("the input changed while it was read; start again when no other program writes to it")
    return after


def account_of(config: ReleaseConfig) -> Account | None:
    """Return the account that a configuration names, or None.

    Raises
    ------
    LedgerError
        If the ledger cannot be used.
    InputError
        If only the ledger or only the data set is named.
    """
    if config.dataset is None:
        if config.ledger is not None:
            raise InputError("a ledger is named, but no data set; name the data set to charge with --dataset")
        if os.environ.get(URL_VARIABLE) and config.source != "sample":
            raise InputError(f"{URL_VARIABLE} is set, so a release must be charged; name the --dataset, or unset it")
        return None
    place = place_of(config.ledger)
    assert config.release_id is not None
    return Account(open_ledger(place), config.dataset, config.release_id, place.key)
