"""Tests of group sizes that are estimated from public shares and noisy counts."""

import numpy as np
import pytest

from equistrata.stats.relative_sizes import LEAST_SIZE, posterior_sizes

KEYS = [(sex, place) for sex in (1, 2) for place in "abc"]
SIZES = np.array([6000.0, 2000, 3500, 40, 900, 12])
EXPECTED = np.array([9000.0, 0.5, 1000, 60, 1400, 400])


@pytest.mark.parametrize("sigma", [0.01, 0.1, 1.0])
def test_precise_counts_decide_whatever_was_expected(sigma):
    """Regression test: a group with a public share of 0 was estimated with a large rounding error."""
    for precision in (np.full(6, sigma**-2), np.eye(6) / sigma**2):
        sizes, spread = posterior_sizes(EXPECTED, KEYS, precision, SIZES / sigma**2)
        assert sizes == pytest.approx(SIZES, abs=4 * sigma)
    assert spread == pytest.approx(np.full(6, sigma), rel=0.1)


def test_independent_counts_are_counts_whose_noise_is_hardly_shared():
    independent = np.array([1e-2, 1e-3, 1e-4, 1e-2, 1e-3, 1e-2])
    together = np.diag(independent) + 1e-12
    found = [posterior_sizes(EXPECTED, KEYS, each, independent * SIZES) for each in (independent, together)]
    for one, two in zip(*found, strict=True):
        assert one == pytest.approx(two, rel=1e-3)


def test_a_size_is_never_nothing():
    precision = np.full(6, 50.0**-2)
    sizes, spread = posterior_sizes(EXPECTED, KEYS, precision, precision * (SIZES - 200))
    assert (sizes >= LEAST_SIZE * spread * (1 - 1e-12)).all()
