"""The account that a public audit is charged to, and its history in a report."""

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
    """For one audit, with data set and id of the audited releases that were `charged` to any account of the ledger."""

    charged: tuple[tuple[str, str], ...] = ()

    def check_rows(self, work: Workspace, content: bytes) -> Fingerprint | None:
        """The fingerprint of the rows that were read; None without key. Raises InputError if the releases' are others.

        Where no release was charged, they must be rows of some charge to this account. Charges without a fingerprint,
        or with one of a key that the steward has replaced, cannot be checked. Raises LedgerError without the ledger's
        key.
        """
        mine, key = self.fingerprint(work, content), self.ledger.key_name
        charges = _fingerprints(self.ledger.charges(self.dataset), key)
        audited = [each for named in self.charged for each in _fingerprints(self.ledger.charges(*named), key)]
        if mine is None:
            if any(found.key for _, found in audited or charges):
                raise LedgerError(
                    f"whether these are the rows of data set {self.dataset!r} cannot be told, since its fingerprints "
                    "were made with a key; bring that key back (EQUISTRATA_LEDGER_KEY, or the file .key beside the "
                    "ledger)"
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
                f"these are not rows that anything was charged for in data set {self.dataset!r}; "
                "name the account of the people in them with --dataset"
            )
        return mine

    def history(self) -> BudgetHistory:
        """The account up to now, for the report."""
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
    """The account of an audit: its own settings', else the releases'. None where there is none.

    A public audit of a charged release must be charged too; an internal one shows the account if its ledger is named.
    Raises InputError if there are several accounts, or one is missing or half named; LedgerError if the ledger is
    damaged, or is not the one that the releases were charged to.
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
            raise InputError("a ledger is named but no data set; say which budget is charged with --dataset")
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
    # Whichever account is named: a release that was charged is audited with its own ledger, and its own rows.
    ledger.verify([Head.parse(str(entry["head"])) for entry in entries])
    verify_with_cards(ledger, *(release.folder.resolve().parent for release in releases))
    ledger.budget(dataset)
    charged = tuple((str(entry["dataset"]), str(entry["release_id"])) for entry in entries)
    return AuditAccount(ledger, dataset, f"audit-{new_id(releases[0].folder.resolve().name)}", place.key, charged)


def _fingerprints(charges: Sequence[Charge], key: str | None) -> list[tuple[str | None, Fingerprint]]:
    """Release id and fingerprint of the rows, of charges that have one with this key, or an early one without."""
    found = [(charge.entry.release_id, Fingerprint.parse(charge.entry.fingerprint)) for charge in charges]
    return [(name, each) for name, each in found if each is not None and each.key in ("", key)]
