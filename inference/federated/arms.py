"""Arms of an A/B test, and intervals for combinations of their means.

An arm's mean has a known noise variance and an estimated sampling variance ŝ²/n, which privacy may make noisy. Exact,
central-Gaussian and Poisson-binomial arms all have this form.

>>> treated = Arm(rows=500, mean=0.1, variance=0.01, noise=1e-4)
>>> control = Arm(rows=500, mean=-0.1, variance=0.01, noise=1e-4)
>>> value, half_width = combine([treated, control], [1, -1], level=0.9)
>>> round(float(value), 3), round(float(half_width), 4)
(0.2, 0.0255)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Literal, get_args

import numpy as np

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.means.estimate import Interval
from equistrata.stats.checks import one_of, share
from equistrata.stats.noisy_variance import LARGEST_OMEGA, normal_quantile, variance_factor

Number = float | Floats
Target = Literal["pate", "sate"]


@dataclass(frozen=True)
class Arm:
    """One arm of n people. Every field but `rows`, `overlap`, `radius` and `alike` may be an array over simulated runs.

    Attributes:
        rows: n ≥ 2, public.
        mean: the estimate of the mean.
        variance: ŝ², unbiased for the variance among people; noise may make it negative.
        noise: the noise variance of the mean if all people were alike.
        overlap: 1/m for the Poisson-binomial mechanism, whose noise is less by s²/(nm) where people differ; else 0.
        variance_noise: the noise variance of ŝ²; 0 if ŝ² is exact.
        radius: R; the values lie in [−R, R].
        alike: the most rows of a unit, which may be alike: sampled together, rows vary up to so many times as much.
    """

    rows: int
    mean: Number
    variance: Number
    noise: Number = 0.0
    overlap: float = 0.0
    variance_noise: Number = 0.0
    radius: float = math.inf
    alike: int = 1

    def __post_init__(self) -> None:
        check_rows(self.rows)


def check_rows(rows: int) -> int:
    """The rows of an arm, a whole number of at least 2. Raises InputError."""
    if isinstance(rows, bool) or not hasattr(rows, "__index__") or index(rows) < 2:
        raise InputError(f"an arm needs at least two rows for a variance, and one has {rows!r}")
    return index(rows)


def combine(
    arms: Sequence[Arm], coefficients: Sequence[float], level: float = 0.95, *, target: Target = "pate"
) -> tuple[Floats, Floats]:
    """Σ c_j·mean_j over independent arms, and the half-width of its interval of the given level. Post-processing.

    The variances are added: Σ c_j²(noise_j + s_j²(1 − overlap_j)/n_j), as in the paper's proof and tables, not in the ±
    line of its Algorithm 1. Where ŝ² is noisy, the width is calibrated (`equistrata.stats.noisy_variance`); where that
    noise exceeds the known variance (ω > 1), s² is replaced by its bound R².

    Args:
        arms, coefficients: as many of each; a difference has coefficients 1 and −1.
        level: the asymptotic coverage, in (0, 1).
        target: "pate" for the population's mean difference; "sate" for that of these people, with exactly two arms and
            coefficients 1 and −1. Its variance is smaller by (s_t − s_c)²/(n_t + n_c), as far as noise does not
            explain that, and still an upper bound.

    Returns:
        The estimate and its half-width, in the unit of the values.

    Raises InputError as `check_interval`, or where "sate" is asked of other arms or coefficients.
    """
    check_interval(level, target)
    if target == "sate" and (len(arms) != 2 or list(coefficients) not in ([1, -1], [-1, 1])):
        raise InputError("an average effect among these people takes two arms and the coefficients 1 and -1")
    pairs = list(zip(arms, coefficients, strict=True))
    value = added(c * np.asarray(arm.mean) for arm, c in pairs)
    known = added(c**2 * np.asarray(arm.noise) for arm, c in pairs)
    weighted = [(arm, c**2 * (arm.alike - arm.overlap) / arm.rows) for arm, c in pairs]
    people = added(w * np.asarray(arm.variance) for arm, w in weighted)
    if target == "sate" and max(arm.alike for arm in arms) == 1:  # else the bound without it holds
        people = people - _shared_part(arms[0], arms[1])
    uncertain = np.sqrt(added(w**2 * np.asarray(arm.variance_noise) for arm, w in weighted))
    most = sum(w * arm.radius**2 for arm, w in weighted)
    known, people, uncertain = np.broadcast_arrays(known, people, uncertain)
    variance = known + np.maximum(people, 0)
    noisy = (uncertain > 0) & (known > 0)
    if noisy.any():
        omega = np.where(noisy, uncertain / np.where(noisy, known, 1), 0.0)
        readable = noisy & (omega <= LARGEST_OMEGA)
        scale = np.where(readable, known, 1.0)
        factor = variance_factor(np.where(readable, people / scale, 0), np.where(readable, omega, 0), level)
        variance = np.where(readable, known * factor, np.where(noisy, known + most, variance))
    return value, normal_quantile(level) * np.sqrt(variance)


def interval_of(
    arms: Sequence[Arm], coefficients: Sequence[float], level: float, *, target: Target = "pate", shift: float = 0.0
) -> Interval:
    """What `combine` finds for single arms, moved by `shift`."""
    value, half = (float(number) for number in combine(arms, coefficients, level, target=target))
    return Interval(value + shift, value + shift - half, value + shift + half)


def added(terms: Iterable[Number]) -> Floats:
    """The sum as an array, of no dimension for numbers."""
    return np.asarray(sum(terms, np.zeros(())))


def check_interval(level: float, target: str) -> None:
    """Raise InputError unless 0 < level < 1 and the target is "pate" or "sate"."""
    share("level", level)
    one_of("target", target, get_args(Target))


def _shared_part(treated: Arm, control: Arm) -> Floats:
    """(s_t − s_c)²/n, less what two standard deviations of the noise of the variances explain."""
    gap = np.asarray(treated.variance) - np.asarray(control.variance)
    noise = np.asarray(treated.variance_noise) + np.asarray(control.variance_noise)
    spread = np.sqrt(np.maximum(treated.variance, 0)) - np.sqrt(np.maximum(control.variance, 0))
    sure = np.maximum(0.0, 1 - 4 * noise / np.where(gap == 0, 1, gap**2))
    return np.asarray(sure * spread**2 / (treated.rows + control.rows))
