"""Intervals for estimates with a noisy variance, in which the width is calibrated for the noise.

An estimate D ~ N(Δ, F(1 + v)) has a noisy reading W ~ N(v, ω²) of its relative variance. The noise variance F and ω are
public, and the sampling variance v ≥ 0 is unknown. The plug-in interval ±z√(F(1 + W⁺)) at level 90 % has a coverage
between 88 % and 93 % if ω is close to 1. Instead, a factor H(W) solves P(|D − Δ| ≤ z√(F·H(W))) = level for every v ≥ 0,
as for Behrens-Fisher intervals. H is at least 0.8. With this restriction, the coverage of 90 % intervals is between
0.896 and 0.910 for ω up to 0.7 and any v (docs/experiments/federated.md).

>>> import numpy as np
>>> variance_factor(np.array([-0.5, 0.0, 1.0, 10.0]), 0.4, 0.9).round(1)
array([ 0.8,  0.8,  2. , 11. ])
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError

SMALLEST_OMEGA = 0.02  # the noise of the variance is negligible for smaller values
LARGEST_OMEGA = 1.0  # there is no width that is correct for every v for larger values
LEAST_FACTOR = 0.8
STEPS = 18  # the number of grid points in log ω
SMOOTHNESS = 1e-5  # the penalty on second differences
_GRID = np.linspace(math.log(SMALLEST_OMEGA), math.log(LARGEST_OMEGA), STEPS)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def normal_quantile(level: float) -> float:
    """Return the quantile z of a two-sided interval for a standard normal variable.

    Parameters
    ----------
    level : float
        The probability of the interval ±z, in (0, 1).

    Returns
    -------
    float
        The quantile z.
    """
    return float(scipy.special.ndtri(0.5 + level / 2))


def variance_factor(reading: npt.ArrayLike, omega: npt.ArrayLike, level: float) -> Floats:
    """Compute H(W), the factor by which the known variance F is multiplied in an interval.

    Parameters
    ----------
    reading : array_like
        The noisy reading W of v = (variance − F)/F, of any shape. It can be negative.
    omega : array_like
        The standard deviation ω of the noise in the reading, in [0, `LARGEST_OMEGA`]. It is broadcast against
        `reading`.
    level : float
        The coverage of the interval, in (0, 1).

    Returns
    -------
    ndarray
        The factor H ≥ 0.8. It increases with W, with an accuracy of 1 % between knots. It is 1 + W⁺ if ω is 0, and it
        is close to 1 + W if W is much larger than ω.

    Raises
    ------
    InputError
        If ω is out of its range.
    """
    w, noise = np.broadcast_arrays(np.asarray(reading, dtype=np.float64), np.asarray(omega, dtype=np.float64))
    if not ((noise >= 0) & (noise <= LARGEST_OMEGA)).all():
        raise InputError(f"omega must lie in [0, {LARGEST_OMEGA}]; give a standard deviation in that range")
    place = np.clip((np.log(np.maximum(noise, SMALLEST_OMEGA)) - _GRID[0]) / (_GRID[1] - _GRID[0]), 0, STEPS - 1)
    below = np.minimum(place.astype(np.int64), STEPS - 2)
    part = place - below
    correction = np.zeros(w.shape)
    for step in np.unique(below):
        rows = below == step
        lower, upper = (np.interp(w[rows], *_correction(s, level)) for s in (int(step), int(step) + 1))
        correction[rows] = (1 - part[rows]) * lower + part[rows] * upper
    return np.asarray(np.where(noise == 0, 1.0, np.exp(correction)) * (1 + np.maximum(w, 0)))


@lru_cache(maxsize=8 * STEPS)
def _correction(step: int, level: float) -> tuple[Floats, Floats]:
    """Return knots in W and the values of log H − log(1 + W⁺) at these knots, for one ω of the grid.

    They are computed by regularised least squares on the coverage.
    """
    omega, z = math.exp(_GRID[step]), normal_quantile(level)
    far = 3 + 30 * omega + 5 * omega**2  # for larger v, the noise in W changes the coverage by less than 0.001
    v = np.unique(np.concatenate([np.linspace(0, 6 * omega, 40), np.linspace(6 * omega, far, 30)]))[:, None]
    knots = np.concatenate([np.linspace(-3 * omega, 6 * omega, 22), np.linspace(6 * omega, far + 6 * omega, 12)[1:]])
    plain = np.log1p(np.maximum(knots, 0))
    w = v + omega * _NODES
    place = np.clip(np.searchsorted(knots, w, side="right") - 1, 0, len(knots) - 2)
    part = np.clip((w - knots[place]) / (knots[place + 1] - knots[place]), 0, 1)
    rows = np.broadcast_to(np.arange(len(v))[:, None], place.shape)
    base = z * np.sqrt((1 + np.maximum(w, 0)) / (1 + v))
    bend = math.sqrt(SMOOTHNESS) * np.diff(np.eye(len(knots)), 2, axis=0)
    last = np.eye(len(knots))[-1:]
    # The parameters are the nonnegative increments between knots, so that H does not decrease with W.
    rises = np.tril(np.ones((len(knots), len(knots))))
    start = math.log(LEAST_FACTOR) - plain

    def half_widths(correction: Floats) -> Floats:
        return np.asarray(base * np.exp(((1 - part) * correction[place] + part * correction[place + 1]) / 2))

    def residuals(rise: Floats) -> Floats:
        correction = start + rises @ rise
        coverage = (2 * scipy.special.ndtr(half_widths(correction)) - 1) @ _WEIGHTS
        return np.concatenate([coverage - level, bend @ correction, last @ correction])

    def jacobian(rise: Floats) -> Floats:
        half = half_widths(start + rises @ rise)
        slope = np.exp(-(half**2) / 2) / np.sqrt(2 * np.pi) * half * _WEIGHTS
        by_knot = np.zeros((len(v), len(knots)))
        np.add.at(by_knot, (rows, place), slope * (1 - part))
        np.add.at(by_knot, (rows, place + 1), slope * part)
        return np.concatenate([by_knot, bend, last]) @ rises

    plug_in = np.diff(plain, prepend=math.log(LEAST_FACTOR)) + 1e-6
    found = scipy.optimize.least_squares(residuals, plug_in, jac=jacobian, bounds=(0, np.inf))
    return knots, start + rises @ found.x
