"""The content of a report, as two types that cannot be confused.

A `PublicReport` contains public audits, which have only noisy numbers that were charged to a budget, and public
information such as cards, synthetic rows and the ledger. An `InternalReport` contains internal audits with exact
numbers, and every page shows a warning. All files (HTML, JSON, Markdown, CSV) are computed from these objects only,
which contain no private rows.
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
    """The information about an audit that both kinds of report show.

    Attributes
    ----------
    strata : Strata
        The groups, and the schema of the compared tables with the labels of columns and values.
    schema : str
        The SHA-256 hash of the schema of the releases in hexadecimal, which also includes the survey weight.
    made : str
        The time at which the audit was made, as an ISO 8601 string in UTC.
    software : str
        The name and version of the software.
    rows : str
        The source of the private rows, as described by the source itself.
    title : str
        The title of the page, written by the data steward. If it is empty, the title is made from the titles of the
        releases.
    agency, contact : str or None
        The agency and the contact on the page, written by the data steward.
    called : mapping of str to str
        The labels of columns that have a published mean but are not in the schema.
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
        """Return the names of all declared strata in words. If there are no strata, all rows are a single group."""
        keys = [key for key in self.strata.keys if key]
        return {self.strata.label(key): self.strata.words(key) for key in keys} or {ALL_ROWS: EVERYBODY}

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Return the label of every column, or its name if it has no label."""
        return {column.name: column.label or column.name for column in self.strata.schema.columns}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """Return the label of every column. If several columns have the same label, their names are added."""
        return told_apart(self.columns)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the name of every group in words, such as `Female, Asian`, and of all rows.

        If several groups have the same name, their labels are added.
        """
        return {**told_apart(self.groups), ALL_ROWS: EVERYBODY}

    @property
    def grouping(self) -> str:
        """Return the columns that define the groups in words, such as `Sex × Race`."""
        return " × ".join(self.columns[name] for name in self.strata.columns)


def told_apart(words: Mapping[str, str]) -> dict[str, str]:
    """Return the words of each key. If several keys have the same words, the key is added in parentheses."""
    times = Counter(words.values())
    return {key: said if times[said] == 1 else f"{said} ({key.replace(',', ', ')})" for key, said in words.items()}


@dataclass(frozen=True)
class ChargeLine:
    """One charge in a ledger.

    Attributes
    ----------
    at : str
        The time of the charge, as an ISO 8601 string.
    release : str
        The release or audit that was charged.
    rho : float
        The cost of the charge in zCDP.
    spent : float
        The total cost up to and including this charge.
    outcome : str
        The outcome of the charge.
    """

    at: str
    release: str
    rho: float
    spent: float
    outcome: str


@dataclass(frozen=True)
class BudgetHistory:
    """The privacy account of a data set.

    Attributes
    ----------
    dataset : str
        The name of the data set.
    epsilon, delta, rho : float
        The lifetime budget.
    opened : str
        The time at which the account was opened, as an ISO 8601 string.
    charges : tuple of ChargeLine
        All charges, in order.
    mine : tuple of str
        The ids of the audited releases and of this audit.
    head : str
        The head of the ledger, which can be used to check its history later.
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
        """Return the total cost of all charges in zCDP."""
        return self.charges[-1].spent if self.charges else 0.0


@dataclass(frozen=True)
class AuditPrice:
    """The privacy cost of a public audit.

    Attributes
    ----------
    epsilon, delta, rho : float
        The cost as (ε, δ)-DP and in zCDP.
    charged_as : str
        The entry of the ledger to which the audit was charged. Empty if no ledger was charged.
    """

    epsilon: float
    delta: float
    rho: float
    charged_as: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class _BaseReport(ABC):
    """A report of either kind.

    The fields `releases`, `audits` and `findings` have one item per release, in the same order.

    Raises
    ------
    TypeError
        If an audit is of the other kind.
    InputError
        If there is no audit, or if the number of audits is not the number of releases.
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
        """Return the title that the data steward has given, or a title that is made from the releases."""
        titles = list(dict.fromkeys(each.title or each.name for each in self.releases))
        named = " and ".join(titles) if len(titles) < 3 else f"{len(titles)} releases"
        return self.about.title or f"Fairness audit of {named}"

    @property
    @abstractmethod
    def findings(self) -> tuple[Findings, ...]:
        """Return the findings about each release."""

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparisons of the first release with each of the others."""
        first, *others = zip(self.findings, self.audits, strict=True)
        return tuple(self.COMPARISON(first, other) for other in others)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return the groups in the order of the figures.

        The groups that cannot be judged in some release are first. The others are in decreasing order of their largest
        error.
        """

        def largest(label: str) -> tuple[bool, float, float]:
            return min(each.served[label].order for each in self.findings)

        strata = [label for label in self.findings[0].served if label != ALL_ROWS]
        return tuple(sorted(strata, key=largest)) if self.about.strata.columns else (ALL_ROWS,)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicReport(_BaseReport):
    """The report of a public audit.

    Attributes
    ----------
    audits : tuple of PublicAudit
        The audits, one per release.
    price : AuditPrice
        The cost of all audits together.
    together : float
        The total ε of this audit, the earlier audits and the releases, at the δ of `price`. It applies if the releases
        were made from the same rows.
    earlier : int
        The number of public audits in the folders of the releases, which are counted in `together`.
    expected : tuple of mapping
        The expected errors of the groups of each release, according to the free audit. Empty if they are not available.
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
        """Return the findings about each release as noisy numbers."""
        schema = self.about.strata.schema
        expected = self.expected or ({},) * len(self.audits)
        parts = zip(self.releases, self.audits, expected, strict=True)
        return tuple(public_findings(release, audit, schema, of) for release, audit, of in parts)

    @property
    def private(self) -> bool:
        """Return True if the noise source was suitable for real releases."""
        return all(audit.private for audit in self.audits)


class InternalReport(_BaseReport):
    """The report of an internal audit. Its numbers are exact and must not be published."""

    MODE = "internal"
    AUDIT = InternalAudit
    COMPARISON = staticmethod(internal_comparison)

    audits: tuple[InternalAudit, ...]

    @cached_property
    def findings(self) -> tuple[Findings, ...]:
        """Return the findings about each release as exact numbers."""
        return tuple(map(internal_findings, self.releases, self.audits))


Report = PublicReport | InternalReport
