"""One run of Coinpress on one group of rows: its settings, its steps, and the order in which it spends its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.inference.means.clip import Clip, Variance, choose_clip, gaussian_reach
from equistrata.inference.means.estimate import Estimate
from equistrata.inference.means.lattice import noisy_sum
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma

Sizes = Literal["public", "noisy"]
Tail = Literal["adaptive", "gaussian"]

COUNT_SHARE = Fraction(1, 10)  # of ρ, for the noisy count
HISTOGRAM_SHARE = Fraction(8, 100)  # of ρ, for the tail histogram
HISTOGRAM_ROWS = 1000  # the least (public or noisy) number of rows for which it is worth its price
LAST_STEP_SHARE = Fraction(3, 4)  # of what is left for the steps, unless settings say otherwise
COUNT_DEVIATIONS = 2.0  # a noisy count is taken to be too large by at most this many standard deviations of its noise


@dataclass(frozen=True)
class Settings:
    """The settings of a run, checked; `bounds` are infinite where none are declared."""

    lower: float
    upper: float
    sigma: float
    steps: int = 2
    beta: float = 0.01
    sizes: Sizes = "public"
    tail: Tail = "adaptive"
    bounds: tuple[float, float] = (-math.inf, math.inf)
    last_share: Fraction = LAST_STEP_SHARE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.upper):
            raise ValueError(f"the mean's interval must be finite and ascending, not [{self.lower}, {self.upper}]")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma must be a positive number, not {self.sigma}")
        if not 0 < self.beta < 1:
            raise ValueError(f"beta must lie strictly between 0 and 1, not {self.beta}")
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, not {self.steps}")
        if self.sizes not in ("public", "noisy"):
            raise ValueError(f"sizes must be 'public' or 'noisy', not {self.sizes!r}")
        if self.tail not in ("adaptive", "gaussian"):
            raise ValueError(f"tail must be 'adaptive' or 'gaussian', not {self.tail!r}")
        if not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"bounds must be two ascending numbers, not {self.bounds}")

    @classmethod
    def of(
        cls,
        lower: float,
        upper: float,
        sigma: float,
        steps: int,
        beta: float,
        sizes: Sizes,
        tail: Tail,
        bounds: tuple[float, float] | None,
    ) -> Settings:
        """The settings as callers give them, `bounds` None where there are none."""
        limits = (-math.inf, math.inf) if bounds is None else (float(bounds[0]), float(bounds[1]))
        return cls(float(lower), float(upper), float(sigma), steps, float(beta), sizes, tail, limits)

    @property
    def relation(self) -> Relation:
        """Declared sizes do not change, so a row is replaced; paid-for ones do."""
        return REPLACE_ONE if self.sizes == "public" else ADD_REMOVE

    def step_beta(self, step: int) -> float:
        """The failure probability of a step (1, …, t): β/(4(t − 1)), and β/4 for the last (Algorithm 2)."""
        return self.beta / 4 if step == self.steps else self.beta / (4 * (self.steps - 1))

    def paper_reach(self, step: int, rows: float) -> float:
        """How far beyond the mean's interval a step clips: σ√(2 ln(2n/β_s)) (Algorithm 1, line 2)."""
        return self.sigma * math.sqrt(2 * math.log(2 * rows / self.step_beta(step)))

    def clip(self, lower: float, upper: float, reach: float) -> Clip:
        """The mean's interval widened by `reach`, inside the declared bounds."""
        least, most = self.bounds
        return Clip(min(max(lower - reach, least), most), max(min(upper + reach, most), least))


@dataclass(frozen=True)
class Rows:
    """A number of rows: declared public (sigma 0), or noisy, with the standard deviation of its noise; `least` is what it may
    really be."""

    count: float
    sigma: float = 0.0

    @property
    def least(self) -> float:
        """The count less two standard deviations of its noise, at least 1."""
        return max(self.count - COUNT_DEVIATIONS * self.sigma, 1.0)


