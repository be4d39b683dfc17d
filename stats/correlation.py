"""Pearson's correlation of two columns from noisy counts of their pair, with an interval.

The interval is Fisher's: symmetric in arctanh(r), so that it stays within (-1, 1). Its standard error comes from the
influence of each cell on r (the delta method), applied to the noise of the counts and to the sampling of the rows.

>>> counts = np.array([[300.0, 100.0], [100.0, 300.0]])
>>> numbers = np.array([0.0, 1.0])
>>> found = correlation(counts, 25.0 * np.eye(4), (numbers, numbers), (0.0 * numbers, 0.0 * numbers))
>>> round(found.r, 3), found.lower < 0.5 < found.upper
(0.5, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, isfinite, sqrt, tanh

import numpy as np

from equistrata.arrays import Floats
from equistrata.stats.noisy_variance import normal_quantile

_MOST = 1 - 1e-9  # of |r|, so that arctanh(r) is finite


@dataclass(frozen=True)
class Correlation:
    """A correlation in [-1, 1] with an interval.

    Attributes
    ----------
    r, lower, upper : float
        The correlation and the ends of its interval; -1 and 1 where noise may be all of a column's variance.
    noise_error, sampling_error : float
        Standard errors by the noise of the counts, and by the sampling of the rows.
    """

    r: float
    lower: float
    upper: float
    noise_error: float
    sampling_error: float

    @property
    def standard_error(self) -> float:
        """The root of the sum of both squared errors."""
        return sqrt(self.noise_error**2 + self.sampling_error**2)


def correlation(
    counts: Floats,
    covariance: Floats,
    numbers: tuple[Floats, Floats],
    spreads: tuple[Floats, Floats],
    level: float = 0.95,
    sampled: float = 0.0,
) -> Correlation | None:
    """Estimate the correlation of two columns from noisy counts.

    Parameters
    ----------
    counts : array of shape (a, b)
        Unbiased noisy counts of the pair.
    covariance : array of shape (a * b, a * b)
        Covariance of the noise of the counts.
    numbers : two arrays of shapes (a,) and (b,)
        The number of each code; NaN for codes that are no number, which drop out.
    spreads : two arrays of the same shapes
        Standard deviation of the numbers within each code, which adds to a column's variance.
    level : float
        Confidence level, in (0, 1).
    sampled : float
        The sampling variance over that of a simple random sample; 0 for the rows themselves.

    Returns
    -------
    Correlation or None
        None if the noise may be all of a column's variance, so that there is no estimate.
    """
    (x, y), (spread_x, spread_y) = np.meshgrid(*numbers, indexing="ij"), np.meshgrid(*spreads, indexing="ij")
    kept = ~(np.isnan(x) | np.isnan(y))
    rows = float(counts[kept].sum())
    if rows <= 0:
        return None
    weights, noise = counts[kept] / rows, covariance[np.ix_(kept.ravel(), kept.ravel())]
    x, y = x[kept] - weights @ x[kept], y[kept] - weights @ y[kept]
    squares = x**2 + spread_x[kept] ** 2, y**2 + spread_y[kept] ** 2
    variances = [float(weights @ square) for square in squares]
    errors = [sqrt(square @ noise @ square) / rows for square in squares]
    if any(variance <= 2 * error for variance, error in zip(variances, errors, strict=True)):
        return None
    deviations = [sqrt(variance) for variance in variances]
    r = float(weights @ (x * y)) / (deviations[0] * deviations[1])
    r = min(max(r, -_MOST), _MOST)
    # How much one more row of each cell changes r, times the number of rows.
    influence = x * y / (deviations[0] * deviations[1]) - r * sum(
        s / (2 * v) for s, v in zip(squares, variances, strict=True)
    )
    by_noise = sqrt(influence @ noise @ influence) / rows
    by_sampling = sqrt(max(sampled * float(np.maximum(weights, 0.0) @ influence**2) / rows, 0.0))
    far = normal_quantile(level) * sqrt(by_noise**2 + by_sampling**2) / (1 - r**2)
    ends = tanh(atanh(r) - far), tanh(atanh(r) + far)
    assert all(map(isfinite, ends))
    return Correlation(r, *ends, by_noise, by_sampling)
