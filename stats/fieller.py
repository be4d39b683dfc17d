"""An interval for a ratio of two noisy sums that stays honest when the denominator is nearly all noise.

A Wald interval divides by the denominator's estimate and fails where that may be zero. Fieller's asks instead which
ratios r fit: those for which X − rN lies within z standard deviations of 0. That needs no division, but where N cannot be
told from 0 the set of such r is unbounded or in two pieces. A mean or a count is not negative, and that puts it in one
piece again: a ratio that is refuted as too small refutes all smaller ones.

>>> [round(end, 3) for end in ratio_interval(500.0, 1000.0, Spread(900.0, 300.0, 400.0))]  # as Wald's
[0.448, 0.552]
>>> ratio_interval(50.0, -10.0, Spread(900.0, 0.0, 400.0))  # says nothing
(0.0, inf)
>>> [round(end, 2) for end in ratio_interval(90.0, 20.0, Spread(900.0, 0.0, 400.0))]  # says that it is not small
[0.98, inf]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from scipy.special import ndtri

from equistrata.errors import InputError

__all__ = ["Spread", "ratio_interval"]


@dataclass(frozen=True)
class Spread:
    """The variance of X − rN as a function of the ratio r: of_x − 2r·joint + r²·of_n, sampling and noise together.

    Attributes:
        of_x, joint, of_n: its coefficients. They need not be variances by themselves: a count A of N people at rate r has
            Var(A − rN) = N·r − N·r², which is of_x = 0, joint = −N/2, of_n = −N.
    """

    of_x: float
    joint: float
    of_n: float

    def at(self, ratio: float) -> float:
        """The variance at a ratio, at least 0."""
        return max(self.of_x - 2 * ratio * self.joint + ratio**2 * self.of_n, 0.0)

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.of_x + other.of_x, self.joint + other.joint, self.of_n + other.of_n)


def ratio_interval(
    x: float,
    n: float,
    spread: Spread,
    *,
    level: float = 0.95,
    lower: float = 0.0,
    upper: float = math.inf,
) -> tuple[float, float]:
    """An interval for r = E[X]/E[N], where E[N] is known to be positive.

    Args:
        x, n: what was observed: E[X] and E[N] plus sampling error and noise, nearly normal.
        spread: the variance of x − r·n, at the r that is asked about.
        level: nominal coverage, in (0, 1).
        lower, upper: what r is known to lie in; `upper` may be infinite.

    Returns:
        (least, greatest), within [lower, upper]: all of it where the observations say nothing. r is above `least` if no
        r' ≥ r is refuted as too small (x − r'n > z·√V(r')), and below `greatest` if none r' ≤ r is refuted as too large.

    Raises:
        InputError: a level that is not in (0, 1), or bounds that do not ascend.

    Coverage. The true r is refuted with probability 1 − level in all, half on either side. Because E[N] > 0, E[X] − r'E[N]
    is negative for every r' > r, so refuting such an r' as too small is an error as well; these errors are what the one
    piece costs. (x − r'n)/√V(r') runs over the projections of a bivariate normal vector along an arc of directions; where
    n is all noise, an arc of angle θ makes a one-sided error at most 2.5 % + θ/(2π)·e^(−z²/2), so both sides together miss with
    at most 5 % + 14.7 %·θ/(2π) at level 0.95, where cos θ = −corr of the noise of x and n for all positive ratios: 8.7 %
    where they are independent, 9.9 % for `RatioSums`. Where n stands out of its noise, the set is Fieller's: 5 %.

    Privacy: post-processing. Source: Fieller (1954), Some problems in interval estimation; the arc's bound is that of a
    maximum over a curve (Naiman 1986, Conservative confidence bands in curvilinear regression).
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}, but a coverage lies strictly between 0 and 1; correct it")
    if not (math.isfinite(lower) and lower < upper):
        raise InputError(f"a ratio's bounds [{lower}, {upper}] must ascend from a finite number; correct them")
    z2 = float(ndtri((1 + level) / 2)) ** 2
    least, greatest = lower, upper
    # (x − rn)² − z²V(r) is positive where r is refuted. Between its roots it has one sign, and so has x − rn where it is.
    roots = _roots(n**2 - z2 * spread.of_n, -2 * (x * n - z2 * spread.joint), x**2 - z2 * spread.of_x)
    edges = [lower, *(r for r in roots if lower < r < upper), upper]
    for left, right in pairwise(edges):
        middle = _between(left, right)
        difference = x - middle * n
        if difference**2 > z2 * spread.at(middle):
            if difference > 0:
                least = right
            else:
                greatest = min(greatest, left)
    if least < greatest:
        return least, greatest
    return _at_an_end(x, n, spread, math.sqrt(z2), least, greatest, lower, upper)


def _at_an_end(
    x: float, n: float, spread: Spread, z: float, least: float, greatest: float, lower: float, upper: float
) -> tuple[float, float]:
    """Every ratio is refuted. If all are too large (or all too small), the end that is nearest with its own error; if
    they contradict each other, everything."""
    if n > 0 and greatest <= lower and least <= lower:
        return lower, min(upper, lower + z * math.sqrt(spread.at(lower)) / n)
    if n > 0 and math.isfinite(upper) and least >= upper and greatest >= upper:
        return max(lower, upper - z * math.sqrt(spread.at(upper)) / n), upper
    return lower, upper


def _between(left: float, right: float) -> float:
    """A number in the middle, or beyond the last root where the right end is infinite."""
    return (left + right) / 2 if math.isfinite(right) else 2 * abs(left) + 1


def _roots(a: float, b: float, c: float) -> list[float]:
    """The real roots of a·r² + b·r + c, ascending, by the formula that does not cancel."""
    if a == 0:
        return [] if b == 0 else [-c / b]
    inside = b**2 - 4 * a * c
    if inside < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inside), b)) / 2
    return sorted([q / a, c / q] if q else [0.0, 0.0])