@dataclass(frozen=True)
class Reading:
    """A noisy mean of clipped values, the standard deviation of its noise, and that of the noise of the sum it is from."""

    value: float
    noise: float
    clip: Clip
    of_sum: float
    centre: float


def positive(rho: Budget | Rho | float) -> Rho:
    """An amount that buys something; of a budget all that is left, which is charged. Raises ValueError if that is nothing."""
    amount = rho.remaining if isinstance(rho, Budget) else Rho.of(rho)
    if not amount:
        raise ValueError("rho must be positive: nothing private can be said for nothing")
    return rho.spend(amount, "mean") if isinstance(rho, Budget) else amount


def estimate(
    values: Floats,
    budget: Budget,
    settings: Settings,
    noise: NoiseSource,
    paid: Rows | None = None,
    guess: float | None = None,
) -> Estimate:
    """Spend a budget, all of it, on the mean of `values`, shape (n,). What it costs and covers: `coinpress_mean`.

    `paid` is a noisy number of rows that was paid for elsewhere; None to pay for one here if `sizes` is "noisy". `guess`
    is a rough mean that was paid for elsewhere: the closer it is, the less noise and the better a clip; it is not in the
    outcome otherwise.
    """
    total = budget.total
    rows = _rows(values, budget, settings, noise) if paid is None else Rows(max(paid.count, 1.0), paid.sigma)
    if rows.count == 0:
        budget.spend(budget.remaining, "no rows")
        middle = settings.lower + (settings.upper - settings.lower) / 2
        return _finish(budget, settings, noise, middle, (settings.lower, settings.upper), rows=rows)
    gaussian = settings.tail == "gaussian"
    reserved = not gaussian and rows.count >= HISTOGRAM_ROWS
    shells = total * HISTOGRAM_SHARE if reserved else Rho(0)
    *parts, last = step_amounts(budget.remaining - shells, settings.steps, settings.last_share)
    low, high, readings = settings.lower, settings.upper, list[Reading]()
    for step, part in enumerate(parts, start=1):
        clip = settings.clip(low, high, settings.paper_reach(step, rows.count))
        readings.append(_measure(values, clip, part, budget, f"step {step}", rows, settings, noise, guess))
        guess = min(max(readings[-1].value, low), high) if guess is None else guess
        half = _half_width(readings[-1].noise, rows, settings.step_beta(step), settings)
        low, high = narrow(low, high, readings[-1].value, half)
    if gaussian:
        clip = settings.clip(low, high, settings.paper_reach(settings.steps, rows.count))
    else:
        reach = settings.sigma * gaussian_reach(rows.count)
        clip = settings.clip(low, high, reach)
        if not reserved or (clip.lower, clip.upper) == settings.bounds:  # nothing can lie beyond
            last += shells
        else:
            clip = choose_clip(
                values,
                clip,
                reach,
                rows=rows.count,
                bounds=settings.bounds,
                rho=shells,
                budget=budget,
                variance=variance_by_clip(last, rows, settings, guess),
                relation=settings.relation,
                noise=noise,
            )
    readings.append(_measure(values, clip, last, budget, f"step {settings.steps}", rows, settings, noise, guess))
    pooled = readings[-1] if gaussian else pool(readings, rows)
    half = _half_width(pooled.noise, rows, settings.step_beta(settings.steps), settings) + clip.bias
    interval = (pooled.value - half, pooled.value + half) if gaussian else narrow(low, high, pooled.value, half)
    return _finish(budget, settings, noise, pooled.value, interval, rows, pooled.noise, clip.bias, pooled)


def step_amounts(rho: Rho, steps: int, last: Fraction) -> list[Rho]:
    """What each step spends: the last its share, and the others equal shares of the rest; all of it where there is one step.

    >>> [float(part) for part in step_amounts(Rho(1), 3, LAST_STEP_SHARE)]
    [0.125, 0.125, 0.75]
    """
    if steps == 1:
        return [rho]
    return rho.split([(1 - last) / (steps - 1)] * (steps - 1) + [last])


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


