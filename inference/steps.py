"""One run of Coinpress on one group of rows: its settings, its steps, and the order in which it spends its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from inference.estimate import Estimate
from inference.lattice import noisy_sum
from inference.tail import Clip, choose_clip, gaussian_reach
from privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation, Rho
from privacy.noise import NoiseSource, gaussian_sigma

Floats = npt.NDArray[np.float64]
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
    recentred: bool = False  # sums about the point that makes the noise least, instead of about the clip's midpoint
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


def positive(rho: Rho | float) -> Rho:
    """An amount that buys something. Raises ValueError if it is zero or negative."""
    amount = Rho.of(rho)
    if not amount:
        raise ValueError("rho must be positive: nothing private can be said for nothing")
    return amount


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
    is a rough mean that was paid for elsewhere: where `recentred`, less noise is needed if it is good, and nothing else
    depends on it.
    """
    total = budget.total
    rows = _rows(values, budget, settings, noise) if paid is None else Rows(max(paid.count, 1.0), paid.sigma)
    if rows.count == 0:
        budget.spend(budget.remaining, "no rows")
        middle = settings.lower + (settings.upper - settings.lower) / 2
        return _finish(budget, settings, noise, middle, (settings.lower, settings.upper), rows=rows)
    reserved = settings.tail == "adaptive" and rows.count >= HISTOGRAM_ROWS
    shells = total * HISTOGRAM_SHARE if reserved else Rho(0)
    *parts, last = step_amounts(budget.remaining - shells, settings.steps, settings.last_share)
    low, high, readings = settings.lower, settings.upper, list[Reading]()
    for step, part in enumerate(parts, start=1):
        budget.spend(part, f"step {step}")
        clip = settings.clip(low, high, settings.paper_reach(step, rows.count))
        readings.append(_measure(values, clip, part, rows, settings, noise, guess))
        guess = min(max(readings[-1].value, low), high) if guess is None else guess
        half = _half_width(readings[-1].noise, rows, settings.step_beta(step), settings)
        low, high = narrow(low, high, readings[-1].value, half)
    if settings.tail == "gaussian":
        clip = settings.clip(low, high, settings.paper_reach(settings.steps, rows.count))
    else:
        reach = settings.sigma * gaussian_reach(rows.count)
        clip = settings.clip(low, high, reach)
        if not reserved or (clip.lower, clip.upper) == settings.bounds:  # nothing can lie beyond
            last += shells
        else:
            budget.spend(shells, "tail histogram")
            clip = choose_clip(
                values,
                clip.lower,
                clip.upper,
                reach,
                rows=rows.count,
                bounds=settings.bounds,
                rho=shells,
                rho_mean=last,
                relation=settings.relation,
                noise=noise,
            )
    budget.spend(last, f"step {settings.steps}")
    readings.append(_measure(values, clip, last, rows, settings, noise, guess))
    if settings.tail == "gaussian":
        pooled = readings[-1]
    elif settings.recentred and rows.sigma:
        pooled = pool_about(readings, rows)
    else:
        pooled = pool(readings)
    half = _half_width(pooled.noise, rows, settings.step_beta(settings.steps), settings) + clip.bias
    whole = settings.tail == "gaussian"
    interval = (pooled.value - half, pooled.value + half) if whole else narrow(low, high, pooled.value, half)
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


def pool(readings: Sequence[Reading]) -> Reading:
    """The last reading, and with it those that clipped no tighter, weighted by their precision: post-processing.

    Tighter clips would bring in more bias; so the early steps, whose clips are wide, only take noise away.
    """
    last = readings[-1]
    if last.noise == 0:
        return last
    wide = _wide(readings)
    precision = [reading.noise**-2 for reading in wide]
    total = math.fsum(precision)
    parts = [weight / total for weight in precision]
    value = math.fsum(part * reading.value for part, reading in zip(parts, wide, strict=True))
    of_sum = math.hypot(*(part * reading.of_sum for part, reading in zip(parts, wide, strict=True)))
    centre = math.fsum(part * reading.centre for part, reading in zip(parts, wide, strict=True))
    return Reading(value, total**-0.5, last.clip, of_sum, centre)


