"""The ratio of two means r = Σws/Σwy, or a rate of noisy counts, with an interval that accounts for the noise.

For example, the calibration ratio of a classifier is the ratio in which s is the predicted probability and y is the
label. The noisy sums are measured by `equistrata.inference.ratios.sums`. The functions in this module are
post-processing of these sums.

>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> score = rng.beta(2, 2, 5000)
>>> label = rng.random(5000) < score / 1.1
>>> found = private_ratio(score, label, RatioSettings(epsilon=0.2, delta=1e-6), SeededNoise(1))
>>> round(found.value, 2), round(found.lower, 2), round(found.upper, 2), len(found.sums)
(1.09, 1.05, 1.12, 5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.means.estimate import Interval
from equistrata.inference.ratios.design import Composition, Mechanism, PricedDesign
from equistrata.inference.ratios.sums import RatioSums, RatioWeights, measure_sums
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.checks import one_of, share
from equistrata.stats.fieller import Spread, ratio_interval

Correction = Literal["analytical", "monte-carlo", "none"]

DRAWS = 200  # the number of draws of the Monte Carlo correction (B in the paper)


@dataclass(frozen=True)
class RatioSettings:
    """The privacy cost, the mechanism and the interval of a private ratio.

    Parameters
    ----------
    epsilon, delta : float
        The privacy cost, with ε > 0 and 0 < δ < 1. For Laplace noise the cost is (ε, 0).
    mechanism : {"gaussian", "laplace"}, default="gaussian"
        The distribution of the noise. Gaussian noise is better here, except for large ε.
    composition : {"joint", "basic"}, default="joint"
        If "joint", one noise vector is added to all sums (see `Design.joint`). If "basic", the composition of the paper
        is used.
    correction : {"analytical", "monte-carlo", "none"}, default="analytical"
        If "analytical", the variance of the noise is added (section 2.4.3 of the paper). If "monte-carlo", the mean
        square change of the ratio under 200 additional draws is added (section 2.4.2). If "none", the noise is ignored,
        so the intervals are too short.
    log : bool, default=False
        If True, estimate ln r.
    level : float, default=0.95
        The nominal coverage, in (0, 1).
    binary : bool, default=True
        If True, y is 0 or 1. In this case Σwy² = Σwy is not measured.
    """

    epsilon: float
    delta: float
    mechanism: Mechanism = "gaussian"
    composition: Composition = "joint"
    correction: Correction = "analytical"
    log: bool = False
    level: float = 0.95
    binary: bool = True

    def __post_init__(self) -> None:
        one_of("mechanism", self.mechanism, get_args(Mechanism))
        one_of("composition", self.composition, get_args(Composition))
        _check(self.correction, self.level)
        self.priced(weighted=False)

    def priced(self, *, weighted: bool) -> PricedDesign:
        """Return the sums and their noise at this privacy cost."""
        price = self.epsilon, self.delta, self.mechanism, self.composition
        return PricedDesign.of_epsilon_delta(*price, weighted=weighted, binary=self.binary)


@dataclass(frozen=True, eq=False)
class RatioEstimate:
    """A private ratio, or its logarithm, with a Wald interval. All fields may be published at the cost of `sums`.

    Attributes
    ----------
    value : float
        The ratio Σws/Σwy or its logarithm. It is NaN if a noisy sum that must be positive is not positive.
    variance : float
        The variance of the value about the ratio of the population means. It is infinite if there is no value.
    lower, upper : float
        The interval value ∓ z√variance. The ends of a ratio are at least 0. The interval is unbounded if there is no
        value.
    sums : RatioSums
        The noisy sums and their cost.
    level : float
        The nominal coverage.
    correction : {"analytical", "monte-carlo", "none"}
        The correction for the noise.
    log : bool
        If True, the value is a logarithm.
    """

    value: float
    variance: float
    lower: float
    upper: float
    sums: RatioSums
    level: float
    correction: Correction
    log: bool


def private_ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    settings: RatioSettings,
    noise: NoiseSource,
    weights: RatioWeights | None = None,
) -> RatioEstimate:
    """Estimate the ratio Σws/Σwy with differential privacy.

    Parameters
    ----------
    numerator, denominator : array-like of shape (n,)
        The values s and y, in [0, 1], with n ≥ 0. If `settings.binary` is True, y is 0 or 1.
    settings : RatioSettings
        The privacy cost and the interval.
    noise : NoiseSource
        The source of the noise.
    weights : RatioWeights, optional
        The weights w and their declared bound. If None, all weights are 1.

    Returns
    -------
    RatioEstimate
        The estimate. Its interval is a normal approximation by the delta method (equation 1), which is valid only if
        Σwy is much larger than its noise. Otherwise use `fieller_from_sums`.

    Raises
    ------
    InputError
        If the lengths differ, or if a number is missing or out of its bounds.

    Privacy
    -------
    (ε, δ)-DP under adding or removing one row. The cost in zCDP is `sums.rho`. See docs/proofs/ratio.md.

    References
    ----------
    Miao and Li, Privacy-preserving inference on the ratio of two Gaussians using sums (2023), sections 2 and 3.
    """
    sums = measure_sums(numerator, denominator, settings.priced(weighted=weights is not None), noise, weights)
    return ratio_from_sums(sums, correction=settings.correction, log=settings.log, level=settings.level)


def ratio_from_sums(
    sums: RatioSums, *, correction: Correction = "analytical", log: bool = False, level: float = 0.95
) -> RatioEstimate:
    """Compute the ratio from noisy sums, of one group or of several groups that were added.

    The draws of "monte-carlo" have a fixed seed, so the same sums give the same interval.

    Parameters
    ----------
    sums : RatioSums
        The noisy sums.
    correction : {"analytical", "monte-carlo", "none"}, default="analytical"
        The correction for the noise, as in `RatioSettings`.
    log : bool, default=False
        If True, estimate the logarithm of the ratio.
    level : float, default=0.95
        The nominal coverage, in (0, 1).

    Returns
    -------
    RatioEstimate
        The estimate and its Wald interval. It is post-processing of the sums.
    """
    _check(correction, level)
    named = {name: sums.vector[[i]] for i, name in enumerate(sums.names)}
    draws = _draws(sums) if correction == "monte-carlo" else None
    found = value_and_variance(named, noise_of(sums), correction, log, draws)
    value, variance = (float(number[0]) for number in found)
    if math.isnan(value):
        variance, lower, upper = math.inf, -math.inf if log else 0.0, math.inf
    else:
        variance = max(variance, 0.0)
        lower, upper = (float(end) for end in wald(np.array(value), np.array(variance), level, log))
        value = value if log else max(value, 0.0)
    return RatioEstimate(value, variance, lower, upper, sums, float(level), correction, bool(log))


def fieller_from_sums(sums: RatioSums, *, level: float = 0.95, alike: int = 1) -> tuple[float, float]:
    """Compute an interval for the ratio that is valid even if the denominator may consist of noise only.

    At the ratio r, the variance of Σws − rΣwy is Σw²/Σw · Σw(s − ry)² from the noisy sums, plus the variance of the
    noise. The coverage is that of `equistrata.stats.fieller.ratio_interval`, for the ratio of the population means.

    Parameters
    ----------
    sums : RatioSums
        The noisy sums.
    level : float, default=0.95
        The nominal coverage, in (0, 1).
    alike : int, default=1
        The number of rows of a unit that are sampled together. The sampling variance is multiplied by this number.

    Returns
    -------
    tuple of two float
        The ends of the interval. The upper end may be infinite. It is post-processing of the sums.

    Examples
    --------
    >>> from equistrata.privacy.noise import SeededNoise
    >>> label = np.arange(60) % 2
    >>> settings = RatioSettings(epsilon=0.1, delta=1e-6)
    >>> fieller_from_sums(private_ratio(label * 0.9, label, settings, SeededNoise(1)).sums)  # below the noise floor
    (0.0, inf)
    """
    of_s, of_y, joint = noise_of(sums)
    squares, products, labels = second_moments(sums)
    sampled = Spread(squares, products, labels).times(alike * weight_factor(sums))
    return ratio_interval(sums["ws"], sums["wy"], sampled + Spread(of_s, joint, of_y), level=level)


def noisy_rate(
    successes: float,
    failures: float,
    variance: float,
    *,
    failures_variance: float | None = None,
    level: float = 0.95,
    alike: int = 1,
) -> Interval:
    """Compute the rate A/(A + B) of two noisy counts of disjoint groups of rows.

    Parameters
    ----------
    successes, failures : float
        The noisy counts A and B, which may be negative.
    variance : float
        The variance of the noise of A, positive.
    failures_variance : float, optional
        The variance of the noise of B, which is independent of the noise of A. By default, it is equal to `variance`.
    level : float, default=0.95
        The nominal coverage of the interval, in (0, 1).
    alike : int, default=1
        The number of rows of a unit, which are sampled together and may be equal (see docs/proofs/units.md).

    Returns
    -------
    Interval
        The rate and an interval for the probability p of a success in the population. The interval contains every p for
        which A − pN is not significantly different from 0, where N = A + B. The sampling variance of A − pN is `alike`
        times N·p(1 − p), and the variance of its noise is (1 − p)²σ_A² + p²σ_B². Without noise, and for single rows, it
        is Wilson's interval. A negative count is replaced by 0, which is nearer to any possible count. Otherwise, a
        count that is far below 0 by chance would make the interval of a tiny group much too short.

    Raises
    ------
    InputError
        If a variance is not positive, or if the level is out of its range.

    Privacy
    -------
    The rate is post-processing, so it has no additional cost.

    References
    ----------
    Wilson (1927) for sampling, and `equistrata.stats.fieller` for the noise.

    Examples
    --------
    >>> rate = noisy_rate(successes=180.0, failures=20.0, variance=100.0)  # counts with noise of deviation 10 each
    >>> round(rate.value, 3), round(rate.lower, 3), round(rate.upper, 3)
    (0.9, 0.802, 0.998)
    >>> nothing = noisy_rate(successes=12.0, failures=-25.0, variance=100.0)
    >>> nothing.lower, nothing.upper
    (0.0, 1.0)
    """
    other = variance if failures_variance is None else failures_variance
    if not (variance > 0 and other > 0):
        raise InputError("the variances of the noise must be positive; a count without noise is not private")
    successes, failures = max(successes, 0.0), max(failures, 0.0)
    total = successes + failures
    spread = Spread(0.0, -total / 2, -total).times(alike) + Spread(variance, variance, variance + other)
    lower, upper = ratio_interval(successes, total, spread, level=level, lower=0.0, upper=1.0)
    value = successes / total if total > 0 else (lower + upper) / 2
    return Interval(min(max(value, lower), upper), lower, upper)


def value_and_variance(
    sums: Mapping[str, Floats],
    noise: tuple[float, float, float],
    correction: Correction,
    log: bool,
    draws: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Compute the ratio (or its logarithm) and its variance, element by element.

    Parameters
    ----------
    sums : mapping of str to ndarray
        Arrays of noisy sums with the same shape, which are named as in `RatioSums`.
    noise : tuple of three float
        The variances of the noise of Σws and Σwy, and their covariance.
    correction : {"analytical", "monte-carlo", "none"}
        The correction for the noise, as in `RatioSettings`.
    log : bool
        If True, compute the logarithm of the ratio.
    draws : tuple of two ndarray of shape (B, 1, ...), optional
        Draws of the noise of Σws and Σwy, for "monte-carlo".

    Returns
    -------
    tuple of two ndarray
        The value, which is NaN if there is none, and the variance. If there is a correction, a negative sampling
        variance is replaced by 0.
    """
    s, y = sums["ws"], sums["wy"]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        usable = (y > 0) & ((s > 0) | (not log))
        y = np.where(usable, y, np.nan)
        ratio = s / y
        of_s, of_y, covariance = sampling(sums)
        variance = (of_s - 2 * ratio * covariance + ratio**2 * of_y) / y**2
        if correction != "none":
            variance = np.maximum(variance, 0.0)
        if correction == "analytical":
            variance = variance + (noise[0] - 2 * ratio * noise[2] + ratio**2 * noise[1]) / y**2
        if log:
            variance = variance / ratio**2
        value = np.log(ratio) if log else ratio
        if correction == "monte-carlo":
            assert draws is not None
            again = (s + draws[0]) / (y + draws[1])
            changes = ((np.log(again) if log else again) - value) ** 2
            extra = changes.mean(axis=0)
            variance = variance + np.where(np.isnan(extra), np.inf, extra)  # NaN: a draw has no logarithm
    return value, variance


