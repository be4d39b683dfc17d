"""Tests and intervals for a proportion from a noisy count, and the number of rows that the tests need.

A count that is released at ε has the distribution Binomial(rows, p) + Laplace(1/ε) (see
`equistrata.inference.counts.noisy_counts`). This distribution is known for any number of rows. Therefore the level of
the test is exact, and the coverage of the interval is at least the nominal one.

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
from equistrata.stats.distributions import BinomialLaplace, NormalLaplace

Alternative = Literal["two-sided", "greater", "less"]


def exact_p_value(
    noisy_count: npt.ArrayLike, *, rows: int, p0: float, epsilon: float, alternative: Alternative = "two-sided"
) -> Floats:
    """Compute the p-value of the hypothesis p = p₀ for noisy counts.

    Parameters
    ----------
    noisy_count : array-like
        The counts as they were released, neither rounded nor clipped, of any shape.
    rows : int
        The declared number of people, at least 1.
    p0 : float
        The proportion under the null hypothesis, in [0, 1].
    epsilon : float
        The privacy cost ε of the counts, positive.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        The alternative hypothesis. The p-value for "two-sided" is twice the smaller one of the other two.

    Returns
    -------
    ndarray
        The p-values, with the shape of `noisy_count`. They have a uniform distribution on [0, 1] under the null
        hypothesis. The one-sided tests are uniformly most powerful among all tests of the noisy count.

    Raises
    ------
    InputError
        If a setting is out of its range.

    Privacy
    -------
    The test is post-processing, so it has no additional cost. See docs/proofs/proportions.md.
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
    """Compute an interval for a proportion from a noisy count.

    The interval contains each p that neither of the two one-sided tests at level α/2 rejects. It is the interval of
    Clopper and Pearson with noise. A count outside of [0, rows] is clipped to this range (see
    docs/proofs/proportions.md).

    Parameters
    ----------
    noisy_count : float
        The count as it was released.
    rows : int
        The declared number of people, at least 1.
    epsilon : float
        The privacy cost ε of the count, positive.
    alpha : float, default=0.05
        One minus the nominal coverage, in (0, 1).

    Returns
    -------
    tuple of two float
        The lower and the upper end, in [0, 1]. For every p, the interval contains p with a probability of at least 1 −
        alpha.

    Raises
    ------
    InputError
        If a setting is out of its range.

    Privacy
    -------
    The interval is post-processing, so it has no additional cost.
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    count = min(max(float(_released(noisy_count)), 0.0), float(rows))
    return _lower_end(count, rows, scale, tail), 1 - _lower_end(rows - count, rows, scale, tail)


def exact_power(p: float, *, p0: float, rows: int, epsilon: float, alpha: float) -> float:
    """Return the probability that the two-sided p-value of `exact_p_value` is at most α.

    Parameters
    ----------
    p : float
        The true proportion, in [0, 1].
    p0 : float
        The proportion under the null hypothesis, in [0, 1].
    rows : int
        The number of rows, at least 1.
    epsilon : float
        The privacy cost ε, positive.
    alpha : float
        The level of the test, in (0, 1).

    Returns
    -------
    float
        The power.

    Raises
    ------
    InputError
        If a setting is out of its range.

    Examples
    --------
    >>> [round(exact_power(p, p0=0.25, rows=20, epsilon=1.0, alpha=0.05), 3) for p in (0.05, 0.25, 0.5, 0.75)]
    [0.378, 0.05, 0.518, 0.979]
    """
    rows, scale, tail = whole("rows", rows, 1), 1 / positive("epsilon", epsilon), share("alpha", alpha) / 2
    null = BinomialLaplace(rows, closed_share("p0", p0), scale)
    other = BinomialLaplace(rows, closed_share("p", p), scale)
    return float(other.cdf(null.quantile(tail)) + other.sf(null.quantile(1 - tail)))


def proportion_sizing(p0: float, effect: float, *, alpha: float, beta: float) -> Sizing:
    """Plan the two-sided test of p = p₀ against p = p₀ + effect.

    The result gives the number of rows N without noise, the number K·N at a given ε, the correction factor K, and the
    smallest ε. The variance is σ² = p̄(1 − p̄) with p̄ = p₀ + effect/2. The noise is Laplace noise of scale 1/ε in the
    count, and the number of rows is declared.

    Parameters
    ----------
    p0 : float
        The proportion under the null hypothesis, in (0, 1).
    effect : float
        The difference to detect, which is not 0. The sum p₀ + effect is in (0, 1).
    alpha : float
        The level of the test, as in `Sizing`.
    beta : float
        The type II error, as in `Sizing`.

    Returns
    -------
    Sizing
        The difference to detect, with methods for the number of rows.

    Raises
    ------
    InputError
        If a setting is out of its range.

    References
    ----------
    The talk on differentially private estimators and tests, equations 1 to 4, the table of K and the power functions.
    The root of equation 3 has σ⁴, and the second quantile in equation 4 is the quantile at β. Otherwise the numbers in
    the talk cannot be reproduced.

    Examples
    --------
    >>> sizing = proportion_sizing(0.25, 0.1, alpha=0.05, beta=0.1)
    >>> round(sizing.correction_factor(0.1, "normal"), 2), round(sizing.correction_factor(0.1), 2)
    (2.64, 2.62)
    >>> math.ceil(sizing.classical_rows), math.ceil(sizing.rows(0.1)), round(sizing.effective_rows(578, 0.1), 1)
    (221, 578, 220.9)
    """
    p0, effect = share("p0", p0), number("effect", effect)
    if effect == 0:
        raise InputError("effect is 0, but a difference of 0 cannot be detected; give the difference to detect")
    if not 0 < p0 + effect < 1:
        raise InputError(
            f"p0 + effect is {p0 + effect:g}, but a proportion must lie strictly between 0 and 1; change one"
        )
    middle = p0 + effect / 2
    return Sizing(middle * (1 - middle), abs(effect), alpha, beta)


def power(
    p: float, *, p0: float, rows: int, alpha: float, epsilon: float | None = None, law: Law = "normal-laplace"
) -> float:
    """Return the probability that the two-sided test at level α rejects p₀, by a normal approximation.

    The function `exact_power` is exact for any number of rows.

    Parameters
    ----------
    p : float
        The true proportion, in (0, 1).
    p0 : float
        The proportion under the null hypothesis, in (0, 1).
    rows : int
        The number of rows, at least 1.
    alpha : float
        The level of the test, in (0, 1).
    epsilon : float, optional
        The privacy cost ε, positive. If None, there is no noise.
    law : {"normal", "normal-laplace"}, default="normal-laplace"
        The distribution of the noisy proportion, as in `Sizing.rows`. The variance of the binomial part is computed
        from p or p₀, respectively.

    Returns
    -------
    float
        The power.

    Examples
    --------
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
        raise InputError("the noisy count is not a finite number; give the number that was released")
    return count


def _lower_end(count: float, rows: int, scale: float, tail: float) -> float:
    """Return the p at which the probability of a noisy count of at least `count` is `tail`.

    The probability increases with p.
    """

    def excess(p: float) -> float:
        return float(BinomialLaplace(rows, p, scale).sf(count)) - tail

    # At p = 1, the noisy count is larger than any count of at most `rows` with probability ½ or more. Therefore the
    # function changes its sign.
    return 0.0 if excess(0.0) >= 0 else float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-12))


def _law(p: float, rows: int, epsilon: float | None, law: Law) -> NormalLaplace:
    one_of("law", law, get_args(Law))
    variance = p * (1 - p) / rows
    scale = 0.0 if epsilon is None else 1 / (positive("epsilon", epsilon) * rows)
    if law == "normal":
        return NormalLaplace(math.sqrt(variance + 2 * scale**2), 0.0, p)
    return NormalLaplace(math.sqrt(variance), scale, p)
