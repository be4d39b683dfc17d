"""Errors of groups in a report, exact or with intervals: of noisy means, averaged over columns, shrunk.

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

import numpy as np
import scipy

from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.scores.parity import LOST_ERROR
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.stats.shrinkage import shrunken

Expected = Mapping[str, Mapping[str, float]]  # column → label → how far a release was expected to be off
CHANCE = 0.05  # expected number of wrong signs among the errors of a release that are treated as real
NOTABLE_ERROR = 0.05  # an error with an interval from about 0 to beyond this is below the noise floor
NO_SYNTHETIC_ROW = "no synthetic row"


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
        """Sorts what is not known first (it has a note), then the largest by the lower end (or exact value)."""
        return not self.note, -self.at_least, -(self.value or 0.0)

    @property
    def at_least(self) -> float:
        """The lower end, or the exact value; 0 where there is neither."""
        return (self.value if self.lower is None else self.lower) or 0.0

    @property
    def at_most(self) -> float:
        """The upper end, or the exact value; infinite where there is neither."""
        found = self.value if self.upper is None else self.upper
        return math.inf if found is None else found

    @property
    def sign(self) -> int:
        """−1, 1, or 0 where neither is certain."""
        lower = self.value or 0.0 if self.lower is None else self.lower
        upper = self.value or 0.0 if self.upper is None else self.upper
        return 0 if self.note else -1 if upper < 0 else int(lower > 0)


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
    mean = mean_shown(parts)
    if mean.lower is None or mean.upper is None:
        return mean
    notes = [part.note for part in parts if part.note]
    several = len(notes) > len(parts) / 2
    return replace(mean, note=notes[0] if several else _error_note(mean.value, mean.lower, mean.upper))


def mean_shown(parts: Sequence[Shown]) -> Shown:
    """The means of the values and of both ends; no value where one part has none."""
    values = [part.value for part in parts if part.value is not None]
    value = sum(values) / len(values) if len(values) == len(parts) else None
    lowers = [part.lower for part in parts if part.lower is not None]
    uppers = [part.upper for part in parts if part.upper is not None]
    return Shown(value, sum(lowers) / len(parts), sum(uppers) / len(parts)) if lowers else Shown(value)


def _error_note(value: float | None, lower: float, upper: float) -> str:
    wide = value is None or (upper - lower) / 2 > value
    return TOO_SMALL if wide and lower < NOTABLE_ERROR / 10 and upper > NOTABLE_ERROR else ""


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
            the group's synthetic rows; at least one over these rows.
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
        apart = math.isfinite(mean.upper) and not mean.lower <= 0 <= mean.upper  # from zero
        if mean.value is not None and made and apart and _size_is_known(audit.sizes.get(label)):
            observed[place] = mean.value / made - 1  # over the released mean, which has no noise: normal
            noise[place] = (mean.upper - mean.lower) / (2 * z * abs(made))
        scale[place] = max(expected.get(column, {}).get(label, rows[label] ** -0.5), 1 / rows[label])
    posterior = shrunken(observed, noise, scale)
    likeliest = np.argsort(posterior.wrong_sign, kind="stable")
    shown = np.zeros(len(cells), dtype=bool)
    shown[likeliest] = np.cumsum(posterior.wrong_sign[likeliest]) <= CHANCE
    for place, (column, label) in enumerate(cells):
        size, far = float(posterior.size[place]), z * float(posterior.deviation[place])
        chance = not shown[place] and size + far > NOTABLE_ERROR
        note = TOO_SMALL if chance or np.isnan(noise[place]) else ""
        error, least, most = (_over_real(x, observed[place]) for x in (size, max(size - far, 0.0), size + far))
        found[column][label] = Shown(error if math.isfinite(error) else None, least, most, note)
    return found


def _size_is_known(size: NoisyNumber | None) -> bool:
    """Whether a group's noisy number of rows is more than four standard deviations (at level 0.95) above zero."""
    return size is None or (size.value is not None and size.upper - size.value < size.value / 2)


def _over_real(size: float, side: float) -> float:
    """A distance of the real mean from the released one, over the released one, as one over the real one: ∞ where that
    may be 0 or below."""
    real = 1 + math.copysign(size, side) if math.isfinite(side) else 1.0
    return size / real if real > 0 else math.inf


def judged(numbers: Mapping[str, Shown]) -> dict[str, Shown]:
    """The numbers of the groups that can be judged, the largest first."""
    found = {label: shown for label, shown in numbers.items() if label != ALL_ROWS and not shown.note}
    return dict(sorted(found.items(), key=lambda each: each[1].order))


def may_be_largest(numbers: Mapping[str, Shown]) -> tuple[str, ...]:
    """The groups, of those that can be judged, that may have the largest number by their intervals.

    If it is one group, its interval is above all the others. All that names a worst group asks here.

    >>> numbers = {"A": Shown(0.3, 0.2, 0.4), "B": Shown(0.5, 0.1, 0.9), "C": Shown(0.1, 0.0, 0.15)}
    >>> numbers |= {"D": Shown(0.9, note="it may be chance")}
    >>> may_be_largest(numbers), may_be_largest(numbers | {"B": Shown(0.5, 0.45, 0.9)})
    (('A', 'B'), ('B',))
    """
    found = judged(numbers)
    surely = max((shown.at_least for shown in found.values()), default=0.0)
    return tuple(label for label, shown in found.items() if shown.at_most >= surely)


def may_be_least(numbers: Mapping[str, Shown]) -> tuple[str, ...]:
    """The same of the least number."""
    least = min((shown.at_most for shown in judged(numbers).values()), default=0.0)
    return tuple(label for label, shown in judged(numbers).items() if shown.at_least <= least)
