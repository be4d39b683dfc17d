"""The plan of an audit, which contains the releases, the groups, the source of the rows and the price.

No private row is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from equistrata.data.columns.column import Value
from equistrata.data.files.formats import KINDS
from equistrata.data.repeats import require_unique
from equistrata.data.schema import Schema
from equistrata.data.sources import Source
from equistrata.data.strata import Strata
from equistrata.data.texts.manifest import OWN
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.eval.audit.noisy_number import ByStratum, NoisyNumber
from equistrata.eval.audit.public import OF_CLASSIFIER, SECTION_SHARES
from equistrata.eval.report.findings import ReleaseFacts
from equistrata.flows.audit import pdf
from equistrata.flows.audit.account import AuditAccount, audit_account
from equistrata.flows.audit.journal import AuditJournal
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.config.release import SOURCE_SETTINGS, ReleaseConfig
from equistrata.flows.publication.addition import free_name, held
from equistrata.flows.publication.audited_card import AddedAudit, prices, with_audit
from equistrata.flows.publication.released import Released, facts
from equistrata.flows.release.card.groups import unit_of
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.release.inputs import source_of
from equistrata.flows.release.inside import enclosing_release, private_folder
from equistrata.flows.release.price import total_price
from equistrata.flows.release.size import check_audit
from equistrata.flows.run.landing import check_output
from equistrata.privacy.budget import BudgetExceeded, Rho, relation_of


@dataclass(frozen=True)
class AuditPlan:
    """A validated configuration and the public objects that it names."""

    config: AuditConfig
    releases: tuple[Released, ...]  # at least one release; all have the same schema and the same rows
    facts: tuple[ReleaseFacts, ...]  # the facts about the releases for the report
    strata: Strata  # the groups, based on the schema without the survey weight, which is not scored
    source: Source  # the source of the private rows
    output: Path  # the folder that is created
    host: Released | None  # the release to which a public audit is added; None if it has a separate folder
    unit: Unit  # the unit of privacy of the releases, with the largest number of rows
    price: Rho  # the price of a public audit for one unit; 0 for an internal one
    account: AuditAccount | None  # the account; None if there is none
    journal: AuditJournal | None  # the journal, if the audit is charged

    @classmethod
    def of(cls, config: AuditConfig) -> AuditPlan:
        """Validate a configuration and open its releases.

        Parameters
        ----------
        config : AuditConfig
            The configuration.

        Returns
        -------
        AuditPlan
            The plan.

        Raises
        ------
        InputError
            If the configuration is not valid.
        LedgerError
            If the ledger cannot be used.
        BudgetExceeded
            If the price is larger than the remaining budget.
        """
        if not config.releases:
            raise InputError("no release is named; give at least one release folder")
        require_unique(map(os.path.realpath, config.releases), "release")
        releases = tuple(Released.open(folder) for folder in config.releases)
        first = releases[0]
        if any(each.schema.expanded_by is not None for each in releases):
            raise InputError(
                f"each row of release {str(first.folder)!r} is a person (expand), so it cannot be compared with "
                "the private rows, which are a sample; audit a release that was made without expand"
            )
        for each in releases[1:]:
            both = f"releases {str(first.folder)!r} and {str(each.folder)!r}"
            if each.schema.digest != first.schema.digest:
                raise InputError(f"{both} have different schemas or columns; audit them one by one")
            if each.card["source"] != first.card["source"]:
                raise InputError(f"{both} were made from different rows; audit them one by one")
            if _protected(each) != _protected(first):
                raise InputError(
                    f"{both} have different guarantees, so their costs cannot be added; audit them one by one"
                )
        if config.target is not None and config.target not in first.schema.unweighted:
            raise InputError(
                f"target {config.target!r} is not among the released columns ({', '.join(first.schema.unweighted)})"
            )
        by = config.strata or max((each.strata for each in releases), key=len)
        strata = Strata.over(first.schema.without_weight(), by)
        check_audit(len(first.schema.names), len(releases))
        rows = {key: value for key, value in first.card["config"].items() if key in SOURCE_SETTINGS}
        rows |= config.model_dump(include=set(SOURCE_SETTINGS), exclude_none=True)
        if rows.get("source") in KINDS and "input" not in rows:
            raise InputError(
                f"release {str(first.folder)!r} does not say where its rows are; "
                "give their file with --input, or the release's configuration with --config"
            )
        averaged = [name for release in releases if release.means for name in release.means["outcomes"]]
        source = source_of(ReleaseConfig.build(**rows), [first.schema], averaged)
        output, host = _place(config, releases)
        check_output(output)
        if config.pdf:
            pdf.printer()
        public = config.mode == "public"
        if not public and (config.epsilon is not None or config.delta is not None):
            raise InputError(
                "an internal audit has no privacy cost, so --epsilon and --delta do not apply; leave them out, "
                "or choose --public"
            )
        promising = next((each.card["mechanism"] for each in releases if "promise" in each.card["guarantee"]), None)
        if public and promising is not None:
            raise InputError(
                f"synthesizer {promising!r} only guarantees (ε, δ), and the cost of a public audit cannot be "
                "added to this; make an internal audit, or audit a release by mst, aim or gem"
            )
        price = total_price(*config.price) if public else Rho(0)
        account = audit_account(config, releases)
        journal = AuditJournal.of(config, releases, account) if public and account is not None else None
        if account is not None and journal is not None:
            account = replace(account, release=journal.release)
        due = account is not None and (journal is None or journal.due(account))
        if account is not None and due and price > (left := account.ledger.remaining(account.dataset)):
            raise BudgetExceeded(price, left, f"a public audit of data set {account.dataset!r}")
        unit = max((unit_of(each.card) for each in releases), key=lambda unit: unit.at_most)
        if account is not None and public:
            account.check_relation(relation_of(unit.column, unit.relation))
        plan = cls(config, releases, facts(releases), strata, source, output, host, unit, price, account, journal)
        if host is not None:
            plan.check_host(host)
        source.check(plan.columns)
        return plan

    def added(self, folder: str, made: str = "", report: str = "") -> AddedAudit:
        """Return the entry of the audit on the card of its host.

        Parameters
        ----------
        folder : str
            The name of the folder of the audit.
        made : str, default=""
            The time of the audit.
        report : str, default=""
            The hash of the report.

        Returns
        -------
        AddedAudit
            The entry.
        """
        assert self.host is not None
        compared = tuple(
            {"name": facts.name, "identity": release.identity}
            | {name: getattr(facts, name) for name in ("rho", "private", "caveats")}
            for release, facts in zip(self.releases, self.facts, strict=True)
            if release.identity != self.host.identity
        )
        epsilon, delta = self.config.price
        charged_as = self.account.release if self.account else ""
        private = self.config.seed is None
        return AddedAudit(folder, made, epsilon, delta, float(self.price), charged_as, private, report, compared)

    def check_host(self, host: Released) -> None:
        """Check that the audit can be added to a release, and that the release remains private.

        Raises
        ------
        InputError
            If the audit cannot be added.
        """
        where = f"release {str(host.folder)!r}"
        with held(host.folder):  # raises an error before any charge if the release cannot be changed
            pass
        try:
            card = with_audit(host.card, self.added(self.output.name))
            card_markdown(card, host.means)
        except (KeyError, TypeError):
            raise InputError(
                f"the card of {where} was made by another version, so no audit can be added to it; name a folder "
                "with --output"
            ) from None
        if host.card["private"] and not card["private"]:
            raise InputError(
                "this audit, or a release in it, is seeded and therefore not private, so it cannot be added to "
                f"{where}; give the audit a folder of its own with --output"
            )

    @property
    def together(self) -> Rho:
        """The total price of this audit, the releases, and the audits in their folders.

        Each of them is counted once.
        """
        parts = {name: rho for release in self.releases for name, rho in prices(release.card, release.identity).items()}
        return sum(parts.values(), start=self.price)

    @property
    def texts(self) -> dict[str, str]:
        """The title, the agency and the contact of the page.

        If the last two are not given, they are taken from the first card.
        """
        card = self.releases[0].card.get("report") or {}
        own = self.config.report
        found = {"title": own.title, "agency": own.agency or card.get("agency")}
        found["contact"] = own.contact or card.get("contact")
        return {name: text for name, text in found.items() if text}

    @property
    def public(self) -> bool:
        """True for a public audit."""
        return self.config.mode == "public"

    @property
    def schema(self) -> Schema:
        """The schema of the released rows."""
        return self.releases[0].schema

    @property
    def sections(self) -> list[str]:
        """The sections of a public audit. If there is no target, the sections about classifiers are left out."""
        target = self.config.target or self.schema.target
        return [name for name in SECTION_SHARES if target or name not in OF_CLASSIFIER]

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """The columns with private means, which an internal audit compares with the exact means."""
        if self.public:
            return ()
        found = [name for release in self.releases if release.means for name in release.means["outcomes"]]
        return tuple(dict.fromkeys(found))

    @property
    def codes(self) -> dict[str, tuple[tuple[Value, str], ...]]:
        """The raw cells of each outcome that are not a number, with their meaning."""
        found = [release.means.get("codes", {}) for release in self.releases if release.means]
        return {name: tuple((raw, words) for raw, words in codes) for each in found for name, codes in each.items()}

    @property
    def columns(self) -> list[str]:
        """The raw columns that are read.

        A public audit also reads the column of the unit to bound its rows. An internal audit uses all rows.
        """
        own = [self.unit.column] if self.public and self.unit.column is not None else []
        return list(dict.fromkeys([*self.schema.cells, *self.outcomes, *own]))

    @property
    def published(self) -> list[dict[str, ByStratum]]:
        """The means of each release with their intervals, for `all` rows and for these strata.

        The keys are `column (estimator)` and then the stratum.
        """
        labels = {"all", *(self.strata.label(key) for key in self.strata.keys)}
        return [
            {
                f"{column} ({estimator})": {
                    label: NoisyNumber(each["value"], each["lower"], each["upper"])
                    for label, each in {"all": entry, **entry.get("strata", {})}.items()
                    if label in labels and None not in (each["lower"], each["upper"]) and each["lower"] < each["upper"]
                }
                for column, estimators in (release.means["outcomes"] if release.means else {}).items()
                for estimator, entry in estimators.items()
            }
            for release in self.releases
        ]


def _protected(release: Released) -> tuple[str | None, str]:
    unit = unit_of(release.card)
    return unit.column, unit.relation


def default_name(config: AuditConfig) -> str:
    """Return the name of the folder of an audit if none is given.

    If the name is already in use, a number is appended.
    """
    return "audit" if len(config.releases) == 1 else "comparison"


def _place(config: AuditConfig, releases: Sequence[Released]) -> tuple[Path, Released | None]:
    """Return the folder that is created. For a public audit inside a release, return this release as well."""
    first = releases[0]
    if config.output is None:
        name = default_name(config)
        home = first.folder if config.mode == "public" else private_folder(first.folder)
        return home / free_name(home, name), first if config.mode == "public" else None
    output = Path(config.output)
    around = enclosing_release(output)
    if around is None:
        return output, None
    if config.mode == "internal":
        raise InputError(
            f"an internal audit contains exact numbers, and {str(output)!r} is in release {str(around)!r}, "
            "which is to be published; leave out --output, or name a folder outside it"
        )
    host = next((release for release in releases if os.path.samefile(release.folder, around)), None)
    if host is None:
        raise InputError(
            f"{str(output)!r} is in release {str(around)!r}, which is not one of the audited releases; name "
            "another folder with --output"
        )
    # A name such as `means.json` is refused, because readers of a release expect a file with this name.
    taken = output.name.startswith(".") or output.name == "internal" or output.name in OWN
    if Path(os.path.realpath(output)).parent != around or taken:
        raise InputError(
            f"{str(output)!r} is too deep inside the release; name a folder directly in the release, or outside it"
        )
    return output, host
