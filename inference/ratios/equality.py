"""Whether two groups have the same ratio of means, from their noisy sums. Post-processing.

Wald's test divides by the denominators' estimates. With few positive labels in one group, or much noise, it rejects
twice as often as it may, or hardly ever. Here a common ratio r is looked for that both groups allow, as in Fieller's
interval: under r₁ = r₂ = r each Σws − rΣwy is nearly normal about 0, whatever the denominators are.

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

GRID = np.geomspace(1e-6, 1e6, 1201)  # ratios that are tried before the best is refined


@dataclass(frozen=True)
class RatioTest:
    """A test of r₁ = r₂.

    Attributes:
        difference, lower, upper: of the values (of logarithms, if the estimates are), with Wald's interval at `level`,
            which needs denominators well above their noise.
        statistic: the root of min over r of Σ (Σws − rΣwy)²/V(r), with the difference's sign; 0 without a value.
        p_value: two-sided, of Student's distribution with Welch's degrees of freedom; 1 where an estimate has no value.
    """

    difference: float
    lower: float
    upper: float
    statistic: float
    p_value: float
    level: float


def equal_ratios(first: RatioEstimate, second: RatioEstimate) -> RatioTest:
    """Test r₁ = r₂ of disjoint groups of rows with independent noise. Post-processing.

    The p-value depends on the sums alone, and counts their noise whatever the estimates' correction is; it is the same
    for ratios and logarithms. Raises InputError unless both have one scale and one level.

    Source: Miao and Li (2023), section 2.4, for the difference and its interval; Fieller (1954) for the hypothesis;
    Welch (1947) for the degrees of freedom. Measured: docs/experiments/ratios.md.
    """
    if first.log != second.log or first.level != second.level:
        raise InputError("one estimate is of a ratio and one of a logarithm, or their levels differ; make them alike")
    difference, variance = first.value - second.value, first.variance + second.variance
    if math.isnan(difference):
        return RatioTest(math.nan, -math.inf, math.inf, 0.0, 1.0, first.level)
    half = float(scipy.special.ndtri((1 + first.level) / 2)) * math.sqrt(variance)
    square, freedom = _common_ratio(first.sums, second.sums)
    p_value = float(2 * scipy.special.stdtr(freedom, -math.sqrt(square)))
    statistic = math.copysign(math.sqrt(square), difference)
    return RatioTest(difference, difference - half, difference + half, statistic, p_value, first.level)


def _common_ratio(first: RatioSums, second: RatioSums) -> tuple[float, float]:
    """The least sum of squares over all common ratios, and its degrees of freedom."""

    def total(ratio: Floats) -> Floats:
        parts = ((sums, *_variances(sums, ratio)) for sums in (first, second))
        return np.asarray(sum((sums["ws"] - ratio * sums["wy"]) ** 2 / (of + noise) for sums, of, noise in parts))

    best = int(np.argmin(total(GRID)))
    ends = math.log(GRID[max(best - 1, 0)]), math.log(GRID[min(best + 1, len(GRID) - 1)])
    found = scipy.optimize.minimize_scalar(
        lambda log: float(total(np.exp(np.array([log])))[0]), bounds=ends, method="bounded"
    )
    ratio = np.exp(np.array([found.x]))
    # Welch: a ratio has the variance of Σws − rΣwy over (Σwy)²; its sampling part is known as well as from n rows.
    whole, doubt = 0.0, 0.0
    for sums in (first, second):
        of, noise = (float(part[0]) for part in _variances(sums, ratio))
        size = max(sums["wy"] ** 2, float(noise_of(sums)[1]))  # a denominator is not below its noise
        rows = sums["w"] ** 2 / sums["ww"] if sums.get("ww", 0.0) > 0 else sums["w"]
        whole += (of + noise) / size
        doubt += (of / size) ** 2 / max(rows - 1, 1.0)
    return float(found.fun), max(whole**2 / doubt, 1.0) if doubt > 0 else math.inf


def _variances(sums: RatioSums, ratio: Floats) -> tuple[Floats, Floats]:
    """Of Σws − rΣwy at each ratio r: by sampling, and by noise.

    Of a binary y the number of labels is the mean of Σwy and, as r says, Σws/r: a few are a poor estimate, of labels or
    of their absence. The labels' average s is kept.
    """
    of_s, of_y, joint = noise_of(sums)
    squares, products, measured = second_moments(sums)
    labels, both = np.full(ratio.shape, measured), np.full(ratio.shape, products)
    if "wyy" not in sums and measured > 0:
        labels = (measured + max(sums["ws"], 0.0) / ratio) / 2
        both *= labels / measured
    sampled = weight_factor(sums) * np.maximum(squares - 2 * ratio * both + ratio**2 * labels, 0.0)
    return sampled, of_s - 2 * ratio * joint + ratio**2 * of_y
