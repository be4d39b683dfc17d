"""Tests of the smoothing of counts, which must reduce the error and preserve peaks and the sum."""

import numpy as np
import pytest

from equistrata.stats.wavelets import denoised


@pytest.mark.parametrize("codes", [1, 2, 3, 16, 85, 100])
def test_the_sum_stays(codes):
    noisy = np.random.default_rng(0).normal(50, 20, codes)
    assert denoised(noisy, 20.0).shape == (codes,)
    assert denoised(noisy, 20.0).sum() == pytest.approx(noisy.sum())


def test_without_noise_nothing_changes():
    counts = np.random.default_rng(0).integers(0, 100, 37).astype(float)
    np.testing.assert_allclose(denoised(counts, 0.0), counts, atol=1e-9)


def test_smooth_counts_come_nearer_and_peaks_stay():
    """The mean absolute error over 20 draws is used for ages, and for hours with a peak that
    contains half of the rows.
    """
    ages = 500 * np.exp(-(((np.arange(85) - 30) / 25) ** 2))
    hours = np.where(np.arange(99) == 40, 15_000.0, 50.0)
    for truth, gain in ((ages, 0.6), (hours, 0.6)):
        noisy = truth + np.random.default_rng(0).normal(0, 100, (20, len(truth)))
        smooth = np.array([denoised(each, 100.0) for each in noisy])
        assert np.abs(smooth - truth).mean() < gain * np.abs(noisy - truth).mean()
    assert abs(smooth[:, 40].mean() - 15_000) < 200
