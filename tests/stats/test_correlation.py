"""Tests of the correlation of noisy counts: exact values, the coverage of intervals, and the error for pure noise."""

import numpy as np
import pytest

from equistrata.stats.correlation import correlation

X, Y = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 5.0, np.nan])
TRUTH = np.array([[300.0, 80.0, 20.0, 40.0], [100.0, 200.0, 60.0, 9.0], [30.0, 90.0, 250.0, 3.0]])
NONE = np.zeros(3), np.zeros(4)


def of_rows(counts):
    x, y = np.meshgrid(X, Y[:3], indexing="ij")
    times = counts[:, :3].astype(int).ravel()
    return np.corrcoef(np.repeat(x.ravel(), times), np.repeat(y.ravel(), times))[0, 1]


def test_without_noise_it_is_that_of_the_rows():
    found = correlation(TRUTH, np.zeros((12, 12)), (X, Y), NONE)
    assert found.r == pytest.approx(of_rows(TRUTH), abs=1e-12)
    assert found.noise_error == found.sampling_error == 0


@pytest.mark.parametrize("sigma", [2.0, 10.0])
def test_intervals_cover_as_often_as_they_say(sigma):
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        found = correlation(TRUTH + rng.normal(0, sigma, TRUTH.shape), sigma**2 * np.eye(12), (X, Y), NONE)
        inside += found.lower <= of_rows(TRUTH) <= found.upper
    assert 0.92 * 400 <= inside <= 0.98 * 400


def test_intervals_for_the_population_cover_it():
    rng, inside, shares = np.random.default_rng(1), 0, TRUTH.ravel() / TRUTH.sum()
    for _ in range(400):
        rows = rng.multinomial(500, shares).reshape(3, 4) + rng.normal(0, 3.0, TRUTH.shape)
        found = correlation(rows, 9.0 * np.eye(12), (X, Y), NONE, sampled=1.0)
        inside += found.lower <= of_rows(TRUTH) <= found.upper
    assert 0.92 * 400 <= inside <= 0.98 * 400


def test_no_estimate_where_noise_may_be_all_of_a_variance():
    lone = np.zeros((3, 4))
    lone[1, 1] = 50.0
    assert correlation(lone, 400.0 * np.eye(12), (X, Y), NONE) is None
    assert correlation(-lone, 400.0 * np.eye(12), (X, Y), NONE) is None


def test_numbers_that_spread_within_a_code_weaken_the_correlation():
    wide = correlation(TRUTH, np.zeros((12, 12)), (X, Y), (np.full(3, 1.0), np.zeros(4)))
    plain = correlation(TRUTH, np.zeros((12, 12)), (X, Y), NONE)
    variance = np.cov(np.repeat(X, TRUTH[:, :3].sum(1).astype(int)), bias=True)
    assert wide.r == pytest.approx(plain.r * np.sqrt(variance / (variance + 1)))
