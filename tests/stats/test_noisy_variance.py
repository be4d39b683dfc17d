"""Tests of the coverage of calibrated intervals at each variance, by simulation and by integration."""

import numpy as np
import pytest
from scipy.stats import norm

from equistrata.stats.noisy_variance import LARGEST_OMEGA, normal_quantile, variance_factor


def coverage(omega, v, level, factor=variance_factor):
    """Return P(|D − Δ| ≤ z√H(W)) by a Riemann sum over W, where D ~ N(Δ, 1 + v)."""
    w = v + omega * np.linspace(-8, 8, 4001)
    weight = norm.pdf((w - v) / omega)
    covered = 2 * norm.cdf(normal_quantile(level) * np.sqrt(factor(w, omega, level) / (1 + v))) - 1
    return float((covered * weight).sum() / weight.sum())


def plug_in(w, omega, level):
    return 1 + np.maximum(w, 0)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("omega", [0.01, 0.05, 0.17, 0.3, 0.5])
def test_coverage_is_the_level_whatever_the_variance(omega, level):
    for v in (0, 0.1 * omega, omega, 2 * omega, 5 * omega, 20 * omega, 100 * omega):
        assert coverage(omega, v, level) == pytest.approx(level, abs=0.008)


@pytest.mark.parametrize("omega", [0.7, 0.85, 1.0])
def test_coverage_under_much_noise(omega):
    found = [coverage(omega, v * omega, 0.9) for v in (0, 0.5, 1, 2, 3, 5, 10, 50)]
    assert min(found) > 0.892
    assert max(found) < 0.917


def test_plugging_the_reading_in_would_not_do():
    """The test above fails if the noisy variance is used without calibration."""
    found = [coverage(1.0, v, 0.9, plug_in) for v in (0, 0.5, 1, 2, 3, 5)]
    assert min(found) < 0.885
    assert max(found) > 0.925


def test_coverage_by_simulation():
    """The test uses 100,000 rounds. Five standard errors of the coverage are 0.0047."""
    rng = np.random.default_rng(0)
    for v, omega in ((0.0, 0.4), (0.6, 0.33), (3.0, 0.5)):
        d, w = rng.normal(0, np.sqrt(1 + v), 100_000), rng.normal(v, omega, 100_000)
        covered = np.abs(d) <= normal_quantile(0.9) * np.sqrt(variance_factor(w, omega, 0.9))
        assert covered.mean() == pytest.approx(0.9, abs=0.0047 + 0.005)


def test_the_width_costs_little():
    w = np.linspace(-8, 8, 4001)
    for omega, most in ((0.1, 1.005), (0.4, 1.055), (0.7, 1.13)):
        width = (np.sqrt(variance_factor(omega * w, omega, 0.9)) * norm.pdf(w)).sum() / norm.pdf(w).sum()
        assert 1 <= width < most


@pytest.mark.parametrize("omega", [0.02, 0.1, 0.45, 1.0])
def test_the_factor_never_falls_and_ends_up_at_the_reading(omega):
    w = np.linspace(-10 * omega, 200 * omega, 3000)
    factor = variance_factor(w, omega, 0.9)
    # The values between the knots are interpolated.
    assert (np.maximum.accumulate(factor) - factor < 0.01 * factor).all()
    assert factor[0] >= 0.8 - 1e-9
    assert factor[-1] == pytest.approx(1 + w[-1], rel=0.01)


def test_noise_free_readings_are_taken_at_their_word():
    assert variance_factor([-0.5, 0, 2.5], 0.0, 0.9).tolist() == [1, 1, 3.5]
    assert variance_factor([1.0, 1.0], [0.0, 0.3], 0.9).shape == (2,)


@pytest.mark.parametrize("omega", [-0.1, LARGEST_OMEGA * 1.001, np.nan])
def test_noise_out_of_range_is_refused(omega):
    with pytest.raises(ValueError, match="omega"):
        variance_factor([0.0], omega, 0.9)
