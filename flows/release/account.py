"""The account of a ledger that a release is charged to."""

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
    """An id in the ledger: a folder's name, with dashes for characters that ids may not have, and something unique.

    >>> new_id("März 2026.v2", "0f3c21")
    'M-rz-2026.v2-0f3c21'
    """
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip("._-")
    return f"{stem[:60] or 'release'}-{(unique or uuid4().hex).replace('-', '')[:12]}"


@dataclass(frozen=True)
class Account:
    """A data set's account in a ledger, for one release or audit; with the key for fingerprints, if there is one."""

    ledger: Ledger
    dataset: str
    release: str  # the id of its charges
    key: str | None = field(default=None, repr=False)

    def check_price(self, price: Rho, relation: str, why: str = "") -> None:
        """Raise BudgetExceeded if the price exceeds what is left at this moment, InputError for another relation.

        Args:
            why: said of a price that is higher than its ε is elsewhere.
        """
        self.check_relation(relation)
        left = self.ledger.remaining(self.dataset)
        if price > left:
            raise BudgetExceeded(price, left, f"release {self.release!r} of data set {self.dataset!r}{why}")

    def check_relation(self, relation: str) -> None:
        """Raise InputError if the account is kept under another neighbouring relation."""
        kept = self.ledger.account(self.dataset).relation
        if relation != kept:
            raise InputError(
                f"the budget of data set {self.dataset!r} is kept under {kept!r}, and this promises {relation!r} only, "
                "which does not add up with it; choose another --synthesizer, --unit or --relation, or open a budget "
                f"for it (equistrata budget create NAME --unit COLUMN --relation … --same-people-as {self.dataset})"
            )

    def charges(self) -> list[Charge]:
        """Those made under this id so far."""
        return self.ledger.charges(self.dataset, self.release)

    def fingerprint(self, work: Workspace, content: bytes) -> Fingerprint | None:
        """The fingerprint of the rows that a run has read, from files of this `content_digest`; None without a key.

        The key is that of the ledger's place, else the environment's, or the one beside the ledger. Raises LedgerError
        if it cannot be used, or is not the ledger's.
        """
        key, wanted = self.ledger.key(self.key), self.ledger.key_name
        if key is None:
            return None
        name = key_name(key, self.ledger.identity)
        check_key(name if wanted is None else wanted, name)
        return Fingerprint.of(content, json.loads((work.root / SNAPSHOT).read_text("utf-8")), key, self.ledger.identity)

    def lease(self, journal: Journal) -> Lease:
        """Hold the release for everyone who shares the ledger. Raises LedgerError if it runs elsewhere."""
        # With it, the journal's next run on this machine takes a dead run's lease over.
        secret = hmac.digest(journal.key, f"lease {platform.node()}".encode(), "sha256").hex()
        return self.ledger.lease(self.dataset, self.release, secret)


def cards_in(place: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The releases that lie in a folder, by name, with their cards; folders with no readable card are none."""
    for path in sorted(place.glob("*/card.json")):
        with suppress(InputError):
            yield path.parent, read_card(path.parent)


def verify_with_cards(ledger: Ledger, *places: Path) -> None:
    """Verify a ledger, and that it has the heads on the cards of its releases in these folders.

    Raises LedgerError; OlderCopy if it lacks one.
    """
    identity, heads = ledger.identity, list[Head]()
    for _, card in (each for place in dict.fromkeys(places) for each in cards_in(place)):
        told = card.get("ledger")
        if isinstance(told, Mapping) and told.get("ledger") == identity:  # a rehearsal's ledger is another one
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
    """Have `read` read a source's files; their `content_digest`, the same before and after.

    Raises InputError where they were changed in between: which rows were read is unknown then. Files that are not there
    before (they are downloaded) have a digest afterwards alone.
    """

    before = None
    with suppress(InputError, OSError):  # `read` says what cannot be read
        before = content_digest(source.files())
    read()
    after = content_digest(source.files())
    if before is not None and before != after:
        raise InputError("the input changed while it was read; start again once whatever writes it has ended")
    return after


def account_of(config: ReleaseConfig) -> Account | None:
    """The account that a configuration names, if any. Raises LedgerError; InputError if half of it is named."""
    if config.dataset is None:
        if config.ledger is not None:
            raise InputError("a ledger is named but no data set; say whose budget is charged with --dataset")
        if os.environ.get(URL_VARIABLE) and config.source != "sample":
            raise InputError(f"{URL_VARIABLE} is set, so a release must be charged; name the --dataset, or unset it")
        return None
    place = place_of(config.ledger)
    assert config.release_id is not None
    return Account(open_ledger(place), config.dataset, config.release_id, place.key)
