"""Tests and intervals for a proportion from a noisy count, exact at any number of rows; and the rows that tests need.

A count released at ε is Binomial(rows, p) + Laplace(1/ε) (`equistrata.inference.counts.noisy_counts`). Its distribution
is known, so the test has its level exactly and the interval covers at least as often as stated.

>>> round(float(exact_p_value(13.2, rows=20, p0=0.25, epsilon=0.5)), 4)
0.0275
>>> [round(end, 3) for end in exact_interval(13.2, rows=20, epsilon=0.5)]
[0.305, 0.969]
>>> exact_interval(57.0, rows=20, epsilon=0.05)  # below the noise floor
(0.0, 1.0)
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.counts.sizing import Law, Sizing
from equistrata.stats.checks import closed_share, number, one_of, positive, share, whole
from equistrata.stats.laws import BinomialLaplace, NormalLaplace

Alternative = Literal["two-sided", "greater", "less"]


def exact_p_value(
    noisy_count: npt.ArrayLike, *, rows: int, p0: float, epsilon: float, alternative: Alternative = "two-sided"
) -> Floats:
    """P-values of p = p₀ given noisy counts. Post-processing.

    Args:
        noisy_count, epsilon: as released (neither rounded nor clipped), any shape; at this ε, positive.
        rows: the declared number of people, at least 1.
        p0: the proportion under the null hypothesis, 0 ≤ p₀ ≤ 1.
        alternative: "greater" or "less" than p₀; "two-sided" doubles the smaller of both.

    Returns:
        P-values, shape kept, uniform on [0, 1] under the null hypothesis. The one-sided tests are uniformly most
        powerful among tests of the noisy count. See docs/proofs/proportions.md.

    Raises InputError for a setting out of its range.
    """
    law = BinomialLaplace(whole("rows", rows, 1), closed_share("p0", p0), 1 / positive("epsilon", epsilon))
    one_of("alternative", alternative, get_args(Alternative))
    count = _released(noisy_count)
    if alternative == "greater":
        return law.sf(count)
    if alternative == "less":
        return law.cdf(count)
    return np.asarray(np.minimum(2 * np.minimum(law.cdf(count), law.sf(count)), 1.0))


def exact_interval(noisy_count: float, *, rows: int, epsilon: float, alpha: float = 0.05) -> tuple[float, float]:
    """An interval for the proportion that covers it with probability at least 1 − alpha, for every p. Post-processing.

    The p, 0 ≤ lower ≤ upper ≤ 1, that neither one-sided test at α/2 rejects (Clopper-Pearson with noise), 0 < α < 1. A
    count outside [0, rows] is first clipped to it (docs/proofs/proportions.md). Other arguments, and what is raised: as
    `exact_p_value`.
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    count = min(max(float(_released(noisy_count)), 0.0), float(rows))
    return _lower_end(count, rows, scale, tail), 1 - _lower_end(rows - count, rows, scale, tail)


def exact_power(p: float, *, p0: float, rows: int, epsilon: float, alpha: float) -> float:
    """The probability that `exact_p_value` is at most α, two-sided, when the proportion is p.

    p, p₀ in [0, 1]: the true proportion and that of the null hypothesis; rows ≥ 1, ε > 0, 0 < α < 1. Raises InputError
    on others.

    >>> [round(exact_power(p, p0=0.25, rows=20, epsilon=1.0, alpha=0.05), 3) for p in (0.05, 0.25, 0.5, 0.75)]
    [0.378, 0.05, 0.518, 0.979]
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    null = BinomialLaplace(rows, closed_share("p0", p0), scale)
    other = BinomialLaplace(rows, closed_share("p", p), scale)
    return float(other.cdf(null.quantile(tail)) + other.sf(null.quantile(1 - tail)))


def proportion_sizing(p0: float, effect: float, *, alpha: float, beta: float) -> Sizing:
    """The test of p = p₀ against p = p₀ + effect: its rows, correction factor and smallest ε.

    N rows without noise, K·N at ε with the correction factor K. σ² = p̄(1 − p̄) with p̄ = p₀ + effect/2. The effect is
    not 0; p₀ and p₀ + effect lie in (0, 1), or InputError is raised. Others: as `Sizing`.

    Source: the talk on differentially private estimators and tests, equations 1 to 4, the table of K and the power
    functions. The root of its equation 3 has σ⁴, and the second quantile in its equation 4 is that at β: only so do its
    numbers follow. Noise: Laplace of scale 1/ε on the count, declared number of rows.

    >>> sizing = proportion_sizing(0.25, 0.1, alpha=0.05, beta=0.1)
    >>> round(sizing.correction_factor(0.1, "normal"), 2), round(sizing.correction_factor(0.1), 2)
    (2.64, 2.62)
    >>> math.ceil(sizing.classical_rows), math.ceil(sizing.rows(0.1)), round(sizing.effective_rows(578, 0.1), 1)
    (221, 578, 220.9)
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

    Arguments: as `exact_power`, which is exact for any number of rows, but p and p₀ in (0, 1). An ε of None: without
    noise. `law`: as in `Sizing.rows`; the binomial part has the variance of its own p.

    >>> [round(power(p, p0=0.25, rows=376, alpha=0.05, epsilon=0.1), 3) for p in (0.15, 0.25, 0.35, 0.45)]
    [0.625, 0.05, 0.611, 0.988]
    >>> round(power(0.35, p0=0.25, rows=376, alpha=0.05), 3)
    0.989
    """
    p, p0, rows, alpha = share("p", p), share("p0", p0), whole("rows", rows, 1), share("alpha", alpha)
    null, other = (_law(of, rows, epsilon, law) for of in (p0, p))
    reach = null.quantile(1 - alpha / 2) - p0
    return float(other.sf(p0 + reach) + other.cdf(p0 - reach))


def _released(noisy_count: npt.ArrayLike) -> Floats:
    count = np.asarray(noisy_count, dtype=float)
    if not np.isfinite(count).all():
        raise InputError("the noisy count is not a finite number; give it as it was released")
    return count


def _lower_end(count: float, rows: int, scale: float, tail: float) -> float:
    """The p at which a noisy count this high has probability `tail`; the probability rises with p."""

    def excess(p: float) -> float:
        return float(BinomialLaplace(rows, p, scale).sf(count)) - tail

    # At p = 1 the noisy count passes any count of at most `rows` with probability ½ or more, so there is a sign change.
    return 0.0 if excess(0.0) >= 0 else float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-12))


def _law(p: float, rows: int, epsilon: float | None, law: Law) -> NormalLaplace:
    one_of("law", law, get_args(Law))
    variance = p * (1 - p) / rows
    scale = 0.0 if epsilon is None else 1 / (positive("epsilon", epsilon) * rows)
    if law == "normal":
        return NormalLaplace(math.sqrt(variance + 2 * scale**2), 0.0, p)
    return NormalLaplace(math.sqrt(variance), scale, p)
