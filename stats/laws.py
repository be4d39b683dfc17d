"""The exact distributions of a noisy proportion: normal plus Laplace, and binomial plus Laplace.

`BinomialLaplace` is that of a noisy count; `NormalLaplace` approximates its binomial and is fast for any number of
rows.

>>> law = NormalLaplace(sd=0.03, scale=0.045)
>>> round(law.quantile(0.975), 4), round(float(law.cdf(law.quantile(0.975))), 6)
(0.1448, 0.975)
>>> small = BinomialLaplace(rows=20, p=0.25, scale=10.0)
>>> round(small.quantile(0.975), 2), round(float(small.sf(small.quantile(0.975))), 6)
(35.15, 0.025)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.stats.checks import closed_share, number, positive, share, whole

NOISE_L1 = math.sqrt(2 / math.pi)  # the mean absolute value of Gaussian noise, in σ
BINOMIAL_REACH = 14.0  # standard deviations summed over on either side; the rest is below 10⁻²⁰


def at_least_zero(values: Floats, sigma: Floats | float) -> Floats:
    """Posterior means of numbers that were measured with normal noise and are not below zero, by a flat prior.

    >>> at_least_zero(np.array([-50.0, 0.0, 50.0]), 10.0).round(1).tolist()
    [1.9, 8.0, 50.0]
    """
    places = values / sigma
    return np.asarray(values + sigma * np.exp(-(places**2) / 2 - scipy.special.log_ndtr(places)) / (2 * np.pi) ** 0.5)


def upper_end(values: npt.ArrayLike, sigma: npt.ArrayLike, level: float) -> Floats:
    """The upper end of an interval of numbers that are not below zero, by the same posterior; above zero, always.

    It is above the usual end, values + z·sigma, so the interval from max(values − z·sigma, 0) covers at least as often.
    The usual one may be below zero, and is then from 0 to 0: of nothing but noise, it says that there is nothing.

    >>> upper_end(np.array([-50.0, 0.0, 50.0]), 10.0, 0.95).round(1).tolist()
    [6.7, 22.4, 69.6]
    """
    value, deviation = np.asarray(values, dtype=float), np.asarray(sigma, dtype=float)
    places = value / np.where(deviation > 0, deviation, 1.0)
    beyond = scipy.special.ndtri_exp(np.log((1 - level) / 2) + scipy.special.log_ndtr(places))
    return np.asarray(np.where(deviation > 0, value - deviation * beyond, np.maximum(value, 0.0)))


@dataclass(frozen=True)
class NormalLaplace:
    """N(mean, sd²) + Laplace(0, scale), independent.

    Attributes:
        sd, mean: standard deviation of the normal part, positive; any finite mean.
        scale: b of the Laplace part (its standard deviation is √2·b), zero or more; 0 is the normal distribution.

    Source: NL(μ, σ², 1/b, 1/b, 1) of the talk on private estimators and tests; the convolution in closed form,
    Φ(z) − ½φ(z)(R(r − z) − R(r + z)) with z = (x − mean)/sd, r = sd/scale and R Mills' ratio, which cannot overflow.
    """

    sd: float
    scale: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        number("mean", self.mean)
        positive("sd", self.sd)
        if number("scale", self.scale) != 0:
            positive("scale", self.scale)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(X ≤ x), any shape, shape kept."""
        return _normal_laplace_cdf((np.asarray(x, dtype=float) - self.mean) / self.sd, self._ratio)

    def sf(self, x: npt.ArrayLike) -> Floats:
        """P(X > x), any shape, shape kept: accurate far out, where 1 − cdf is not."""
        return _normal_laplace_cdf((self.mean - np.asarray(x, dtype=float)) / self.sd, self._ratio)

    def quantile(self, p: float) -> float:
        """The x with P(X ≤ x) = p, 0 < p < 1.

        For p ≥ ½ it lies between the normal part's quantile and the sum of both parts' quantiles at (1 + p)/2.
        """
        tail = 1 - share("p", p) if p >= 0.5 else p
        ratio = self._ratio
        z = float(-scipy.special.ndtri(tail))
        if tail < 0.5 and not math.isinf(ratio):
            most = float(-scipy.special.ndtri(tail / 2)) - math.log(tail) / ratio
            z = _root(lambda at: float(_normal_laplace_cdf(np.asarray(-at), ratio)) - tail, z, most)
        return self.mean + (z if p >= 0.5 else -z) * self.sd

    @property
    def _ratio(self) -> float:
        return self.sd / self.scale if self.scale else math.inf