def pool(readings: Sequence[Reading], rows: Rows) -> Reading:
    """The last reading, and with it those that clipped no tighter, by least squares: post-processing.

    Tighter clips would bring in more bias; so the early steps, whose clips are wide, only take noise away. The noises of the sums
    are independent; an error in the number of rows moves all readings together, each by how far its centre is from the mean. So
    the covariance is diag(of_sum²) + σ_n²·d·dᵀ over n², d being these distances.
    """
    last = readings[-1]
    if last.of_sum == 0:
        return last
    wide = [reading for reading in readings if _holds(reading.clip, last.clip)]
    mean = min(max(last.value, last.clip.lower), last.clip.upper)  # a few rows may measure anything
    away = np.array([reading.centre - mean for reading in wide])
    covariance = np.diag([reading.of_sum**2 for reading in wide]) + rows.sigma**2 * np.outer(away, away)
    weights = np.linalg.solve(covariance, np.ones(len(wide)))
    parts = weights / weights.sum()
    value, of_sum, centre = (
        parts @ [reading.value for reading in wide],
        np.linalg.norm(parts * [reading.of_sum for reading in wide]),
        parts @ [reading.centre for reading in wide],
    )
    return Reading(float(value), float(weights.sum()) ** -0.5 / rows.least, last.clip, float(of_sum), float(centre))


def _holds(outer: Clip, inner: Clip) -> bool:
    return outer.lower <= inner.lower and inner.upper <= outer.upper


def _rows(values: Floats, budget: Budget, settings: Settings, noise: NoiseSource) -> Rows:
    if settings.sizes == "public":
        return Rows(float(len(values)))
    return noisy_rows(values, budget.total * COUNT_SHARE, budget, noise)


def noisy_rows(values: Floats, rho: Rho, budget: Budget, noise: NoiseSource) -> Rows:
    """How many values there are, noisy, at `rho` of `budget`: ρ-zCDP under add-remove, sensitivity 1."""
    counted, sigma = noise.gaussian(lambda: np.array([len(values)]), 1.0, rho, budget, "count")
    return Rows(max(float(counted[0]), 1.0), sigma)


def _measure(
    values: Floats,
    clip: Clip,
    rho: Rho,
    budget: Budget,
    what: str,
    rows: Rows,
    settings: Settings,
    noise: NoiseSource,
    guess: float | None,
) -> Reading:
    """A noisy mean of clipped values, at `rho` of `budget`."""
    centre, reach = (float(part) for part in _window(clip.lower, clip.upper, rho, rows, settings, guess))
    # A window that reaches as far on both sides of the centre: clipping to it, inside the other, moves no sum.
    clipped = np.clip(values, clip.lower, clip.upper) if 2 * reach > clip.upper - clip.lower else values
    summed = noisy_sum(clipped, centre - reach, centre + reach, settings.relation, rho, budget, noise, what)
    return _reading(centre + summed / rows.count, clip, centre, reach, rho, rows, settings)


def foreseen(mean: float, clip: Clip, rho: Rho, rows: Rows, settings: Settings, guess: float | None = None) -> Reading:
    """What a step would measure of rows with this mean, on average; `guess` is a rough mean that is known by then."""
    centre, reach = (float(part) for part in _window(clip.lower, clip.upper, rho, rows, settings, guess))
    return _reading(mean, clip, centre, reach, rho, rows, settings)


def _reading(
    value: float, clip: Clip, centre: float, reach: float, rho: Rho, rows: Rows, settings: Settings
) -> Reading:
    of_sum, of_count = (float(part) for part in _deviations(reach, value - centre, rho, rows, settings))
    return Reading(value, math.hypot(of_sum, of_count) / rows.least, clip, of_sum, centre)


def _window(
    lower: npt.ArrayLike, upper: npt.ArrayLike, rho: Rho, rows: Rows, settings: Settings, guess: float | None
) -> tuple[Floats, Floats]:
    """The point about which values clipped to [lower, upper] are summed, and how far from it they may lie.

    With the adaptive tail, a noisy divisor and a rough mean at hand it is the point that makes the noise least, else the middle.
    """
    low = np.asarray(lower, dtype=np.float64)
    half = (np.asarray(upper, dtype=np.float64) - low) / 2
    if settings.tail == "gaussian" or guess is None or not rows.sigma:
        return low + half, half
    moved = best_step(half, guess - (low + half), rows.sigma, gaussian_sigma(rho))
    return low + half + moved, half + np.abs(moved)


