"""What an audit found about a release, as its report shows it: errors of groups, exact or with intervals.

A group's error is, in an internal audit, the `DISTANCE` of its released values from the real ones. In a public one it
is the `ERROR_OF_MEANS`, of columns whose codes have an order or two values: the mean of other codes means nothing.

A release and its synthetic rows are public. Whether the rest is exact or noisy depends on the audit: `public_findings`
takes noisy numbers only and gives each its interval, `internal_findings` gives exact ones without. All post-processing.

>>> error = relative_error_interval(NoisyNumber(2.0, 1.6, 2.4), 3.0)
>>> error.value, error.lower, error.upper, error.note
(0.5, 0.25, 0.875, '')
>>> relative_error_interval(NoisyNumber(0.5, 0.0, 1.2), 0.6).note
'± wider than the value'

Two releases are compared over the same noisy means, so the difference of their errors is known better than either
error: a mean that came out too high makes both errors too large.

>>> difference = error_difference(NoisyNumber(2.0, 1.9, 2.1), 1.7, 1.5)  # both are too low for any such mean
>>> round(difference.lower, 3), round(difference.upper, 3)
(-0.105, -0.095)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import ndtri

from equistrata.data.schema import Schema
from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.scores.parity import LOST_ERROR
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.eval.scores.workload import WORST_WORKLOAD
from equistrata.stats.shrinkage import shrunken

Expected = Mapping[str, Mapping[str, float]]  # column → label → how far a release was expected to be off
CHANCE = 0.05  # expected number of wrong signs among the errors of a release that are treated as real
LEAST_MEAN = 0.05  # of the released mean: the least real one that an error is worked out for
LEAST_EXPECTED = 1e-4  # the size of an error that is expected where hardly any is
NOTABLE_ERROR = 0.05  # an error with an interval from about 0 to beyond this is below the noise floor
DISTANCE, ERROR_OF_MEANS = "distance", "error of means"
NO_ORDER = "no column whose codes have an order"
NO_SYNTHETIC_ROW = "no synthetic row"
NO_POSITIVE = "no row has the value that is predicted"


@dataclass(frozen=True)
class ReleaseFacts:
    """What the card of a release says. `name` is unique in the report, `folder` is without its path.

    `manifest` is the SHA-256 of its manifest, in hexadecimal. `relations` are the card's; None where it has none.
    `title` is what the card is called; `how`, from the card, how the rows were made: one choice of marginals, or
    several synthesizers; `held_out` the chance of a row to be in no measurement.
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


