"""Intervals for a difference of arms that hold at any number of people, not only as it grows.

Let S = Δ̂ − Δ. It is a sum of independent parts: what the draw of people makes of it (each person moves it by at most
b = 2R/min(n_t, n_c), total variance V_s), and what their coins make of it, given the people (each of the n_j·m_j coins of
an arm moves it by R/(n_j m_j θ_j), so by Hoeffding's lemma a variance proxy V_n = Σ R²/(4n_j m_j θ_j²)). The logarithm of
E exp(λS) is at most λ²V_s/(2(1 − λb/3)) + λ²V_n/2, so that (Bernstein; Boucheron, Lugosi and Massart, Theorem 2.10)

    P( |S| > √(2(V_s + V_n)L) + bL/3 ) ≤ 2·e^(−L).

V_s is bounded from the private second moments: the sample variance is at most what the noisy moments allow (Hoeffding),
and the standard deviation of the population exceeds that of the sample by at most 2R√(2 ln(1/β)/(n − 1)) (Maurer and Pontil,
arXiv:0907.3740, Theorem 10).

The paper's Theorem C.1 adds the standard deviations of people and coins instead, and its term for the coins is
√(R² ln(1200/δ)/(2mnθ²)), half of what Hoeffding's inequality gives for nm coins of range 2R/(nmθ); it also leaves out what
the two arms' means contribute to the error of their variances. This bound is narrower than its, and it holds.

>>> from equistrata.inference.federated.arms_private import private_arm, settle
>>> settings = settle(20_000, radius=1, epsilon=1, delta=1e-6)
>>> sums = [int(n * (m - 1) / 2) for n, m in [(20_000, 1024)] * 2]
>>> arm = private_arm(sums, settings)
>>> value, half_width = finite_sample_interval((arm, arm), (settings, settings), level=0.9)
>>> round(float(half_width), 3)
0.019
"""

from __future__ import annotations

import math

import numpy as np

from equistrata.arrays import Floats
from equistrata.inference.federated.arms import Arm, Target, check_interval
from equistrata.inference.federated.arms_private import ArmSettings

__all__ = ["finite_sample_interval"]

MAIN_SHARE = (
    0.95  # of the failure probability, for the estimate itself; the rest is shared by eight bounds on the variances
)


def finite_sample_interval(
    arms: tuple[Arm, Arm], settings: tuple[ArmSettings, ArmSettings], level: float = 0.9, *, target: Target = "pate"
) -> tuple[Floats, Floats]:
    """The difference of two private arms and the half-width of an interval that covers with at least `level`, at any n.

    Args:
        arms: treated and control, as `equistrata.inference.federated.arms_private.private_arm` makes them.
        settings: what their people reported by.
        level: in (0, 1).
        target: "pate": the people are independent draws from each arm's population. "sate": they are these people, and
            which arm they are in is drawn without replacement; the effect is that among them.

    Returns:
        The estimate and the half-width, in the unit of the values; arrays if the arms hold arrays.

    Raises:
        InputError: a level outside (0, 1).

    Privacy: post-processing.

    For "sate", S is a sum of a_i = y_i(t)/n_t + y_i(c)/n_c over a sample without replacement, whose exponential moments are
    at most those with replacement (Hoeffding): V_s = min(n_t, n_c)·(σ_t/n_t + σ_c/n_c)², σ over all people, and
    b = 2R(1/n_t + 1/n_c). The σ are bounded by Hoeffding's inequality on both moments of each arm, which also holds
    without replacement.
    """
    check_interval(level, target)
    beta = 1 - level
    small = math.log(8 / (beta * (1 - MAIN_SHARE)))
    log = math.log(2 / (beta * MAIN_SHARE))
    radius = settings[0].mean.radius
    deviations = [_largest_deviation(arm, chosen, small, target) for arm, chosen in zip(arms, settings, strict=True)]
    sizes = [arm.rows for arm in arms]
    if target == "pate":
        people = sum((s**2 / n for s, n in zip(deviations, sizes, strict=True)), np.zeros(()))
        step = 2 * radius / min(sizes)
    else:
        people = min(sizes) * sum((s / n for s, n in zip(deviations, sizes, strict=True)), np.zeros(())) ** 2
        step = 2 * radius * sum(1 / n for n in sizes)
    coins = sum(chosen.mean.noise(n) for chosen, n in zip(settings, sizes, strict=True))
    half = np.sqrt(2 * (people + coins) * log) + step * log / 3
    return np.asarray(arms[0].mean) - np.asarray(arms[1].mean), np.asarray(half)


def _largest_deviation(arm: Arm, settings: ArmSettings, log: float, target: Target) -> Floats:
    """A bound on the standard deviation of the values behind an arm; fails with probability at most 4·e^(−log).

    e^(−log) for the coins of the second moment, and e^(−log) for those of the mean (half for each side, as the sign is not
    known); for the step from the sample to the population, e^(−log), or for "sate" twice that, once for each moment.
    """
    n, radius = arm.rows, settings.mean.radius
    both_sides = log + math.log(2)
    mean_slack = math.sqrt(2 * settings.mean.noise(n) * both_sides)  # Hoeffding: a variance proxy is all it needs
    moment_slack = math.sqrt(2 * settings.squares.noise(n) * log)
    mean = np.asarray(arm.mean)
    moment = np.asarray(arm.moment)
    if target == "sate":
        mean_slack += radius * math.sqrt(2 * both_sides / n)  # range 2R
        moment_slack += radius**2 * math.sqrt(log / (2 * n))  # range R²
    largest_moment = np.clip(moment + moment_slack, 0, radius**2)
    least_mean = np.maximum(np.abs(mean) - mean_slack, 0)
    variance = np.maximum(largest_moment - least_mean**2, 0)
    if target == "sate":
        return np.asarray(np.minimum(np.sqrt(variance), radius))
    sample = np.sqrt(variance * n / (n - 1))
    return np.asarray(np.minimum(sample + 2 * radius * math.sqrt(2 * log / (n - 1)), radius))