def _deviations(
    reach: npt.ArrayLike, offset: npt.ArrayLike, rho: Rho, rows: Rows, settings: Settings
) -> tuple[Floats, Floats]:
    """The standard deviations, times n, of a noisy mean: what the noise of the sum adds, and what that of the divisor adds.

    A noisy divisor adds (μ − c)·σ_n, where the sum is taken about c; `offset` is about μ − c.
    """
    reach = np.asarray(reach, dtype=np.float64)
    sensitivity = reach * (2 if settings.relation == REPLACE_ONE else 1)
    return gaussian_sigma(rho) * sensitivity, np.minimum(np.abs(offset), reach) * rows.sigma


def variance_by_clip(rho: Rho, rows: Rows, settings: Settings, guess: float | None) -> Variance:
    """The variance of the noise of a mean by the ends of its clip, if `guess` is about the mean; see `choose_clip`."""

    def variance(lower: Floats, upper: Floats) -> Floats:
        centre, reach = _window(lower, upper, rho, rows, settings, guess)
        of_sum, of_count = _deviations(reach, 0.0 if guess is None else guess - centre, rho, rows, settings)
        return np.asarray((of_sum**2 + of_count**2) / rows.count**2)

    return variance


def best_step(half: npt.ArrayLike, away: npt.ArrayLike, of_count: float, per_unit: float) -> Floats:
    """How far from a clip's midpoint a sum under add-remove is to be taken, to give the mean with the least noise.

    A sum about a point s away from the midpoint gives a mean with a variance of (d − s)²·of_count² + (h + |s|)²·per_unit²,
    times n². From the midpoint on it falls, if at all, towards the mean. Arrays broadcast.

    Args:
        half: half of the clip's width, h.
        away: how far the mean is thought to be above the midpoint, d; taken to be at most h in size.
        of_count: the standard deviation of the noise in the number of rows.
        per_unit: that of the noise of a sum of sensitivity 1.

    >>> best_step(100.0, [-70.0, -2.0, 10.0], of_count=5.0, per_unit=1.0).round(2).tolist()
    [-63.46, -0.0, 5.77]
    """
    half = np.asarray(half, dtype=np.float64)
    away = np.clip(away, -half, half)
    step = (np.abs(away) * of_count**2 - half * per_unit**2) / (of_count**2 + per_unit**2)
    return np.asarray(np.copysign(np.clip(step, 0.0, np.abs(away)), away))


def _half_width(deviation: float, rows: Rows, beta: float, settings: Settings) -> float:
    """√(2(σ²/n + noise²) ln(2/β)) (Algorithm 1, line 5)."""
    return math.sqrt(2 * (settings.sigma**2 / rows.least + deviation**2) * math.log(2 / beta))


def _finish(
    budget: Budget,
    settings: Settings,
    noise: NoiseSource,
    raw: float,
    interval: tuple[float, float],
    rows: Rows,
    deviation: float = math.inf,
    bias: float = 0.0,
    pooled: Reading | None = None,
) -> Estimate:
    if budget.remaining:
        raise RuntimeError(f"a run left ρ = {float(budget.remaining)} of its budget unspent")
    return Estimate(
        value=min(max(raw, interval[0]), interval[1]),
        lower=interval[0],
        upper=interval[1],
        rho=budget.total,
        relation=settings.relation,
        variance=settings.sigma**2 / rows.least + deviation**2,
        bias=bias,
        rows=rows.count,
        raw=raw if math.isfinite(deviation) else None,
        centre=raw if pooled is None else pooled.centre,
        sum_deviation=0.0 if pooled is None else pooled.of_sum,
        count_deviation=rows.sigma,
        entries=budget.entries,
        private=noise.private,
    )
