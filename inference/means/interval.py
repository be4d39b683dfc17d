"""Fieller intervals for means, which are computed from a noisy sum and a noisy number of rows.

The mean μ of the rows solves the equation Σ(x − c) − (μ − c)·n = 0. If the sum and n are noisy, the left side is
Gaussian, and its variance is known for every μ. The interval contains every μ that is not rejected by a test. This
requires no bound on the tails and no expansion, and it is also valid for a small number of rows (see
`equistrata.stats.fieller`). The same function is used for releases and for plans.

>>> sums = NoisySums(centre=50.0, total=-600.0, rows=50.0, spread=Spread(100.0**2, 0.0, 2.0**2))
>>> [round(end, 1) for end in sums.interval(CoinpressSettings(0, 99, 14))]
[33.9, 42.0]
>>> [round(end, 1) for end in sums.interval(CoinpressSettings(0, 99, 14, target="population"))]
[32.3, 43.5]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from equistrata.inference.means.clip import Clip
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.stats.fieller import Spread, ratio_interval

NO_CLIP = Clip(-math.inf, math.inf)


@dataclass(frozen=True)
class NoisySums:
    """The sum Σ(x − c) over rows and the number of rows, both with noise.

    Attributes
    ----------
    centre : float
        The point c, in the unit of the data.
    total : float
        The noisy sum.
    rows : float
        The noisy number of rows, which is not clipped.
    spread : Spread
        The variance of total − r·rows as a function of the ratio r.
    """

    centre: float
    total: float
    rows: float
    spread: Spread

    @property
    def mean(self) -> float:
        """Return the mean, which is `centre` plus total/rows.

        If the number of rows is less than one, it is replaced by one.
        """
        return self.centre + self.total / max(self.rows, 1.0)

    def variance(self, mean: float) -> float:
        """Return the variance of the noise of `self.mean` about a given mean.

        The number of rows in the denominator is treated as known.
        """
        return self.spread.at(mean - self.centre) / max(self.rows, 1.0) ** 2

    def about(self, centre: float) -> NoisySums:
        """Return the same sums about another centre."""
        moved, old = self.centre - centre, self.spread
        spread = Spread(old.at(-moved), old.joint + moved * old.of_n, old.of_n)
        return NoisySums(centre, self.total + moved * self.rows, self.rows, spread)

    def __add__(self, other: NoisySums) -> NoisySums:
        """Add the sums of other rows, which have independent noise."""
        other = other.about(self.centre)
        return NoisySums(self.centre, self.total + other.total, self.rows + other.rows, self.spread + other.spread)

    def times(self, factor: float) -> NoisySums:
        """Multiply both sums by a factor.

        If the same rows are measured twice, the two sums can be combined to a mixture with factors that add up to 1.
        """
        return NoisySums(self.centre, factor * self.total, factor * self.rows, self.spread.times(factor**2))

    def interval(
        self, settings: CoinpressSettings, clip: Clip = NO_CLIP, sampled: float | None = None
    ) -> tuple[float, float]:
        """Return the interval of the mean at the level of the settings, inside of the declared interval.

        The interval for the mean of the rows accounts for the noise and for the expected effect of clipping, which is
        treated as Gaussian. For the mean of the population, σ²·n times the number of rows of a unit is added for
        sampling. If the rows are weighted, `sampled` is used instead of n.
        """
        low, high = settings.lower, settings.upper
        if low == high:
            return low, high
        rows = max(self.rows, 0.0)
        drawn = rows if sampled is None else sampled
        sampling = drawn * settings.sampling if settings.target == "population" else 0.0
        spread = self.spread + Spread(sampling + (rows * clip.deviation) ** 2, 0.0, 0.0)
        whole = self.total + rows * clip.expected
        bounds = {"lower": low - self.centre, "upper": high - self.centre}
        least, greatest = ratio_interval(whole, self.rows, spread, level=settings.level, **bounds)
        return self.centre + least, self.centre + greatest


NOTHING = NoisySums(0.0, 0.0, 0.0, Spread(math.inf, 0.0, 0.0))


def joint_clip(clips: Iterable[Clip], shares: Iterable[float]) -> Clip:
    """Return the joint clip of the strata, with its expected effect on the mean Σ share·mean.

    The deviations of the strata are added, because they may all be wrong in the same direction. The share `beyond` is
    the largest one of the strata.
    """
    parts = list(zip(clips, shares, strict=True))
    ends = min(clip.lower for clip, _ in parts), max(clip.upper for clip, _ in parts)
    expected = math.fsum(share * clip.expected for clip, share in parts)
    deviation = math.fsum(abs(share) * clip.deviation for clip, share in parts)
    return Clip(*ends, expected, deviation, max(clip.beyond for clip, _ in parts))


def narrow(low: float, high: float, value: float, half: float) -> tuple[float, float]:
    """Return the intersection of [low, high] and value ± half.

    If the intersection is empty, return the part of [low, high] that is nearest to the value.

    >>> narrow(0.0, 10.0, 4.0, 2.0), narrow(0.0, 10.0, 15.0, 2.0)
    ((2.0, 6.0), (8.0, 10.0))
    """
    bottom, top = max(low, value - half), min(high, value + half)
    if bottom <= top:
        return bottom, top
    nearest = min(max(value, low), high)
    return max(low, nearest - half), min(high, nearest + half)
