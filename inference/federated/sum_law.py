"""The law of a sum of n people's reports, and its Rényi divergence from the sum in which one report is another.

The divergence is summed over a window, with a bound on what is outside of it (docs/proofs/federated.md), so it is an
upper bound to about one part in 10⁹.

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

NEGLIGIBLE = 1e-13  # of the divergence: the part that may lie outside the window
CELLS_AT_ONCE = 1 << 21  # of an array in memory
_LARGE = 1e300


class SumLaw:
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
        log_weight = np.zeros((len(z), self.m + 1))
        np.cumsum(np.where(k < least, 0.0, steps), axis=1, out=log_weight[:, 1:])
        log_weight[np.arange(self.m + 1) < least] = -np.inf
        log_weight -= _log_sum(log_weight)
        gain = (2 * np.arange(self.m + 1) - self.m) * self.log_odds
        ratio = _log_sum(log_weight + gain)[:, 0]
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


law_of = lru_cache(maxsize=32)(SumLaw)


def _log_sum(terms: Floats) -> Floats:
    """The logarithm of the sum of exponentials along the last axis, which is kept; scipy's takes twice as long."""
    most = np.maximum(terms.max(axis=-1, keepdims=True), -_LARGE)  # finite, also where there is nothing
    with np.errstate(divide="ignore"):
        return np.asarray(most + np.log(np.exp(terms - most).sum(axis=-1, keepdims=True)))


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
