"""Smoothed joint counts: nearer where the relation is smooth, as they were where it is not, with the given margins."""

import numpy as np
import pytest

from equistrata.stats.copulas import normal_copula
from equistrata.stats.ordered_tables import smoothed_table

EVEN = np.full(12, 1 / 12)
AGES, HOURS = np.meshgrid(np.linspace(0, 1, 12), np.linspace(0, 1, 12), indexing="ij")
SMOOTH = {
    "independent": normal_copula(EVEN, EVEN, 0.0),
    "normal": normal_copula(EVEN, EVEN, -0.85),
    "rises and falls": np.exp(-(((HOURS - 4 * AGES * (1 - AGES)) / 0.3) ** 2)),
}
PAIRS = np.eye(12)[::-1] + np.eye(12)  # rows are on two diagonals: no few cosines have them
ODD = np.where((np.arange(12)[:, None] * 5 + np.arange(12) * 7) % 11 < 3, 1.0, 0.02)


def trial(shares, sigma, seed, rows=20_000):
    truth = shares / shares.sum() * rows
    noisy = truth + np.random.default_rng(seed).normal(0, sigma, truth.shape)
    return truth, noisy, smoothed_table(noisy, sigma, truth.sum(1), truth.sum(0))


@pytest.mark.parametrize("kind", SMOOTH)
def test_smooth_relations_come_nearer(kind):
    """Squared errors over 20 draws: at most .6 of the noisy cells', of which the margins alone would leave .84."""
    found = [trial(SMOOTH[kind], 30.0, seed) for seed in range(20)]
    before = sum(np.square(noisy - truth).sum() for truth, noisy, _ in found)
    assert sum(np.square(smooth.values - truth).sum() for truth, _, smooth in found) < 0.6 * before


@pytest.mark.parametrize("shares", [PAIRS, ODD], ids=["two diagonals", "no order"])
def test_what_is_not_smooth_is_kept(shares):
    """It costs little: James and Stein's estimate is no farther off than the noisy one, in the mean."""
    for sigma in (1.0, 30.0):
        found = [trial(shares, sigma, seed) for seed in range(20)]
        before = sum(np.square(noisy - truth).sum() for truth, noisy, _ in found)
        assert sum(np.square(smooth.values - truth).sum() for truth, _, smooth in found) < 1.01 * before


@pytest.mark.parametrize("shares", [*SMOOTH.values(), PAIRS, ODD])
def test_margins_and_the_numbers_that_are_left(shares):
    truth, _, smooth = trial(shares, 30.0, 5)
    np.testing.assert_allclose(smooth.values.sum(1), truth.sum(1), rtol=1e-5)
    np.testing.assert_allclose(smooth.values.sum(0), truth.sum(0), rtol=1e-5)
    assert 1 <= smooth.freedom <= 1 + 11 * 11


@pytest.mark.parametrize("kind", SMOOTH)
def test_the_error_is_about_what_is_stated(kind):
    """Of the noise, freedom·σ² is left; what smoothing leaves out comes on top. 40 draws."""
    found = [trial(SMOOTH[kind], 30.0, seed) for seed in range(40)]
    errors = np.mean([np.square(smooth.values - truth).sum() for truth, _, smooth in found])
    assert 0.3 < errors / (900 * np.mean([smooth.freedom for *_, smooth in found])) < 2.5


def test_empty_groups_and_few():
    counts = np.array([[5.0, 0, 3], [0, 0, 0], [2, 0, 9]])
    assert np.isfinite(smoothed_table(counts, 1.0, counts.sum(1), counts.sum(0)).values).all()
