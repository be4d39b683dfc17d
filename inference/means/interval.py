"""Intervals of means: Fieller's, of a noisy sum over a noisy number of rows.

The rows' mean μ solves Σ(x − c) − (μ − c)·n = 0. With noise in the sum and in n the left side is Gaussian, and its
variance is known at every μ. So an interval holds the μ that a test does not refute: no bound on tails, no expansion,
and it holds for few rows, too (`equistrata.stats.fieller`). One function serves releases and plans.

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
    """Σ(x − c) over rows and their number, both noisy as drawn; `spread` is the variance of total − r·rows."""

    centre: float
    total: float
    rows: float
    spread: Spread

    @property
    def mean(self) -> float:
        """total/rows, of at least one row."""
        return self.centre + self.total / max(self.rows, 1.0)

    def variance(self, mean: float) -> float:
        """Of the noise of `self.mean` about a mean, given the number of rows that is divided by."""
        return self.spread.at(mean - self.centre) / max(self.rows, 1.0) ** 2

    def about(self, centre: float) -> NoisySums:
        """The same about another centre."""
        moved, old = self.centre - centre, self.spread
        spread = Spread(old.at(-moved), old.joint + moved * old.of_n, old.of_n)
        return NoisySums(centre, self.total + moved * self.rows, self.rows, spread)

    def __add__(self, other: NoisySums) -> NoisySums:
        """Of other rows, with noise of their own."""
        other = other.about(self.centre)
        return NoisySums(self.centre, self.total + other.total, self.rows + other.rows, self.spread + other.spread)

    def times(self, factor: float) -> NoisySums:
        """Both sums multiplied by a number; with the same rows measured again, times what is left to 1, a mixture."""
        return NoisySums(self.centre, factor * self.total, factor * self.rows, self.spread.times(factor**2))

    def interval(
        self, settings: CoinpressSettings, clip: Clip = NO_CLIP, sampled: float | None = None
    ) -> tuple[float, float]:
        """The mean's interval at the level of the settings, inside the declared one.

        About the rows' own mean: noise, and what the clip is thought to have cut off, as if that were Gaussian. About
        the population's: σ²·n is added for sampling, times the rows of a unit; `sampled` is n where rows are weighted.
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
    """What the strata's clips together are thought to do to Σ share·mean: they may all be wrong in the same way.

    `beyond` is the largest of theirs.
    """
    parts = list(zip(clips, shares, strict=True))
    ends = min(clip.lower for clip, _ in parts), max(clip.upper for clip, _ in parts)
    expected = math.fsum(share * clip.expected for clip, share in parts)
    deviation = math.fsum(abs(share) * clip.deviation for clip, share in parts)
    return Clip(*ends, expected, deviation, max(clip.beyond for clip, _ in parts))


def narrow(low: float, high: float, value: float, half: float) -> tuple[float, float]:
    """[low, high] cut down to value ± half; where they do not meet, the end of [low, high] that is nearest.

    >>> narrow(0.0, 10.0, 4.0, 2.0), narrow(0.0, 10.0, 15.0, 2.0)
    ((2.0, 6.0), (8.0, 10.0))
    """
    bottom, top = max(low, value - half), min(high, value + half)
    if bottom <= top:
        return bottom, top
    nearest = min(max(value, low), high)
    return max(low, nearest - half), min(high, nearest + half)
