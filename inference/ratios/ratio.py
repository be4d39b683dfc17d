"""The ratio of two means r = Σws/Σwy, or a rate of noisy counts, with an interval that accounts for the noise.

A classifier's calibration ratio is one: s is the predicted probability, y the label. Noisy sums are released
(`equistrata.inference.ratios.sums`); everything here is post-processing of them.

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

DRAWS = 200  # of the Monte Carlo correction (the paper's B)


@dataclass(frozen=True)
class RatioSettings:
    """The price, mechanism and interval of a private ratio.

    Attributes:
        epsilon, delta: what is spent, ε > 0 and 0 < δ < 1. Laplace noise costs (ε, 0).
        mechanism: which noise; Gaussian is better here except for large ε.
        composition: "joint" adds one noise vector to all sums (`Design.joint`); "basic" is the paper's.
        correction: "analytical" adds the variance of the noise (section 2.4.3); "monte-carlo" the mean square change of
            the ratio under 200 more draws (2.4.2); "none" ignores the noise, so its intervals are too short.
        log: estimate ln r.
        level: nominal coverage, in (0, 1).
        binary: whether y is 0 or 1; then Σwy² = Σwy is not measured.
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
        """The sums and their noise at this price."""
        price = self.epsilon, self.delta, self.mechanism, self.composition
        return PricedDesign.of_epsilon_delta(*price, weighted=weighted, binary=self.binary)


@dataclass(frozen=True, eq=False)
class RatioEstimate:
    """A private ratio (or its logarithm) with a Wald interval; all fields may be published at the cost of `sums`.

    Attributes:
        value: Σws/Σwy or its logarithm; NaN where a noisy sum that must be positive is not.
        variance: of the value about the ratio of the population means; infinite where there is no value.
        lower, upper: value ∓ z√variance, a ratio's cut off at 0; unbounded where there is no value.
        sums, level, correction, log: the noisy sums, and their cost; the settings.
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
    """The ratio Σws/Σwy, privately.

    Args:
        numerator, denominator: s and y, shape (n,), n ≥ 0, in [0, 1]; y is 0 or 1 if `settings.binary`.
        weights: w and its declared bound; None for 1 each.

    Returns:
        The estimate. The interval is a normal approximation (delta method, eq. 1) that needs Σwy well above its noise;
        else use `fieller_from_sums`.

    Raises:
        InputError: lengths that differ, or numbers missing or out of their bounds.

    Cost: (ε, δ)-DP, add-remove; `sums.rho` in zCDP. See docs/proofs/ratio.md.
    Source: Miao and Li, Privacy-preserving inference on the ratio of two Gaussians using sums (2023), sections 2 and 3.
    """
    sums = measure_sums(numerator, denominator, settings.priced(weighted=weights is not None), noise, weights)
    return ratio_from_sums(sums, correction=settings.correction, log=settings.log, level=settings.level)


def ratio_from_sums(
    sums: RatioSums, *, correction: Correction = "analytical", log: bool = False, level: float = 0.95
) -> RatioEstimate:
    """The ratio from noisy sums, of one group or of several added up. Post-processing.

    The draws of "monte-carlo" have a fixed seed: the same sums give the same interval.
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
    """An interval for the ratio that holds even where the denominator may be all noise; its upper end may be infinite.

    The variance of Σws − rΣwy at r is Σw²/Σw · Σw(s − ry)² from the noisy sums, times `alike` where so many rows of a
    unit are sampled together, plus the noise. Coverage: `equistrata.stats.fieller.ratio_interval`, for the ratio of
    population means. Post-processing.

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
    """The rate A/(A + B) of two noisy counts of disjoint groups of rows.

    Args:
        successes, failures: A and B, noisy counts; may be negative.
        variance, failures_variance: of the independent noises of A and B, positive; None for B as for A.
        level: nominal coverage of the interval, in (0, 1).
        alike: rows of a unit, which are sampled together and may be alike (docs/proofs/units.md).

    Returns:
        The rate and an interval for the probability p of a success in the population: the p that A − pN, N = A + B,
        does not refute. Its variance at p is N·p(1 − p), times `alike`, and (1 − p)²σ_A² + p²σ_B²; without noise, of
        single rows, it is Wilson's interval.

    Raises InputError for a variance that is not positive, or a level out of its range.

    Cost: none (post-processing). Source: Wilson (1927) for sampling; `equistrata.stats.fieller` for the rest.

    >>> rate = noisy_rate(successes=180.0, failures=20.0, variance=100.0)  # counts with noise of deviation 10 each
    >>> round(rate.value, 3), round(rate.lower, 3), round(rate.upper, 3)
    (0.9, 0.802, 0.998)
    >>> nothing = noisy_rate(successes=12.0, failures=-3.0, variance=100.0)
    >>> nothing.lower, nothing.upper
    (0.0, 1.0)
    """
    other = variance if failures_variance is None else failures_variance
    if not (variance > 0 and other > 0):
        raise InputError("the variances of the noise must be positive; a count without noise is not private")
    total = successes + failures
    rows = max(total, 0.0)
    spread = Spread(0.0, -rows / 2, -rows).times(alike) + Spread(variance, variance, variance + other)
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
    """The ratio (or its logarithm) and its variance, element by element of arrays of noisy sums of one shape.

    Args:
        sums: name → array, any shape, named as in `RatioSums`.
        noise: the variances of the noise of Σws and Σwy and their covariance.
        draws: noise of Σws and Σwy, each shape (B, 1, …), for "monte-carlo".

    Returns:
        Value (NaN where there is none) and variance; a negative sampling variance counts as 0 with a correction.
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
            variance = variance + np.where(np.isnan(extra), np.inf, extra)  # a draw that leaves no logarithm
    return value, variance


