"""The errors of groups in a report, which are exact or have intervals, are averaged over columns, and may be shrunk.

>>> error = relative_error_interval(NoisyNumber(2.0, 1.6, 2.4), 3.0)
>>> error.value, error.lower, error.upper, error.note
(0.5, 0.25, 0.875, '')
>>> relative_error_interval(NoisyNumber(0.5, 0.0, 1.2), 0.6).note
'margin of error larger than the value'

If two releases are compared by the same noisy means, the difference of their errors is more accurate than either error.
A mean that is too high makes both errors too large.

>>> difference = error_difference(NoisyNumber(2.0, 1.9, 2.1), 1.7, 1.5)  # both are too low for any such mean
>>> round(difference.lower, 3), round(difference.upper, 3)
(-0.105, -0.095)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.scores.parity import LOST_ERROR
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.stats.shrinkage import adaptive_shrinkage

Expected = Mapping[str, Mapping[str, float]]  # column → label → the expected error of a release
CHANCE = 0.05  # the expected number of wrong signs among the errors of a release that are treated as real
NOTABLE_ERROR = 0.05  # an error with an interval from about 0 to beyond this is below the noise floor
NO_SYNTHETIC_ROW = "no synthetic rows"


@dataclass(frozen=True)
class ReportedNumber:
    """A number that is shown in a report.

    Attributes
    ----------
    value : float or None
        The number. None if it is not known.
    lower, upper : float or None
        The ends of the interval. The upper end may be infinite. None if the number is exact.
    note : str
        The reason why the number is below the noise floor or has no value. Empty if there is no such reason.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""

    @property
    def order(self) -> tuple[bool, float, float]:
        """Return a sort key.

        Numbers with a note are first, and all others are in decreasing order of the lower end or the value.
        """
        return not self.note, -self.at_least, -(self.value or 0.0)

    @property
    def at_least(self) -> float:
        """Return the lower end of the interval or the exact value. If there is neither, return 0."""
        return (self.value if self.lower is None else self.lower) or 0.0

    @property
    def at_most(self) -> float:
        """Return the upper end of the interval or the exact value. If there is neither, return infinity."""
        found = self.value if self.upper is None else self.upper
        return math.inf if found is None else found

    @property
    def sign(self) -> int:
        """Return −1 or 1 if the sign is certain, and 0 otherwise."""
        lower = self.value or 0.0 if self.lower is None else self.lower
        upper = self.value or 0.0 if self.upper is None else self.upper
        return 0 if self.note else -1 if upper < 0 else int(lower > 0)


def relative_error_interval(mean: NoisyNumber, synthetic: float | None) -> ReportedNumber:
    """Return the relative error |synthetic − mean| / |mean| for a noisy mean.

    The interval contains all errors that are possible if the mean is within its own interval. If there is no synthetic
    value, the error is 1, as in `equistrata.eval.scores.parity`. If the interval of the mean contains 0, the interval
    of the error has no upper end. The error is below the noise floor if the mean is below the noise floor, or if the
    interval of the error is from about 0 to more than `NOTABLE_ERROR`.
    """
    if synthetic is None:
        return ReportedNumber(LOST_ERROR, LOST_ERROR, LOST_ERROR, NO_SYNTHETIC_ROW)
    value, lower, upper = _within(mean, lambda m: _relative_error(synthetic, m), (synthetic,))
    return ReportedNumber(value, max(lower, 0.0), upper, mean.note or _error_note(value, lower, upper))


def error_difference(mean: NoisyNumber, one: float | None, other: float | None) -> ReportedNumber:
    """Return the relative error of `one` minus the relative error of `other`.

    The interval contains all differences that are possible if the mean is within its own interval. A missing value has
    the error 1. If the interval of the mean contains 0, the interval of the difference has no ends, and the difference
    is below the noise floor.
    """
    if one is None and other is None:
        return ReportedNumber(0.0, 0.0, 0.0, NO_SYNTHETIC_ROW)
    value, lower, upper = _within(mean, lambda m: _relative_error(one, m) - _relative_error(other, m), (one, other))
    return ReportedNumber(value, lower, upper, "" if math.isfinite(upper) else TOO_SMALL)


def _relative_error(synthetic: float | None, mean: float) -> float:
    return LOST_ERROR if synthetic is None else abs(synthetic / mean - 1)


def _within(
    mean: NoisyNumber, error: Callable[[float], float], turns: Iterable[float | None]
) -> tuple[float | None, float, float]:
    """Return the error at a noisy mean, and the smallest and the largest error within the interval of the mean.

    The error at the mean is None if the mean is 0 or None. The error is monotonic between 0 and the `turns`. Therefore
    its extreme values over an interval without 0 are at the ends of the interval or at the turns.
    """
    value = error(mean.value) if mean.value else None
    if math.isinf(mean.upper) or mean.lower <= 0 <= mean.upper:
        return value, -math.inf, math.inf
    inside = [turn for turn in turns if turn is not None and mean.lower < turn < mean.upper]
    found = [error(m) for m in (mean.lower, mean.upper, *inside)]
    return value, min(found), max(found)


def mean_error(parts: Iterable[ReportedNumber]) -> ReportedNumber:
    """Return the mean of several errors.

    The interval is from the mean of the lower ends to the mean of the upper ends. This is conservative, because the
    part of the noise that the columns do not share cancels to some extent. The mean is below the noise floor if more
    than half of the errors are.
    """
    parts = list(parts)
    if any(part.note == NO_SYNTHETIC_ROW for part in parts):
        return ReportedNumber(LOST_ERROR, LOST_ERROR, LOST_ERROR, NO_SYNTHETIC_ROW)
    mean = mean_shown(parts)
    if mean.lower is None or mean.upper is None:
        return mean
    notes = [part.note for part in parts if part.note]
    several = len(notes) > len(parts) / 2
    return replace(mean, note=notes[0] if several else _error_note(mean.value, mean.lower, mean.upper))


