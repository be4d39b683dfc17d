"""Non-asymptotic intervals for the difference of two private arms (Theorem 4.3 of the federated-experiments paper).

Bernstein's inequality for people, their variance bounded from the private second moments, and Hoeffding's lemma for
their coins. Narrower than the paper's Theorem C.1, with its term for the coins corrected. See docs/proofs/federated.md.

>>> from equistrata.inference.federated.ab_test import ArmDesign, private_arm
>>> from equistrata.inference.federated.renyi import ThetaTarget
>>> settings = ArmDesign(1, ThetaTarget(epsilon=1, delta=1e-6)).settings(20_000)
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
from equistrata.inference.federated.ab_test import ArmSettings
from equistrata.inference.federated.arms import Arm, Target, added, check_interval

MAIN_SHARE = 0.95  # of the failure probability, for the estimate; eight bounds on the variances share the rest


def finite_sample_interval(
    arms: tuple[Arm, Arm], settings: tuple[ArmSettings, ArmSettings], level: float = 0.9, *, target: Target = "pate"
) -> tuple[Floats, Floats]:
    """The difference of two private arms, and the half-width of an interval that covers with at least `level` at any n.

    Args:
        arms, settings: treated and control, as `equistrata.inference.federated.ab_test.private_arm` makes them.
        target: "pate": people are drawn from each arm's population. "sate": the effect is that among these people,
            whose arm is drawn without replacement.

    Returns:
        The estimate and the half-width, in the unit of the values; arrays if the arms hold arrays.

    Cost: none (post-processing).
    """
    check_interval(level, target)
    beta = 1 - level
    small = math.log(8 / (beta * (1 - MAIN_SHARE)))
    log = math.log(2 / (beta * MAIN_SHARE))
    radius = settings[0].mean.radius
    deviations = [_largest_deviation(arm, chosen, small, target) for arm, chosen in zip(arms, settings, strict=True)]
    sizes = [arm.rows for arm in arms]
    if target == "pate":
        people = added(s**2 / n for s, n in zip(deviations, sizes, strict=True))
        step = 2 * radius / min(sizes)
    else:
        people = min(sizes) * added(s / n for s, n in zip(deviations, sizes, strict=True)) ** 2
        step = 2 * radius * sum(1 / n for n in sizes)
    coins = sum(chosen.mean.noise(n) for chosen, n in zip(settings, sizes, strict=True))
    half = np.sqrt(2 * (people + coins) * log) + step * log / 3
    return np.asarray(arms[0].mean) - np.asarray(arms[1].mean), np.asarray(half)


def _largest_deviation(arm: Arm, settings: ArmSettings, log: float, target: Target) -> Floats:
    """A bound on the standard deviation of an arm's values; fails with probability at most 4·e^(−log)."""
    n, radius = arm.rows, settings.mean.radius
    both_sides = log + math.log(2)
    mean_slack = math.sqrt(2 * settings.mean.noise(n) * both_sides)  # Hoeffding: a variance proxy is all it needs
    moment_slack = math.sqrt(2 * settings.squares.noise(n) * log)
    if target == "sate":
        mean_slack += radius * math.sqrt(2 * both_sides / n)  # range 2R
        moment_slack += radius**2 * math.sqrt(log / (2 * n))  # range R²
    largest_moment = np.clip(np.asarray(arm.moment) + moment_slack, 0, radius**2)
    least_mean = np.maximum(np.abs(arm.mean) - mean_slack, 0)
    variance = np.maximum(largest_moment - least_mean**2, 0)
    if target == "sate":
        return np.asarray(np.minimum(np.sqrt(variance), radius))
    sample = np.sqrt(variance * n / (n - 1))
    return np.asarray(np.minimum(sample + 2 * radius * math.sqrt(2 * log / (n - 1)), radius))