@dataclass(frozen=True)
class BinomialLaplace:
    """Binomial(rows, p) + Laplace(0, scale), independent: the exact distribution of a noisy count of successes.

    Attributes:
        rows, p: the number of trials, at least 1, and the probability of a success, 0 ≤ p ≤ 1.
        scale: b of the Laplace noise, positive, in rows: 1/ε for a count of sensitivity 1.
    """

    rows: int
    p: float
    scale: float

    def __post_init__(self) -> None:
        whole("rows", self.rows, 1)
        closed_share("p", self.p)
        positive("scale", self.scale)

    def cdf(self, y: npt.ArrayLike) -> Floats:
        """P(Y ≤ y) = Σₖ P(X = k)·P(L ≤ y − k), any shape, shape kept."""
        return self._mix(y, lambda gap: gap)

    def sf(self, y: npt.ArrayLike) -> Floats:
        """P(Y > y), any shape, shape kept: accurate far out, where 1 − cdf is not."""
        return self._mix(y, lambda gap: -gap)

    def quantile(self, q: float) -> float:
        """The y with P(Y ≤ y) = q, 0 < q < 1. It lies between those of the noise about 0 and about `rows`."""
        share("q", q)
        low = (math.log(2 * q) if q <= 0.5 else -math.log(2 * (1 - q))) * self.scale
        if q <= 0.5:
            return _root(lambda y: float(self.cdf(y)) - q, low, low + self.rows)
        return _root(lambda y: float(self.sf(y)) - (1 - q), low, low + self.rows)

    @cached_property
    def _support(self) -> tuple[Floats, Floats]:
        """The counts within `BINOMIAL_REACH` and their binomial probabilities."""
        sd = math.sqrt(self.rows * self.p * (1 - self.p))
        middle, reach = self.rows * self.p, BINOMIAL_REACH * (sd + BINOMIAL_REACH)
        k = np.arange(max(0, math.floor(middle - reach)), min(self.rows, math.ceil(middle + reach)) + 1, dtype=float)
        pmf = np.asarray(scipy.stats.binom.pmf(k, self.rows, self.p), dtype=np.float64)
        return k, pmf / pmf.sum()

    def _mix(self, y: npt.ArrayLike, turn: Callable[[Floats], Floats]) -> Floats:
        k, pmf = self._support
        gap = turn(np.asarray(y, dtype=float)[..., None] - k) / self.scale
        tail = np.exp(-np.abs(gap)) / 2
        return np.asarray(np.where(gap < 0, tail, 1 - tail) @ pmf)


def _normal_laplace_cdf(z: Floats, ratio: float) -> Floats:
    """P(Z + L/ratio ≤ z) for a standard normal Z and a standard Laplace L.

    From P = Φ(z) − ½e^{r²/2 − rz}Φ(z − r) + ½e^{r²/2 + rz}Φ(−z − r), with the scaled erfc where a Φ's argument is
    negative. By symmetry only z ≤ 0 is computed, where no two large terms cancel.
    """
    if math.isinf(ratio):
        return np.asarray(scipy.special.ndtr(z))
    below = -np.abs(z)
    lower = np.asarray(scipy.special.ndtr(below)) + (_tilted(-below, ratio) - _tilted(below, ratio)) / 2
    return np.where(z <= 0, lower, 1 - lower)


def _tilted(z: Floats, ratio: float) -> Floats:
    """e^{r²/2 − rz}Φ(z − r)."""
    gap = ratio - z
    near = np.exp(-(z**2) / 2) * scipy.special.erfcx(np.maximum(gap, 0) / math.sqrt(2)) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.exp(np.where(gap < 0, ratio * (ratio / 2 - z), 0.0)) * scipy.special.ndtr(-gap)
    return np.where(gap >= 0, near, far)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a monotone function; the nearer end of the bracket where rounding leaves no change of sign."""
    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0:
        return low if abs(at_low) <= abs(at_high) else high
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-13 * max(1.0, abs(low), abs(high)), rtol=1e-14))
