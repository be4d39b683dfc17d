"""A test of the hypothesis that two groups have the same ratio of means, from their noisy sums. It is post-processing.

Wald's test divides by the estimated denominators. If a group has few positive labels or much noise, the test rejects
twice as often as its level allows, or almost never. Here the test searches for a common ratio r that both groups allow,
as in Fieller's interval. If r₁ = r₂ = r, then each Σws − rΣwy is approximately normal with mean 0 for any denominators.

>>> from equistrata.inference.ratios.ratio import RatioSettings, private_ratio
>>> from equistrata.privacy.noise import SeededNoise
>>> label, noise = np.arange(4000) % 2, SeededNoise(1)
>>> settings = RatioSettings(epsilon=0.5, delta=1e-6)
>>> fair, unfair = (private_ratio(np.full(4000, s), label, settings, noise) for s in (0.5, 0.7))
>>> test = equal_ratios(unfair, fair)
>>> round(test.difference, 2), test.p_value < 0.001
(0.41, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.ratios.ratio import RatioEstimate, noise_of, second_moments, weight_factor
from equistrata.inference.ratios.sums import RatioSums

GRID = np.geomspace(1e-6, 1e6, 1201)  # the ratios that are compared before the best one is refined


@dataclass(frozen=True)
class RatioTest:
    """The result of a test of the hypothesis r₁ = r₂.

    Attributes
    ----------
    difference : float
        The difference of the values, which are logarithms if the estimates are logarithms.
    lower, upper : float
        The Wald interval of the difference at `level`. It is valid only if the denominators are much larger than their
        noise.
    statistic : float
        The square root of the minimum over r of Σ (Σws − rΣwy)²/V(r), with the sign of the difference. It is 0 if an
        estimate has no value.
    p_value : float
        The two-sided p-value from Student's distribution with Welch's degrees of freedom. It is 1 if an estimate has no
        value.
    level : float
        The level of the interval.
    """

    difference: float
    lower: float
    upper: float
    statistic: float
    p_value: float
    level: float


def equal_ratios(first: RatioEstimate, second: RatioEstimate) -> RatioTest:
    """Test the hypothesis r₁ = r₂ for two disjoint groups of rows with independent noise.

    The p-value depends only on the sums. It includes their noise for any correction of the estimates, and it is the
    same for ratios and for logarithms.

    Parameters
    ----------
    first, second : RatioEstimate
        The estimates of the two groups.

    Returns
    -------
    RatioTest
        The difference, its interval and the p-value.

    Raises
    ------
    InputError
        If only one estimate is a logarithm, or if the levels differ.

    Privacy
    -------
    The test is post-processing, so it has no additional cost.

    References
    ----------
    .. [1] Miao and Li (2023), section 2.4, for the difference and its interval.
    .. [2] Fieller (1954), for the hypothesis.
    .. [3] Welch (1947), for the degrees of freedom.

    See docs/experiments/ratios.md for measurements.
    """
    if first.log != second.log or first.level != second.level:
        raise InputError(
            "the estimates have different levels, or only one is a logarithm; estimate both in the same way"
        )
    difference, variance = first.value - second.value, first.variance + second.variance
    if math.isnan(difference):
        return RatioTest(math.nan, -math.inf, math.inf, 0.0, 1.0, first.level)
    half = float(scipy.special.ndtri((1 + first.level) / 2)) * math.sqrt(variance)
    square, freedom = _common_ratio(first.sums, second.sums)
    p_value = float(2 * scipy.special.stdtr(freedom, -math.sqrt(square)))
    statistic = math.copysign(math.sqrt(square), difference)
    return RatioTest(difference, difference - half, difference + half, statistic, p_value, first.level)


def _common_ratio(first: RatioSums, second: RatioSums) -> tuple[float, float]:
    """Return the smallest sum of squares over all common ratios, and its degrees of freedom."""

    def total(ratio: Floats) -> Floats:
        parts = ((sums, *_variances(sums, ratio)) for sums in (first, second))
        return np.asarray(sum((sums["ws"] - ratio * sums["wy"]) ** 2 / (of + noise) for sums, of, noise in parts))

    best = int(np.argmin(total(GRID)))
    ends = math.log(GRID[max(best - 1, 0)]), math.log(GRID[min(best + 1, len(GRID) - 1)])
    found = scipy.optimize.minimize_scalar(
        lambda log: float(total(np.exp(np.array([log])))[0]), bounds=ends, method="bounded"
    )
    ratio = np.exp(np.array([found.x]))
    # Welch: the variance of a ratio is that of Σws − rΣwy divided by (Σwy)². Its sampling part is known from n rows.
    whole, doubt = 0.0, 0.0
    for sums in (first, second):
        of, noise = (float(part[0]) for part in _variances(sums, ratio))
        size = max(sums["wy"] ** 2, float(noise_of(sums)[1]))  # the denominator is at least its noise
        rows = sums["w"] ** 2 / sums["ww"] if sums.get("ww", 0.0) > 0 else sums["w"]
        whole += (of + noise) / size
        doubt += (of / size) ** 2 / max(rows - 1, 1.0)
    return float(found.fun), max(whole**2 / doubt, 1.0) if doubt > 0 else math.inf


def _variances(sums: RatioSums, ratio: Floats) -> tuple[Floats, Floats]:
    """Return the sampling variance and the noise variance of Σws − rΣwy at each ratio r.

    If y is binary, the number of labels is the mean of two estimates: Σwy, and Σws/r for the given r. The reason is
    that a small number of labels is a poor estimate of the expected number. The average of s over the labels is not
    changed.
    """
    of_s, of_y, joint = noise_of(sums)
    squares, products, measured = second_moments(sums)
    labels, both = np.full(ratio.shape, measured), np.full(ratio.shape, products)
    if "wyy" not in sums and measured > 0:
        labels = (measured + max(sums["ws"], 0.0) / ratio) / 2
        both *= labels / measured
    sampled = weight_factor(sums) * np.maximum(squares - 2 * ratio * both + ratio**2 * labels, 0.0)
    return sampled, of_s - 2 * ratio * joint + ratio**2 * of_y
