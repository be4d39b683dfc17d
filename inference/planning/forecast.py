"""How wide the interval of a stratum's mean will be: in the median, and a bound that holds with a stated confidence.

A plan knows neither a stratum's mean nor its tail, nor the noise that will be drawn. Each of these has a prior, that of
the estimator's own settings. Where one is z standard deviations worse and the others are as expected, the estimator's
own code says how much wider the interval is; z is the normal quantile of `CONFIDENCE`. These causes are independent, so
the logarithms of their effects add up as standard deviations do. Measured: docs/experiments/means.md.

>>> settings = CoinpressSettings(1, 99, 14, sizes="noisy", bounds=(1, 99))
>>> hours = Forecast(settings, reference=38.0, alpha=0.01)
>>> [round(found.half_width, 2) for found in (hours.median(2000, Rho(0.02)), hours.bound(2000, Rho(0.02)))]
[0.36, 0.37]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from equistrata.arrays import Floats
from equistrata.inference.means.clip import FALL, SLOW_FALL, TAIL_SHARES, Shells
from equistrata.inference.means.hierarchical import best_split
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, MeanNoise, RowCount, histogram_rows, refine
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma

MEAN_SPREAD = 0.25  # in units of the declared σ: standard deviation of a stratum's mean about the reference
CONFIDENCE = 0.9  # the probability with which a bound holds, by the prior
TAIL_SPREAD = float(np.std(np.log(TAIL_SHARES)))  # of the logarithm of a tail's share, as in the prior of clips
NOISY_SHELLS, SHELL_NOISE = 3, 1.0  # nine in ten times the positive noises of three sum to less: 3 deviations
SPLIT_DRAWS = 21  # of the strata's noisy sizes, to see which splits releases choose


@dataclass(frozen=True)
class World:
    """What a plan does not know, where it is expected.

    Attributes:
        mean: the stratum's, less the reference, in the unit of the data.
        tail, second: the share of rows beyond the usual clip, and the share of these beyond the first shell.
        count, histogram: the noise of the stratum's size, and of each of the nearest shells, in standard deviations.
        split: the quantile of the part of ρ for all rows, among those that noisy sizes lead to.
    """

    tail: float
    mean: float = 0.0
    second: float = FALL
    count: float = 0.0
    histogram: float = 0.0
    split: float = 0.5


@dataclass(frozen=True)
class Found:
    """Half of an interval and the standard deviation of the mean's noise, in the unit of the data."""

    half_width: float
    noise: float
    histogram: bool = False


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
        return _median(self, rows, rho)

    def bound(self, rows: float, rho: Rho) -> Found:
        """What a stratum of so many rows stays below with probability `CONFIDENCE`."""
        return _bound(self, rows, rho)

    def _bound(self, rows: float, rho: Rho) -> Found:
        expected = self.median(rows, rho)
        worst = [self._worst(rows, rho, worlds, expected) for worlds in self._worse(expected.histogram)]
        wider = math.exp(math.hypot(*(math.log(found.half_width / expected.half_width) for found in worst)))
        noisier = math.exp(math.hypot(*(math.log(found.noise / expected.noise) for found in worst)))
        return Found(expected.half_width * wider, expected.noise * noisier)

    def _worse(self, histogram: bool) -> Iterator[tuple[World, ...]]:
        """For each cause the worlds in which it is z standard deviations off; the worst of them counts."""
        z, expected = float(scipy.special.ndtri(CONFIDENCE)), World(self.tail)
        away = z * MEAN_SPREAD * self.settings.sigma
        yield (replace(expected, count=-z),)
        yield replace(expected, mean=away), replace(expected, mean=-away)
        if self.sizes:
            yield (replace(expected, split=CONFIDENCE),)
        if histogram:  # else the clip does not depend on the tail
            heavy = min(self.tail * math.exp(z * TAIL_SPREAD), 0.5)
            yield (replace(expected, tail=heavy, second=math.sqrt(FALL * SLOW_FALL)),)  # half-way between both falls
            yield (replace(expected, histogram=SHELL_NOISE),)

    def _worst(self, rows: float, rho: Rho, worlds: tuple[World, ...], expected: Found) -> Found:
        found = [expected, *(self._found(rows, rho, world) for world in worlds)]
        return Found(max(each.half_width for each in found), max(each.noise for each in found))

    def histogram_rows(self, rho: Rho) -> float:
        """The rows from which on a histogram of tails is bought."""
        return max(histogram_rows(self.settings, self._parts(rho, World(self.tail).split)[0]), 1.0)

    def _parts(self, rho: Rho, quantile: float) -> tuple[Rho, Rho, float | None]:
        """The ρ of a stratum's mean, what its row count leaves of it, and the rough mean known before."""
        left = rho - rho * ROW_COUNT_SHARE
        if not self.sizes:
            return rho, left, None
        own = left * (1 - self._split(rho, quantile))
        return own, own, self.reference  # counts first, then all rows, then strata

    def _split(self, rho: Rho, quantile: float) -> Fraction:
        splits = _splits(self.sizes, self.settings, rho)
        return splits[min(int(quantile * len(splits)), len(splits) - 1)]

    def _found(self, rows: float, rho: Rho, world: World) -> Found:
        settings, deviation = self.settings, gaussian_sigma(rho * ROW_COUNT_SHARE)
        model = MeanNoise(settings, RowCount(max(rows + world.count * deviation, 1.0), deviation))
        mean = min(max(self.reference + world.mean, settings.lower), settings.upper)
        total, left, guess = self._parts(rho, world.split)
        bought = []

        def histogram(shells: Shells, part: Rho) -> tuple[Floats, float]:
            sigma = gaussian_sigma(part)
            seen = shells.expected(rows, world.tail, world.second)
            sides = shells.sides(seen)
            both = math.sqrt(2) if all(map(len, sides)) else 1.0
            for side in sides:
                side[:NOISY_SHELLS] += world.histogram * sigma / both
            bought.append(part)
            return seen, sigma

        _, pooled = refine(
            model, total, left, lambda clip, part, step, guess: model.reading(mean, clip, part, guess), histogram, guess
        )
        # Clips are chosen at the releases' β; the interval is at the level asked for.
        lower, upper = model.sums(pooled).interval(replace(settings, beta=self.alpha), pooled.clip)
        return Found((upper - lower) / 2, pooled.noise, bool(bought))


