"""What a report is made from, in two types that cannot stand for each other.

A `PublicReport` takes public audits, whose every number from private rows is noisy and paid for, and public facts: cards,
synthetic rows, the ledger. An `InternalReport` takes internal audits, whose numbers are exact, and says so on every page.
All that is written (HTML, JSON, Markdown, CSV) is a function of these objects alone, which hold no private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from equistrata.data.strata import Strata
from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.marginals import Marginals
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.comparison import Comparison, compare_internal, compare_public
from equistrata.eval.report.findings import Findings, ReleaseFacts, Shown, Synthetic, internal_findings, public_findings
from equistrata.eval.scores.tables import ALL_ROWS

EVERYBODY = "everybody"


@dataclass(frozen=True)
class About:
    """What both kinds of report say of the audit itself.

    Attributes:
        made: when, ISO 8601, UTC.
        software: name and version.
        rows: where the private rows came from, as a source describes itself.
        strata_columns: the columns that define the groups.
        groups: label → words for people, every declared stratum; without strata, everybody is one group.
        columns: name → words for people, every column.
        schema: SHA-256 of the schema, in hexadecimal.
    """

    made: str
    software: str
    rows: str
    strata_columns: tuple[str, ...]
    groups: Mapping[str, str]
    columns: Mapping[str, str]
    schema: str

    @classmethod
    def of(cls, strata: Strata, *, made: str, software: str, rows: str) -> About:
        """Take the words from the schema of the strata."""
        schema = strata.schema
        return cls(
            made=made,
            software=software,
            rows=rows,
            strata_columns=strata.columns,
            groups={strata.label(key): strata.words(key) for key in strata.keys}
            if strata.columns
            else {ALL_ROWS: EVERYBODY},
            columns={column.name: column.label or column.name for column in schema.columns},
            schema=schema.digest,
        )

    def name_of(self, label: str) -> str:
        """A group in words, with its label: `Female, Asian (SEX=2, RAC1P=6)`."""
        if label == ALL_ROWS:
            return EVERYBODY
        words, code = self.groups.get(label, label), label.replace(",", ", ")
        return words if words == code else f"{words} ({code})"

    @property
    def grouping(self) -> str:
        """What the groups are by, in words: `Sex × Race`."""
        return " × ".join(self.columns[name] for name in self.strata_columns)


@dataclass(frozen=True)
class Charge:
    """One charge in a ledger: when (ISO 8601), for what, ρ, and what had been spent with it."""

    at: str
    release: str
    rho: float
    spent: float
    outcome: str


@dataclass(frozen=True)
class BudgetHistory:
    """The account of a data set: its lifetime budget, every charge, and which of them this report is about.

    Attributes:
        opened: when the account was opened, ISO 8601.
        mine: the ids of the audited releases and of this audit.
        head: the ledger's head, for whoever checks its history later.
    """

    dataset: str
    epsilon: float
    delta: float
    rho: float
    opened: str
    charges: tuple[Charge, ...]
    mine: tuple[str, ...]
    head: str

    @property
    def spent(self) -> float:
        """The ρ of all charges."""
        return self.charges[-1].spent if self.charges else 0.0


@dataclass(frozen=True)
class AuditPrice:
    """What a public audit cost: (ε, δ) and ρ, and the entry of the ledger that it was charged as (empty without)."""

    epsilon: float
    delta: float
    rho: float
    charged_as: str = ""


@dataclass(frozen=True, eq=False)
class PublicReport:
    """The report of a public audit.

    Attributes:
        releases, audits, synthetic: one of each for every release, in one order.
        price: of all audits together.
        together: (ε, δ) of the audits and the releases together, where they are of the same rows; ε at the price's δ.
        earlier: the number of public audits in the releases' folders; `together` counts them.

    Raises:
        TypeError: an audit is not a `PublicAudit`.
    """

    MODE: ClassVar[str] = "public"

    about: About
    releases: tuple[ReleaseFacts, ...]
    audits: tuple[PublicAudit, ...]
    synthetic: tuple[Synthetic, ...]
    price: AuditPrice
    together: float
    history: BudgetHistory | None = None
    earlier: int = 0

    def __post_init__(self) -> None:
        for audit in self.audits:
            if not isinstance(audit, PublicAudit):
                raise TypeError(f"a public report takes public audits only, not {type(audit).__name__}")
        _check_lengths(self.releases, self.audits, self.synthetic)

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """What was found about each release."""
        parts = zip(self.releases, self.audits, self.synthetic, strict=True)
        return tuple(public_findings(*each) for each in parts)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The first release against each of the others."""
        pairs = list(zip(self.findings, self.synthetic, strict=True))
        return tuple(compare_public(pairs[0], other, self.audits[0]) for other in pairs[1:])

    @property
    def private(self) -> bool:
        """Whether the noise came from a source fit for real releases."""
        return all(audit.private for audit in self.audits)

    @property
    def target(self) -> tuple[str, str]:
        """The column that classifiers predict, and its value that counts; empty without."""
        return self.audits[0].target, self.audits[0].positive


@dataclass(frozen=True, eq=False)
class InternalReport:
    """The report of an internal audit: exact numbers, never to be published.

    Raises:
        TypeError: an audit is not an `InternalAudit`.
    """

    MODE: ClassVar[str] = "internal"

    about: About
    releases: tuple[ReleaseFacts, ...]
    audits: tuple[InternalAudit, ...]
    synthetic: tuple[Synthetic, ...]
    marginals: tuple[Marginals, ...]
    history: BudgetHistory | None = None

    def __post_init__(self) -> None:
        for audit in self.audits:
            if not isinstance(audit, InternalAudit):
                raise TypeError(f"an internal report takes internal audits only, not {type(audit).__name__}")
        _check_lengths(self.releases, self.audits, self.synthetic, self.marginals)

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """What was found about each release."""
        parts = zip(self.releases, self.audits, self.synthetic, strict=True)
        return tuple(internal_findings(*each) for each in parts)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The first release against each of the others."""
        return tuple(compare_internal(self.findings[0], other) for other in self.findings[1:])

    @property
    def target(self) -> tuple[str, str]:
        """The column that classifiers predict, and its value that counts; empty without."""
        return self.audits[0].target, self.audits[0].positive


Report = PublicReport | InternalReport


def order_of_groups(report: Report) -> tuple[str, ...]:
    """The groups for every figure: from the worst served by any release on, those of which nothing is told last."""
    findings = report.findings
    if not report.about.strata_columns:
        return (ALL_ROWS,)

    def worst(label: str) -> tuple[bool, float, float]:
        told = [each.served[label] for each in findings if not each.served[label].note] or [Shown(None)]
        least, value = max(shown.order for shown in told)
        return told == [Shown(None)], -least, -value

    return tuple(sorted((label for label in findings[0].served if label != ALL_ROWS), key=worst))


def _check_lengths(*parts: Sequence[object]) -> None:
    if not parts[0] or len({len(part) for part in parts}) > 1:
        raise ValueError(
            "a report needs one audit and one synthetic summary for each release, and at least one release"
        )
