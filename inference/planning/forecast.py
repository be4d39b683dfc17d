"""How wide the interval of a stratum's mean will be: in the median, and a bound that holds with a stated confidence.

A plan knows neither a stratum's mean nor its tail, nor the noise that will be drawn. Each of these has a prior, that of
the estimator's own settings. Where one is z standard deviations worse and the others are as expected, the estimator's
own code says how much wider the interval is; z is the normal quantile of `CONFIDENCE`. These causes are independent, so
the logarithms of their effects add up as standard deviations do. Measured: docs/experiments/means.md.

>>> settings = CoinpressSettings(1, 99, 14, sizes="noisy", bounds=(1, 99))
>>> hours = Forecast(settings, reference=38.0, alpha=0.05)
>>> [round(found.half_width, 2) for found in (hours.median(2000, Rho(0.02)), hours.bound(2000, Rho(0.02)))]
[0.27, 0.28]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import scipy

from equistrata.arrays import Floats
from equistrata.inference.means.clip import MOST_BEYOND, Shells
from equistrata.inference.means.hierarchical import best_split
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, MeanNoise, RowCount, refine
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma

MEAN_SPREAD = 0.25  # in units of the declared σ: standard deviation of a stratum's mean about the reference
CONFIDENCE = 0.9  # the probability with which a bound holds, by the prior


@dataclass(frozen=True)
class World:
    """What a plan does not know, where it is expected.

    Attributes:
        mean: the stratum's, less the reference, in the unit of the data.
        tail: the share of rows beyond the usual clip.
        count, histogram: the noise of the stratum's size, and of the nearest shells, each, in standard deviations.
    """

    tail: float
    mean: float = 0.0
    count: float = 0.0
    histogram: tuple[float, ...] = ()


@dataclass(frozen=True)
class Found:
    """Half of an interval and the standard deviation of the mean's noise, in the unit of the data."""

    half_width: float
    noise: float


@dataclass(frozen=True)
class Forecast:
    """Predicts the interval of a stratum's mean by the estimator's own steps, without rows.

    Attributes:
        settings: of the estimator, with noisy sizes.
        reference: the mean expected, in [settings.lower, settings.upper].
        alpha: the failure probability of the interval.
        sizes: the numbers of rows of all strata where they are measured at two levels, or ().
        tail: the share of rows expected beyond the usual clip, on each side with room; 0: none is possible.
    """

    settings: CoinpressSettings
    reference: float
    alpha: float
    sizes: tuple[float, ...] = ()
    tail: float = 0.0

    def median(self, rows: float, rho: Rho) -> Found:
        """What half of the strata of so many rows stay below."""
        return _found(self, rows, rho, World(self.tail))

    def bound(self, rows: float, rho: Rho) -> Found:
        """What a stratum of so many rows stays below with probability `CONFIDENCE`."""
        return _bound(self, rows, rho)

    def worlds(self, rows: float) -> Iterator[tuple[World, ...]]:
        """For each cause the worlds in which it is z standard deviations off; the worst of them counts."""
        z, expected = float(scipy.special.ndtri(CONFIDENCE)), World(self.tail)
        away = z * MEAN_SPREAD * self.settings.sigma
        yield (replace(expected, count=-z),)
        yield replace(expected, mean=away), replace(expected, mean=-away)
        if self.tail:
            heavy = MOST_BEYOND * (MOST_BEYOND * max(rows, 1 / MOST_BEYOND)) ** (CONFIDENCE - 1)  # of the clips' prior
            yield (replace(expected, tail=max(heavy, self.tail)),)
        for shell in range(3):  # those beyond seldom decide
            yield (replace(expected, histogram=(*[0.0] * shell, z)),)

    def _parts(self, rho: Rho) -> tuple[Rho, Rho, float | None]:
        """The ρ of a stratum's mean, what its row count leaves of it, and the rough mean known before."""
        left = rho - rho * ROW_COUNT_SHARE
        if not self.sizes:
            return rho, left, None
        own = left * (1 - best_split(self.sizes, self.settings, left))
        return own, own, self.reference  # counts first, then all rows, then strata


@lru_cache(maxsize=4096)  # a plan asks again for what its search has found: some 30 of each stratum
def _found(asked: Forecast, rows: float, rho: Rho, world: World) -> Found:
    settings, deviation = asked.settings, gaussian_sigma(rho * ROW_COUNT_SHARE)
    model = MeanNoise(settings, RowCount(max(rows + world.count * deviation, 1.0), deviation))
    mean = min(max(asked.reference + world.mean, settings.lower), settings.upper)
    total, left, guess = asked._parts(rho)

    def histogram(shells: Shells, part: Rho) -> tuple[Floats, float]:
        sigma, seen = gaussian_sigma(part), shells.expected(rows, world.tail)
        sides = [side for side in shells.sides(seen) if len(side)]
        for side in sides:
            for shell, noise in enumerate(world.histogram[: len(side)]):
                side[shell] += noise * sigma / math.sqrt(len(sides))
        return seen, sigma

    _, pooled = refine(
        model, total, left, lambda clip, part, step, guess: model.reading(mean, clip, part, guess), histogram, guess
    )
    lower, upper = model.sums(pooled).interval(replace(settings, level=1 - asked.alpha), pooled.clip)
    return Found((upper - lower) / 2, pooled.noise)


@lru_cache(maxsize=4096)
def _bound(asked: Forecast, rows: float, rho: Rho) -> Found:
    expected = asked.median(rows, rho)
    worst = [[expected, *(_found(asked, rows, rho, world) for world in worlds)] for worlds in asked.worlds(rows)]

    def ratio(name: str) -> float:
        usual = getattr(expected, name)
        return math.exp(math.hypot(*(math.log(max(getattr(each, name) for each in found) / usual) for found in worst)))

    return Found(expected.half_width * ratio("half_width"), expected.noise * ratio("noise"))
