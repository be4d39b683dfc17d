"""Private means by clipping and Laplace noise, for one group or for strata.

This is the baseline of the stratification paper, with pure ε-DP. For strata, the noise increases with Σ log|G_i|. This
sum is at most k·ln(n/k), which is its value for equal groups (Proposition 9). Theorem 10 gives its expectation if the
shares have a symmetric Dirichlet distribution.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> scores = np.random.default_rng(0).normal(0.3, 1, 2000)
>>> estimate = LaplaceMean(radius=1, epsilon=0.5).mean(scores, SeededNoise(1))
>>> round(float(scores.mean()), 4), round(estimate.value, 4), estimate.epsilon, float(estimate.rho)
(0.272, 0.2722, 0.5, 0.125)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.lattice import HALF, LAPLACE_ROWS, lattice_sum, lattice_unit
from equistrata.inference.means.settings import GroupedValues, GroupWeights, read_groups, read_values
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource, source_of
from equistrata.stats.checks import number, one_of, positive, share, whole

AlphaFit = Literal["likelihood", "moments"]

# If the mean logarithm of the shares is this close to that of equal shares, then α is larger than 10¹¹ and is treated
# as infinite.
EVEN = 1e-12


@dataclass(frozen=True)
class LaplaceMean:
    """The clipped mean with Laplace noise and its declared settings.

    Parameters
    ----------
    radius : float
        A declared bound R on the absolute value of the *mean* of every stratum, positive, in the unit of the data.
    epsilon : float
        The privacy cost ε, positive.
    gamma : float, default=0.05
        The failure probability γ of an interval, in (0, 1). The clip is ±(R + σ√(ln(n/γ))).
    sigma : float, default=1.0
        A declared bound on the standard deviation, positive.

    Privacy
    -------
    ε-DP (ε²/2-zCDP) for all outputs of one call, under replacing one row within a stratum. See
    docs/proofs/laplace-mean.md.

    References
    ----------
    Stratification paper, equations 2 to 4.
    """

    radius: float
    epsilon: float
    gamma: float = 0.05
    sigma: float = 1.0

    def __post_init__(self) -> None:
        for name in ("radius", "epsilon", "sigma"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        share("gamma", self.gamma)

    @property
    def rho(self) -> Rho:
        """Return the cost in zCDP, which is ε²/2."""
        return Rho.of_pure(self.epsilon)

    def clip(self, rows: int) -> float:
        """Return R + σ√(ln(n/γ)), which is half of the width of the clip interval."""
        return self.radius + self.sigma * math.sqrt(math.log(rows / self.gamma))

    def scale(self, rows: int) -> float:
        """Return (2R + 2σ√(ln(n/γ)))/(nε), which is the scale of the Laplace noise of the mean."""
        return 2 * self.clip(rows) / (rows * self.epsilon)

    def mean(self, values: npt.ArrayLike, noise: NoiseSource) -> Estimate:
        """Estimate the clipped mean of a group of values with Laplace noise.

        Parameters
        ----------
        values : array-like of shape (n,)
            The values, with 0 ≤ n < 2²⁴. The number n is declared as public.
        noise : NoiseSource
            The source of the noise.

        Returns
        -------
        Estimate
            The estimate and its interval. For Gaussian rows, the interval covers the population mean with probability 1
            − γ, except for the bias of clipping (see docs/proofs/laplace-mean.md). If n = 0, the value is 0 and the
            interval is [−R, R].

        Raises
        ------
        InputError
            If the values are not one-dimensional or contain NaN, or if there are too many rows.

        Examples
        --------
        >>> from equistrata.privacy.noise import SeededNoise
        >>> LaplaceMean(radius=2, epsilon=1).mean([], SeededNoise(1)).upper
        2.0
        """
        return self._estimate(read_values(values), Budget(self.rho), source_of(noise))

    def by_strata(self, groups: GroupedValues, weights: GroupWeights | None, noise: NoiseSource) -> StratifiedEstimate:
        """Estimate the mean of each of several disjoint groups with declared sizes, and the mean of the population.

        Parameters
        ----------
        groups : mapping or sequence of array-like
            The values of each group, as in `read_groups`.
        weights : PublicWeights, mapping or sequence of float, or None
            The share of each group, as in `read_groups`. If None, the shares are |G_i|/n (equation 4).
        noise : NoiseSource
            The source of the noise.

        Returns
        -------
        StratifiedEstimate
            The estimate of the population and those of the strata. Each interval fails with probability γ. The value of
            an empty stratum is 0, and it adds ω_i R to the half-width.

        Raises
        ------
        InputError
            If `mean` or `read_groups` raises it, or if there are no rows and no weights.

        Privacy
        -------
        ε-DP for all outputs together, by parallel composition.

        Examples
        --------
        >>> import numpy as np
        >>> from equistrata.privacy.noise import SeededNoise
        >>> rng = np.random.default_rng(0)
        >>> groups = {"a": rng.normal(0.5, 1, 3000), "b": rng.normal(-0.5, 1, 1000)}
        >>> whole = LaplaceMean(radius=1, epsilon=1).by_strata(groups, None, SeededNoise(1))
        >>> round(whole.value, 3), whole.weights, whole.epsilon
        (0.236, {'a': 0.75, 'b': 0.25}, 1.0)
        """
        read, noise = read_groups(groups, weights), source_of(noise)
        budgets = Budget(self.rho).parallel(self.rho, read.values, "strata")
        shares = read.weights
        if not read.declared:
            total = sum(len(values) for values in read.values.values())
            if not total:
                raise InputError("all groups are empty; give the weights of the groups")
            shares = {key: len(values) / total for key, values in read.values.items()}
        strata = {
            key: self._estimate(values, budgets[key], noise.spawn(read.streams[key]))
            for key, values in read.values.items()
        }
        sized = [(share, len(read.values[key])) for key, share in shares.items()]
        filled = [(share, rows) for share, rows in sized if rows and share > 0]
        sampling = math.fsum(share**2 * self.sigma**2 / rows for share, rows in filled)
        scales = [share * self.scale(rows) for share, rows in filled]
        bias = self.radius * math.fsum(share for share, rows in sized if not rows)
        value = math.fsum(share * strata[key].value for key, share in shares.items())
        half = math.sqrt(2 * sampling * math.log(4 / self.gamma)) + _laplace_tail(scales, self.gamma / 2) + bias
        return StratifiedEstimate(
            value=value,
            lower=value - half,
            upper=value + half,
            rho=self.rho,
            relation=REPLACE_ONE,
            strata=strata,
            weights=shares,
            variance=sampling + 2 * math.fsum(scale**2 for scale in scales),
            bias=bias,
            epsilon=self.epsilon,
            private=noise.private,
        )

    def error_bound(self, k: int, n: float, log_sizes: float) -> float:
        """Return a bound on the noise of `by_strata`, which is exceeded with a probability of at most γ.

        The bound is Proposition 9 with its constants: √2(1 + ln(2/γ))·√(Σb_i²)/n with Σb_i² ≤ (8/ε²)(kR² + σ²(k·ln(1/γ)
        + log_sizes)), in the unit of the data.

        Parameters
        ----------
        k : int
            The number of groups, at least 1.
        n : float
            The number of rows, positive.
        log_sizes : float
            The sum Σ log|G_i|, which is known, bounded or expected (see `expected_log_sizes`). The bound is concave in
            this sum.

        Returns
        -------
        float
            The bound.

        Examples
        --------
        >>> round(LaplaceMean(radius=1, epsilon=1).error_bound(9, 196967, 9 * math.log(196967 / 9)), 5)
        0.00107
        """
        k, n = whole("k", k, 1), positive("n", n)
        spread = self.sigma**2 * (k * math.log(1 / self.gamma) + number("log_sizes", log_sizes))
        squares = 8 / self.epsilon**2 * (k * self.radius**2 + max(spread, 0.0))
        return math.sqrt(2 * squares) * (1 + math.log(2 / self.gamma)) / n

    def _estimate(self, values: Floats, budget: Budget, noise: NoiseSource) -> Estimate:
        rows = len(values)
        if rows >= LAPLACE_ROWS:
            raise InputError(f"a Laplace mean takes fewer than {LAPLACE_ROWS} rows in a group; use Coinpress for more")
        value, half, variance, raw = 0.0, self.radius, math.inf, None
        if not rows:
            budget.spend(budget.remaining, "no rows")
        else:
            clip, scale, sampling = self.clip(rows), self.scale(rows), self.sigma**2 / rows

            def exact() -> Floats:
                return np.array([lattice_sum(values, -clip, clip)], dtype=np.float64)

            noisy, _ = noise.laplace(exact, 2.0 * HALF, self.epsilon, budget, "clipped mean")
            raw = value = float(noisy[0]) * lattice_unit(-clip, clip) / rows
            half = math.sqrt(2 * sampling * math.log(4 / self.gamma)) + scale * math.log(2 / self.gamma)
            variance = sampling + 2 * scale**2
        return Estimate(
            value=value,
            lower=value - half,
            upper=value + half,
            rho=budget.total,
            relation=REPLACE_ONE,
            variance=variance,
            rows=float(rows),
            raw=raw,
            epsilon=self.epsilon,
            entries=budget.entries,
            private=noise.private,
        )


def expected_log_sizes(k: int, alpha: float, n: float) -> float:
    """Compute the expected sum of log-sizes of k groups, by Theorem 10.

    The expectation is E Σ log(g_i n) = k(ψ(α) − ψ(kα) + ln n), for shares g with the symmetric Dirichlet distribution.

    Parameters
    ----------
    k : int
        The number of groups, at least 1.
    alpha : float
        The parameter α of the distribution, positive. It is infinite for equal groups.
    n : float
        The number of rows, positive.

    Returns
    -------
    float
        The expectation.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> round(expected_log_sizes(2, 1.0, 100), 4)  # both shares uniform: 2(ln 100 − 1)
    7.2103
    """
    k, n = whole("k", k, 1), positive("n", n)
    if alpha == math.inf:
        return k * math.log(n / k)
    alpha = positive("alpha", alpha)
    return k * (float(scipy.special.psi(alpha) - scipy.special.psi(k * alpha)) + math.log(n))


def equal_log_sizes(k: int, n: float) -> float:
    """Return the upper bound k·ln(n/k) on Σ log|G_i|, which is attained by equal groups (Lemma 12).

    Parameters
    ----------
    k : int
        The number of groups, at least 1.
    n : float
        The number of rows, positive.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    return whole("k", k, 1) * math.log(positive("n", n) / k)


