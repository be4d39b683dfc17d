"""Distributions of a noisy proportion: normal plus Laplace, and binomial plus Laplace.

`BinomialLaplace` is the exact distribution of a noisy count. `NormalLaplace` uses a normal approximation of the
binomial part and is fast for any number of rows.

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

NOISE_L1 = math.sqrt(2 / math.pi)  # the mean absolute value of Gaussian noise in units of σ
BINOMIAL_REACH = 14.0  # the range of the sum in standard deviations; the remaining probability is below 10⁻²⁰


def at_least_zero(values: Floats, sigma: Floats | float) -> Floats:
    """Compute the posterior means of nonnegative numbers that were measured with normal noise, for a flat prior.

    Parameters
    ----------
    values : ndarray
        The measured numbers.
    sigma : ndarray or float
        The standard deviation of the noise, which must be positive.

    Returns
    -------
    ndarray
        The posterior means.

    Examples
    --------
    >>> at_least_zero(np.array([-50.0, 0.0, 50.0]), 10.0).round(1).tolist()
    [1.9, 8.0, 50.0]
    """
    places = values / sigma
    return np.asarray(values + sigma * np.exp(-(places**2) / 2 - scipy.special.log_ndtr(places)) / (2 * np.pi) ** 0.5)


def upper_end(values: npt.ArrayLike, sigma: npt.ArrayLike, level: float) -> Floats:
    """Return the upper end of an interval for nonnegative numbers, from their posterior for a flat prior.

    The result is always positive, and it is larger than the usual end, values + z·sigma. Therefore, the coverage of the
    interval that starts at max(values − z·sigma, 0) is at least the nominal one. The usual end can be negative, and the
    clipped interval is then from 0 to 0. This would suggest that the number is 0, although the measurement consists
    only of noise.

    Parameters
    ----------
    values : array_like
        The measured numbers.
    sigma : array_like
        The standard deviation of the noise.
    level : float
        The level of the interval, in (0, 1).

    Returns
    -------
    ndarray
        The upper ends.

    Examples
    --------
    >>> upper_end(np.array([-50.0, 0.0, 50.0]), 10.0, 0.95).round(1).tolist()
    [6.7, 22.4, 69.6]
    """
    value, deviation = np.asarray(values, dtype=float), np.asarray(sigma, dtype=float)
    places = value / np.where(deviation > 0, deviation, 1.0)
    beyond = scipy.special.ndtri_exp(np.log((1 - level) / 2) + scipy.special.log_ndtr(places))
    return np.asarray(np.where(deviation > 0, value - deviation * beyond, np.maximum(value, 0.0)))


@dataclass(frozen=True)
class NormalLaplace:
    """The distribution of N(mean, sd²) + Laplace(0, scale) for independent variables.

    The distribution function is Φ(z) − ½φ(z)(R(r − z) − R(r + z)) in closed form. Here, z = (x − mean)/sd, r = sd/scale
    and R is Mills' ratio. This form cannot overflow. In the talk on private estimators and tests, the distribution is
    NL(μ, σ², 1/b, 1/b, 1).

    Attributes
    ----------
    sd : float
        The standard deviation of the normal part, which must be positive.
    scale : float
        The scale b of the Laplace part. The standard deviation of this part is √2·b. It must be nonnegative, and 0 is
        the normal distribution.
    mean : float
        The mean, which must be finite.
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
        """Return P(X ≤ x) for an array of any shape."""
        return _normal_laplace_cdf((np.asarray(x, dtype=float) - self.mean) / self.sd, self._ratio)

    def sf(self, x: npt.ArrayLike) -> Floats:
        """Return P(X > x) for an array of any shape. It is accurate in the upper tail, unlike 1 − cdf."""
        return _normal_laplace_cdf((self.mean - np.asarray(x, dtype=float)) / self.sd, self._ratio)

    def quantile(self, p: float) -> float:
        """Return the x for which P(X ≤ x) = p, where 0 < p < 1.

        For p ≥ ½, the result is at least the quantile of the normal part. It is at most the sum of the quantiles of
        both parts at (1 + p)/2.
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
    """The distribution of Binomial(rows, p) + Laplace(0, scale) for independent variables.

    This is the exact distribution of a noisy count of successes.

    Attributes
    ----------
    rows : int
        The number of trials, which is at least 1.
    p : float
        The probability of a success, in [0, 1].
    scale : float
        The scale b of the Laplace noise in rows, which must be positive. It is 1/ε for a count with sensitivity 1.
    """

    rows: int
    p: float
    scale: float

    def __post_init__(self) -> None:
        whole("rows", self.rows, 1)
        closed_share("p", self.p)
        positive("scale", self.scale)

    def cdf(self, y: npt.ArrayLike) -> Floats:
        """Return P(Y ≤ y) = Σₖ P(X = k)·P(L ≤ y − k) for an array of any shape."""
        return self._mix(y, lambda gap: gap)

    def sf(self, y: npt.ArrayLike) -> Floats:
        """Return P(Y > y) for an array of any shape. It is accurate in the upper tail, unlike 1 − cdf."""
        return self._mix(y, lambda gap: -gap)

    def quantile(self, q: float) -> float:
        """Return the y for which P(Y ≤ y) = q, where 0 < q < 1.

        It is between the quantiles of the noise around 0 and around `rows`.
        """
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
    """Return P(Z + L/ratio ≤ z) for a standard normal Z and a standard Laplace L.

    It is computed from P = Φ(z) − ½e^{r²/2 − rz}Φ(z − r) + ½e^{r²/2 + rz}Φ(−z − r). The scaled complementary error
    function is used if the argument of Φ is negative. By symmetry, only z ≤ 0 is computed, which avoids cancellation of
    large terms.
    """
    if math.isinf(ratio):
        return np.asarray(scipy.special.ndtr(z))
    below = -np.abs(z)
    lower = np.asarray(scipy.special.ndtr(below)) + (_tilted(-below, ratio) - _tilted(below, ratio)) / 2
    return np.where(z <= 0, lower, 1 - lower)


def _tilted(z: Floats, ratio: float) -> Floats:
    """Return e^{r²/2 − rz}Φ(z − r)."""
    gap = ratio - z
    near = np.exp(-(z**2) / 2) * scipy.special.erfcx(np.maximum(gap, 0) / math.sqrt(2)) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.exp(np.where(gap < 0, ratio * (ratio / 2 - z), 0.0)) * scipy.special.ndtr(-gap)
    return np.where(gap >= 0, near, far)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a monotone function.

    If there is no change of sign because of rounding, the end of the bracket with the smaller absolute value is
    returned.
    """
    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0:
        return low if abs(at_low) <= abs(at_high) else high
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-13 * max(1.0, abs(low), abs(high)), rtol=1e-14))
