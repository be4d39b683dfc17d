"""The distribution of the sum of the reports of n people, and its Rényi divergence if one report is replaced.

The divergence is summed over a window, and a bound on the remainder is added (see docs/proofs/federated.md). Therefore
it is an upper bound with a relative accuracy of about 10⁻⁹.

>>> round(law_of(100, 64, 0.25).divergence(2), 4)
0.8649
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats

NEGLIGIBLE = 1e-13  # the largest share of the divergence that may be outside of the window
CELLS_AT_ONCE = 1 << 21  # the largest number of elements of an array in memory
_LARGE = 1e300


class SumLaw:
    """The distribution Binom(nm, ½ − θ) on a window, with its log ratio to the distribution for the neighbouring table.

    The window of z is made wider if necessary.
    """

    def __init__(self, n: int, m: int, theta: float) -> None:
        self.n, self.m, self.total, self.theta = n, m, n * m, theta
        self.p = 0.5 - theta
        self.log_odds = 2 * math.atanh(2 * theta)  # log r with r = (½ + θ)/(½ − θ)
        self.low, self.high = 0, -1  # the window is empty at first
        self.log_p = self.log_ratio = np.empty(0)

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence D_α, with a bound on the part outside of the window."""
        deviation = math.sqrt(self.total * self.p * (1 - self.p))
        shift = 2 * self.theta * self.m
        left, right = (order - 1) * shift + 12 * deviation + 2, 2 * shift + 12 * deviation + 2
        while True:
            self._widen(math.floor(self.total * self.p - left), math.ceil(self.total * self.p + right))
            inside = float(_log_sum(self.log_p + _log_excess(self.log_ratio, order))[0])
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
        self.log_p = np.asarray(scipy.stats.binom.logpmf(z, self.total, self.p), dtype=np.float64)
        self.log_ratio = self._ratio(z)

    def _ratio(self, z: npt.NDArray[np.int64]) -> Floats:
        """Return log E[r^(2K − m)], where K has a hypergeometric distribution.

        In this distribution, m of nm trials are replaced, and z of the nm trials are successes.
        """
        if self.m == 1:  # the ratio is linear in z
            slope = 2 * self.theta / (0.25 - self.theta**2)  # r − 1/r
            return np.log1p((z / self.total - self.p) * slope)
        rows = max(1, CELLS_AT_ONCE // (self.m + 1))
        return np.concatenate([self._ratio_block(z[i : i + rows]) for i in range(0, len(z), rows)])

    def _ratio_block(self, z: npt.NDArray[np.int64]) -> Floats:
        # The function hypergeom of scipy is not used, because its logarithms have errors of 10⁻¹⁰ here.
        k, z = np.arange(self.m), z[:, None]
        least = np.maximum(0, self.m - (self.total - z))  # K is at least this
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log((self.m - k) / (k + 1)) + np.log(
                np.maximum(z - k, 0) / (self.total - self.m - z + k + 1)
            )  # log P(K = k + 1) − log P(K = k)
        log_weight = np.zeros((len(z), self.m + 1))
        np.cumsum(np.where(k < least, 0.0, steps), axis=1, out=log_weight[:, 1:])
        log_weight[np.arange(self.m + 1) < least] = -np.inf
        log_weight -= _log_sum(log_weight)
        gain = (2 * np.arange(self.m + 1) - self.m) * self.log_odds
        ratio = _log_sum(log_weight + gain)[:, 0]
        near = np.abs(ratio) < 0.5  # here the difference from 1 is computed directly, so that no digits are lost
        weight = np.exp(log_weight[near])
        moved = np.exp(log_weight[near] + gain) - weight
        ratio[near] = np.log1p(np.where(np.abs(gain) < 1, weight * np.expm1(np.minimum(gain, 1)), moved).sum(axis=1))
        return ratio

    def _below(self, order: float) -> float:
        """Return the log of a bound on the sum below the window, which is a geometric series.

        See docs/proofs/federated.md.
        """
        if self.low == 0:
            return -math.inf
        above = self.total - self.low + 1
        growth = math.log(self.low * (1 - self.p) / (above * self.p))
        growth += (order - 1) * math.log1p(math.expm1(2 * self.log_odds) * self.m / above)
        if growth >= 0 or self.log_ratio[0] >= 0:
            return math.inf
        return float(self.log_p[0] + (1 - order) * self.log_ratio[0] + growth - math.log(-math.expm1(growth)))

    def _above(self, order: float) -> float:
        """Return the log of a bound on the sum above the window. A term is at most (α − 1)·P·ratio."""
        if self.high == self.total:
            return -math.inf
        left = self.total - self.high
        growth = math.log(left * self.p / ((self.high + 1) * (1 - self.p)))
        growth += math.log1p(math.expm1(2 * self.log_odds) * self.m / left)
        if growth >= 0 or self.log_ratio[-1] <= 0:
            return math.inf
        return float(math.log(order - 1) + self.log_p[-1] + self.log_ratio[-1] + growth - math.log(-math.expm1(growth)))


law_of = lru_cache(maxsize=32)(SumLaw)


def _log_sum(terms: Floats) -> Floats:
    """Return the logarithm of the sum of exponentials along the last axis, which is kept.

    It is twice as fast as scipy.
    """
    most = np.maximum(terms.max(axis=-1, keepdims=True), -_LARGE)  # finite, even if all terms are −∞
    with np.errstate(divide="ignore"):
        return np.asarray(most + np.log(np.exp(terms - most).sum(axis=-1, keepdims=True)))


def _log_excess(u: Floats, order: float) -> Floats:
    """Return log(e^((1−α)u) − 1 − (1−α)(e^u − 1)). Before the log, the function is convex in e^u and is 0 at u = 0."""
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
