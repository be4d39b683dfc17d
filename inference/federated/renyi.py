"""The privacy cost of the Poisson-binomial mechanism: its Rényi divergence, and the θ for a given (ε, δ).

Each of n people reports Z ~ Binomial(m, ½ + θx/R) with x in [−R, R] and θ ≤ ¼, and only the sum is released. In a
neighbouring table, the x of one person is replaced, and n is public. The largest divergence of order α (see
docs/proofs/federated.md) is summed over a window, and a bound on the remainder is added. Therefore the results are
upper bounds with a relative accuracy of about 10⁻⁹.

The source is Chen, Özgür and Kairouz, arXiv:2207.09916, Theorem 3.3.

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

import scipy

from equistrata.errors import InputError
from equistrata.inference.federated.sum_law import law_of
from equistrata.privacy.budget import Rho
from equistrata.stats.checks import positive, whole
from equistrata.stats.checks import share as share_of_one

Curve = Callable[[float], float]

MAX_THETA = 0.25
# The relative amount by which the fast bound is rounded up, so that it is not below the exact divergence.
ROUNDING = 1e-9
FEW_PEOPLE, SOME_PEOPLE = 128, 1024  # below these limits blocks are long or short; above them they are single trials
LONG_BLOCK, SHORT_BLOCK = 64, 16  # the number of trials in a block


@dataclass(frozen=True)
class ThetaTarget:
    """The privacy guarantee for which θ is computed.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, with ε > 0 and 0 < δ < 1.
    orders : tuple of float, optional
        The orders of the conversion to (ε, δ). If None, the best order is used. The tables of the paper are reproduced
        with the orders 2, 3, …, 128.
    maximum : float, default=0.25
        The largest θ, in (0, ¼].
    unit_rows : int, default=1
        The number k of rows of a unit that are replaced together, at least 1. They may be in several groups. If k is
        larger than 1, the default order of the conversion is `gaussian_order`. See docs/proofs/federated.md.
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
    """Return the order at which Gaussian noise with this (ε, δ) is converted.

    This order is also about the best one for sums of many reports.
    """
    rho = float(Rho.from_epsilon_delta(epsilon, delta))
    return 1 + math.sqrt(math.log(1 / delta) / rho)


def renyi_exact(n: int, m: int, theta: float, order: float) -> float:
    """Compute the exact Rényi divergence for the report of one person, in nats.

    The computing time is proportional to m·√(nm).

    Parameters
    ----------
    n : int
        The public number of people, at least 1.
    m : int
        The number of trials of each person, at least 1.
    theta : float
        The parameter θ, in [0, ¼].
    order : float
        The order α, larger than 1.

    Returns
    -------
    float
        The divergence.

    References
    ----------
    The federated-experiments paper, Algorithms 3 and 4.

    Examples
    --------
    >>> round(renyi_exact(1, 3, 0.25, 2) / renyi_exact(1, 1, 0.25, 2), 9)  # alone: three independent coins
    3.0
    """
    law, order = law_of(*_check(n, m, theta)), _check_order(order)
    return law.divergence(order) if theta else 0.0


def renyi_fast(n: int, m: int, theta: float, order: float) -> float:
    """Compute an upper bound on `renyi_exact`, which is at most 1 % larger.

    For n up to 10⁷ and m up to 4,096, this takes a few milliseconds. The trials are replaced in blocks, by the data
    processing inequality. If there are at least 1,024 people, a block is a single trial (Algorithm 5 of the paper).
    Otherwise the blocks are longer. The parameters are those of `renyi_exact`.

    >>> round(renyi_fast(10**7, 4096, 0.25, 32), 6)
    0.008738
    """
    return _fast(*_check(n, m, theta))(_check_order(order))


def epsilon_of(curve: Curve, delta: float, orders: Sequence[float] | None = None) -> float:
    """Return the smallest ε ≥ 0 for which Rényi DP along `curve` implies (ε, δ)-DP.

    The result is ε = min over α of D_α + ln(1 − 1/α) − (ln δ + ln α)/(α − 1) (Canonne, Kamath and Steinke,
    arXiv:2004.00010, Proposition 12). Every α gives a valid ε.

    Parameters
    ----------
    curve : callable
        The Rényi divergence as a function of the order.
    delta : float
        The δ, in (0, 1).
    orders : sequence of float, optional
        The orders over which the minimum is computed. If None, it is computed over all orders larger than 1.

    Returns
    -------
    float
        The ε.

    Raises
    ------
    InputError
        If there are no orders, or if δ is not in (0, 1).
    """
    share_of_one("delta", delta)
    if orders is not None and not len(orders):
        raise InputError("a conversion to (epsilon, delta) needs at least one order")

    def at(order: float) -> float:
        return curve(order) + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    if orders is not None:
        listed = sorted(_check_order(order) for order in orders)
        # As a function of the order, ε decreases and then increases. The best order is the first one for which the next
        # order is not better.
        best = bisect_left(range(len(listed) - 1), True, key=lambda i: at(listed[i]) <= at(listed[i + 1]))
        return max(0.0, at(listed[best]))
    half = curve(2.0) / 2  # for Gaussian noise this is ρ, and the best order is about 1 + √(ln(1/δ)/ρ)
    if half <= 0:
        return 0.0
    centre = math.log(math.sqrt(math.log(1 / delta) / half)) if delta < 1 else 0.0
    found = scipy.optimize.minimize_scalar(
        lambda x: at(1 + math.exp(x)), bounds=(centre - 4, centre + 2), method="bounded", options={"xatol": 1e-5}
    )
    return max(0.0, float(found.fun))


