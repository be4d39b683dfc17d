"""What an audit's configuration means: releases, groups, where the rows are, the price. Touches no private row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from data.errors import InputError
from data.schema import Schema
from data.sources import Source
from data.strata import Strata
from eval.findings import ReleaseFacts
from eval.public_audit import OF_CLASSIFIER, SHARES
from flows.audit_account import AuditAccount
from flows.audit_config import SOURCE_SETTINGS, AuditConfig
from flows.config import ReleaseConfig
from flows.landing import check_output
from flows.pdf import printer
from flows.plan import source_of, total_price
from flows.released import Released, facts
from flows.size import check_audit
from privacy.budget import Rho


@dataclass(frozen=True)
class AuditPlan:
    """A checked configuration and the public objects that it names.

    Attributes:
        releases: opened and checked, one at least, of one schema and of the same rows.
        facts: what the report says of them.
        strata: the groups.
        source: of the private rows.
        output: the folder to make.
        price: ρ of a public audit; 0 of an internal one.
        account: where it is charged; None where nowhere.
    """

    config: AuditConfig
    releases: tuple[Released, ...]
    facts: tuple[ReleaseFacts, ...]
    strata: Strata
    source: Source
    output: Path
    price: Rho
    account: AuditAccount | None

    @classmethod
    def of(cls, config: AuditConfig) -> AuditPlan:
        """Check a configuration and open its releases.

        Raises InputError, LedgerError or BudgetExceeded; nothing is written or charged.
        """
        if not config.releases:
            raise InputError("no release is named; give the folder of one at least")
        releases = tuple(Released.open(folder) for folder in config.releases)
        first = releases[0]
        _check_alike(releases)
        if config.target is not None and config.target not in first.schema.names:
            raise InputError(
                f"target {config.target!r} is not among the released columns ({', '.join(first.schema.names)})"
            )
        strata = Strata.over(first.schema, config.strata or max((each.strata for each in releases), key=len))
        check_audit(len(first.schema.names), len(releases))
        source = source_of(_source_settings(config, first))
        output = _output(config, first)
        check_output(output)
        if config.pdf:
            printer()
        price = _price(config)
        account = AuditAccount.of(config, releases)
        if account is not None and price:
            account.check_price(price)
        plan = cls(config, releases, facts(releases), strata, source, output, price, account)
        source.check([*plan.schema.names, *plan.outcomes])
        return plan

    @property
    def public(self) -> bool:
        """Whether the audit is a public one."""
        return self.config.mode == "public"

    @property
    def schema(self) -> Schema:
        """Of the released rows."""
        return self.releases[0].schema

    @property
    def sections(self) -> list[str]:
        """What a public audit buys: nothing about classifiers where there is no target."""
        target = self.config.target or self.schema.target
        return [name for name in SHARES if target or name not in OF_CLASSIFIER]

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """The columns whose means came with a release, for an internal audit to lay beside the exact ones."""
        if self.public:
            return ()
        found = [name for release in self.releases if release.means for name in release.means["outcomes"]]
        return tuple(dict.fromkeys(found))


def _check_alike(releases: Sequence[Released]) -> None:
    first = releases[0]
    for each in releases[1:]:
        if each.schema.digest != first.schema.digest:
            raise InputError(
                f"releases {str(first.folder)!r} and {str(each.folder)!r} have different schemas or columns; audit them one by one"
            )
        if each.card["source"] != first.card["source"]:
            raise InputError(
                f"releases {str(first.folder)!r} and {str(each.folder)!r} were made from different rows; audit them one by one"
            )


def _source_settings(config: AuditConfig, release: Released) -> ReleaseConfig:
    """The release's own source settings, where the audit's do not say otherwise."""
    told = release.source_settings | config.model_dump(include=set(SOURCE_SETTINGS), exclude_none=True)
    if told.get("source") in ("csv", "parquet") and "input" not in told:
        raise InputError(
            f"release {str(release.folder)!r} does not say where its rows lie; give their file with --input, or the release's "
            "configuration with --config"
        )
    return ReleaseConfig.build(**told)


def _output(config: AuditConfig, release: Released) -> Path:
    if config.output is not None:
        return Path(config.output)
    name = "audit" if len(config.releases) == 1 else "comparison"
    return release.folder / name if config.mode == "public" else release.folder / "internal" / name


def _price(config: AuditConfig) -> Rho:
    if config.mode == "internal":
        if config.epsilon is not None or config.delta is not None:
            raise InputError("an internal audit has no price, and may not be published; for a public one, say --public")
        return Rho(0)
    return total_price(*config.price)
