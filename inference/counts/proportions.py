"""Tests of a proportion from a noisy count: how many rows they need, and their power.

A test of p = p₀ against p = p₀ + effect needs N rows without noise and K·N at ε, with the correction factor K.

>>> sizing = proportion_sizing(0.25, 0.1, alpha=0.05, beta=0.1)
>>> round(sizing.correction_factor(0.1, "normal"), 2), round(sizing.correction_factor(0.1), 2)
(2.64, 2.62)
>>> math.ceil(sizing.classical_rows), math.ceil(sizing.rows(0.1)), round(sizing.effective_rows(578, 0.1), 1)
(221, 578, 220.9)

Source: the talk on differentially private estimators and tests, equations 1 to 4, the table of K and the power
functions. The root of its equation 3 has σ⁴, and the second quantile in its equation 4 is that at β: only so do its
numbers follow. Noise: Laplace of scale 1/ε on the count, declared number of rows.
"""

from __future__ import annotations

import math
from typing import get_args

from equistrata.errors import InputError
from equistrata.inference.counts.sizing import Law, Sizing
from equistrata.stats.checks import number, one_of, positive, share, whole
from equistrata.stats.laws import NormalLaplace


def proportion_sizing(p0: float, effect: float, *, alpha: float, beta: float) -> Sizing:
    """The test of p = p₀ against p = p₀ + effect: its rows, correction factor and smallest ε.

    σ² = p̄(1 − p̄) with p̄ = p₀ + effect/2. The effect is not 0; p₀ and p₀ + effect lie in (0, 1). Others: as `Sizing`.
    """
    p0, effect = share("p0", p0), number("effect", effect)
    if effect == 0:
        raise InputError("effect is 0, and no number of rows can show no difference; give a difference to be seen")
    if not 0 < p0 + effect < 1:
        raise InputError(f"p0 + effect is {p0 + effect:g}, but a proportion must lie strictly between 0 and 1")
    middle = p0 + effect / 2
    return Sizing(middle * (1 - middle), abs(effect), alpha, beta)


def power(
    p: float, *, p0: float, rows: int, alpha: float, epsilon: float | None = None, law: Law = "normal-laplace"
) -> float:
    """The probability that the two-sided level-α test rejects p₀ when the proportion is p, by a normal approximation.

    Arguments: as `equistrata.inference.counts.exact.exact_power`, which is exact for any number of rows, but p and p₀
    in (0, 1). An ε of None: without noise. `law`: as in `Sizing.rows`; the binomial part has the variance of its own p.

    >>> [round(power(p, p0=0.25, rows=376, alpha=0.05, epsilon=0.1), 3) for p in (0.15, 0.25, 0.35, 0.45)]
    [0.625, 0.05, 0.611, 0.988]
    >>> round(power(0.35, p0=0.25, rows=376, alpha=0.05), 3)
    0.989
    """
    p, p0, rows, alpha = share("p", p), share("p0", p0), whole("rows", rows, 1), share("alpha", alpha)
    null, other = (_law(of, rows, epsilon, law) for of in (p0, p))
    reach = null.quantile(1 - alpha / 2) - p0
    return float(other.sf(p0 + reach) + other.cdf(p0 - reach))


def _law(p: float, rows: int, epsilon: float | None, law: Law) -> NormalLaplace:
    """The distribution of the noisy proportion."""
    one_of("law", law, get_args(Law))
    variance = p * (1 - p) / rows
    scale = 0.0 if epsilon is None else 1 / (positive("epsilon", epsilon) * rows)
    if law == "normal":
        return NormalLaplace(math.sqrt(variance + 2 * scale**2), 0.0, p)
    return NormalLaplace(math.sqrt(variance), scale, p)
