"""Tests of the exact test and interval for a proportion, with a level and coverage that are computed for small tables.

The level of a test on Binomial + Laplace is a sum of tail probabilities of the Laplace distribution over all counts.
The ends of the acceptance region are found by bisection on the p-value.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import noisy_count
from equistrata.inference.counts.proportions import exact_interval, exact_p_value, exact_power
from equistrata.privacy.noise import SeededNoise
from equistrata.stats.distributions import BinomialLaplace

ROWS = (5, 6, 10, 17, 25, 37, 50)
EPSILONS = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
PROPORTIONS = tuple(np.linspace(0.05, 0.95, 19))
GRID = list(itertools.product(ROWS, EPSILONS))


def laplace_mass(low, high, rows, p, epsilon):
    """Return P(low < Y < high) for Y ~ Binomial(rows, p) + Laplace(1/ε) as the sum over the counts."""
    k = np.arange(rows + 1)
    pmf = stats.binom.pmf(k, rows, p)
    laplace = stats.laplace(scale=1 / epsilon)
    return float(pmf @ (laplace.cdf(high - k) - laplace.cdf(low - k)))


def acceptance(alpha, **settings):
    """Return the noisy counts with a p-value of alpha, which are found by bisection."""
    middle, reach = settings["rows"] / 2, settings["rows"] + 60 / settings["epsilon"]
    inside = middle
    for guess in np.linspace(0, settings["rows"], 64):
        if exact_p_value(guess, **settings) > alpha:
            inside = guess
    low_in, low_out = inside, middle - reach
    high_in, high_out = inside, middle + reach
    for _ in range(60):
        low, high = (low_in + low_out) / 2, (high_in + high_out) / 2
        accepted = exact_p_value(np.array([low, high]), **settings) > alpha
        low_in, low_out = (low, low_out) if accepted[0] else (low_in, low)
        high_in, high_out = (high, high_out) if accepted[1] else (high_in, high)
    return low_in, high_in


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "epsilon"), GRID)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_the_level_is_kept_everywhere(rows, epsilon, alpha):
    for p in PROPORTIONS:
        low, high = acceptance(alpha, rows=rows, p0=p, epsilon=epsilon)
        assert 1 - laplace_mass(low, high, rows, p, epsilon) == pytest.approx(alpha, abs=1e-7)


@pytest.mark.parametrize(("rows", "epsilon"), [(5, 0.05), (5, 2.0), (50, 0.5)])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_p_values_of_released_counts_are_uniform(rows, epsilon, alternative):
    """A Kolmogorov-Smirnov test at level 10⁻³ of the p-values of 4,000 released counts, with p₀ = 0.3."""
    rng = np.random.default_rng(rows)
    counts = [
        noisy_count(rng.random(rows) < 0.3, epsilon=epsilon, noise=SeededNoise(seed)).value for seed in range(4000)
    ]
    values = exact_p_value(np.array(counts), rows=rows, p0=0.3, epsilon=epsilon, alternative=alternative)
    assert stats.kstest(values, "uniform").pvalue > 1e-3
    wrong = exact_p_value(np.array(counts), rows=rows, p0=0.3, epsilon=2 * epsilon, alternative=alternative)
    assert stats.kstest(wrong, "uniform").pvalue < 1e-3  # the p-values are wrong if the noise scale is half as large


def test_one_sided_tests_keep_their_level_on_the_whole_side():
    """If the alternative is "greater" and p₀ = 0.3, the rejection rate must not be larger for a proportion that is less
    than 0.3.
    """
    critical = BinomialLaplace(20, 0.3, 2.0).quantile(0.95)
    levels = [float(BinomialLaplace(20, p, 2.0).sf(critical)) for p in np.linspace(0, 0.3, 31)]
    assert levels == sorted(levels)
    assert levels[-1] == pytest.approx(0.05)


@pytest.mark.parametrize(("rows", "epsilon"), [(5, 0.05), (5, 2.0), (20, 0.3), (50, 1.0)])
def test_interval_covers_at_every_proportion(rows, epsilon):
    """The coverage at p is the probability of the counts with an interval that contains p."""
    alpha, steps = 0.1, 600
    grid = np.linspace(-0.001, rows + 0.001, steps + 1)
    intervals = [exact_interval(y, rows=rows, epsilon=epsilon, alpha=alpha) for y in grid]
    for p in (0.0, 0.02, 0.25, 0.5, 0.9, 1.0):
        covered = [low <= p <= high for low, high in intervals]
        first, last = np.flatnonzero(covered)[[0, -1]]
        assert all(covered[first : last + 1])
        # The ends of the grid are extended to infinity. Between the ends, only counts that are certainly covered are
        # used.
        low = -math.inf if first == 0 else grid[first]
        high = math.inf if last == steps else grid[last]
        slack = rows / steps * epsilon  # the largest error due to the grid, which is its step times the largest density
        assert laplace_mass(low, high, rows, p, epsilon) >= 1 - alpha - slack


def test_interval_tends_to_clopper_and_pearsons():
    found = exact_interval(7.0, rows=20, epsilon=1e4, alpha=0.05)
    # The noise splits a tie, so an integer count is between "at least 7" and "more than 7".
    theirs = stats.binomtest(7, 20).proportion_ci(0.95, "exact")
    assert theirs.low < found[0] < found[1] < theirs.high
    assert found == pytest.approx((theirs.low, theirs.high), abs=0.03)
    assert exact_interval(6.9, rows=20, epsilon=1e4)[0] == pytest.approx(theirs.low, abs=1e-6)


@pytest.mark.parametrize("p", [0.05, 0.25, 0.45, 0.9])
def test_power_by_simulation(p):
    rng = np.random.default_rng(2)
    runs = 100_000
    counts = rng.binomial(30, p, runs) + rng.laplace(0, 2.0, runs)
    rejected = np.mean(exact_p_value(counts, rows=30, p0=0.25, epsilon=0.5) <= 0.05)
    found = exact_power(p, p0=0.25, rows=30, epsilon=0.5, alpha=0.05)
    assert abs(rejected - found) <= 4 * math.sqrt(found * (1 - found) / runs)


SETTINGS = {"rows": 20, "p0": 0.3, "epsilon": 0.5}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"rows": 0}, "rows"),
        ({"p0": -0.1}, "p0"),
        ({"p0": math.nan}, "p0"),
        ({"epsilon": 0}, "epsilon"),
        ({"alternative": "up"}, "up"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        exact_p_value(3.0, **(SETTINGS | bad))


def test_a_count_that_is_no_number_is_refused_and_not_quoted():
    for call in (
        lambda: exact_p_value([1.0, math.inf], **SETTINGS),
        lambda: exact_interval(math.nan, rows=20, epsilon=0.5),
    ):
        with pytest.raises(InputError, match="the noisy count is not a finite number"):
            call()
    with pytest.raises(InputError, match="alpha"):
        exact_interval(3.0, rows=20, epsilon=0.5, alpha=0.0)
