"""Tests of the empirical lower bound of ε, which must be tight and have the stated false alarm probability."""

import numpy as np
import pytest
from refutation import HalvedNoise, empirical_epsilon
from scipy.stats import norm

from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise


def gaussian_epsilon(mu, delta):
    """Return the exact ε of the Gaussian mechanism with shift mu (Balle and Wang, arXiv:1805.06530, Theorem 8) by
    bisection.
    """
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        profile = norm.cdf(mu / 2 - middle / mu) - np.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if profile > delta else (low, middle)
    return high


@pytest.mark.parametrize("direction", ["a", "b"])
@pytest.mark.parametrize("sign", [1, -1])
def test_comes_close_to_the_exact_epsilon_of_a_gaussian_from_both_sides(direction, sign):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, 100_000), rng.normal(sign, 1, 100_000)
    if direction == "b":
        a, b = b, a
    exact = gaussian_epsilon(1.0, 0.02)
    assert 0.85 * exact < empirical_epsilon(a, b, 0.02) <= exact


def test_pure_dp_of_randomised_response():
    rng = np.random.default_rng(2)
    keep = np.e / (1 + np.e)
    a, b = (rng.random(50_000) < keep).astype(int), (rng.random(50_000) < 1 - keep).astype(int)
    assert 0.9 < empirical_epsilon(a, b, 0.0) <= 1.0


def test_only_one_direction_breaks():
    """The presence of a row is sometimes visible and its absence is never visible, so the direction of the test is
    important.
    """
    rng = np.random.default_rng(3)
    a, b = (rng.random(20_000) < 0.05).astype(int), np.zeros(20_000)
    assert empirical_epsilon(a, b, 0.01) > 2
    assert empirical_epsilon(b, a, 0.01) > 2
    assert empirical_epsilon(a, b, 0.06) < 0.05


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    """The two distributions are equal, so ε is 0 and a positive bound is a false alarm.

    The number of false alarms at 5 % has the distribution Binomial(400, ≤ 0.05). The probability of more than 40 false
    alarms is less than 2·10⁻⁵.
    """
    rng = np.random.default_rng(4)
    alarms = sum(empirical_epsilon(*rng.normal(size=(2, 400)), 0.0, false_alarm=0.05) > 0 for _ in range(400))
    assert alarms <= 40


def test_the_event_is_chosen_without_seeing_the_runs_that_judge_it():
    a, b = np.zeros(1000), np.zeros(1000)
    a[:500] = 1  # only the first half is different
    assert empirical_epsilon(a, b, 0.0) == 0.0


@pytest.mark.parametrize(
    ("a", "delta", "false_alarm"),
    [([1.0], 0, 0.1), ([[1, 2]], 0, 0.1), ([1, np.nan], 0, 0.1), ([1, 2], 1, 0.1), ([1, 2], -0.1, 0.1), ([1, 2], 0, 0)],
)
def test_refuses_what_it_cannot_judge(a, delta, false_alarm):
    with pytest.raises(ValueError, match=r"runs|delta|false_alarm"):
        empirical_epsilon(a, [1, 2], delta, false_alarm=false_alarm)


def test_halved_noise_halves():
    counts, half, whole = np.zeros(20_000, dtype=np.int64), HalvedNoise(SeededNoise(1)), SeededNoise(1)
    price, scores = Rho(0.5), np.arange(50.0)

    def drawn(source, sigma):
        return source.gaussian(counts, sigma, price, Budget(price), "counts")[0].tolist()

    def real(source, scale):
        return source.laplace(np.zeros(3), scale, 1.0, Budget(price), "numbers")[0].tolist()

    def choices(source, rho):
        return [source.select(scores, 1.0, Rho(rho), Budget(Rho(rho)), "choice") for _ in range(20)]

    assert drawn(half, 20.0) == drawn(whole, 10.0)
    assert real(half, 2.0) == real(whole, 1.0)
    assert choices(half, 0.01) == choices(whole, 0.04)
    assert drawn(half.spawn(3), 20.0) == drawn(whole.spawn(3), 10.0)
    assert not half.private
    assert "0.5 of" in half.name