def mean_shown(parts: Sequence[ReportedNumber]) -> ReportedNumber:
    """Return the means of the values and of both ends. If one of the numbers has no value, the mean has no value."""
    values = [part.value for part in parts if part.value is not None]
    value = sum(values) / len(values) if len(values) == len(parts) else None
    lowers = [part.lower for part in parts if part.lower is not None]
    uppers = [part.upper for part in parts if part.upper is not None]
    return (
        ReportedNumber(value, sum(lowers) / len(parts), sum(uppers) / len(parts)) if lowers else ReportedNumber(value)
    )


def _error_note(value: float | None, lower: float, upper: float) -> str:
    wide = value is None or (upper - lower) / 2 > value
    return TOO_SMALL if wide and lower < NOTABLE_ERROR / 10 and upper > NOTABLE_ERROR else ""


def shrunken_errors(
    errors: Mapping[str, Mapping[str, ReportedNumber]], audit: PublicAudit, expected: Expected
) -> dict[str, dict[str, ReportedNumber]]:
    """Shrink the errors of groups towards their expected errors (see `equistrata.stats.shrinkage`).

    If the noise of a mean is larger than any error that is expected, then a large error is most likely due to chance.
    The errors with the most certain signs are treated as real, as long as the expected number of wrong signs among them
    is at most `CHANCE`. Any other error that may be notable is below the noise floor.

    The errors of all rows are not changed. The same is true if a released mean is 0 or missing. The means of a group
    share the noise in its number of rows. Therefore no error of a group is treated as real if the relative error of its
    size may be larger than one half.

    Parameters
    ----------
    errors : mapping of str to mapping of str to Shown
        The error of each column in each group.
    audit : PublicAudit
        The audit with the noisy means.
    expected : mapping of str to mapping of str to float
        The expected size of the error of each column in each group. If it is missing, it is one over the square root of
        the number of synthetic rows of the group. It is at least one over the number of these rows.

    Returns
    -------
    dict of str to dict of str to Shown
        The posterior errors, with intervals.
    """
    z = float(scipy.special.ndtri((1 + audit.level) / 2))
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
        apart = math.isfinite(mean.upper) and not mean.lower <= 0 <= mean.upper  # the interval does not contain 0
        if mean.value is not None and made and apart and _size_is_known(audit.sizes.get(label)):
            observed[place] = mean.value / made - 1  # the released mean has no noise, so the ratio is normal
            noise[place] = (mean.upper - mean.lower) / (2 * z * abs(made))
        scale[place] = max(expected.get(column, {}).get(label, rows[label] ** -0.5), 1 / rows[label])
    posterior = adaptive_shrinkage(observed, noise, scale)
    likeliest = np.argsort(posterior.wrong_sign, kind="stable")
    shown = np.zeros(len(cells), dtype=bool)
    shown[likeliest] = np.cumsum(posterior.wrong_sign[likeliest]) <= CHANCE
    for place, (column, label) in enumerate(cells):
        size, far = float(posterior.size[place]), z * float(posterior.deviation[place])
        chance = not shown[place] and size + far > NOTABLE_ERROR
        note = TOO_SMALL if chance or np.isnan(noise[place]) else ""
        error, least, most = (_over_real(x, observed[place]) for x in (size, max(size - far, 0.0), size + far))
        found[column][label] = ReportedNumber(error if math.isfinite(error) else None, least, most, note)
    return found


def _size_is_known(size: NoisyNumber | None) -> bool:
    """Return True if the noisy size of a group is more than four standard deviations (at level 0.95) above zero."""
    return size is None or (size.value is not None and size.upper - size.value < size.value / 2)


def _over_real(size: float, side: float) -> float:
    """Convert a distance between the real and the released mean to a multiple of the real mean.

    The parameter `size` is the distance as a multiple of the released mean, and `side` has the sign of the difference.
    The result is infinite if the real mean may be zero or may have the other sign.
    """
    real = 1 + math.copysign(size, side) if math.isfinite(side) else 1.0
    return size / real if real > 0 else math.inf


def judged(numbers: Mapping[str, ReportedNumber]) -> dict[str, ReportedNumber]:
    """Return the numbers of the groups that can be judged, in decreasing order."""
    found = {label: shown for label, shown in numbers.items() if label != ALL_ROWS and not shown.note}
    return dict(sorted(found.items(), key=lambda each: each[1].order))


def may_be_largest(numbers: Mapping[str, ReportedNumber]) -> tuple[str, ...]:
    """Return the groups that may have the largest number, among those that can be judged.

    If there is only one such group, its interval is above all other intervals. Every function that names the worst
    group uses this function.

    >>> numbers = {"A": ReportedNumber(0.3, 0.2, 0.4), "B": ReportedNumber(0.5, 0.1, 0.9),
    ...     "C": ReportedNumber(0.1, 0.0, 0.15)}
    >>> numbers |= {"D": ReportedNumber(0.9, note="it may be chance")}
    >>> may_be_largest(numbers), may_be_largest(numbers | {"B": ReportedNumber(0.5, 0.45, 0.9)})
    (('A', 'B'), ('B',))
    """
    found = judged(numbers)
    surely = max((shown.at_least for shown in found.values()), default=0.0)
    return tuple(label for label, shown in found.items() if shown.at_most >= surely)


def may_be_least(numbers: Mapping[str, ReportedNumber]) -> tuple[str, ...]:
    """Return the groups that may have the smallest number, among those that can be judged."""
    least = min((shown.at_most for shown in judged(numbers).values()), default=0.0)
    return tuple(label for label, shown in judged(numbers).items() if shown.at_least <= least)
