"""Fieller intervals for a ratio of two noisy sums, which are valid even if the denominator is below the noise floor.

A Wald interval divides by the estimated denominator, so it fails if the denominator may be zero. Fieller's interval
contains all ratios r for which X − rN is within z standard deviations of 0. If N may be 0, this set is unbounded or
consists of two pieces. Means and counts are nonnegative, so if a ratio is rejected because it is too small, then all
smaller ratios are rejected as well. This leaves a single interval.

>>> [round(end, 3) for end in ratio_interval(500.0, 1000.0, Spread(900.0, 300.0, 400.0))]  # as Wald's
[0.448, 0.552]
>>> ratio_interval(50.0, -10.0, Spread(900.0, 0.0, 400.0))  # no information
(0.0, inf)
>>> [round(end, 2) for end in ratio_interval(90.0, 20.0, Spread(900.0, 0.0, 400.0))]  # not small
[0.98, inf]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import scipy

from equistrata.errors import InputError
from equistrata.stats.checks import share


@dataclass(frozen=True)
class Spread:
    """The variance of X − rN as a function of the ratio r, including sampling and noise.

    The variance is of_x − 2r·joint + r²·of_n. The coefficients do not have to be variances themselves. For example, a
    count A of N people with rate r has Var(A − rN) = N·r − N·r². In this case, of_x = 0, joint = −N/2 and of_n = −N.

    Attributes
    ----------
    of_x : float
        The constant coefficient.
    joint : float
        The coefficient of −2r.
    of_n : float
        The coefficient of r².
    """

    of_x: float
    joint: float
    of_n: float

    def at(self, ratio: float) -> float:
        """Return the variance at a ratio, which is at least 0."""
        return max(self.of_x - 2 * ratio * self.joint + ratio**2 * self.of_n, 0.0)

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.of_x + other.of_x, self.joint + other.joint, self.of_n + other.of_n)

    def times(self, factor: float) -> Spread:
        """Multiply the variance by a factor."""
        return Spread(factor * self.of_x, factor * self.joint, factor * self.of_n)


def ratio_interval(
    x: float, n: float, spread: Spread, *, level: float = 0.95, lower: float = 0.0, upper: float = math.inf
) -> tuple[float, float]:
    """Compute an interval for the ratio r = E[X]/E[N], where E[N] is known to be positive.

    This is post-processing, so it costs no privacy.

    Parameters
    ----------
    x, n : float
        Approximately normal observations of E[X] and E[N].
    spread : Spread
        The variance of x − r·n.
    level : float
        The nominal coverage, in (0, 1).
    lower, upper : float
        The declared range of r. `upper` can be infinite.

    Returns
    -------
    tuple of float
        The ends of the interval, within [lower, upper]. The ratio r is above the lower end if no r' ≥ r is rejected
        because it is too small (x − r'n > z·√V(r')). It is below the upper end if no r' ≤ r is rejected because it is
        too large. If N consists only of noise, the error rate at level 0.95 increases from 5 % to at most 9.9 % (see
        docs/proofs/ratio.md).

    Raises
    ------
    InputError
        If the level is not in (0, 1), if `lower` is not finite, or if it is not less than `upper`.

    References
    ----------
    .. [1] Fieller (1954), Some problems in interval estimation.
    """
    share("level", level)
    if not (math.isfinite(lower) and lower < upper):
        raise InputError(f"a ratio's bounds [{lower}, {upper}] must ascend from a finite number; correct them")
    z2 = float(scipy.special.ndtri((1 + level) / 2)) ** 2
    least, greatest = lower, upper
    # (x − rn)² − z²V(r) is positive if r is rejected. Its sign and the sign of x − rn only change at its roots.
    # The roots are computed relative to the estimate, if there is one, to avoid cancellation.
    about = x / n if n and lower < x / n < upper else 0.0
    rest, joint = x - about * n if about == 0.0 else 0.0, spread.joint - about * spread.of_n
    square = spread.of_x - 2 * about * spread.joint + about**2 * spread.of_n
    roots = _roots(n**2 - z2 * spread.of_n, -2 * (rest * n - z2 * joint), rest**2 - z2 * square)
    edges = [lower, *(about + r for r in roots if lower < about + r < upper), upper]
    for left, right in pairwise(edges):
        middle = (left + right) / 2 if math.isfinite(right) else 2 * abs(left) + 1  # or after the last root
        difference = x - middle * n
        if difference**2 > z2 * spread.at(middle):
            if difference > 0:
                least = right
            else:
                greatest = min(greatest, left)
    if least < greatest:
        return least, greatest
    # All ratios are rejected. Return the nearer end with its error, or the whole range if the rejections contradict.
    if n > 0 and greatest <= lower and least <= lower:
        return lower, min(upper, lower + math.sqrt(z2) * math.sqrt(spread.at(lower)) / n)
    if n > 0 and math.isfinite(upper) and least >= upper and greatest >= upper:
        return max(lower, upper - math.sqrt(z2) * math.sqrt(spread.at(upper)) / n), upper
    return lower, upper


def unbounded_limits(x: float, n: float, spread: Spread, level: float = 0.95) -> tuple[float, float] | None:
    """Compute Fieller's limits without restricting them to the possible ratios.

    If a limit is cut off at the end of the range, it no longer shows the size of the error. Therefore, the difference
    between two ratios is computed from these limits.

    Parameters
    ----------
    x, n : float
        Approximately normal observations of E[X] and E[N].
    spread : Spread
        The variance of x − r·n.
    level : float
        The nominal coverage, in (0, 1).

    Returns
    -------
    tuple of float or None
        The two limits. None if E[N] may be 0 at this level.

    Examples
    --------
    >>> [round(end, 3) for end in unbounded_limits(10.0, 1000.0, Spread(900.0, 0.0, 400.0))]
    [-0.049, 0.069]
    >>> unbounded_limits(10.0, 30.0, Spread(900.0, 0.0, 400.0)) is None
    True
    """
    z2 = float(scipy.special.ndtri((1 + level) / 2)) ** 2
    about = x / n if n else 0.0
    square = n**2 - z2 * spread.of_n
    if n <= 0 or square <= 0:
        return None
    # The difference r from the estimate solves square·r² + 2·joint·r = z²·V(estimate), which avoids cancellation.
    joint = z2 * (spread.joint - about * spread.of_n)
    root = math.sqrt(max(joint**2 + square * z2 * spread.at(about), 0.0))
    return about - (joint + root) / square, about - (joint - root) / square


def _roots(a: float, b: float, c: float) -> list[float]:
    if a == 0:
        return [] if b == 0 else [-c / b]
    inside = b**2 - 4 * a * c
    if inside < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inside), b)) / 2
    return sorted([q / a, c / q] if q else [0.0, 0.0])
