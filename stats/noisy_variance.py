"""Intervals when the variance is known only with noise: a calibrated width instead of a plug-in one.

An estimate D ~ N(Δ, F(1 + v)) has a noisy reading of its variance, W ~ N(v, ω²). F (the noise variance) and ω are
public; v ≥ 0 (the sampling variance) is unknown. The plug-in ±z√(F(1 + W⁺)) makes 90 % intervals cover 88 to 93 % once
ω nears 1. So a factor H(W) solves P(|D − Δ| ≤ z√(F·H(W))) = level for every v ≥ 0, as for Behrens-Fisher intervals. H
is at least 0.8; then 90 % intervals cover 0.896 to 0.910 for ω up to 0.7, at any v (docs/experiments/federated.md).

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

SMALLEST_OMEGA = 0.02  # below it the noise of the variance is negligible
LARGEST_OMEGA = 1.0  # above it no width is right at every v
LEAST_FACTOR = 0.8
STEPS = 18  # of the grid in log ω
SMOOTHNESS = 1e-5  # penalty on second differences
_GRID = np.linspace(math.log(SMALLEST_OMEGA), math.log(LARGEST_OMEGA), STEPS)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def normal_quantile(level: float) -> float:
    """z such that a standard normal variable lies within ±z with probability `level`."""
    return float(scipy.special.ndtri(0.5 + level / 2))


def variance_factor(reading: npt.ArrayLike, omega: npt.ArrayLike, level: float) -> Floats:
    """H(W): the factor of the known variance F in an interval of level `level`.

    Args:
        reading: W, the noisy reading of v = (variance − F)/F, any shape; it may be negative.
        omega: ω in [0, `LARGEST_OMEGA`], the standard deviation of its noise; broadcast against `reading`.
        level: the coverage, in (0, 1).

    Returns:
        H ≥ 0.8, rising with W up to 1 % between knots. 1 + W⁺ where ω is 0, and about 1 + W for W far above ω.

    Raises InputError for an ω out of its range.
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
    """Knots in W and log H − log(1 + W⁺) at them, for one ω of the grid: regularised least squares on the coverage."""
    omega, z = math.exp(_GRID[step]), normal_quantile(level)
    far = 3 + 30 * omega + 5 * omega**2  # from here on the noise in W moves the coverage by less than 0.001
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
    # H is parametrised by its rises between knots, none negative, so that it never falls as W grows.
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