@dataclass(frozen=True)
class Shown:
    """A number as it is shown: exact without ends, else with an interval, which may have an infinite upper end.

    `note` says why it is below the noise floor or has no value, if so.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""

    @property
    def order(self) -> tuple[bool, float, float]:
        """Sorts the largest first, by the lower end (or exact value), then the estimate; noted ones come last."""
        certain = self.value if self.lower is None else self.lower
        return bool(self.note), -(certain or 0.0), -(self.value or 0.0)

    @property
    def sign(self) -> int:
        """−1, 1, or 0 where neither is certain."""
        lower = self.value or 0.0 if self.lower is None else self.lower
        upper = self.value or 0.0 if self.upper is None else self.upper
        return 0 if self.note else -1 if upper < 0 else int(lower > 0)


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
    def ranking(self) -> tuple[str, ...]:
        """The strata by error, the largest first; those below the noise floor come last."""
        labels = [label for label in self.served if label != ALL_ROWS]
        return tuple(sorted(labels, key=lambda label: self.served[label].order))

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """The strata with an error above the noise floor, the largest first."""
        return tuple(label for label in self.ranking if not self.served[label].note)

    @cached_property
    def below_noise(self) -> tuple[str, ...]:
        """The strata with an error below the noise floor, or without synthetic rows."""
        return tuple(label for label in self.ranking if self.served[label].note)


@dataclass(frozen=True)
class Comparison:
    """Two releases by their names; label → error of `one` less that of `other`, averaged over columns."""

    one: str
    other: str
    differences: Mapping[str, Shown]

    @property
    def strata(self) -> tuple[str, ...]:
        return tuple(label for label in self.differences if label != ALL_ROWS)

    @property
    def better(self) -> tuple[str, ...]:
        """The strata with less error in `one`: certainly (at the intervals' level) where numbers are noisy."""
        return tuple(label for label in self.strata if self.differences[label].sign < 0)

    @property
    def worse(self) -> tuple[str, ...]:
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


def shrunken_errors(
    errors: Mapping[str, Mapping[str, Shown]], audit: PublicAudit, expected: Expected
) -> dict[str, dict[str, Shown]]:
    """Errors of groups, shrunk towards what was expected of them: `equistrata.stats.shrinkage`.

    Where a mean's noise is larger than any error that is expected, a large error of it is most likely chance. Those
    with the surest signs are treated as real, as long as at most `CHANCE` of these signs are expected to be wrong, all
    together. Another one that may be notable is below the noise floor.
    Errors of all rows, and where a released mean is 0 or missing, are as they were. All means of a group share the
    noise in its number of rows, so where that is not known to within a half no error of the group is treated as real.

    Args:
        expected: column → label → the size that was expected of the error; where there is none, one over the root of
            the group's synthetic rows.
    """
    z = float(ndtri((1 + audit.level) / 2))
    rows, means = audit.synthetic.rows, audit.synthetic.means
    found = {column: dict(of) for column, of in errors.items()}
    cells = [
        (column, label) for column, of in errors.items() for label in of if label != ALL_ROWS and means[column][label]
    ]
    if not cells:
        return found
    observed, noise, scale = np.full((3, len(cells)), np.nan)
    for place, (column, label) in enumerate(cells):
        mean, made = audit.means[column][label], means[column][label]
        apart = math.isfinite(mean.upper) and not mean.lower <= 0 <= mean.upper  # from zero
        if mean.value is not None and made and apart and _size_is_known(audit.sizes.get(label)):
            observed[place] = mean.value / made - 1  # over the released mean, which has no noise: normal
            noise[place] = (mean.upper - mean.lower) / (2 * z * abs(made))
        scale[place] = max(expected.get(column, {}).get(label, rows[label] ** -0.5), LEAST_EXPECTED)
    posterior = shrunken(observed, noise, scale)
    likeliest = np.argsort(posterior.wrong_sign, kind="stable")
    shown = np.zeros(len(cells), dtype=bool)
    shown[likeliest] = np.cumsum(posterior.wrong_sign[likeliest]) <= CHANCE
    for place, (column, label) in enumerate(cells):
        size, far = float(posterior.size[place]), z * float(posterior.deviation[place])
        chance = not shown[place] and size + far > NOTABLE_ERROR
        note = TOO_SMALL if chance or np.isnan(noise[place]) else ""
        error, least, most = (_over_real(x, observed[place]) for x in (size, max(size - far, 0.0), size + far))
        found[column][label] = Shown(error, least, most, note)
    return found


def _size_is_known(size: NoisyNumber | None) -> bool:
    """Whether a group's noisy number of rows is more than four standard deviations (at level 0.95) above zero."""
    return size is None or (size.value is not None and size.upper - size.value < size.value / 2)


def _over_real(size: float, side: float) -> float:
    """A distance of the real mean from the released one, over the released one, as one over the real one."""
    return size / max(1 + math.copysign(size, side), LEAST_MEAN) if math.isfinite(side) else size


def internal_findings(release: ReleaseFacts, audit: InternalAudit, schema: Schema) -> Findings:
    """From exact numbers: internal."""
    del schema  # distances are of every column

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
        apart = _mean(pairs)
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


def relative_error_interval(mean: NoisyNumber, synthetic: float | None) -> Shown:
    """|synthetic − mean| / |mean| for a noisy mean: the estimate, and all that is possible within the mean's interval.

    Without a synthetic value the error is 1, as in `equistrata.eval.scores.parity`. Where the interval holds 0, it has
    no upper end. It is below the noise floor where the mean is, or where its interval reaches from about 0 to beyond
    `NOTABLE_ERROR`.
    """
    if synthetic is None:
        return Shown(LOST_ERROR, LOST_ERROR, LOST_ERROR, NO_SYNTHETIC_ROW)
    value, lower, upper = _within(mean, lambda m: _relative_error(synthetic, m), (synthetic,))
    return Shown(value, max(lower, 0.0), upper, mean.note or _error_note(value, lower, upper))


def error_difference(mean: NoisyNumber, one: float | None, other: float | None) -> Shown:
    """The relative error of `one` less that of `other`, over all means within the interval; a missing one has error 1.

    Where the interval holds 0, it has no ends, and the difference is below the noise floor.
    """
    if one is None and other is None:
        return Shown(0.0, 0.0, 0.0, NO_SYNTHETIC_ROW)
    value, lower, upper = _within(mean, lambda m: _relative_error(one, m) - _relative_error(other, m), (one, other))
    return Shown(value, lower, upper, "" if math.isfinite(upper) else TOO_SMALL)


def _relative_error(synthetic: float | None, mean: float) -> float:
    return LOST_ERROR if synthetic is None else abs(synthetic / mean - 1)


def _within(
    mean: NoisyNumber, error: Callable[[float], float], turns: Iterable[float | None]
) -> tuple[float | None, float, float]:
    """An error at a noisy mean (None where that is 0), and its least and greatest value within the mean's interval.

    It is monotone between the `turns` and 0, so its extremes over an interval without 0 are at the ends or the turns.
    """
    value = error(mean.value) if mean.value else None
    if math.isinf(mean.upper) or mean.lower <= 0 <= mean.upper:
        return value, -math.inf, math.inf
    inside = [turn for turn in turns if turn is not None and mean.lower < turn < mean.upper]
    found = [error(m) for m in (mean.lower, mean.upper, *inside)]
    return value, min(found), max(found)


def mean_error(parts: Iterable[Shown]) -> Shown:
    """The mean of several errors.

    Its interval goes from the mean of the lower ends to the mean of the upper ends, which is conservative: noise that
    the columns do not share partly cancels. It is below the noise floor where more than half of its parts are.
    """
    parts = list(parts)
    if any(part.note == NO_SYNTHETIC_ROW for part in parts):
        return Shown(LOST_ERROR, LOST_ERROR, LOST_ERROR, NO_SYNTHETIC_ROW)
    mean = _mean(parts)
    if mean.lower is None or mean.upper is None:
        return mean
    notes = [part.note for part in parts if part.note]
    several = len(notes) > len(parts) / 2
    return replace(mean, note=notes[0] if several else _error_note(mean.value, mean.lower, mean.upper))


def _mean(parts: Sequence[Shown]) -> Shown:
    """The means of the values and of both ends; no value where one part has none."""
    values = [part.value for part in parts if part.value is not None]
    value = sum(values) / len(values) if len(values) == len(parts) else None
    lowers = [part.lower for part in parts if part.lower is not None]
    uppers = [part.upper for part in parts if part.upper is not None]
    return Shown(value, sum(lowers) / len(parts), sum(uppers) / len(parts)) if lowers else Shown(value)


def _error_note(value: float | None, lower: float, upper: float) -> str:
    wide = value is None or (upper - lower) / 2 > value
    return TOO_SMALL if wide and lower < NOTABLE_ERROR / 10 and upper > NOTABLE_ERROR else ""
