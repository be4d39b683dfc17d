"""Forecasts of the width of the interval for the mean of a stratum: its median, and a bound with a stated confidence.

A plan does not know the mean of a stratum, its tail, or the noise that will be drawn. Each of these has a prior, which
is the prior of the settings of the estimator. The code of the estimator computes the increase of the width if one of
them is z standard deviations worse than expected and the others are as expected. The number z is the normal quantile of
`CONFIDENCE`. These causes are independent, so the logarithms of their effects are added like standard deviations. See
docs/experiments/means.md for measurements.

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

# The standard deviation of the mean of a stratum about the reference, in units of the declared σ.
MEAN_SPREAD = 0.25
CONFIDENCE = 0.9  # the prior probability with which a bound holds


@dataclass(frozen=True)
class Scenario:
    """A state of the quantities that a plan does not know. By default, they are as expected.

    Attributes
    ----------
    tail : float
        The share of rows beyond the usual clip.
    mean : float, default=0.0
        The mean of the stratum minus the reference, in the unit of the data.
    count : float, default=0.0
        The noise of the size of the stratum, in standard deviations.
    histogram : tuple of float
        The noise of each of the nearest shells, in standard deviations.
    """

    tail: float
    mean: float = 0.0
    count: float = 0.0
    histogram: tuple[float, ...] = ()


@dataclass(frozen=True)
class PredictedInterval:
    """The predicted interval of a mean, in the unit of the data.

    Attributes
    ----------
    half_width : float
        Half of the length of the interval.
    noise : float
        The standard deviation of the noise of the mean.
    """

    half_width: float
    noise: float


@dataclass(frozen=True)
class Forecast:
    """A prediction of the interval for the mean of a stratum, which follows the steps of the estimator without rows.

    Parameters
    ----------
    settings : CoinpressSettings
        The settings of the estimator, with noisy sizes.
    reference : float
        The expected mean, in [settings.lower, settings.upper].
    alpha : float
        The failure probability of the interval.
    sizes : tuple of float
        The numbers of rows of all strata, if the means are measured at two levels. Empty otherwise.
    tail : float, default=0.0
        The expected share of rows beyond the usual clip, on each side that the bounds leave open. If it is 0, a tail is
        not possible.
    """

    settings: CoinpressSettings
    reference: float
    alpha: float
    sizes: tuple[float, ...] = ()
    tail: float = 0.0

    def median(self, rows: float, rho: Rho) -> PredictedInterval:
        """Return the median of the half-width for strata with this number of rows."""
        return _found(self, rows, rho, Scenario(self.tail))

    def bound(self, rows: float, rho: Rho) -> PredictedInterval:
        """Return a bound that the half-width does not exceed with probability `CONFIDENCE`."""
        return _bound(self, rows, rho)

    def worlds(self, rows: float) -> Iterator[tuple[Scenario, ...]]:
        """Yield the states in which one cause is z standard deviations worse than expected.

        Only the worst state counts.
        """
        z, expected = float(scipy.special.ndtri(CONFIDENCE)), Scenario(self.tail)
        away = z * MEAN_SPREAD * self.settings.sigma
        yield (replace(expected, count=-z),)
        yield replace(expected, mean=away), replace(expected, mean=-away)
        if self.tail:
            # The quantile of the prior of the clips at `CONFIDENCE`.
            heavy = MOST_BEYOND * (MOST_BEYOND * max(rows, 1 / MOST_BEYOND)) ** (CONFIDENCE - 1)
            yield (replace(expected, tail=max(heavy, self.tail)),)
        for shell in range(3):  # the other shells rarely determine the clip
            yield (replace(expected, histogram=(*[0.0] * shell, z)),)

    def _parts(self, rho: Rho) -> tuple[Rho, Rho, float | None]:
        """Return the ρ of a mean, the part that remains after the row count, and the rough mean.

        The rough mean is None if it is not known.
        """
        left = rho - rho * ROW_COUNT_SHARE
        if not self.sizes:
            return rho, left, None
        own = left * (1 - best_split(self.sizes, self.settings, left))
        return own, own, self.reference  # the order is: counts, all rows, strata


@lru_cache(maxsize=4096)  # a plan uses the results of its search again, about 30 for each stratum
def _found(asked: Forecast, rows: float, rho: Rho, world: Scenario) -> PredictedInterval:
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
    return PredictedInterval((upper - lower) / 2, pooled.noise)


@lru_cache(maxsize=4096)
def _bound(asked: Forecast, rows: float, rho: Rho) -> PredictedInterval:
    expected = asked.median(rows, rho)
    worst = [[expected, *(_found(asked, rows, rho, world) for world in worlds)] for worlds in asked.worlds(rows)]

    def ratio(name: str) -> float:
        usual = getattr(expected, name)
        return math.exp(math.hypot(*(math.log(max(getattr(each, name) for each in found) / usual) for found in worst)))

    return PredictedInterval(expected.half_width * ratio("half_width"), expected.noise * ratio("noise"))
