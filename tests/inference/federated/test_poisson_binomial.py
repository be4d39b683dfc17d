"""Tests of the Poisson-binomial mechanism: its distribution, the bias and variance of its estimates, and its errors.

The noise has a seed, so the tests cannot fail by chance.
"""

import math

import numpy as np
import pytest
from no_noise import ForbiddenNoise
from scipy import stats

from equistrata.errors import InputError
from equistrata.inference.federated.poisson_binomial import PoissonBinomial
from equistrata.privacy.noise import SecureNoise, SeededNoise

VALUES = np.array([-2.0, -0.5, 0.0, 1.3, 2.0])


@pytest.mark.parametrize("source", [SeededNoise(3), SecureNoise()])
def test_reports_are_binomial_with_the_probability_of_their_value(source):
    """A chi-squared test is used for each value, with a false alarm rate of 10⁻⁶ for new random numbers."""
    mechanism = PoissonBinomial(trials=9, theta=0.2, radius=2.0)
    for value in VALUES:
        reports = mechanism.reports(np.full(20_000, value), source)
        expected = stats.binom.pmf(np.arange(10), 9, 0.5 + 0.2 * value / 2) * 20_000
        assert stats.chisquare(np.bincount(reports, minlength=10), expected).pvalue > 2e-7


def moments_of(mechanism, values, runs):
    noise = SeededNoise(4)
    totals = np.array([mechanism.reports(values, noise).sum() for _ in range(runs)])
    return mechanism.mean(totals, len(values))


@pytest.mark.parametrize(("trials", "theta"), [(1, 0.25), (3, 0.25), (64, 0.05)])
def test_the_mean_is_unbiased_and_has_its_stated_variance(trials, theta):
    mechanism = PoissonBinomial(trials, theta, radius=2.0)
    runs, n = 20_000, len(VALUES)
    found = moments_of(mechanism, VALUES, runs)
    exact = mechanism.noise(n) - (VALUES**2).mean() / (n * trials)
    assert found.mean() == pytest.approx(VALUES.mean(), abs=5 * math.sqrt(exact / runs))
    assert found.var() == pytest.approx(exact, rel=5 * math.sqrt(2 / runs))
    assert exact < mechanism.noise(n)


@pytest.mark.parametrize(("trials", "theta"), [(1, 0.25), (64, 0.05)])
def test_the_mean_square_is_unbiased_and_has_its_stated_variance(trials, theta):
    squares = PoissonBinomial(trials, theta, radius=2.0, squares=True)
    runs, n = 20_000, len(VALUES)
    found = moments_of(squares, VALUES, runs)
    lean = 2 * theta * ((VALUES / 2) ** 2 - 0.5)
    exact = (2.0**2 / (2 * n * trials * theta)) ** 2 * trials * (0.25 - lean**2).sum()
    assert found.mean() == pytest.approx((VALUES**2).mean(), abs=5 * math.sqrt(exact / runs))
    assert found.var() == pytest.approx(exact, rel=5 * math.sqrt(2 / runs))
    assert exact <= squares.noise(n)


def test_no_rounding_leans_a_report_further_than_theta():
    class Recorder(ForbiddenNoise):
        def binomial(self, trials, probabilities):
            return probabilities

    for theta in (0.25, 0.1, 0.07, 1 / 3 / 2, 1e-5):
        for radius in (0.1, 1 / 3, 7.7):
            p = PoissonBinomial(5, theta, radius).reports(np.array([-radius, radius]), Recorder())
            assert 0.5 - theta <= p.min() <= p.max() <= 0.5 + theta


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("bad", [[0.0, 1.0000001], [-1.5, 0.0], [math.nan, 0.0], [math.inf], [[0.1], [0.2]]])
def test_values_out_of_range_are_refused_before_any_noise(bad, squares):
    randomizer = PoissonBinomial(5, 0.1, squares=squares)
    with pytest.raises(InputError, match=r"declared range|one-dimensional") as caught:
        randomizer.reports(bad, ForbiddenNoise())
    assert "1.5" not in str(caught.value)
    assert "1.0000001" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((0, 0.1), "number of trials"),
        ((2.5, 0.1), "number of trials"),
        ((True, 0.1), "number of trials"),
        ((2**21, 0.1), "number of trials"),
        ((4, 0.0), "theta"),
        ((4, 0.25000001), "theta"),
        ((4, math.nan), "theta"),
        ((4, 0.1, 0.0), "radius"),
        ((4, 0.1, math.inf), "radius"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        PoissonBinomial(*settings)
    with pytest.raises(InputError, match=sentence):
        PoissonBinomial(*settings, squares=True)
