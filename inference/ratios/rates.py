"""Rates (accuracy, false-negative rate, selection rate) from noisy counts, with intervals that allow for the noise.

>>> rate = noisy_rate(successes=180.0, failures=20.0, variance=100.0)  # counts with noise of deviation 10 each
>>> round(rate.value, 3), round(rate.lower, 3), round(rate.upper, 3)
(0.9, 0.802, 0.998)
>>> nothing = noisy_rate(successes=12.0, failures=-3.0, variance=100.0)
>>> nothing.lower, nothing.upper
(0.0, 1.0)
"""

from __future__ import annotations

from equistrata.errors import InputError
from equistrata.inference.means.estimate import Interval
from equistrata.stats.fieller import Spread, ratio_interval


def noisy_rate(
    successes: float, failures: float, variance: float, *, failures_variance: float | None = None, level: float = 0.95
) -> Interval:
    """The rate A/(A + B) of two noisy counts of disjoint groups of rows.

    Args:
        successes, failures: A and B, noisy counts; may be negative.
        variance, failures_variance: of the independent noises of A and B, positive; None for B as for A.
        level: nominal coverage of the interval, in (0, 1).

    Returns:
        The rate and an interval for the probability p of a success in the population: the p that A − pN, N = A + B,
        does not refute. Its variance at p is N·p(1 − p) + (1 − p)²σ_A² + p²σ_B²; without noise it is Wilson's interval.

    Cost: none (post-processing). Source: Wilson (1927) for sampling; `equistrata.stats.fieller` for the rest.
    """
    other = variance if failures_variance is None else failures_variance
    if not (variance > 0 and other > 0):
        raise InputError("the variances of the noise must be positive; a count without noise is not private")
    total = successes + failures
    rows = max(total, 0.0)
    spread = Spread(0.0, -rows / 2, -rows) + Spread(variance, variance, variance + other)
    lower, upper = ratio_interval(successes, total, spread, level=level, lower=0.0, upper=1.0)
    value = successes / total if total > 0 else (lower + upper) / 2
    return Interval(min(max(value, lower), upper), lower, upper)
