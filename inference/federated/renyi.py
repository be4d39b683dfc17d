"""The cost of the Poisson-binomial mechanism: Rényi divergence, exact and fast, and the θ that an (ε, δ) allows.

n people each report Z ~ Binomial(m, ½ + θx/R), x in [−R, R], θ ≤ ¼, and only the sum is released. Neighbouring tables:
replace one person's x; n is public. The largest divergence of order α (docs/proofs/federated.md) is summed over a
window with a bound on the rest, so results are upper bounds to about one part in 10⁹.

Source: Chen, Özgür and Kairouz, arXiv:2207.09916, Theorem 3.3.

>>> exact, fast = renyi_exact(100, 64, 0.25, 2), renyi_fast(100, 64, 0.25, 2)
>>> round(exact, 4), round(fast / exact - 1, 4)
(0.8649, 0.0)
>>> round(solve_theta(500, 1024, ThetaTarget(epsilon=1, delta=1e-6)), 5)
0.03843
>>> round(epsilon_spent([(500, 1024, 0.0386)], delta=1e-6), 3)
1.005
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import binom

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.stats.checks import positive, whole
from equistrata.stats.checks import share as share_of_one

Curve = Callable[[float], float]

MAX_THETA = 0.25
ROUNDING = 1e-9  # relative: the fast bound is rounded up by it, so that it is never below the exact divergence
NEGLIGIBLE = 1e-13  # of the divergence: the part that may lie outside the window
CELLS_AT_ONCE = 1 << 21  # of an array in memory
FEW_PEOPLE, SOME_PEOPLE = 128, 1024  # limits below which blocks are long or short; single trials from there
LONG_BLOCK, SHORT_BLOCK = 64, 16  # trials


@dataclass(frozen=True)
class ThetaTarget:
    """The guarantee that θ is solved for.

    Attributes:
        epsilon, delta: ε > 0 and 0 < δ < 1.
        orders: the orders of the conversion to (ε, δ); None for the best one. The paper's tables fit 2, 3, …, 128.
        maximum: the largest θ, in (0, ¼].
        unit_rows: rows of a unit that are replaced together, k ≥ 1. They may be in several groups; the conversion then
            has one order, `gaussian_order`. See docs/proofs/federated.md.
    """

    epsilon: float
    delta: float
    orders: tuple[float, ...] | None = None
    maximum: float = MAX_THETA
    unit_rows: int = 1

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        share_of_one("delta", self.delta)
        whole("the number of rows of a unit", self.unit_rows, 1)
        if self.unit_rows > 1 and self.orders is None:
            object.__setattr__(self, "orders", (gaussian_order(self.epsilon, self.delta),))
        if not 0 < self.maximum <= MAX_THETA:
            raise InputError(f"the largest theta must lie in (0, 1/4], where the accounting holds, not {self.maximum}")


def gaussian_order(epsilon: float, delta: float) -> float:
    """The order at which Gaussian noise of this (ε, δ) is converted, about the best for sums of many reports, too."""
    rho = float(Rho.from_epsilon_delta(epsilon, delta))
    return 1 + math.sqrt(math.log(1 / delta) / rho)


def renyi_exact(n: int, m: int, theta: float, order: float) -> float:
    """The Rényi divergence that one person's report costs, exact, in nats. Takes time proportional to m·√(nm).

    n people, public, make m trials each, both at least 1; θ in [0, ¼]; the order α is above 1.

    Source: the federated-experiments paper, Algorithms 3 and 4.

    >>> round(renyi_exact(1, 3, 0.25, 2) / renyi_exact(1, 1, 0.25, 2), 9)  # alone: three independent coins
    3.0
    """
    law, order = _law(*_check(n, m, theta)), _check_order(order)
    return law.divergence(order) if theta else 0.0


def renyi_fast(n: int, m: int, theta: float, order: float) -> float:
    """A bound on `renyi_exact`, never below it and within 1 % of it, for n to 10⁷ and m to 4,096 in milliseconds.

    Trials move block by block (data processing inequality): single ones (the paper's Algorithm 5) from 1,024 people on,
    else longer blocks. Arguments: as `renyi_exact`.

    >>> round(renyi_fast(10**7, 4096, 0.25, 32), 6)
    0.008738
    """
    return _fast(*_check(n, m, theta))(_check_order(order))


def epsilon_of(curve: Curve, delta: float, orders: Sequence[float] | None = None) -> float:
    """The least ε for which Rényi DP along `curve` implies (ε, δ)-DP; at least 0.

    ε = min over α of D_α + ln(1 − 1/α) − (ln δ + ln α)/(α − 1) (Canonne, Kamath and Steinke, arXiv:2004.00010,
    Proposition 12), over all α > 1 or over `orders`. Every α gives a valid ε.
    """
    share_of_one("delta", delta)
    if orders is not None and not len(orders):
        raise InputError("a conversion to (epsilon, delta) needs at least one order")

    def at(order: float) -> float:
        return curve(order) + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    if orders is not None:
        listed = sorted(_check_order(order) for order in orders)
        # ε falls and then rises along the orders: from the best one on, the next is no better.
        best = bisect_left(range(len(listed) - 1), True, key=lambda i: at(listed[i]) <= at(listed[i + 1]))
        return max(0.0, at(listed[best]))
    half = curve(2.0) / 2  # as for a Gaussian, whose best order is about 1 + √(ln(1/δ)/ρ)
    if half <= 0:
        return 0.0
    centre = math.log(math.sqrt(math.log(1 / delta) / half)) if delta < 1 else 0.0
    found = minimize_scalar(
        lambda x: at(1 + math.exp(x)), bounds=(centre - 4, centre + 2), method="bounded", options={"xatol": 1e-5}
    )
    return max(0.0, float(found.fun))


def epsilon_spent(sums: Sequence[tuple[int, int, float]], delta: float, orders: Sequence[float] | None = None) -> float:
    """The ε of several sums of reports by the same people, (n, m, θ) each, composed. Replace-one.

    Sums over disjoint groups of people cost the largest of their ε, if a replaced person stays in the group.
    """
    curves = [_fast(*_check(n, m, theta)) for n, m, theta in sums]
    return epsilon_of(lambda order: sum(curve(order) for curve in curves), delta, orders)


def solve_theta(n: int, m: int, target: ThetaTarget, *, spent: Curve | None = None, share: float = 1.0) -> float:
    """The largest θ at which the sum of n people's reports meets the target, rounded down to one part in 10⁹.

    Args:
        n, m: people and trials of each, at least 1. Public.
        target: (ε, δ) of all sums together, replace-one.
        spent: the divergence of other sums by the same people, by order; it is composed with.
        share: the part of the total divergence that this sum may have; 0.99 leaves 1 % at every order to another sum.

    Raises:
        InputError: a setting out of its range, or `spent` leaves nothing.
    """
    n, m, _ = _check(n, m, 0.0)
    _ = _check(n // target.unit_rows, m, 0.0)
    if not 0 < share <= 1:
        raise InputError(f"the share of the budget must lie in (0, 1], not {share}")

    def excess(log_theta: float) -> float:
        curve = _of_unit(n, m, math.exp(log_theta), target.unit_rows)
        total = curve if spent is None else (lambda order: share * spent(order) + curve(order))
        return epsilon_of(lambda order: total(order) / share, target.delta, target.orders) - target.epsilon

    high = math.log(target.maximum)
    if excess(high) <= 0:
        return float(target.maximum)
    low = high - 1.0
    while excess(low) > 0:
        low -= 2.0
        if low < -60:
            raise InputError(f"no theta gives epsilon = {target.epsilon} at delta = {target.delta}; raise one of them")
    root = float(brentq(excess, low, high, xtol=1e-10, rtol=1e-12))
    step = 1e-10
    while excess(root) > 0:
        root, step = root - step, step * 2
    return math.exp(root)


@lru_cache(maxsize=1024)
def solve_thetas(n: int, trials: tuple[int, int], target: ThetaTarget, mean_share: float = 0.99) -> tuple[float, float]:
    """θ for the mean and θ₂ for the second moment of the same n people, which together meet the target.

    The mean gets `mean_share` of the divergence at every order, in (0, 1); the second moment the rest, or more if θ
    reaches the target's maximum. `trials` are m and m₂.

    >>> theta, theta_squares = solve_thetas(500, (1024, 1024), ThetaTarget(1, 1e-6))
    >>> round(theta, 5), round(theta_squares, 5)
    (0.03824, 0.00386)
    """
    share_of_one("the mean's share of the budget", mean_share)
    theta = solve_theta(n, trials[0], target, share=mean_share)
    spent = _of_unit(index(n), index(trials[0]), theta, target.unit_rows)
    return theta, solve_theta(n, trials[1], target, spent=spent)


def _of_unit(n: int, m: int, theta: float, rows: int) -> Curve:
    """A bound for `rows` reports that are replaced together: each as one among n/`rows` people."""
    each = _fast(n // rows, m, theta)
    return each if rows == 1 else lambda order: rows * each(order)


@lru_cache(maxsize=512)
def _fast(n: int, m: int, theta: float) -> Curve:
    if not theta:
        return lambda order: 0.0
    block = min(m, LONG_BLOCK if n < FEW_PEOPLE else SHORT_BLOCK if n < SOME_PEOPLE else 1)
    whole, rest = divmod(m, block)

    @lru_cache(maxsize=256)
    def curve(order: float) -> float:
        total = whole * _law(n, block, theta).divergence(order)
        if rest:
            total += _law(n, rest, theta).divergence(order)
        return total * (1 + ROUNDING)

    return curve


class _Law:
    """Binom(nm, ½ − θ) on a window of z that widens as needed, with the log ratio to its neighbour's distribution."""

    def __init__(self, n: int, m: int, theta: float) -> None:
        self.n, self.m, self.total, self.theta = n, m, n * m, theta
        self.p = 0.5 - theta
        self.log_odds = 2 * math.atanh(2 * theta)  # log r, r = (½ + θ)/(½ − θ)
        self.low, self.high = 0, -1  # no window yet
        self.log_p = self.log_ratio = np.empty(0)

    def divergence(self, order: float) -> float:
        """D_α, with a bound on the part outside the window added."""
        deviation = math.sqrt(self.total * self.p * (1 - self.p))
        shift = 2 * self.theta * self.m
        left, right = (order - 1) * shift + 12 * deviation + 2, 2 * shift + 12 * deviation + 2
        while True:
            self._widen(math.floor(self.total * self.p - left), math.ceil(self.total * self.p + right))
            inside = float(logsumexp(self.log_p + _log_excess(self.log_ratio, order)))
            below, above = self._below(order), self._above(order)
            limit = inside + math.log(NEGLIGIBLE)
            if below <= limit and above <= limit:
                break
            left, right = left * (1 if below <= limit else 1.5), right * (1 if above <= limit else 1.5)
        log_excess = float(np.logaddexp(inside, np.logaddexp(below, above)))
        grown = math.log1p(math.exp(log_excess)) if log_excess < 0 else float(np.logaddexp(0.0, log_excess))
        return grown / (order - 1)

    def _widen(self, low: int, high: int) -> None:
        low, high = max(low, 0), min(high, self.total)
        if self.low <= low and high <= self.high:
            return
        self.low, self.high = (low, high) if self.high < 0 else (min(low, self.low), max(high, self.high))
        z = np.arange(self.low, self.high + 1)
        self.log_p = np.asarray(binom.logpmf(z, self.total, self.p), dtype=np.float64)
        self.log_ratio = self._ratio(z)

    def _ratio(self, z: npt.NDArray[np.int64]) -> Floats:
        """log E[r^(2K − m)], K hypergeometric: m of nm trials moved, z of them successes."""
        if self.m == 1:  # linear in z
            slope = 2 * self.theta / (0.25 - self.theta**2)  # r − 1/r
            return np.log1p((z / self.total - self.p) * slope)
        rows = max(1, CELLS_AT_ONCE // (self.m + 1))
        return np.concatenate([self._ratio_block(z[i : i + rows]) for i in range(0, len(z), rows)])

    def _ratio_block(self, z: npt.NDArray[np.int64]) -> Floats:
        # Not scipy's hypergeom: its logarithms are wrong by 10⁻¹⁰ here.
        k, z = np.arange(self.m), z[:, None]
        least = np.maximum(0, self.m - (self.total - z))  # K is at least this
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log((self.m - k) / (k + 1)) + np.log(
                np.maximum(z - k, 0) / (self.total - self.m - z + k + 1)
            )  # log P(K = k + 1) − log P(K = k)
        steps = np.where(k < least, 0.0, steps)
        log_weight = np.concatenate([np.zeros(z.shape), np.cumsum(steps, axis=1)], axis=1)
        log_weight[np.arange(self.m + 1) < least] = -np.inf
        log_weight -= logsumexp(log_weight, axis=1, keepdims=True)
        gain = (2 * np.arange(self.m + 1) - self.m) * self.log_odds
        ratio = np.asarray(logsumexp(log_weight + gain, axis=1), dtype=np.float64)
        near = np.abs(ratio) < 0.5  # there, a difference from 1 that keeps its digits
        weight = np.exp(log_weight[near])
        moved = np.exp(log_weight[near] + gain) - weight
        ratio[near] = np.log1p(np.where(np.abs(gain) < 1, weight * np.expm1(np.minimum(gain, 1)), moved).sum(axis=1))
        return ratio

    def _below(self, order: float) -> float:
        """The log of a bound on the sum below the window: a geometric series. See docs/proofs/federated.md."""
        if self.low == 0:
            return -math.inf
        above = self.total - self.low + 1
        growth = math.log(self.low * (1 - self.p) / (above * self.p))
        growth += (order - 1) * math.log1p(math.expm1(2 * self.log_odds) * self.m / above)
        if growth >= 0 or self.log_ratio[0] >= 0:
            return math.inf
        return float(self.log_p[0] + (1 - order) * self.log_ratio[0] + growth - math.log(-math.expm1(growth)))

    def _above(self, order: float) -> float:
        """The log of a bound on the sum above the window, likewise: a term is at most (α − 1)·P·ratio."""
        if self.high == self.total:
            return -math.inf
        left = self.total - self.high
        growth = math.log(left * self.p / ((self.high + 1) * (1 - self.p)))
        growth += math.log1p(math.expm1(2 * self.log_odds) * self.m / left)
        if growth >= 0 or self.log_ratio[-1] <= 0:
            return math.inf
        return float(math.log(order - 1) + self.log_p[-1] + self.log_ratio[-1] + growth - math.log(-math.expm1(growth)))


_law = lru_cache(maxsize=32)(_Law)


def _log_excess(u: Floats, order: float) -> Floats:
    """log(e^((1−α)u) − 1 − (1−α)(e^u − 1)), which is convex in e^u and touches 0 at u = 0, before the log."""
    b = 1 - order
    a = b * u
    result = np.empty_like(u)
    small = np.abs(u) * max(order, 1.0) < 1e-2
    far_left, far_right = (a > 1) & ~small, (u > 30) & ~small
    middle = ~(small | far_left | far_right)
    with np.errstate(divide="ignore"):
        v = u[small]
        result[small] = np.log(sum(v**j * ((b**j - b) / math.factorial(j)) for j in range(2, 8)))
        v = u[middle]
        result[middle] = np.log(np.expm1(b * v) - b * np.expm1(v))
        v = u[far_left]
        result[far_left] = b * v + np.log1p(-np.exp(-b * v) * (1 + b * np.expm1(v)))
        result[far_right] = u[far_right] + math.log(-b)
    return result


def _check(n: int, m: int, theta: float) -> tuple[int, int, float]:
    n, m = whole("n, the number of people,", n, 1), whole("m, the number of trials,", m, 1)
    if not 0 <= theta <= MAX_THETA:
        raise InputError(f"theta must lie in [0, 1/4], not {theta}; beyond it the accounting does not hold")
    return n, m, float(theta)


def _check_order(order: float) -> float:
    if not 1 < order < math.inf:
        raise InputError(f"the order of a Renyi divergence must be a number above 1, not {order}")
    return float(order)
