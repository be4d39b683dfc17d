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
LAST_STEP_SHARE = Fraction(3, 4)  # of what is left for the steps
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


def estimate(
    values: Floats, budget: Budget, settings: Settings, noise: NoiseSource, paid: Rows | None = None
) -> Estimate:
    """Spend a budget, all of it, on the mean of `values`, shape (n,). What it costs and covers: `coinpress_mean`.

    `paid` is a noisy number of rows that was paid for elsewhere; None to pay for one here if `sizes` is "noisy".
    """
    total = budget.total
    rows = _rows(values, budget, settings, noise) if paid is None else Rows(max(paid.count, 1.0), paid.sigma)
    if rows.count == 0:
        budget.spend(budget.remaining, "no rows")
        middle = settings.lower + (settings.upper - settings.lower) / 2
        return _finish(budget, settings, noise, middle, (settings.lower, settings.upper), rows=rows)
    reserved = settings.tail == "adaptive" and rows.count >= HISTOGRAM_ROWS
    shells = total * HISTOGRAM_SHARE if reserved else Rho(0)
    *parts, last = step_amounts(budget.remaining - shells, settings.steps)
    low, high, readings = settings.lower, settings.upper, list[Reading]()
    for step, part in enumerate(parts, start=1):
        budget.spend(part, f"step {step}")
        clip = settings.clip(low, high, settings.paper_reach(step, rows.count))
        readings.append(_measure(values, clip, part, rows, settings, noise))
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
    readings.append(_measure(values, clip, last, rows, settings, noise))
    pooled = readings[-1] if settings.tail == "gaussian" else pool(readings)
    half = _half_width(pooled.noise, rows, settings.step_beta(settings.steps), settings) + clip.bias
    whole = settings.tail == "gaussian"
    interval = (pooled.value - half, pooled.value + half) if whole else narrow(low, high, pooled.value, half)
    return _finish(budget, settings, noise, pooled.value, interval, rows, pooled.noise, clip.bias, pooled)


def step_amounts(rho: Rho, steps: int) -> list[Rho]:
    """What each step spends: ¾ the last, and the others equal shares of the rest; all of it where there is one step.

    >>> [float(part) for part in step_amounts(Rho(1), 3)]
    [0.125, 0.125, 0.75]
    """
    if steps == 1:
        return [rho]
    return rho.split([(1 - LAST_STEP_SHARE) / (steps - 1)] * (steps - 1) + [LAST_STEP_SHARE])


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
    wide = [r for r in readings if r.clip.lower <= last.clip.lower and last.clip.upper <= r.clip.upper]
    precision = [reading.noise**-2 for reading in wide]
    total = math.fsum(precision)
    parts = [weight / total for weight in precision]
    value = math.fsum(part * reading.value for part, reading in zip(parts, wide, strict=True))
    of_sum = math.hypot(*(part * reading.of_sum for part, reading in zip(parts, wide, strict=True)))
    centre = math.fsum(part * reading.centre for part, reading in zip(parts, wide, strict=True))
    return Reading(value, total**-0.5, last.clip, of_sum, centre)


def _rows(values: Floats, budget: Budget, settings: Settings, noise: NoiseSource) -> Rows:
    if settings.sizes == "public":
        return Rows(float(len(values)))
    sigma = gaussian_sigma(budget.spend(budget.total * COUNT_SHARE, "count"))
    counted = noise.gaussian(np.array([len(values)], dtype=np.int64), sigma)
    return Rows(max(float(counted[0]), 1.0), sigma)


def _measure(values: Floats, clip: Clip, rho: Rho, rows: Rows, settings: Settings, noise: NoiseSource) -> Reading:
    """A noisy mean; a noisy divisor adds (μ − c)·σ_n/n to its noise, c the midpoint of the clip."""
    width = clip.upper - clip.lower
    offset = noisy_sum(values, clip.lower, clip.upper, rho, settings.relation, noise) / rows.count
    sensitivity = width if settings.relation == REPLACE_ONE else width / 2
    of_sum = gaussian_sigma(rho, sensitivity)
    of_count = min(abs(offset), width / 2) * rows.sigma
    centre = clip.lower + width / 2
    return Reading(centre + offset, math.hypot(of_sum, of_count) / rows.least, clip, of_sum, centre)


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