@lru_cache(maxsize=4096)  # a plan asks again for what its search has found: some 30 of each stratum
def _median(asked: Forecast, rows: float, rho: Rho) -> Found:
    return asked._found(rows, rho, World(asked.tail))


@lru_cache(maxsize=4096)
def _bound(asked: Forecast, rows: float, rho: Rho) -> Found:
    return asked._bound(rows, rho)


@lru_cache(maxsize=1024)
def _splits(sizes: tuple[float, ...], settings: CoinpressSettings, rho: Rho) -> list[Fraction]:
    """The parts of ρ for all rows that releases may choose, ascending: by evenly spread noise in the sizes.

    Where few strata can be read, noise in their sizes changes the split of all.
    """
    deviation, left = gaussian_sigma(rho * ROW_COUNT_SHARE), rho - rho * ROW_COUNT_SHARE
    lattice = np.arange(1, SPLIT_DRAWS + 1)[:, None] * np.sqrt(_primes(len(sizes))) % 1.0
    drawn = np.maximum(np.array(sizes) + deviation * scipy.special.ndtri(lattice), 1.0)
    return sorted(best_split(row.tolist(), settings, left) for row in drawn)


@lru_cache(maxsize=8)
def _primes(count: int) -> Floats:
    """The first primes, shape (count,): multiples of their roots fill the unit cube evenly.

    >>> _primes(4).tolist()
    [2.0, 3.0, 5.0, 7.0]
    """
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return np.array(found, dtype=np.float64)
