"""Tests and intervals for a proportion from a noisy count, exact at any number of rows, however small.

A count released at ε is Binomial(rows, p) + Laplace(1/ε) (`equistrata.inference.counts.noisy_counts`). Its law is known, noise and all, so
nothing is approximated: the test has its level exactly, and the interval covers at least as often as it says.

>>> round(float(exact_p_value(13.2, rows=20, p0=0.25, epsilon=0.5)), 4)
0.0275
>>> [round(end, 3) for end in exact_interval(13.2, rows=20, epsilon=0.5)]
[0.305, 0.969]
>>> exact_interval(57.0, rows=20, epsilon=0.05)  # almost only noise: nothing is learnt
(0.0, 1.0)
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtri

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.counts.proportions import question
from equistrata.stats.checks import closed_share, positive, share, whole
from equistrata.stats.laws import BinomialLaplace

__all__ = ["exact_interval", "exact_p_value", "exact_power", "forgotten_noise_errors"]

Alternative = Literal["two-sided", "greater", "less"]


def exact_p_value(
    noisy_count: npt.ArrayLike, *, rows: int, p0: float, epsilon: float, alternative: Alternative = "two-sided"
) -> Floats:
    """The probability, when the proportion is p₀, of a noisy count at least as far out as this one.

    Args:
        noisy_count: as released (not rounded, not cut off to 0…rows); any shape.
        rows: the declared number of people, at least 1.
        p0: the proportion under the null hypothesis, 0 ≤ p₀ ≤ 1.
        epsilon: at which the count was released, positive.
        alternative: "greater" or "less" than p₀; "two-sided" doubles the smaller of both.

    Returns:
        P-values, shape kept. The law of the count is continuous, so under the null hypothesis they are uniform on [0, 1]:
        the test that rejects at p-values of at most α has level α exactly. Binomial variables have monotone likelihood
        ratios and Laplace noise is log-concave, so the noisy count has them too: the one-sided tests are uniformly most
        powerful among tests of the noisy count, and keep their level for all p ≤ p₀ (p ≥ p₀).

    Raises:
        InputError: a setting out of its range, or a count that is not a finite number.

    Privacy: none beyond that of the count (post-processing).
    """
    law = BinomialLaplace(whole("rows", rows, 1), closed_share("p0", p0), 1 / positive("epsilon", epsilon))
    if alternative not in get_args(Alternative):
        raise InputError(f"alternative is {alternative!r}, but must be two-sided, greater or less; choose one")
    count = _released(noisy_count)
    if alternative == "greater":
        return law.sf(count)
    if alternative == "less":
        return law.cdf(count)
    return np.asarray(np.minimum(2 * np.minimum(law.cdf(count), law.sf(count)), 1.0))


def exact_interval(noisy_count: float, *, rows: int, epsilon: float, alpha: float = 0.05) -> tuple[float, float]:
    """An interval for the proportion that covers it with probability at least 1 − alpha, whatever it is.

    Args:
        noisy_count, rows, epsilon: as for `exact_p_value`.
        alpha: in (0, 1).

    Returns:
        (lower, upper), 0 ≤ lower ≤ upper ≤ 1: the p that neither one-sided test at α/2 rejects (Clopper and Pearson's
        inversion, with the noise in the law). A count outside [0, rows] is first moved to the nearest end: its likelihood
        is the same as the end's up to a factor without p, so that it tells no more than the end. Without this the
        interval of a far count would shrink to nothing, on the strength of noise alone. Moving it only widens intervals, so
        they cover at least as often; inside [0, rows] they cover exactly as often as the test is exact.

    Raises:
        InputError: a setting out of its range, or a count that is not a finite number.

    Privacy: none beyond that of the count (post-processing).
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    count = min(max(float(_released(noisy_count)), 0.0), float(rows))
    return _lower_end(count, rows, scale, tail), 1 - _lower_end(rows - count, rows, scale, tail)


def exact_power(p: float, *, p0: float, rows: int, epsilon: float, alpha: float) -> float:
    """The probability that `exact_p_value` is at most α, two-sided, when the proportion is p.

    Args:
        p, p0: the true proportion and that of the null hypothesis, in [0, 1]; at p = p₀ the result is α.
        rows: at least 1.
        epsilon: positive.
        alpha: in (0, 1).

    Raises:
        InputError: a setting out of its range.

    >>> [round(exact_power(p, p0=0.25, rows=20, epsilon=1.0, alpha=0.05), 3) for p in (0.05, 0.25, 0.5, 0.75)]
    [0.378, 0.05, 0.518, 0.979]
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    null = BinomialLaplace(rows, closed_share("p0", p0), scale)
    other = BinomialLaplace(rows, closed_share("p", p), scale)
    return float(other.cdf(null.quantile(tail)) + other.sf(null.quantile(1 - tail)))


def forgotten_noise_errors(p0: float, effect: float, *, rows: int, epsilon: float, alpha: float) -> tuple[float, float]:
    """The two errors of the classical test of p₀ + effect when it is done on a noisy count as if there were no noise.

    It rejects on the effect's side of p₀ ± z(1 − α/2)√(σ²/rows), σ² = p̄(1 − p̄), p̄ = p₀ + effect/2.

    Args:
        p0, effect, alpha: as for `equistrata.inference.counts.proportions.correction_factor`.
        rows: at least 1; N without correction, K·N with it.
        epsilon: of the noisy count, positive.

    Returns:
        (level on that side, type II error), exact. The level of both sides together is about twice the first.

    Raises:
        InputError: a setting out of its range.

    Source: the talk's two tables of the effect of correction factors. They show this test: more rows restore its power,
    but its level stays far above α/2, for its critical value leaves the noise out. Use `exact_p_value` instead.

    >>> errors = [forgotten_noise_errors(0.25, 0.1, rows=n, epsilon=0.1, alpha=0.05) for n in (221, 578)]
    >>> [(round(first, 3), round(second, 3)) for first, second in errors]
    [(0.161, 0.256), (0.097, 0.026)]
    """
    middle = question(p0, effect, alpha=alpha, beta=0.5)  # checks the settings; the type II error is not one of them
    rows, scale = whole("rows", rows, 1), 1 / positive("epsilon", epsilon)
    step = math.copysign(float(-ndtri(alpha / 2)) * math.sqrt(middle.variance / rows), effect)
    critical = rows * (p0 + step)
    null, other = (BinomialLaplace(rows, p, scale) for p in (p0, p0 + effect))
    if effect > 0:
        return float(null.sf(critical)), float(other.cdf(critical))
    return float(null.cdf(critical)), float(other.sf(critical))


def _released(noisy_count: npt.ArrayLike) -> Floats:
    count = np.asarray(noisy_count, dtype=float)
    if not np.isfinite(count).all():
        raise InputError("the noisy count is not a finite number; give it as it was released")
    return count


def _lower_end(count: float, rows: int, scale: float, tail: float) -> float:
    """The p at which a noisy count as high as this one has probability `tail`; it rises with p."""

    def excess(p: float) -> float:
        return float(BinomialLaplace(rows, p, scale).sf(count)) - tail

    # At p = 1 the noisy count passes any count of at most `rows` with probability ½ or more, so there is a sign change.
    return 0.0 if excess(0.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-12))
