"""Tests of Fieller intervals, which are compared with a grid search and with Wilson's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from equistrata.errors import InputError
from equistrata.inference.ratios.ratio import noisy_rate
from equistrata.stats.fieller import Spread, ratio_interval, unbounded_limits

Z2 = norm.ppf(0.975) ** 2
number = st.floats(-200, 200).map(lambda x: round(x, 2))
positive = st.floats(1, 400).map(lambda x: round(x, 1))


def on_a_grid(x, n, spread, grid):
    """Return the ends of the interval on a grid. The first is the largest ratio that is rejected as too small, and the
    second is the smallest ratio that is rejected as too large.
    """
    difference = x - grid * n
    variance = np.maximum(spread.of_x - 2 * grid * spread.joint + grid**2 * spread.of_n, 0)
    refuted = difference**2 > Z2 * variance
    small, large = grid[refuted & (difference > 0)], grid[refuted & (difference < 0)]
    return (small.max() if small.size else -math.inf), (large.min() if large.size else math.inf)


@given(number, number, positive, positive, st.floats(-0.95, 0.95), st.sampled_from([1.0, 3.0, math.inf]))
def test_agrees_with_its_definition(x, n, of_x, of_n, correlation, upper):
    spread = Spread(of_x, correlation * math.sqrt(of_x * of_n), of_n)
    lower, found = ratio_interval(x, n, spread, upper=upper)
    last = upper if math.isfinite(upper) else 2000.0
    step = last / 40_000
    small, large = on_a_grid(x, n, spread, np.linspace(0, last, 40_001))
    assert 0 <= lower < found <= upper
    if (
        small >= last - step or large <= step or small >= large
    ):  # all ratios are rejected, or the two sides contradict each other
        return
    assert lower == pytest.approx(max(small, 0), abs=2 * step)
    if large < math.inf:
        assert found == pytest.approx(large, abs=2 * step)
    else:
        assert found == upper or found > last


def test_plain_denominator_gives_wald_and_its_symmetry():
    x, n = 5000.0, 10_000.0
    lower, upper = ratio_interval(x, n, Spread(100.0, 20.0, 100.0))
    half = math.sqrt(Z2 * (100 - 2 * 0.5 * 20 + 0.25 * 100)) / n
    assert (lower, upper) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-4)


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (1, 10), (5, 10), (37, 40), (200, 1000), (10, 10)])
def test_rates_without_noise_are_wilsons(hits, rows):
    found = noisy_rate(hits, rows - hits, 1e-12)
    middle = (hits + Z2 / 2) / (rows + Z2)
    half = math.sqrt(Z2) / (rows + Z2) * math.sqrt(hits * (rows - hits) / rows + Z2 / 4)
    assert (found.lower, found.upper) == pytest.approx((max(middle - half, 0), min(middle + half, 1)), abs=1e-4)
    assert found.value == hits / rows


def miss_rate(draw, truth, runs=6000, seed=0, **bounds):
    rng = np.random.default_rng(seed)
    misses = 0
    for _ in range(runs):
        lower, upper = ratio_interval(*draw(rng), **bounds)
        misses += not lower <= truth <= upper
    return misses / runs


@pytest.mark.parametrize("signal", [0.0, 0.5, 1.0, 2.0, 4.0, 10.0])
@pytest.mark.parametrize("truth", [0.5, 1.0, 2.0])
def test_coverage_from_pure_noise_to_plain_signal(signal, truth):
    """The noise has a standard deviation of 1. The bound of the miss rate is 8.7 %, and its
    standard error is 0.36 %.
    """

    def draw(rng):
        return truth * signal + rng.normal(), signal + rng.normal(), Spread(1.0, 0.0, 1.0)

    missed = miss_rate(draw, truth)
    assert missed <= 0.0866 + 5 * 0.0036
    assert missed >= 0.05 - 5 * 0.0028  # the interval is not wider than necessary
    if signal >= 4:
        assert missed <= 0.05 + 5 * 0.0028


@pytest.mark.parametrize("rows", [0, 3, 20, 100, 400])
@pytest.mark.parametrize("chance", [0.02, 0.5, 0.9])
def test_rates_cover(rows, chance):
    """The noise has a standard deviation of 15. The maximum of the miss rate is 8.7 % if there are no rows and 5 % if
    there are many rows.
    """
    rng = np.random.default_rng([rows, int(100 * chance)])
    misses = 0
    for _ in range(3000):
        hits = rng.binomial(rows, chance)
        found = noisy_rate(hits + 15 * rng.normal(), rows - hits + 15 * rng.normal(), 225.0)
        misses += not found.lower <= chance <= found.upper
    assert misses / 3000 <= 0.0866 + 5 * 0.0052
    if rows == 400:
        assert misses / 3000 <= 0.05 + 5 * 0.004


def test_what_contradicts_itself_says_nothing():
    assert ratio_interval(-50.0, -50.0, Spread(1.0, 0.0, 1.0)) == (0.0, math.inf)
    assert noisy_rate(-50.0, -50.0, 1.0).lower == 0.0
    assert noisy_rate(-50.0, -50.0, 1.0).upper == 1.0


def test_beyond_an_end_it_keeps_a_width():
    """If no ratio is in the interval, the end with the smallest distance is used with its error."""
    lower, upper = ratio_interval(-10.0, 100.0, Spread(4.0, 0.0, 4.0))
    assert (lower, upper) == pytest.approx((0.0, 2 * math.sqrt(Z2) / 100))
    lower, upper = ratio_interval(110.0, 100.0, Spread(4.0, 0.0, 4.0), upper=1.0)
    assert (lower, upper) == pytest.approx((1 - math.sqrt(8 * Z2) / 100, 1.0))
    rate = noisy_rate(100.0, -30.0, 1.0)
    assert rate.value == rate.upper == 1.0
    assert 0.9 < rate.lower < 1.0


def test_bad_settings():
    for settings in ({"level": 0.0}, {"level": 1.0}, {"lower": 1.0, "upper": 1.0}, {"lower": -math.inf}):
        with pytest.raises(InputError):
            ratio_interval(1.0, 1.0, Spread(1.0, 0.0, 1.0), **settings)
    with pytest.raises(InputError, match="without noise"):
        noisy_rate(5.0, 5.0, 0.0)


@given(number, number, positive, positive, st.floats(-0.95, 0.95))
def test_limits_that_nothing_cuts_off_are_where_ratios_are_just_refuted(x, n, of_x, of_n, correlation):
    spread = Spread(of_x, correlation * math.sqrt(of_x * of_n), of_n)
    found = unbounded_limits(x, n, spread)
    if n <= 0 or n**2 <= Z2 * of_n:
        assert found is None
        return
    assert found is not None
    assert found[0] < x / n < found[1]
    for end in found:
        scale = x**2 + end**2 * n**2 + Z2 * (of_x + end**2 * of_n)
        assert (x - end * n) ** 2 - Z2 * spread.at(end) == pytest.approx(0, abs=1e-6 * scale)
    if found[0] > 0:
        assert ratio_interval(x, n, spread) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("sigma", [5.0, 15.0, 25.0])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_a_count_far_below_zero_does_not_make_the_interval_of_a_tiny_group_short(sigma, chance):
    """A group of 17 rows cannot show a rate more precisely than Wilson's interval without noise."""
    rng = np.random.default_rng([int(sigma), int(10 * chance)])
    misses = 0
    for _ in range(2000):
        hits = rng.binomial(17, chance)
        found = noisy_rate(hits + sigma * rng.normal(), 17 - hits + sigma * rng.normal(), sigma**2)
        assert found.upper - found.lower > 0.15
        misses += not found.lower <= chance <= found.upper
    assert misses / 2000 <= 0.05