def wald(value: Floats, variance: Floats, level: float, log: bool) -> tuple[Floats, Floats]:
    """Return value ∓ z√variance.

    The ends are NaN if the variance is negative, and the ends of a ratio are at least 0.
    """
    with np.errstate(invalid="ignore"):
        half = float(scipy.special.ndtri((1 + level) / 2)) * np.sqrt(variance)
    least = -np.inf if log else 0.0
    return np.maximum(value - half, least), np.maximum(value + half, least)


def sampling(sums: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the sampling variances of Σws and Σwy, and their covariance, from (noisy) sums.

    They are equations 3 and 4 of the paper, multiplied by (Σw)². They are 0 if the noisy Σw is not positive. If there
    is no `ww`, it is Σw, because all weights are 1. If there is no `wyy`, it is Σwy, because y is binary.
    """
    w = np.where(sums["w"] > 0, sums["w"], np.inf)
    squares = sums.get("ww", np.where(sums["w"] > 0, sums["w"], 0.0))
    mean_s, mean_y = sums["ws"] / w, sums["wy"] / w
    of_s = squares * (sums["wss"] / w - mean_s**2)
    of_y = squares * (sums.get("wyy", sums["wy"]) / w - mean_y**2)
    return of_s, of_y, squares * (sums["wys"] / w - mean_s * mean_y)


def noise_of(sums: RatioSums) -> tuple[float, float, float]:
    """Return the variances of the noise of Σws and Σwy, and their covariance."""
    s, y = sums.names.index("ws"), sums.names.index("wy")
    return float(sums.covariance[s, s]), float(sums.covariance[y, y]), float(sums.covariance[s, y])


def second_moments(sums: RatioSums) -> tuple[float, float, float]:
    """Return Σws², Σwsy and Σwy², which is Σwy if y is binary.

    The squares are at least 0, and the product is clipped to the range that is possible for these squares.
    """
    squares, labels = max(sums["wss"], 0.0), max(sums.get("wyy", sums["wy"]), 0.0)
    bound = math.sqrt(squares * labels)
    return squares, min(max(sums["wys"], -bound), bound), labels


def weight_factor(sums: RatioSums) -> float:
    """Return Σw²/Σw, by which the weights multiply the sampling variance.

    The factor is 1 if there are no weights or if a sum is not positive.
    """
    return sums["ww"] / sums["w"] if "ww" in sums and min(sums["w"], sums["ww"]) > 0 else 1.0


def _draws(sums: RatioSums) -> tuple[Floats, Floats]:
    """Return draws of the noise of Σws and Σwy, each with shape (B, 1)."""
    rng, rows = np.random.default_rng(0), [sums.names.index("ws"), sums.names.index("wy")]
    if sums.laplace is None:
        pair = np.linalg.cholesky(sums.covariance[np.ix_(rows, rows)]) @ rng.standard_normal((2, DRAWS))
    else:
        pair = sums.laplace[rows] @ rng.laplace(0.0, math.sqrt(0.5), (len(sums), DRAWS))
    return pair[0][:, None], pair[1][:, None]


def _check(correction: Correction, level: float) -> None:
    one_of("correction", correction, get_args(Correction))
    share("level", level)
