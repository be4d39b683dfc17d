"""Coinpress for one group of rows.

The interval of the mean is narrowed in several steps, and each step has a privacy cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.inference.means.clip import Clip, Shells, Variance, gaussian_reach
from equistrata.inference.means.estimate import Estimate
from equistrata.inference.means.interval import NoisySums, narrow
from equistrata.inference.means.lattice import GaussianCharge, noisy_histogram, noisy_sum
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.stats.fieller import Spread

# The share of ρ for the noisy count. If it is halved, the noise is 3 % smaller for all rows, and 3 to 6 % larger for
# strata.
ROW_COUNT_SHARE = Fraction(1, 10)
HISTOGRAM_SHARE = Fraction(8, 100)  # the share of ρ for the tail histogram
COUNT_DEVIATIONS = 2.0  # a noisy count is assumed to be too large by at most this number of standard deviations


@dataclass(frozen=True)
class RowCount:
    """A number of rows, which is declared as public or is noisy.

    Attributes
    ----------
    drawn : float
        The number, before it is clipped.
    sigma : float, default=0.0
        The standard deviation of the noise. It is 0 if the number is public.
    """

    drawn: float
    sigma: float = 0.0

    @property
    def count(self) -> float:
        """Return the number for the denominator of a mean. A noisy number is at least 1."""
        return max(self.drawn, 1.0) if self.sigma else self.drawn

    @property
    def least(self) -> float:
        """Return a lower bound: the count minus two standard deviations of its noise, or 1 if that is less than 1."""
        return max(self.count - COUNT_DEVIATIONS * self.sigma, 1.0)


@dataclass(frozen=True)
class NoisyMean:
    """A noisy mean of clipped values, in the unit of the data.

    Attributes
    ----------
    value : float
        The noisy mean.
    noise : float
        The standard deviation of the noise of the mean.
    clip : Clip
        The clip of the values.
    of_sum : float
        The standard deviation of the noise of the sum.
    centre : float
        The point about which the values were summed.
    """

    value: float
    noise: float
    clip: Clip
    of_sum: float
    centre: float


def positive_rho(rho: Budget | Rho | float) -> Rho:
    """Return a positive amount of ρ. If `rho` is a budget, all of the remaining budget is charged.

    Raise InputError if the amount is not positive.
    """
    amount = rho.remaining if isinstance(rho, Budget) else Rho.of(rho)
    if not amount:
        raise InputError("rho must be positive, because a private estimate needs a budget; raise it")
    return rho.spend(amount, "mean") if isinstance(rho, Budget) else amount


@dataclass(frozen=True)
class MeanNoise:
    """A model of the noise of a mean of clipped values, given the declared settings and a number of rows."""

    settings: CoinpressSettings
    rows: RowCount

    def window(
        self, lower: npt.ArrayLike, upper: npt.ArrayLike, rho: Rho, guess: float | None
    ) -> tuple[Floats, Floats]:
        """Return the point about which values are summed, and the largest distance from that point.

        The values are in [lower, upper]. The point is the midpoint. If the tail is adaptive, the number of rows is
        noisy and a rough mean is known, it is the point with the smallest noise.
        """
        low = np.asarray(lower, dtype=np.float64)
        half = (np.asarray(upper, dtype=np.float64) - low) / 2
        if self.settings.tail == "gaussian" or guess is None or not self.rows.sigma:
            return low + half, half
        moved = best_step(half, guess - (low + half), self.rows.sigma, gaussian_sigma(rho))
        return low + half + moved, half + np.abs(moved)

    def deviations(self, reach: npt.ArrayLike, offset: npt.ArrayLike, rho: Rho) -> tuple[Floats, Floats]:
        """Return n times the standard deviations of the mean due to the noise of the sum and of the count.

        For a sum about c, a noisy number of rows adds (μ − c)·σ_n. The parameter `offset` is the estimate of μ − c.
        """
        reach = np.asarray(reach, dtype=np.float64)
        sensitivity = reach * (2 if self.settings.relation == REPLACE_ONE else 1)
        return gaussian_sigma(rho) * sensitivity, np.minimum(np.abs(offset), reach) * self.rows.sigma

    def reading(self, mean: float, clip: Clip, rho: Rho, guess: float | None = None) -> NoisyMean:
        """Return the reading of a step that spends `rho` and measures `mean`. The parameter `guess` is a rough mean."""
        centre, reach = (float(part) for part in self.window(clip.lower, clip.upper, rho, guess))
        of_sum, of_count = (float(part) for part in self.deviations(reach, mean - centre, rho))
        return NoisyMean(mean, math.hypot(of_sum, of_count) / self.rows.least, clip, of_sum, centre)

    def variance_by_clip(self, rho: Rho, guess: float | None) -> Variance:
        """Return a function that computes the variance of the noise of a mean from the ends of its clip.

        The parameter `guess` is a rough mean.
        """

        def variance(lower: Floats, upper: Floats) -> Floats:
            centre, reach = self.window(lower, upper, rho, guess)
            of_sum, of_count = self.deviations(reach, 0.0 if guess is None else guess - centre, rho)
            return np.asarray((of_sum**2 + of_count**2) / self.rows.count**2)

        return variance

    def sums(self, reading: NoisyMean) -> NoisySums:
        """Return the sums from which a reading was computed."""
        total = (reading.value - reading.centre) * self.rows.count
        return NoisySums(reading.centre, total, self.rows.drawn, Spread(reading.of_sum**2, 0.0, self.rows.sigma**2))

    def half_width(self, deviation: float, step: int) -> float:
        """Return √(2(σ²/n + noise²) ln(2/β_s)) (Algorithm 1, line 5)."""
        variance = self.settings.sigma**2 / self.rows.least + deviation**2
        return math.sqrt(2 * variance * math.log(2 / self.settings.step_beta(step)))


def estimate_mean(
    values: Floats,
    budget: Budget,
    settings: CoinpressSettings,
    noise: NoiseSource,
    counted: RowCount | None = None,
    guess: float | None = None,
) -> Estimate:
    """Estimate the mean of values with all of a budget.

    The cost and the coverage are described in `Coinpress.mean`.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The values.
    budget : Budget
        The budget, of which all is spent.
    settings : CoinpressSettings
        The declared settings.
    noise : NoiseSource
        The source of the noise.
    counted : RowCount, optional
        A noisy number of rows that was paid for before.
    guess : float, optional
        A rough mean that was paid for before. It is used to choose the clips and the centres.

    Returns
    -------
    Estimate
        The estimate and its interval.
    """
    total = budget.total
    if counted is not None:
        rows = counted
    elif settings.sizes == "public":
        rows = RowCount(float(len(values)))
    else:
        rows = noisy_rows(len(values), total * ROW_COUNT_SHARE, budget, noise)
    model = MeanNoise(settings, rows)
    if rows.count == 0:
        budget.spend(budget.remaining, "no rows")
        nothing = NoisyMean(settings.middle, math.inf, Clip(settings.lower, settings.upper), 0.0, settings.middle)
        return _finish(budget, model, (settings.lower, settings.upper), nothing, noise.private)

    def measure(clip: Clip, rho: Rho, step: int, guess: float | None) -> NoisyMean:
        centre, reach = (float(part) for part in model.window(clip.lower, clip.upper, rho, guess))
        # The window is symmetric about the centre and contains the clip. The values are clipped here first, so that
        # the wider window does not change the sum.
        clipped = np.clip(values, clip.lower, clip.upper) if 2 * reach > clip.upper - clip.lower else values
        purchase = GaussianCharge(rho, budget, noise, f"step {step}")
        summed = noisy_sum(clipped, centre - reach, centre + reach, settings.relation, purchase)
        return model.reading(centre + summed / rows.count, clip, rho, guess)

    def histogram(shells: Shells, rho: Rho) -> tuple[Counts, float]:
        return noisy_histogram(
            values, shells.edges, settings.relation, GaussianCharge(rho, budget, noise, "tail histogram")
        )

    interval, pooled = refine(model, total, budget.remaining, measure, histogram, guess)
    return _finish(budget, model, interval, pooled, noise.private)


def refine(
    model: MeanNoise,
    total: Rho,
    remaining: Rho,
    measure: Callable[[Clip, Rho, int, float | None], NoisyMean],
    histogram: Callable[[Shells, Rho], tuple[Floats | Counts, float]],
    guess: float | None = None,
) -> tuple[tuple[float, float], NoisyMean]:
    """Narrow the interval of the mean in several steps, and return the interval and the pooled reading.

    The function is used for rows and for plans.

    Parameters
    ----------
    model : MeanNoise
        The model of the noise.
    total, remaining : Rho
        The privacy cost of the mean, and the part of it that remains after the row count.
    measure : callable
        The function that returns a reading for a clip, a cost ρ, the number of the step and a rough mean.
    histogram : callable
        The function that returns the noisy number of rows between the edges of the shells, and the standard deviation
        of the noise.
    guess : float, optional
        A rough mean.

    Returns
    -------
    tuple
        The interval, and the pooled reading.
    """
    settings, rows = model.settings, model.rows
    gaussian = settings.tail == "gaussian"
    shells_rho = Rho(0) if gaussian else total * HISTOGRAM_SHARE
    *parts, last = step_amounts(remaining - shells_rho, settings.steps)
    low, high, readings = settings.lower, settings.upper, list[NoisyMean]()
    for step, part in enumerate(parts, start=1):
        clip = settings.clip(low, high, settings.paper_reach(step, rows.count))
        readings.append(measure(clip, part, step, guess))
        guess = min(max(readings[-1].value, low), high) if guess is None else guess
        low, high = narrow(low, high, readings[-1].value, model.half_width(readings[-1].noise, step))
    if gaussian:
        clip = settings.clip(low, high, settings.paper_reach(settings.steps, rows.count))
    else:
        reach = settings.sigma * float(gaussian_reach(rows.count))
        clip = settings.clip(low, high, reach)
        shells = Shells.around(clip, reach, settings.limits)
        if (clip.lower, clip.upper) != settings.limits:
            found, deviation = histogram(shells, shells_rho)
            clip = shells.best_clip(found, deviation, rows.count, model.variance_by_clip(last, guess))
        else:  # no row can be beyond the clip
            last += shells_rho
    readings.append(measure(clip, last, settings.steps, guess))
    if not gaussian:
        pooled = pool(readings, rows)
        return model.sums(pooled).interval(settings, pooled.clip), pooled
    half = model.half_width(readings[-1].noise, settings.steps)
    return (readings[-1].value - half, readings[-1].value + half), readings[-1]


def step_amounts(rho: Rho, steps: int) -> list[Rho]:
    """Return the ρ of each step. The last step has 3/4, and the other steps share the rest equally (Algorithm 2).

    >>> [float(part) for part in step_amounts(Rho(1), 3)]
    [0.125, 0.125, 0.75]
    """
    if steps == 1:
        return [rho]
    last = Fraction(3, 4)
    return rho.split([(1 - last) / (steps - 1)] * (steps - 1) + [last])


def pool(readings: Sequence[NoisyMean], rows: RowCount) -> NoisyMean:
    """Pool the last reading with all readings that have a clip of at least the same width, by least squares.

    A tighter clip would add bias. An error in the number of rows changes all readings. The change of a reading is
    proportional to the distance d of its centre from the mean, so the covariance is (diag(of_sum²) + σ_n²·ddᵀ)/n². The
    function is post-processing.
    """
    last = readings[-1]
    if last.of_sum == 0:
        return last
    wide = [each for each in readings if each.clip.lower <= last.clip.lower and last.clip.upper <= each.clip.upper]
    mean = min(max(last.value, last.clip.lower), last.clip.upper)  # with few rows, the value can be any number
    away = np.array([reading.centre - mean for reading in wide])
    covariance = np.diag([reading.of_sum**2 for reading in wide]) + rows.sigma**2 * np.outer(away, away)
    weights = np.linalg.solve(covariance, np.ones(len(wide)))
    parts = weights / weights.sum()
    value, centre = (float(parts @ [getattr(reading, name) for reading in wide]) for name in ("value", "centre"))
    of_sum = float(np.linalg.norm(parts * [reading.of_sum for reading in wide]))
    return NoisyMean(value, float(weights.sum()) ** -0.5 / rows.least, last.clip, of_sum, centre)


def noisy_rows(rows: int, rho: Rho, budget: Budget, noise: NoiseSource) -> RowCount:
    """Measure a number of rows. The cost is ρ-zCDP under add-remove, and the sensitivity is 1."""
    counted, sigma = noise.gaussian(lambda: np.array([rows]), 1.0, rho, budget, "count")
    return RowCount(float(counted[0]), sigma)


def row_counts(
    rows: Mapping[Hashable, int],
    cost: Rho,
    budgets: Mapping[Hashable, Budget],
    streams: Mapping[Hashable, NoiseSource],
) -> dict[Hashable, RowCount]:
    """Return the number of rows of each group.

    If there are budgets, the number is noisy, and it is charged to the budget of the group. Otherwise it is public.
    """
    if not budgets:
        return {key: RowCount(float(count)) for key, count in rows.items()}
    return {key: noisy_rows(count, cost, budgets[key], streams[key]) for key, count in rows.items()}


def best_step(half: npt.ArrayLike, away: npt.ArrayLike, of_count: float, per_unit: float) -> Floats:
    """Return the best distance between the midpoint of a clip and the centre of a sum.

    At this distance, the noise of the mean is smallest. The relation is add-remove. If the distance between the centre
    and the midpoint is s, n² times the variance is (d − s)²·of_count² + (h + |s|)²·per_unit².

    Parameters
    ----------
    half : array-like
        Half of the width of the clip, h.
    away : array-like
        The estimated difference d between the mean and the midpoint, which is clipped to ±h. The arrays are broadcast.
    of_count : float
        The standard deviation of the noise in the number of rows.
    per_unit : float
        The standard deviation of the noise in a sum of sensitivity 1.

    Returns
    -------
    ndarray
        The signed distance s.

    Examples
    --------
    >>> best_step(100.0, [-70.0, -2.0, 10.0], of_count=5.0, per_unit=1.0).round(2).tolist()
    [-63.46, -0.0, 5.77]
    """
    half = np.asarray(half, dtype=np.float64)
    away = np.clip(away, -half, half)
    step = (np.abs(away) * of_count**2 - half * per_unit**2) / (of_count**2 + per_unit**2)
    return np.asarray(np.copysign(np.clip(step, 0.0, np.abs(away)), away))


def _finish(
    budget: Budget, model: MeanNoise, interval: tuple[float, float], pooled: NoisyMean, private: bool
) -> Estimate:
    if budget.remaining:
        raise RuntimeError(f"a run left ρ = {float(budget.remaining)} of its budget unspent")
    settings, rows = model.settings, model.rows
    return Estimate(
        value=min(max(pooled.value, interval[0]), interval[1]),
        lower=interval[0],
        upper=interval[1],
        rho=budget.total,
        relation=settings.relation,
        variance=settings.sigma**2 / rows.least + pooled.noise**2,
        bias=pooled.clip.bias,
        rows=rows.count,
        raw=pooled.value if math.isfinite(pooled.noise) else None,
        clip=pooled.clip,
        sums=model.sums(pooled),
        entries=budget.entries,
        private=private,
    )
