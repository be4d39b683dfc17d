"""The arms of an A/B test, and intervals for linear combinations of their means.

The mean of an arm has a known noise variance and an estimated sampling variance ŝ²/n, which may be noisy because of
privacy. This applies to exact arms, to arms with central Gaussian noise, and to arms with the Poisson-binomial
mechanism.

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
    """One arm with n people.

    The fields `mean`, `variance`, `noise` and `variance_noise` may be arrays over simulated runs.

    Attributes
    ----------
    rows : int
        The public number n of people, at least 2.
    mean : float or ndarray
        The estimate of the mean.
    variance : float or ndarray
        The estimate ŝ² of the variance among people. It is unbiased, and the noise may make it negative.
    noise : float or ndarray, default=0.0
        The noise variance of the mean if all people had the same value.
    overlap : float, default=0.0
        For the Poisson-binomial mechanism, 1/m, because its noise variance is reduced by s²/(nm) if people differ. It
        is 0 for other mechanisms.
    variance_noise : float or ndarray, default=0.0
        The noise variance of ŝ². It is 0 if ŝ² is exact.
    radius : float, default=inf
        The radius R. The values are in [−R, R].
    alike : int, default=1
        The largest number of rows of a unit, which may be equal. These rows are sampled together, so the sampling
        variance is up to `alike` times as large.
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
    """Return the number of rows of an arm. Raise InputError if it is not a whole number of at least 2."""
    if isinstance(rows, bool) or not hasattr(rows, "__index__") or index(rows) < 2:
        raise InputError(f"an arm needs at least two rows to estimate a variance, but one arm has {rows!r}")
    return index(rows)


def combine(
    arms: Sequence[Arm], coefficients: Sequence[float], level: float = 0.95, *, target: Target = "pate"
) -> tuple[Floats, Floats]:
    """Compute Σ c_j·mean_j over independent arms, and the half-width of its interval.

    The variances are added: Σ c_j²(noise_j + s_j²(1 − overlap_j)/n_j). This is the formula in the proof and in the
    tables of the paper, but not in the ± line of its Algorithm 1. If ŝ² is noisy, the width is calibrated (see
    `equistrata.stats.noisy_variance`). If this noise is larger than the known variance (ω > 1), s² is replaced by its
    bound R².

    Parameters
    ----------
    arms : sequence of Arm
        The arms.
    coefficients : sequence of float
        One coefficient per arm. For a difference, they are 1 and −1.
    level : float, default=0.95
        The asymptotic coverage, in (0, 1).
    target : {"pate", "sate"}, default="pate"
        If "pate", the interval is for the mean difference in the population. If "sate", it is for the mean difference
        among these people, for two arms with the coefficients 1 and −1. In this case the term (s_t − s_c)²/(n_t + n_c)
        is subtracted from the variance, as far as noise does not explain this difference, if each row is a unit. It is
        still an upper bound.

    Returns
    -------
    tuple of two ndarray
        The estimate and its half-width, in the unit of the values. It is post-processing of the arms.

    Raises
    ------
    InputError
        If `check_interval` raises it, or if "sate" is used with other arms or coefficients.
    """
    check_interval(level, target)
    if target == "sate" and (len(arms) != 2 or list(coefficients) not in ([1, -1], [-1, 1])):
        raise InputError("target 'sate' needs exactly two arms, with the coefficients 1 and -1")
    pairs = list(zip(arms, coefficients, strict=True))
    value = added(c * np.asarray(arm.mean) for arm, c in pairs)
    known = added(c**2 * np.asarray(arm.noise) for arm, c in pairs)
    weighted = [(arm, c**2 * (arm.alike - arm.overlap) / arm.rows) for arm, c in pairs]
    people = added(w * np.asarray(arm.variance) for arm, w in weighted)
    if target == "sate" and max(arm.alike for arm in arms) == 1:  # otherwise the larger bound is used
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
    """Return the interval of `combine` for arms that are not arrays.

    The parameter `shift` is added to the value and the ends.
    """
    value, half = (float(number) for number in combine(arms, coefficients, level, target=target))
    return Interval(value + shift, value + shift - half, value + shift + half)


def added(terms: Iterable[Number]) -> Floats:
    """Return the sum of the terms as an array, which has no dimensions if the terms are numbers."""
    return np.asarray(sum(terms, np.zeros(())))


def check_interval(level: float, target: str) -> None:
    """Raise InputError if the level is not in (0, 1), or if the target is not "pate" or "sate"."""
    share("level", level)
    one_of("target", target, get_args(Target))


def _shared_part(treated: Arm, control: Arm) -> Floats:
    """Return (s_t − s_c)²/n, reduced by the part that two standard deviations of the noise of the variances explain."""
    gap = np.asarray(treated.variance) - np.asarray(control.variance)
    noise = np.asarray(treated.variance_noise) + np.asarray(control.variance_noise)
    spread = np.sqrt(np.maximum(treated.variance, 0)) - np.sqrt(np.maximum(control.variance, 0))
    sure = np.maximum(0.0, 1 - 4 * noise / np.where(gap == 0, 1, gap**2))
    return np.asarray(sure * spread**2 / (treated.rows + control.rows))