def epsilon_spent(sums: Sequence[tuple[int, int, float]], delta: float, orders: Sequence[float] | None = None) -> float:
    """Return the ε of several sums of reports by the same people, under replace-one.

    If the people of the sums are disjoint, the cost is the largest ε of the sums, as long as a replaced person remains
    in the same group.

    Parameters
    ----------
    sums : sequence of (int, int, float)
        The values (n, m, θ) of each sum. The sums are composed.
    delta : float
        The δ, in (0, 1).
    orders : sequence of float, optional
        The orders of the conversion. If None, the best order is used.

    Returns
    -------
    float
        The ε.
    """
    curves = [_fast(*_check(n, m, theta)) for n, m, theta in sums]
    return epsilon_of(lambda order: sum(curve(order) for curve in curves), delta, orders)


def solve_theta(n: int, m: int, target: ThetaTarget, *, spent: Curve | None = None, share: float = 1.0) -> float:
    """Return the largest θ at which the sum of the reports of n people meets the target.

    Parameters
    ----------
    n, m : int
        The public number of people and the number of trials of each person, at least 1.
    target : ThetaTarget
        The (ε, δ) of all sums together, under replace-one.
    spent : callable, optional
        The divergence of other sums by the same people, as a function of the order. It is added to that of this sum.
    share : float, default=1.0
        The share of the total divergence for this sum. For example, 0.99 leaves 1 % at every order for another sum.

    Returns
    -------
    float
        The parameter θ, rounded down with a relative accuracy of 10⁻⁹.

    Raises
    ------
    InputError
        If a setting is out of its range, or if `spent` leaves no budget.
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
    root = float(scipy.optimize.brentq(excess, low, high, xtol=1e-10, rtol=1e-12))
    step = 1e-10
    while excess(root) > 0:
        root, step = root - step, step * 2
    return math.exp(root)


@lru_cache(maxsize=1024)
def solve_thetas(n: int, trials: tuple[int, int], target: ThetaTarget, mean_share: float = 0.99) -> tuple[float, float]:
    """Return θ for the mean and θ₂ for the second moment of the same n people, which meet the target together.

    The mean gets the share `mean_share` of the divergence at every order. The second moment gets the rest, or more if θ
    is the maximum of the target.

    Parameters
    ----------
    n : int
        The public number of people, at least 1.
    trials : tuple of two int
        The numbers m and m₂ of trials.
    target : ThetaTarget
        The (ε, δ) of both sums together.
    mean_share : float, default=0.99
        The share of the mean, in (0, 1).

    Returns
    -------
    tuple of two float
        The parameters θ and θ₂.

    Examples
    --------
    >>> theta, theta_squares = solve_thetas(500, (1024, 1024), ThetaTarget(1, 1e-6))
    >>> round(theta, 5), round(theta_squares, 5)
    (0.03824, 0.00386)
    """
    share_of_one("the mean's share of the budget", mean_share)
    theta = solve_theta(n, trials[0], target, share=mean_share)
    spent = _of_unit(index(n), index(trials[0]), theta, target.unit_rows)
    return theta, solve_theta(n, trials[1], target, spent=spent)


def _of_unit(n: int, m: int, theta: float, rows: int) -> Curve:
    """Return a bound for `rows` reports that are replaced together.

    Each is bounded as one report among n/`rows` people.
    """
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
        total = whole * law_of(n, block, theta).divergence(order)
        if rest:
            total += law_of(n, rest, theta).divergence(order)
        return total * (1 + ROUNDING)

    return curve


def _check(n: int, m: int, theta: float) -> tuple[int, int, float]:
    n, m = whole("n, the number of people,", n, 1), whole("m, the number of trials,", m, 1)
    if not 0 <= theta <= MAX_THETA:
        raise InputError(f"theta must lie in [0, 1/4], where the accounting holds, not {theta}")
    return n, m, float(theta)


def _check_order(order: float) -> float:
    if not 1 < order < math.inf:
        raise InputError(f"the order of a Renyi divergence must be a number above 1, not {order}")
    return float(order)
