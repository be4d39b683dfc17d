"""The findings of an audit about a release, which are errors of groups that are either exact or have intervals.

In an internal audit, the error of a group is the `DISTANCE` between its released values and the real ones. In a public
audit it is the `ERROR_OF_MEANS` of the columns that have two codes or ordered codes, because the mean of other codes
has no meaning.

The release and its synthetic rows are public. The other numbers depend on the audit. The function `public_findings`
accepts noisy numbers only and returns them with their intervals. The function `internal_findings` returns exact
numbers. All functions are post-processing.
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
    ReportedNumber,
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
NO_ORDER = "no column has ordered codes"
NO_POSITIVE = "no private row has the predicted value"


@dataclass(frozen=True)
class ReleaseFacts:
    """The information on the card of a release.

    Attributes
    ----------
    name, variant, folder : str
        The name in the report, the name of the variant, and the name of the folder.
    mechanism : str
        The mechanism of the synthesis.
    strata : tuple of str
        The columns that define the strata.
    rows : int
        The number of released rows.
    epsilon, delta, rho : float
        The privacy cost of the release.
    source : str
        The source of the private rows.
    created, software : str
        The time of the release, and the software that made it.
    private : bool
        False if the noise was seeded.
    caveats : tuple of str
        The limits of the guarantee.
    manifest : str
        The SHA-256 of the manifest, in hexadecimal.
    relations : mapping, optional
        The pairs of columns that were measured together, and the relations that the rows preserve.
    title : str
        The title of the card.
    how : str
        How the rows were made, in words.
    held_out : float
        The probability that a row was held out and not measured, in [0, 1).
    bound : str
        The effect of the maximum number of rows of a unit, in words. Empty if there is no maximum.
    people : People, optional
        The description of the survey weight. None if there is no survey weight.
    odds_on : str
        The event for which the privacy cost bounds the odds, as the words after "odds".
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
    """The findings about one release. The label `all` stands for the whole table.

    Attributes
    ----------
    release : ReleaseFacts
        The release.
    measure : str
        The measure of the errors, which is `DISTANCE` (in [0, 1]) or `ERROR_OF_MEANS`.
    errors : mapping of str to mapping of str to Shown
        The error of each column that defines no strata, in each stratum.
    averaged : tuple of str
        The columns over which the error of a group is averaged.
    numbers : mapping of str to mapping of str to Shown
        The other numbers in each stratum: "workload error" in [0, 2], "calibration" (the ratio of the predicted to the
        real number of positive rows), the "accuracy", "selection rate" and "false negative rate" of the classifier, and
        the number of private "rows". Internal findings also have the error of the means.
    lost : tuple of str
        The strata that have no synthetic row.
    """

    release: ReleaseFacts
    measure: str
    errors: Mapping[str, Mapping[str, ReportedNumber]]
    averaged: tuple[str, ...]
    numbers: Mapping[str, Mapping[str, ReportedNumber]]
    lost: tuple[str, ...]

    @cached_property
    def by_group(self) -> Mapping[str, Mapping[str, ReportedNumber]]:
        """Return the errors and all other numbers of the groups."""
        return {self.measure: self.served, **self.numbers}

    @cached_property
    def served(self) -> dict[str, ReportedNumber]:
        """Return the error of each group, averaged over the columns.

        The best value is 0. If no column can be averaged, the errors have no value.
        """
        labels = next(iter(self.errors.values()), {})
        if not self.averaged:
            return {label: ReportedNumber(None, note=NO_ORDER) for label in labels}
        return {label: mean_error([self.errors[name][label] for name in self.averaged]) for label in labels}

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """Return the strata that have an error above the noise floor, in decreasing order of the error."""
        return tuple(judged(self.served))

    @cached_property
    def worst(self) -> tuple[str, ...]:
        """Return the strata that may have the largest error, among those that can be judged.

        If there is only one such stratum, it has the largest error at the level of the intervals.
        """
        return may_be_largest(self.served)

    @cached_property
    def below_noise(self) -> tuple[str, ...]:
        """Return the strata that have an error below the noise floor or no synthetic rows, in the order of figures."""
        hidden = [label for label, shown in self.served.items() if label != ALL_ROWS and shown.note]
        return tuple(sorted(hidden, key=lambda label: self.served[label].order))


@dataclass(frozen=True)
class Comparison:
    """A comparison of two releases.

    Attributes
    ----------
    one, other : str
        The names of the releases.
    differences : mapping of str to Shown
        The error of `one` minus the error of `other` in each group, averaged over the columns.
    """

    one: str
    other: str
    differences: Mapping[str, ReportedNumber]

    @property
    def strata(self) -> tuple[str, ...]:
        """Return the labels of the strata, without the label of all rows."""
        return tuple(label for label in self.differences if label != ALL_ROWS)

    @property
    def better(self) -> tuple[str, ...]:
        """Return the strata that have a smaller error in `one`.

        If the numbers are noisy, a stratum is included only if the difference is significant at the level of the
        intervals.
        """
        return tuple(label for label in self.strata if self.differences[label].sign < 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """Return the strata that have a larger error in `one`, with the same significance."""
        return tuple(label for label in self.strata if self.differences[label].sign > 0)


def public_findings(
    release: ReleaseFacts, audit: PublicAudit, schema: Schema, expected: Expected | None = None
) -> Findings:
    """Return the findings of a public audit, as noisy numbers with intervals.

    The errors of groups are shrunk (see `shrunken_errors`).

    Parameters
    ----------
    release : ReleaseFacts
        The information on the card of the release.
    audit : PublicAudit
        The public audit of the release.
    schema : Schema
        The schema of the release.
    expected : mapping of str to mapping of str to float, optional
        The expected error of each column in each group.

    Returns
    -------
    Findings
        The errors of the means, with their intervals.
    """
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
        name: {label: ReportedNumber(n.value, n.lower, n.upper, n.note) for label, n in of.items()}
        for name, of in noisy.items()
    }
    numbers["workload error"] |= {label: ReportedNumber(WORST_WORKLOAD, note=NO_SYNTHETIC_ROW) for label in made.lost}
    averaged = tuple(name for name in errors if schema[name].ordered or schema[name].size <= 2)
    return Findings(release, ERROR_OF_MEANS, errors, averaged, numbers, made.lost)


def internal_findings(release: ReleaseFacts, audit: InternalAudit) -> Findings:
    """Return the findings of an internal audit, as exact numbers for every column. They are internal."""

    def shown(numbers: Mapping[str, float | None]) -> dict[str, ReportedNumber]:
        return {
            label: ReportedNumber(number, note=NO_POSITIVE if number is None else "")
            for label, number in numbers.items()
        }

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
    """Compare two releases by the noisy means that were measured for both audits."""
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
    """Compare two releases by their exact errors. The comparison is internal."""
    (mine, _), (theirs, _) = one, other
    differences = {
        label: ReportedNumber((shown.value or 0.0) - (theirs.served[label].value or 0.0))
        for label, shown in mine.served.items()
    }
    return Comparison(mine.release.name, theirs.release.name, differences)
