"""The account to which a public audit is charged, and the history of this account in a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from equistrata.errors import InputError
from equistrata.eval.report.report import BudgetHistory, ChargeLine
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.config.places import URL_VARIABLE, place_of
from equistrata.flows.config.release import SEEDED_CHARGE
from equistrata.flows.publication.released import Released
from equistrata.flows.release.account import Account, new_id, verify_with_cards
from equistrata.flows.run.ledgers import open_ledger
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import Charge, Head, LedgerError


@dataclass(frozen=True)
class AuditAccount(Account):
    """The account for one audit.

    Attributes
    ----------
    charged : tuple of (str, str)
        The data set and the id of each audited release that was charged to any account of the ledger.
    """

    charged: tuple[tuple[str, str], ...] = ()

    def check_rows(self, work: Workspace, content: bytes) -> Fingerprint | None:
        """Check that the rows are the rows of the audited releases.

        If no release was charged, the rows must belong to a charge of this account. A charge cannot be checked if it
        has no fingerprint, or if its key was replaced by the steward.

        Parameters
        ----------
        work : Workspace
            The working folder with the digests of the rows.
        content : bytes
            The `content_digest` of the files.

        Returns
        -------
        Fingerprint or None
            The fingerprint of the rows. It is None if there is no key.

        Raises
        ------
        InputError
            If the releases were made from other rows.
        LedgerError
            If the key of the ledger is missing.
        """
        mine, key = self.fingerprint(work, content), self.ledger.key_name
        charges = _fingerprints(self.ledger.charges(self.dataset), key)
        audited = [each for named in self.charged for each in _fingerprints(self.ledger.charges(*named), key)]
        if mine is None:
            if any(found.key for _, found in audited or charges):
                raise LedgerError(
                    f"it cannot be checked whether these are the rows of data set {self.dataset!r}, because its "
                    "fingerprints were made with a key that is missing; restore the key (EQUISTRATA_LEDGER_KEY, or "
                    "the file .key beside the ledger)"
                )
            return None
        for name, found in audited:
            if not mine.same_rows(found):
                raise InputError(
                    f"these are not the rows that release {name!r} was made from; "
                    "name their file with --input, or the release's configuration with --config"
                )
        if charges and not audited and not any(mine.alike(found) for _, found in charges):
            raise InputError(
                f"nothing was charged for these rows in data set {self.dataset!r}; name the account of the people "
                "in these rows with --dataset"
            )
        return mine

    def history(self) -> BudgetHistory:
        """Return the history of the account for the report."""
        opened = self.ledger.account(self.dataset)
        assert opened.epsilon is not None
        assert opened.delta is not None
        lines = []
        for charge in self.ledger.charges(self.dataset):
            of = charge.entry
            outcome = "this audit" if of.release_id == self.release else charge.outcome
            lines.append(ChargeLine(of.at, of.release_id or "", float(of.rho), float(of.spent), outcome))
        return BudgetHistory(
            dataset=self.dataset,
            epsilon=opened.epsilon,
            delta=opened.delta,
            rho=float(opened.rho),
            opened=opened.at,
            charges=tuple(lines),
            mine=(*(release for dataset, release in self.charged if dataset == self.dataset), self.release),
            head=str(self.ledger.head),
        )


def audit_account(config: AuditConfig, releases: Sequence[Released]) -> AuditAccount | None:
    """Return the account of an audit, which is named in its settings or in the releases.

    A public audit of a charged release must be charged as well. An internal audit shows the account if its ledger is
    named.

    Parameters
    ----------
    config : AuditConfig
        The settings.
    releases : sequence of Released
        The audited releases.

    Returns
    -------
    AuditAccount or None
        The account. It is None if there is none.

    Raises
    ------
    InputError
        If the releases have several accounts, or if the account is missing or only partly named.
    LedgerError
        If the ledger is damaged, or if the releases were charged to another ledger.
    """
    entries = [release.ledger for release in releases if release.ledger is not None]
    datasets = {entry["dataset"] for entry in entries}
    if config.dataset is None and len(datasets) > 1:
        several = ", ".join(sorted(datasets))
        raise InputError(f"the releases were charged to several budgets ({several}); audit them one by one")
    dataset = config.dataset or next(iter(datasets), None)
    named = config.ledger is not None or bool(os.environ.get(URL_VARIABLE))
    if config.mode == "internal" and not (dataset and named):
        return None
    if dataset is None:
        if config.ledger is not None:
            raise InputError("a ledger is named, but no data set; name the data set to charge with --dataset")
        return None
    if config.mode == "public" and config.seed is not None:
        raise InputError(SEEDED_CHARGE)
    if not named:
        raise InputError(
            f"a public audit of data set {dataset!r} must be charged to its ledger; "
            f"name it with --ledger, or set {URL_VARIABLE}"
        )
    place = place_of(config.ledger)
    ledger = open_ledger(place)
    # A release that was charged must be audited with its own ledger and its own rows, whatever account is named.
    ledger.verify([Head.parse(str(entry["head"])) for entry in entries])
    verify_with_cards(ledger, *(release.folder.resolve().parent for release in releases))
    ledger.budget(dataset)
    charged = tuple((str(entry["dataset"]), str(entry["release_id"])) for entry in entries)
    return AuditAccount(ledger, dataset, f"audit-{new_id(releases[0].folder.resolve().name)}", place.key, charged)


def _fingerprints(charges: Sequence[Charge], key: str | None) -> list[tuple[str | None, Fingerprint]]:
    """Return the release id and the fingerprint of each charge with this key.

    Early charges have fingerprints without the name of a key, and they are included.
    """
    found = [(charge.entry.release_id, Fingerprint.parse(charge.entry.fingerprint)) for charge in charges]
    return [(name, each) for name, each in found if each is not None and each.key in ("", key)]
