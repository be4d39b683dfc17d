"""An interval for a ratio of two noisy sums that holds even when the denominator is below the noise floor.

A Wald interval divides by the denominator's estimate and fails where that may be zero. Fieller's holds the ratios r for
which X − rN lies within z standard deviations of 0. Where N may be 0 that set is unbounded or in two pieces; since a
mean or a count is not negative, a ratio that is refuted as too small refutes all smaller ones, which leaves one piece.

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
    """The variance of X − rN as a function of the ratio r: of_x − 2r·joint + r²·of_n, sampling and noise together.

    The coefficients are not always variances themselves: a count A of N people at rate r has Var(A − rN) = N·r − N·r²,
    which is of_x = 0, joint = −N/2, of_n = −N.
    """

    of_x: float
    joint: float
    of_n: float

    def at(self, ratio: float) -> float:
        """The variance at a ratio, at least 0."""
        return max(self.of_x - 2 * ratio * self.joint + ratio**2 * self.of_n, 0.0)

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.of_x + other.of_x, self.joint + other.joint, self.of_n + other.of_n)

    def times(self, factor: float) -> Spread:
        """So many times the variance, at every ratio."""
        return Spread(factor * self.of_x, factor * self.joint, factor * self.of_n)


def ratio_interval(
    x: float, n: float, spread: Spread, *, level: float = 0.95, lower: float = 0.0, upper: float = math.inf
) -> tuple[float, float]:
    """An interval for r = E[X]/E[N], where E[N] is known to be positive. Post-processing.

    Args:
        x, n, spread: observations of E[X] and E[N], nearly normal, and the variance of x − r·n.
        level: nominal coverage, in (0, 1).
        lower, upper: the declared range of r; `upper` may be infinite.

    Returns:
        (least, greatest), within [lower, upper]. r is above `least` if no r' ≥ r is refuted as too small
        (x − r'n > z·√V(r')), and below `greatest` if no r' ≤ r is refuted as too large. Where N is all noise, misses at
        level 0.95 rise from 5 % to at most 9.9 %. See docs/proofs/ratio.md.

    Raises InputError for a level out of its range, or bounds that do not ascend from a finite number.

    Source: Fieller (1954), Some problems in interval estimation.
    """
    share("level", level)
    if not (math.isfinite(lower) and lower < upper):
        raise InputError(f"a ratio's bounds [{lower}, {upper}] must ascend from a finite number; correct them")
    z2 = float(scipy.special.ndtri((1 + level) / 2)) ** 2
    least, greatest = lower, upper
    # (x − rn)² − z²V(r) is positive where r is refuted. Its sign, and that of x − rn, changes only at its roots. About
    # the estimate, where there is one, no large numbers cancel.
    about = x / n if n and lower < x / n < upper else 0.0
    rest, joint = x - about * n if about == 0.0 else 0.0, spread.joint - about * spread.of_n
    square = spread.of_x - 2 * about * spread.joint + about**2 * spread.of_n
    roots = _roots(n**2 - z2 * spread.of_n, -2 * (rest * n - z2 * joint), rest**2 - z2 * square)
    edges = [lower, *(about + r for r in roots if lower < about + r < upper), upper]
    for left, right in pairwise(edges):
        middle = (left + right) / 2 if math.isfinite(right) else 2 * abs(left) + 1  # or beyond the last root
        difference = x - middle * n
        if difference**2 > z2 * spread.at(middle):
            if difference > 0:
                least = right
            else:
                greatest = min(greatest, left)
    if least < greatest:
        return least, greatest
    # Every ratio is refuted: the nearer end with its own error, or everything where the refutations contradict.
    if n > 0 and greatest <= lower and least <= lower:
        return lower, min(upper, lower + math.sqrt(z2) * math.sqrt(spread.at(lower)) / n)
    if n > 0 and math.isfinite(upper) and least >= upper and greatest >= upper:
        return max(lower, upper - math.sqrt(z2) * math.sqrt(spread.at(upper)) / n), upper
    return lower, upper


def unbounded_limits(x: float, n: float, spread: Spread, level: float = 0.95) -> tuple[float, float] | None:
    """Fieller's two limits, also where a ratio could not be as they are; None where E[N] may be 0 at this level.

    A limit that is cut off where ratios end says no longer how large the error is: a difference of two ratios is made
    of these. Arguments as for `ratio_interval`.

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
    # For what r is beyond the estimate: square·r² + 2·joint·r = z²·V(estimate). No large numbers cancel.
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