def least_log_sizes(k: int, n: float) -> float:
    """Return ln(n − k + 1), which is the smallest possible value of Σ log|G_i|.

    It is attained by one large group and k − 1 groups with one row each. The paper has (k − 1) + log(n − k) instead,
    but a group with one row adds log 1 = 0.

    Parameters
    ----------
    k : int
        The number of groups, at least 1.
    n : float
        The number of rows, at least k.

    Returns
    -------
    float
        The smallest value.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    k, n = whole("k", k, 1), positive("n", n)
    if n < k:
        raise InputError(f"n is {n:g}, but {k} groups need at least as many rows; give more rows or fewer groups")
    return math.log(n - k + 1)


def fit_alpha(shares: Sequence[float] | npt.ArrayLike, *, method: AlphaFit = "likelihood") -> float:
    """Fit the parameter α of a symmetric Dirichlet distribution to one vector of group shares.

    Parameters
    ----------
    shares : array-like of shape (k,)
        The shares or the sizes of the groups, with k ≥ 2. They are positive and finite.
    method : {"likelihood", "moments"}, default="likelihood"
        If "likelihood", α solves the equation ψ(kα) − ψ(α) = −mean(ln g_i). At this α, the expectation of Theorem 10 is
        the sum Σ log(g_i n) of the vector itself. If "moments", α solves the equation Σ g_i² = (α + 1)/(kα + 1), which
        depends mostly on the largest groups.

    Returns
    -------
    float
        The parameter α. It is infinite if the shares are equal.

    Raises
    ------
    InputError
        If a share is not positive and finite.

    Examples
    --------
    >>> race = [138474, 24024, 508, 5, 244, 17030, 72, 10964, 5646]  # New York 2018, RAC1P
    >>> alpha, n = fit_alpha(race), sum(race)
    >>> round(alpha, 4), round(fit_alpha(race, method="moments"), 4)  # the paper's α is the second
    (0.2566, 0.1301)
    >>> [round(f, 1) for f in (equal_log_sizes(9, n), expected_log_sizes(9, alpha, n), least_log_sizes(9, n))]
    [89.9, 67.2, 12.2]
    >>> fit_alpha([0.25, 0.25, 0.25, 0.25])
    inf
    """
    one_of("method", method, get_args(AlphaFit))
    sizes = np.asarray(shares, dtype=float)
    if sizes.ndim != 1 or len(sizes) < 2:
        raise InputError("a Dirichlet law needs at least two groups; give a share for each")
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise InputError("a group's share is not a positive number; leave empty groups out")
    g, k = sizes / sizes.sum(), len(sizes)
    if method == "moments":
        squares = float((g**2).sum())
        return (1 - squares) / (k * squares - 1) if k * squares - 1 > EVEN else math.inf
    target = -float(np.log(g).mean())
    if target - math.log(k) < EVEN:
        return math.inf

    def excess(log_alpha: float) -> float:
        alpha = math.exp(log_alpha)
        return float(scipy.special.psi(k * alpha) - scipy.special.psi(alpha)) - target

    # (1 − 1/k)/α < ψ(kα) − ψ(α) < ln k + 1/α, from ψ(x + 1) = ψ(x) + 1/x and 1/(2x) < ln x − ψ(x) < 1/x.
    least, most = math.log((1 - 1 / k) / target) - 1, math.log(1 / (target - math.log(k))) + 1
    return math.exp(scipy.optimize.brentq(excess, least, most, xtol=1e-14, rtol=1e-14))


def _laplace_tail(scales: Iterable[float], failure: float) -> float:
    """Return a bound on the absolute value of a sum of independent Laplace variables with the given scales.

    The bound is exceeded with a probability of at most `failure`. It is the Chernoff bound at the best s (see
    docs/proofs/laplace-mean.md).

    >>> round(_laplace_tail([1.0], 0.05), 2), round(_laplace_tail([0.1] * 100, 0.05), 2)
    (6.63, 5.43)
    """
    scales = list(scales)
    squares = math.fsum(scale**2 for scale in scales)
    if not squares:
        return 0.0
    log = math.log(2 / failure)
    s = min(math.sqrt(log / (2 * squares)), 1 / (math.sqrt(2) * max(scales)))
    return (2 * squares * s**2 + log) / s
