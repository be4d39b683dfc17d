"""Which of two releases serves a group better, exactly or as far as noisy means tell.

Both releases are held against the same noisy means, so their difference is known better than either error: a mean that
came out too high makes both look worse together.

>>> mean = NoisyNumber(2.0, 1.9, 2.1)
>>> difference = error_difference(mean, 1.7, 1.5)  # both are too low whatever the mean is, and the second is more so
>>> round(difference.lower, 3), round(difference.upper, 3)
(-0.105, -0.095)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.findings import LOST, Findings, Shown, Synthetic
from equistrata.eval.scores.tables import ALL_ROWS


@dataclass(frozen=True)
class Comparison:
    """Two releases side by side.

    Attributes:
        one, other: their names in the report.
        differences: label → how much larger `one`'s error is than `other`'s, averaged over columns; negative where `one`
            serves the group better.
    """

    one: str
    other: str
    differences: dict[str, Shown]

    def _where(self, sign: int) -> tuple[str, ...]:
        return tuple(
            label
            for label, shown in self.differences.items()
            if label != ALL_ROWS and not shown.note and _surely(shown) == sign
        )

    @property
    def better(self) -> tuple[str, ...]:
        """The strata that `one` serves better: surely so (at the intervals' level) where numbers are noisy."""
        return self._where(-1)

    @property
    def worse(self) -> tuple[str, ...]:
        """The strata that `other` serves better."""
        return self._where(1)

    @property
    def compared(self) -> int:
        """The number of strata."""
        return sum(label != ALL_ROWS for label in self.differences)


def compare_public(
    one: tuple[Findings, Synthetic], other: tuple[Findings, Synthetic], audit: PublicAudit
) -> Comparison:
    """Compare two releases over the noisy means that both were audited with (those of `audit`). Post-processing."""
    columns = list(audit.means)
    differences = {
        label: _average(
            [error_difference(audit.means[c][label], one[1].means[c][label], other[1].means[c][label]) for c in columns]
        )
        for label in audit.sizes
        if columns
    }
    return Comparison(one[0].release.name, other[0].release.name, differences)


def compare_internal(one: Findings, other: Findings) -> Comparison:
    """Compare two releases by exact errors: internal."""
    differences = {
        label: Shown(one.served[label].value - other.served[label].value)  # type: ignore[operator]
        for label in one.served
    }
    return Comparison(one.release.name, other.release.name, differences)


def error_difference(mean: NoisyNumber, one: float | None, other: float | None) -> Shown:
    """The relative error of `one` less that of `other`, over all means within the interval; a missing one has error 1.

    (|one − m| − |other − m|) / |m| is monotone between m = one, m = other and m = 0, so its extremes over an interval
    without 0 are at the ends or at those points.
    """
    if one is None and other is None:
        return Shown(0.0, 0.0, 0.0, LOST)

    def difference(m: float) -> float:
        gaps = [abs(m) if x is None else abs(x - m) for x in (one, other)]
        return (gaps[0] - gaps[1]) / abs(m)

    estimate = difference(mean.value) if mean.value else None
    if mean.lower <= 0 <= mean.upper or not math.isfinite(mean.upper):
        return Shown(estimate, -math.inf, math.inf, TOO_SMALL)
    turns = [x for x in (one, other) if x is not None and mean.lower < x < mean.upper]
    found = [difference(m) for m in (mean.lower, mean.upper, *turns)]
    return Shown(estimate, min(found), max(found))


def _average(parts: list[Shown]) -> Shown:
    values = [part.value for part in parts if part.value is not None]
    lower = sum(part.lower for part in parts if part.lower is not None) / len(parts)
    upper = sum(part.upper for part in parts if part.upper is not None) / len(parts)
    value = sum(values) / len(values) if len(values) == len(parts) else None
    return Shown(value, lower, upper, "" if math.isfinite(upper - lower) else TOO_SMALL)


def _surely(shown: Shown) -> int:
    """−1, 1, or 0 where neither is certain."""
    lower, upper = (
        (shown.value or 0.0, shown.value or 0.0) if shown.lower is None else (shown.lower, shown.upper or 0.0)
    )
    return -1 if upper < 0 else 1 if lower > 0 else 0
