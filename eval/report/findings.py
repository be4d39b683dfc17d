"""What an audit found about a release, as its report shows it: errors of groups, exact or with intervals.

A group's error is, in an internal audit, the `DISTANCE` of its released values from the real ones. In a public one it
is the `ERROR_OF_MEANS`, of columns with two codes, or with ordered ones: the mean of other codes means nothing.

A release and its synthetic rows are public. Whether the rest is exact or noisy depends on the audit: `public_findings`
takes noisy numbers only and gives each its interval, `internal_findings` gives exact ones without. All post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from equistrata.data.schema import Schema
from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.noisy_number import TOO_SMALL
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.group_errors import (
    NO_SYNTHETIC_ROW,
    Expected,
    Shown,
    error_difference,
    judged,
    may_be_largest,
    mean_error,
    mean_shown,
    relative_error_interval,
    shrunken_errors,
)
from equistrata.eval.report.people import People
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.eval.scores.workload import WORST_WORKLOAD

DISTANCE, ERROR_OF_MEANS = "distance", "error of means"
NO_ORDER = "no column whose codes have an order"
NO_POSITIVE = "no row has the value that is predicted"


@dataclass(frozen=True)
class ReleaseFacts:
    """What the card of a release says. `name` is unique in the report, `folder` is without its path.

    `manifest` is the SHA-256 of its manifest, in hexadecimal. `relations` are the card's; None where it has none.
    `title` is what the card is called; `how`, from the card, how the rows were made: one choice of marginals, or
    several synthesizers; `held_out` the chance of a row to be in no measurement;
    `bound` what a bound on the rows of a unit means for numbers, empty where there is none;
    `people` what it says of a survey weight, None without one;
    `odds_on` which odds of an attacker the price bounds, after "odds".
    """

    name: str
    variant: str
    folder: str
    mechanism: str
    strata: tuple[str, ...]
    rows: int
    epsilon: float
    delta: float
    rho: float
    source: str
    created: str
    software: str
    private: bool
    caveats: tuple[str, ...]
    manifest: str
    relations: Mapping[str, Any] | None = None
    title: str = ""
    how: str = ""
    held_out: float = 0.0
    bound: str = ""
    people: People | None = None
    odds_on: str = "that a person with one row is in the table"


@dataclass(frozen=True)
class Findings:
    """What was found about one release: numbers by stratum's label, where `all` is the whole table.

    Attributes:
        measure: what `errors` are, `DISTANCE` in [0, 1] or `ERROR_OF_MEANS`.
        errors: column → label → error of the column there, for columns that define no strata.
        averaged: those of these columns that a group's error is the average of.
        numbers: what → label → number: "workload error" in [0, 2]; "calibration", predicted over real number of
            positive rows; the classifier's "accuracy", "selection rate" and "false negative rate"; private "rows".
            Internal ones have the error of means, too.
        lost: strata without a synthetic row.
    """

    release: ReleaseFacts
    measure: str
    errors: Mapping[str, Mapping[str, Shown]]
    averaged: tuple[str, ...]
    numbers: Mapping[str, Mapping[str, Shown]]
    lost: tuple[str, ...]

    @cached_property
    def by_group(self) -> Mapping[str, Mapping[str, Shown]]:
        """All numbers by group: the errors, and the others."""
        return {self.measure: self.served, **self.numbers}

    @cached_property
    def served(self) -> dict[str, Shown]:
        """Label → the error, averaged over the columns. 0 is best; there is none where no column can be averaged."""
        labels = next(iter(self.errors.values()), {})
        if not self.averaged:
            return {label: Shown(None, note=NO_ORDER) for label in labels}
        return {label: mean_error([self.errors[name][label] for name in self.averaged]) for label in labels}

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """The strata with an error above the noise floor, the largest first."""
        return tuple(judged(self.served))

    @cached_property
    def worst(self) -> tuple[str, ...]:
        """The strata that may be served worst, of those that can be judged: if it is one, it surely is."""
        return may_be_largest(self.served)

    @cached_property
    def below_noise(self) -> tuple[str, ...]:
        """The strata with an error below the noise floor, or without synthetic rows, as figures order them."""
        hidden = [label for label, shown in self.served.items() if label != ALL_ROWS and shown.note]
        return tuple(sorted(hidden, key=lambda label: self.served[label].order))


@dataclass(frozen=True)
class Comparison:
    """Two releases by their names; label → error of `one` less that of `other`, averaged over columns."""

    one: str
    other: str
    differences: Mapping[str, Shown]

    @property
    def strata(self) -> tuple[str, ...]:
        """The labels, without that of all rows."""
        return tuple(label for label in self.differences if label != ALL_ROWS)

    @property
    def better(self) -> tuple[str, ...]:
        """The strata with less error in `one`: certainly (at the intervals' level) where numbers are noisy."""
        return tuple(label for label in self.strata if self.differences[label].sign < 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """The strata with more error in `one`, as surely."""
        return tuple(label for label in self.strata if self.differences[label].sign > 0)


def public_findings(
    release: ReleaseFacts, audit: PublicAudit, schema: Schema, expected: Expected | None = None
) -> Findings:
    """From noisy numbers, each with its interval; those of groups are shrunk (`shrunken_errors`)."""
    made = audit.synthetic
    errors = {
        column: {label: relative_error_interval(mean, made.means[column][label]) for label, mean in means.items()}
        for column, means in audit.means.items()
    }
    if audit.strata_columns:
        errors = shrunken_errors(errors, audit, expected or {})
    noisy = {
        "workload error": audit.workload_error,
        "calibration": audit.calibration,
        "accuracy": audit.accuracy,
        "selection rate": audit.selection_rate,
        "false negative rate": audit.false_negative_rate,
        "rows": audit.sizes,
    }
    numbers = {
        name: {label: Shown(n.value, n.lower, n.upper, n.note) for label, n in of.items()} for name, of in noisy.items()
    }
    numbers["workload error"] |= {label: Shown(WORST_WORKLOAD, note=NO_SYNTHETIC_ROW) for label in made.lost}
    averaged = tuple(name for name in errors if schema[name].ordered or schema[name].size <= 2)
    return Findings(release, ERROR_OF_MEANS, errors, averaged, numbers, made.lost)


def internal_findings(release: ReleaseFacts, audit: InternalAudit) -> Findings:
    """From exact numbers, of every column: internal."""

    def shown(numbers: Mapping[str, float | None]) -> dict[str, Shown]:
        return {label: Shown(number, note=NO_POSITIVE if number is None else "") for label, number in numbers.items()}

    fairness, scores = audit.fairness, audit.scores
    whole = fmean(scores.population_by_column.values()) if scores.population_by_column else 0.0
    numbers = {
        ERROR_OF_MEANS: {**scores.parity_by_stratum, ALL_ROWS: whole},
        "workload error": {**scores.workload3_strata, ALL_ROWS: scores.workload3},
        "calibration": audit.calibration,
        "accuracy": {**fairness.accuracy_by_stratum, ALL_ROWS: fairness.accuracy} if fairness else {},
        "selection rate": fairness.selection_rate if fairness else {},
        "false negative rate": fairness.false_negative_rate if fairness else {},
        "rows": {**audit.sizes, ALL_ROWS: sum(audit.sizes.values())},
    }
    errors = {column: shown(of) for column, of in scores.distance_by_group.items()}
    others = {name: shown(of) for name, of in numbers.items()}
    return Findings(release, DISTANCE, errors, tuple(errors), others, audit.synthetic.lost)


def public_comparison(one: tuple[Findings, PublicAudit], other: tuple[Findings, PublicAudit]) -> Comparison:
    """Compare two releases over the noisy means that both were audited with."""
    means = {column: of for column, of in one[1].means.items() if column in one[0].averaged}
    differences = {}
    for label in one[1].sizes if means else ():
        pairs = [
            error_difference(of[label], *(audit.synthetic.means[column][label] for _, audit in (one, other)))
            for column, of in means.items()
        ]
        apart = mean_shown(pairs)
        known = apart.lower is not None and apart.upper is not None and math.isfinite(apart.upper - apart.lower)
        differences[label] = apart if known else replace(apart, note=TOO_SMALL)
    return Comparison(one[0].release.name, other[0].release.name, differences)


def internal_comparison(one: tuple[Findings, InternalAudit], other: tuple[Findings, InternalAudit]) -> Comparison:
    """Compare two releases by exact errors: internal."""
    (mine, _), (theirs, _) = one, other
    differences = {
        label: Shown((shown.value or 0.0) - (theirs.served[label].value or 0.0)) for label, shown in mine.served.items()
    }
    return Comparison(mine.release.name, theirs.release.name, differences)
