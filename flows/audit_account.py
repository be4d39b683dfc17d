"""The account that a public audit is charged to, and what a report says of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from data.errors import InputError
from eval.report import BudgetHistory, Charge
from flows.account import id_stem
from flows.audit_config import AuditConfig
from flows.config import SEEDED_CHARGE
from flows.places import URL_VARIABLE, place_of
from flows.released import Released
from privacy.budget import BudgetExceeded, Rho
from privacy.ledger import Head, Ledger, Reservation


@dataclass(frozen=True)
class AuditAccount:
    """A data set's account in a ledger, for one audit.

    Attributes:
        audit: the id that the audit is charged under, new for each.
        releases: the ids of the releases that it is about, as far as they were charged to this account.
    """

    ledger: Ledger
    dataset: str
    audit: str
    releases: tuple[str, ...]

    @classmethod
    def of(cls, config: AuditConfig, releases: Sequence[Released]) -> AuditAccount | None:
        """The account of an audit: its own settings', else the releases'. None where there is none.

        A public audit of a release that was charged must be charged too; an internal one costs nothing, and only shows the
        account if its ledger is named.

        Raises:
            InputError: the releases belong to several accounts, or half of an account is named, or none where one must be.
            LedgerError: the ledger is damaged, or is not the one that the releases were charged to.
        """
        told = [release.ledger for release in releases if release.ledger is not None]
        datasets = {entry["dataset"] for entry in told}
        if config.dataset is None and len(datasets) > 1:
            raise InputError(
                f"the releases were charged to several budgets ({', '.join(sorted(datasets))}); audit them one by one"
            )
        dataset = config.dataset or next(iter(datasets), None)
        named = config.ledger is not None or bool(os.environ.get(URL_VARIABLE))
        if config.mode == "internal" and not (dataset and named):
            return None
        if dataset is None:
            if config.ledger is not None:
                raise InputError("a ledger is named but no data set; say whose budget is charged with --dataset")
            return None
        if config.mode == "public" and config.seed is not None:
            raise InputError(SEEDED_CHARGE)
        if not named:
            raise InputError(
                f"a public audit of data set {dataset!r} must be charged to its ledger; name it with --ledger, or set "
                f"{URL_VARIABLE}"
            )
        ledger = Ledger(place_of(config.ledger).url)
        mine = [entry for entry in told if entry["dataset"] == dataset]
        ledger.verify([Head.parse(str(entry["head"])) for entry in mine])
        ledger.budget(dataset)
        stem = id_stem(releases[0].folder.resolve().name)
        audit = f"audit-{stem[:60] or 'release'}-{uuid4().hex[:12]}"
        return cls(ledger, dataset, audit, tuple(str(entry["release_id"]) for entry in mine))

    def check_price(self, rho: Rho) -> None:
        """Raise BudgetExceeded if it does not fit at this moment: before any work is done. Nothing is charged."""
        left = self.ledger.remaining(self.dataset)
        if rho > left:
            raise BudgetExceeded(rho, left, f"a public audit of data set {self.dataset!r}")

    def reserve(
        self, rho: Rho, epsilon: float, delta: float, strata: Sequence[str], parts: Sequence[str]
    ) -> Reservation:
        """Charge the audit. Raises BudgetExceeded, with what is left, or LedgerError; then nothing was charged."""
        return self.ledger.reserve(
            self.dataset, rho, self.audit, parts=parts, epsilon=epsilon, delta=delta, mechanism="public audit",
            strata=" × ".join(strata) or None,
        )  # fmt: skip

    def history(self) -> BudgetHistory:
        """The account up to now, for the report."""
        opened = self.ledger.account(self.dataset)
        assert opened.epsilon is not None
        assert opened.delta is not None
        charges = tuple(
            Charge(
                at=each.entry.at,
                release=each.entry.release_id or "",
                rho=float(each.entry.rho),
                spent=float(each.entry.spent),
                outcome="this audit" if each.entry.release_id == self.audit else each.outcome,
            )
            for each in self.ledger.charges(self.dataset)
        )
        return BudgetHistory(
            dataset=self.dataset,
            epsilon=opened.epsilon,
            delta=opened.delta,
            rho=float(opened.rho),
            opened=opened.at,
            charges=charges,
            mine=(*self.releases, self.audit),
            head=str(self.ledger.head),
        )
