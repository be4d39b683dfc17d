"""Smoothing of noisy counts of ordered codes by translation-invariant Haar wavelet shrinkage.

This is the method of Coifman and Donoho [1]_ with the non-negative garrote [2]_ instead of a hard threshold. Peaks are
preserved, because coefficients that are much larger than the noise are hardly shrunk.

References
----------
.. [1] Coifman and Donoho (1995), Translation-Invariant De-Noising.
.. [2] Gao (1998).

>>> noisy = np.array([100.0, 104, 96, 101, 99, 500, 102, 98])
>>> denoised(noisy, 4.0).round().tolist()
[100.0, 100.0, 100.0, 100.0, 99.0, 500.0, 101.0, 100.0]
"""

from __future__ import annotations

import numpy as np

from equistrata.arrays import Floats

THRESHOLD = 1.5  # the threshold in standard deviations of a coefficient
SHIFTS = 16


def denoised(counts: Floats, sigma: float) -> Floats:
    """Smooth counts with independent noise.

    Parameters
    ----------
    counts : ndarray of shape (codes,)
        The noisy counts.
    sigma : float
        The standard deviation of the noise.

    Returns
    -------
    ndarray of shape (codes,)
        The smoothed counts. Their sum is equal to the sum of `counts`.
    """
    length = 1 << max(len(counts) - 1, 0).bit_length()
    padded = np.pad(counts, (0, length - len(counts)), mode="symmetric")
    shifts = range(min(SHIFTS, length))
    smooth = np.mean([np.roll(_shrunk(np.roll(padded, shift), sigma), -shift) for shift in shifts], axis=0)
    smooth = smooth[: len(counts)]
    return np.asarray(smooth + (counts.sum() - smooth.sum()) / len(counts))


def _shrunk(values: Floats, sigma: float) -> Floats:
    """Return the inverse Haar transform of the shrunk coefficients."""
    if len(values) == 1:
        return values
    even, odd = values[0::2], values[1::2]
    detail, mean = (even - odd) / np.sqrt(2), (even + odd) / np.sqrt(2)
    kept = np.maximum(1 - (THRESHOLD * sigma) ** 2 / np.maximum(detail**2, 1e-250), 0.0)
    smooth, result = _shrunk(mean, sigma), np.empty(len(values))
    result[0::2], result[1::2] = (smooth + detail * kept) / np.sqrt(2), (smooth - detail * kept) / np.sqrt(2)
    return result
