"""Tests of the accounting of the Poisson-binomial mechanism, which is compared with convolutions for small n.

The tests are not random.
"""

import math
from itertools import product

import numpy as np
import pytest
from estimators import solve_theta, solve_thetas
from scipy.special import logsumexp
from scipy.stats import binom

from equistrata.errors import InputError
from equistrata.inference.federated import sum_law
from equistrata.inference.federated.renyi import (
    epsilon_of,
    epsilon_spent,
    renyi_exact,
    renyi_fast,
)
from equistrata.privacy.budget import Rho


def law(low, high, theta):
    """Return the distribution of `low` coins with ½ − θ and `high` coins with ½ + θ by convolution."""
    return np.convolve(
        binom.pmf(np.arange(low + 1), low, 0.5 - theta), binom.pmf(np.arange(high + 1), high, 0.5 + theta)
    )


def divergence(p, q, order):
    return logsumexp(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1)


def slow(n, m, theta, order):
    return divergence(law(n * m, 0, theta), law(n * m - m, m, theta), order)


@pytest.mark.parametrize("theta", [0.02, 0.1, 0.25])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 6), (2, 1), (2, 7), (5, 3), (40, 8), (100, 2)])
def test_exact_is_the_convolution(n, m, theta):
    for order in (1.001, 1.5, 2, 9.7, 64):
        assert renyi_exact(n, m, theta, order) == pytest.approx(slow(n, m, theta, order), rel=1e-7)


def test_a_window_changes_nothing(monkeypatch):
    settings = [(n, m, theta) for n, m in ((3000, 1), (300, 20)) for theta in (0.01, 0.25)]
    windowed = [renyi_exact(*setting, order) for setting in settings for order in (1.5, 2, 64)]
    assert sum_law.law_of(3000, 1, 0.01).high - sum_law.law_of(3000, 1, 0.01).low < 2000
    sum_law.law_of.cache_clear()
    widen = sum_law.SumLaw._widen
    monkeypatch.setattr(sum_law.SumLaw, "_widen", lambda law, low, high: widen(law, 0, law.total))
    whole = [renyi_exact(*setting, order) for setting in settings for order in (1.5, 2, 64)]
    sum_law.law_of.cache_clear()
    assert windowed == pytest.approx(whole, rel=1e-12)


def test_rows_worked_on_in_blocks_change_nothing(monkeypatch):
    whole = renyi_exact(37, 9, 0.2, 5)
    sum_law.law_of.cache_clear()
    monkeypatch.setattr(sum_law, "CELLS_AT_ONCE", 50)
    assert renyi_exact(37, 9, 0.2, 5) == whole
    sum_law.law_of.cache_clear()


@pytest.mark.parametrize(("n", "m"), [(2, 1), (6, 1), (25, 1), (3, 2), (4, 4), (8, 3)])
def test_no_other_neighbours_are_further_apart(n, m):
    for theta, order in product((0.05, 0.25), (1.1, 2, 16, 200)):
        claimed = renyi_exact(n, m, theta, order)
        others = (n - 1) * m
        for high in range(others + 1):
            down, up = law(others - high + m, high, theta), law(others - high, high + m, theta)
            for start, end in ((down, up), (up, down)):
                assert divergence(start, end, order) <= claimed * (1 + 1e-9)


@pytest.mark.parametrize("theta", [0.003, 0.05, 0.25])
def test_fast_is_within_one_percent_and_never_below(theta):
    for n in (1, 2, 3, 7, 20, 90, 127, 128, 200, 700, 1023, 1024, 2000):
        for m in (1, 2, 5, 16, 17, 63, 64):
            for order in (2, 2.5, 10, 64):
                exact, fast = renyi_exact(n, m, theta, order), renyi_fast(n, m, theta, order)
                assert exact <= fast <= 1.01 * exact, (n, m, order)


def test_small_divergences_keep_their_digits():
    """For small θ²m/n, the divergence is D_α = α·2θ²·m/(n(¼ − θ²)) to first order in α·θ²·m/n."""
    for n, m, theta, order in ((10**7, 1, 1e-3, 2), (10**6, 3, 1e-5, 5), (2000, 64, 1e-6, 2)):
        leading = order * 2 * theta**2 * m / (n * (0.25 - theta**2))
        assert renyi_exact(n, m, theta, order) == pytest.approx(leading, rel=1e-5)
        assert renyi_fast(n, m, theta, order) == pytest.approx(leading, rel=1e-5)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 2.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-2])