def pool_about(readings: Sequence[Reading], rows: Rows) -> Reading:
    """As `pool`, where sums were taken about different centres: an error in the number of rows moves all of them together.

    The least squares of readings with covariance diag(of_sum²) + σ_n²·d·dᵀ, over n², d being how far each centre is from the mean.
    """
    last, wide = readings[-1], _wide(readings)
    away = np.array([reading.centre - last.value for reading in wide])
    covariance = np.diag([reading.of_sum**2 for reading in wide]) + rows.sigma**2 * np.outer(away, away)
    weights = np.linalg.solve(covariance, np.ones(len(wide)))
    parts = weights / weights.sum()
    value, of_sum, centre = (
        parts @ [reading.value for reading in wide],
        np.linalg.norm(parts * [reading.of_sum for reading in wide]),
        parts @ [reading.centre for reading in wide],
    )
    return Reading(float(value), float(weights.sum()) ** -0.5 / rows.least, last.clip, float(of_sum), float(centre))


def _wide(readings: Sequence[Reading]) -> list[Reading]:
    last = readings[-1].clip
    return [reading for reading in readings if reading.clip.lower <= last.lower and last.upper <= reading.clip.upper]


def _rows(values: Floats, budget: Budget, settings: Settings, noise: NoiseSource) -> Rows:
    if settings.sizes == "public":
        return Rows(float(len(values)))
    sigma = gaussian_sigma(budget.spend(budget.total * COUNT_SHARE, "count"))
    counted = noise.gaussian(np.array([len(values)], dtype=np.int64), sigma)
    return Rows(max(float(counted[0]), 1.0), sigma)


def _measure(
    values: Floats, clip: Clip, rho: Rho, rows: Rows, settings: Settings, noise: NoiseSource, guess: float | None
) -> Reading:
    """A noisy mean; a noisy divisor adds (μ − c)·σ_n/n to its noise, where the sum is taken about c."""
    width = clip.upper - clip.lower
    middle = clip.lower + width / 2
    centre = middle
    if settings.recentred and guess is not None and rows.sigma:
        centre = best_centre(clip, guess, rows.sigma, gaussian_sigma(rho))
    # A clip that reaches as far on both sides of the centre: clipping to it, inside the other, moves no sum.
    reach = width / 2 + abs(centre - middle)
    clipped = values if centre == middle else np.clip(values, clip.lower, clip.upper)
    offset = noisy_sum(clipped, centre - reach, centre + reach, rho, settings.relation, noise) / rows.count
    sensitivity = 2 * reach if settings.relation == REPLACE_ONE else reach
    of_sum = gaussian_sigma(rho, sensitivity)
    of_count = min(abs(offset), reach) * rows.sigma
    return Reading(centre + offset, math.hypot(of_sum, of_count) / rows.least, clip, of_sum, centre)


def best_centre(clip: Clip, guess: float, of_count: float, per_unit: float) -> float:
    """The point c about which a sum under add-remove gives the mean with the least noise, if `guess` is about the mean.

    The noise's variance, times n², is (guess − c)²·of_count² + (h + |c − m|)²·per_unit², m being the clip's midpoint, h
    half its width, `of_count` the standard deviation of the number of rows and `per_unit` that of a sum of sensitivity 1.
    From the midpoint on it falls, if at all, towards the guess.

    >>> best_centre(Clip(0.0, 200.0), 30.0, of_count=5.0, per_unit=1.0), best_centre(Clip(0.0, 200.0), 98.0, 5.0, 1.0)
    (36.53846153846154, 100.0)
    """
    half, middle = (clip.upper - clip.lower) / 2, (clip.lower + clip.upper) / 2
    away = min(max(guess, clip.lower), clip.upper) - middle
    step = (abs(away) * of_count**2 - half * per_unit**2) / (of_count**2 + per_unit**2)
    return middle + math.copysign(min(max(step, 0.0), abs(away)), away)


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
