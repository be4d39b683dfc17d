"""What a report is made from, in two types that cannot stand for each other.

A `PublicReport` takes public audits, with noisy numbers only, each paid for, and public facts: cards, synthetic rows,
the ledger. An `InternalReport` takes internal audits, with exact numbers, and says so on every page. All that is
written (HTML, JSON, Markdown, CSV) is a function of these objects alone, which hold no private row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.findings import (
    Comparison,
    Findings,
    ReleaseFacts,
    internal_comparison,
    internal_findings,
    public_comparison,
    public_findings,
)
from equistrata.eval.report.group_errors import Expected
from equistrata.eval.scores.tables import ALL_ROWS

EVERYBODY = "all rows"


@dataclass(frozen=True)
class About:
    """What both kinds of report say of the audit itself.

    Attributes:
        made: when, ISO 8601, UTC.
        software: name and version.
        rows: where the private rows came from, as a source describes itself.
        strata: the groups, and the schema of what is compared, with words.
        schema: the SHA-256 of the releases' schema, in hexadecimal, which has the survey weight too.
        title, agency, contact: of the page: texts of the steward. Without a title it has that of the releases.
        called: name → words of columns that have a published mean and are not in the schema.
    """

    strata: Strata
    schema: str
    made: str
    software: str
    rows: str
    title: str = ""
    agency: str | None = None
    contact: str | None = None
    called: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """Label → words for people, every declared stratum; without strata, all rows are one group."""
        keys = [key for key in self.strata.keys if key]
        return {self.strata.label(key): self.strata.words(key) for key in keys} or {ALL_ROWS: EVERYBODY}

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Name → words for people, every column."""
        return {column.name: column.label or column.name for column in self.strata.schema.columns}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """Name → words for people, every column; with the name where others have the same words."""
        return told_apart(self.columns)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Label (and `all`) → the group in words, `Female, Asian`; with its label where others have the same words."""
        return {**told_apart(self.groups), ALL_ROWS: EVERYBODY}

    @property
    def grouping(self) -> str:
        """What the groups are by, in words: `Sex × Race`."""
        return " × ".join(self.columns[name] for name in self.strata.columns)


def told_apart(words: Mapping[str, str]) -> dict[str, str]:
    """The words, and behind those that stand for several keys the key."""
    times = Counter(words.values())
    return {key: said if times[said] == 1 else f"{said} ({key.replace(',', ', ')})" for key, said in words.items()}


@dataclass(frozen=True)
class ChargeLine:
    """One charge in a ledger: when (ISO 8601), for what, ρ, and what had been spent with it."""

    at: str
    release: str
    rho: float
    spent: float
    outcome: str


@dataclass(frozen=True)
class BudgetHistory:
    """The account of a data set: its lifetime budget, when it was opened (ISO 8601), and every charge.

    `mine` are the ids of the audited releases and of this audit; `head` is the ledger's, to check its history later.
    """

    dataset: str
    epsilon: float
    delta: float
    rho: float
    opened: str
    charges: tuple[ChargeLine, ...]
    mine: tuple[str, ...]
    head: str

    @property
    def spent(self) -> float:
        """ρ, of all charges."""
        return self.charges[-1].spent if self.charges else 0.0


@dataclass(frozen=True)
class AuditPrice:
    """What a public audit cost: (ε, δ) and ρ, and the entry of the ledger that it was charged as (empty without)."""

    epsilon: float
    delta: float
    rho: float
    charged_as: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class _AnyReport(ABC):
    """A report of either kind: `releases`, `audits` and `findings` have one of each for every release, in one order.

    Raises:
        TypeError: an audit is of the other kind.
        InputError: there is no audit, or not one for each release.
    """

    MODE: ClassVar[str]
    AUDIT: ClassVar[type]
    COMPARISON: ClassVar[staticmethod[..., Comparison]]

    about: About
    releases: tuple[ReleaseFacts, ...]
    audits: tuple[Any, ...]
    history: BudgetHistory | None = None

    def __post_init__(self) -> None:
        for audit in self.audits:
            if not isinstance(audit, self.AUDIT):
                raise TypeError(f"{self.MODE} reports take {self.MODE} audits only, not {type(audit).__name__}")
        if not self.audits or len(self.releases) != len(self.audits):
            raise InputError("a report needs one audit for each release, and at least one release")

    @property
    def title(self) -> str:
        """The steward's, or made of the releases'."""
        titles = list(dict.fromkeys(each.title or each.name for each in self.releases))
        named = " and ".join(titles) if len(titles) < 3 else f"{len(titles)} releases"
        return self.about.title or f"Fairness audit of {named}"

    @property
    @abstractmethod
    def findings(self) -> tuple[Findings, ...]:
        """What was found about each release."""

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The first release against each of the others."""
        first, *others = zip(self.findings, self.audits, strict=True)
        return tuple(self.COMPARISON(first, other) for other in others)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The groups for every figure: those that cannot be judged in a release, then by the largest error in any."""

        def largest(label: str) -> tuple[bool, float, float]:
            return min(each.served[label].order for each in self.findings)

        strata = [label for label in self.findings[0].served if label != ALL_ROWS]
        return tuple(sorted(strata, key=largest)) if self.about.strata.columns else (ALL_ROWS,)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicReport(_AnyReport):
    """The report of a public audit.

    Attributes:
        price: of all audits together.
        together: (ε, δ) of the audits and the releases together, where they are of the same rows; ε at the price's δ.
        earlier: the number of public audits in the releases' folders; `together` counts them.
        expected: for each release, how far the free audit expects its groups to be off; empty where it does not say.
    """

    MODE = "public"
    AUDIT = PublicAudit
    COMPARISON = staticmethod(public_comparison)

    audits: tuple[PublicAudit, ...]
    price: AuditPrice
    together: float
    earlier: int = 0
    expected: tuple[Expected, ...] = ()

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """What was found about each release, in noisy numbers."""
        schema = self.about.strata.schema
        expected = self.expected or ({},) * len(self.audits)
        parts = zip(self.releases, self.audits, expected, strict=True)
        return tuple(public_findings(release, audit, schema, of) for release, audit, of in parts)

    @property
    def private(self) -> bool:
        """Whether the noise came from a source fit for real releases."""
        return all(audit.private for audit in self.audits)


class InternalReport(_AnyReport):
    """The report of an internal audit: exact numbers, never to be published."""

    MODE = "internal"
    AUDIT = InternalAudit
    COMPARISON = staticmethod(internal_comparison)

    audits: tuple[InternalAudit, ...]

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """What was found about each release, in exact numbers."""
        return tuple(map(internal_findings, self.releases, self.audits))


Report = PublicReport | InternalReport