def test_conversion_to_epsilon_agrees_with_opendp(rho, delta):
    """The curve of a Gaussian is used, for which OpenDP's conversion of zCDP is the same at the best order."""
    assert epsilon_of(lambda order: rho * order, delta) == pytest.approx(Rho(rho).epsilon(delta), rel=1e-4)


def test_conversion_over_some_orders_only():
    def curve(order):
        return 3e-4 * order

    assert epsilon_of(curve, 1e-6, orders=range(2, 129)) > 1.04 * epsilon_of(curve, 1e-6)
    assert epsilon_of(curve, 1e-6, orders=[2]) == pytest.approx(6e-4 + math.log(0.5) - math.log(2e-6))
    assert epsilon_of(lambda order: 0.0, 1e-6) == 0
    orders = [2, 3, 5, 9, 30, 31, 64, 200]
    for rho in (1e-4, 0.01, 0.3, 3):
        each = [epsilon_of(lambda order, rho=rho: rho * order, 1e-6, orders=[order]) for order in orders]
        assert epsilon_of(lambda order, rho=rho: rho * order, 1e-6, orders=orders[::-1]) == min(each)


@pytest.mark.parametrize(("n", "m", "epsilon"), [(2, 1, 0.3), (30, 100, 0.5), (500, 256, 0.1), (5000, 2048, 1.9)])
def test_solved_theta_spends_the_budget_and_no_more(n, m, epsilon):
    theta = solve_theta(n, m, epsilon, 1e-6)
    assert 0 < theta < 0.25
    spent = epsilon_spent([(n, m, theta)], 1e-6)
    assert epsilon * (1 - 1e-6) <= spent <= epsilon
    exact = epsilon_of(lambda order: renyi_exact(n, min(m, 64), theta, order) * (m / min(m, 64)), 1e-6)
    assert exact <= epsilon


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_two_sums_share_a_budget(share):
    n, trials, epsilon, delta = 800, (256, 64), 0.7, 1e-7
    theta, squares = solve_thetas(n, trials, epsilon, delta, mean_share=share)
    assert epsilon_spent([(n, trials[0], theta)], delta) < epsilon
    total = epsilon_spent([(n, trials[0], theta), (n, trials[1], squares)], delta)
    assert epsilon * (1 - 1e-5) <= total <= epsilon
    parts = renyi_fast(n, trials[0], theta, 8), renyi_fast(n, trials[1], squares, 8)
    assert parts[0] / sum(parts) == pytest.approx(share, abs=2e-3)


def test_what_a_stopped_mean_leaves_goes_to_the_second_moment():
    theta, squares = solve_thetas(20_000, (8, 2048), 1, 1e-6)
    assert theta == 0.25
    assert epsilon_spent([(20_000, 8, theta), (20_000, 2048, squares)], 1e-6) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: renyi_exact(0, 4, 0.1, 2), "number of people"),
        (lambda: renyi_exact(10, 0, 0.1, 2), "number of trials"),
        (lambda: renyi_fast(10, -1, 0.1, 2), "number of trials"),
        (lambda: renyi_fast(10.5, 1, 0.1, 2), "number of people"),
        (lambda: renyi_fast(10, True, 0.1, 2), "number of trials"),
        (lambda: renyi_exact(10, 4, 0.2500001, 2), r"theta must lie in \[0, 1/4\]"),
        (lambda: renyi_fast(10, 4, -0.1, 2), r"theta must lie in \[0, 1/4\]"),
        (lambda: renyi_fast(10, 4, math.nan, 2), r"theta must lie in \[0, 1/4\]"),
        (lambda: renyi_exact(10, 4, 0.1, 1), "order"),
        (lambda: solve_theta(10, 0, 1, 1e-6), "number of trials"),
        (lambda: solve_theta(10, 4, 0, 1e-6), "epsilon"),
        (lambda: solve_theta(10, 4, 1, 1), "delta"),
        (lambda: solve_theta(10, 4, 1, 1e-6, maximum=0.3), "largest theta"),
        (lambda: solve_thetas(10, (4, 4), 1, 1e-6, mean_share=1.0), "share"),
        (lambda: epsilon_spent([(10, 4, 0.3)], 1e-6), "theta"),
        (lambda: epsilon_spent([(10, 4, 0.1)], 1e-6, orders=[]), "at least one order"),
    ],
)
def test_settings_that_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