def wald(value: Floats, variance: Floats, level: float, log: bool) -> tuple[Floats, Floats]:
    """value ∓ z√variance, NaN where the variance is negative; a ratio's ends are cut off at 0."""
    with np.errstate(invalid="ignore"):
        half = float(scipy.special.ndtri((1 + level) / 2)) * np.sqrt(variance)
    least = -np.inf if log else 0.0
    return np.maximum(value - half, least), np.maximum(value + half, least)


def sampling(sums: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """The sampling variances of Σws and Σwy and their covariance, from (noisy) sums (eq. 3 and 4 times (Σw)²).

    Zero where the noisy Σw is not positive. `ww` is Σw without weights, `wyy` is Σwy for binary y.
    """
    w = np.where(sums["w"] > 0, sums["w"], np.inf)
    squares = sums.get("ww", np.where(sums["w"] > 0, sums["w"], 0.0))
    mean_s, mean_y = sums["ws"] / w, sums["wy"] / w
    of_s = squares * (sums["wss"] / w - mean_s**2)
    of_y = squares * (sums.get("wyy", sums["wy"]) / w - mean_y**2)
    return of_s, of_y, squares * (sums["wys"] / w - mean_s * mean_y)


def noise_of(sums: RatioSums) -> tuple[float, float, float]:
    """The variances of the noise of Σws and Σwy, and their covariance."""
    s, y = sums.names.index("ws"), sums.names.index("wy")
    return float(sums.covariance[s, s]), float(sums.covariance[y, y]), float(sums.covariance[s, y])


def second_moments(sums: RatioSums) -> tuple[float, float, float]:
    """Σws², Σwsy and Σwy² (Σwy of a binary y): squares of at least 0, and a product that is possible with them."""
    squares, labels = max(sums["wss"], 0.0), max(sums.get("wyy", sums["wy"]), 0.0)
    bound = math.sqrt(squares * labels)
    return squares, min(max(sums["wys"], -bound), bound), labels


def weight_factor(sums: RatioSums) -> float:
    """Σw²/Σw, by which weights multiply the sampling variance; 1 without weights, and where noise hides both."""
    return sums["ww"] / sums["w"] if "ww" in sums and min(sums["w"], sums["ww"]) > 0 else 1.0


def _draws(sums: RatioSums) -> tuple[Floats, Floats]:
    """Draws of the noise of Σws and Σwy, each shape (B, 1)."""
    rng, rows = np.random.default_rng(0), [sums.names.index("ws"), sums.names.index("wy")]
    if sums.laplace is None:
        pair = np.linalg.cholesky(sums.covariance[np.ix_(rows, rows)]) @ rng.standard_normal((2, DRAWS))
    else:
        pair = sums.laplace[rows] @ rng.laplace(0.0, math.sqrt(0.5), (len(sums), DRAWS))
    return pair[0][:, None], pair[1][:, None]


def _check(correction: Correction, level: float) -> None:
    one_of("correction", correction, get_args(Correction))
    share("level", level)
