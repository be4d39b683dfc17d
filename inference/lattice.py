"""Noisy sums and means of clipped numbers, in whole units, so that a row's effect is bounded exactly.

Floating-point sums have rounding errors that depend on every row, and so can move by more than the sensitivity that the
noise was made for (Mironov, CCS 2012; Casacuberta et al., arXiv:2207.10635). Here each clipped row is rounded to one of
2³⁰ + 1 points of a lattice; sums of whole numbers are exact, and noise is added to the whole number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privacy.budget import REPLACE_ONE, Relation, Rho
from privacy.noise import NoiseSource, gaussian_sigma

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

HALF = 2**29  # lattice units in half a clip interval: 2³³ rows fit into 64 bits


def lattice_sum(values: Floats, lower: float, upper: float) -> tuple[int, float]:
    """Σ(clip(x) − c) for the midpoint c of [lower, upper], as a whole number of units, and the unit.

    One row counts for between −HALF and HALF units: sensitivity HALF under add-remove, 2·HALF under replace-one.
    Not private: the caller adds the noise.

    >>> total, unit = lattice_sum(np.array([0.0, 7.5, 1000.0]), 0.0, 10.0)
    >>> total * unit  # −5 + 2.5 + 5
    2.5
    """
    unit = (upper - lower) / (2 * HALF)
    if not unit > 0:
        return 0, 0.0
    with np.errstate(over="ignore"):
        places = np.rint((values - (lower + upper) / 2) / unit)
    return int(np.clip(places, -HALF, HALF).astype(np.int64).sum()), unit


def noisy_sum(values: Floats, lower: float, upper: float, rho: Rho, relation: Relation, noise: NoiseSource) -> float:
    """Σ(clip(x) − c) with discrete Gaussian noise, in the unit of the data; c is the midpoint of [lower, upper].

    Args:
        values: shape (n,), any real numbers, infinities included.
        lower, upper: the clip interval, lower ≤ upper, in the unit of the data; not derived from rows for free.
        rho: what it costs, ρ > 0.
        relation: add-remove (sensitivity (upper − lower)/2) or replace-one (upper − lower).
        noise: where the noise comes from.

    Privacy: ρ-zCDP under `relation`. Proof: a row changes the whole number by at most Δ units, and noise of standard
    deviation Δ/√(2ρ) costs ρ (Bun and Steinke, arXiv:1605.02065, Proposition 1.6; for the discrete Gaussian Canonne,
    Kamath and Steinke, arXiv:2004.00010, Theorem 4); the rest is post-processing.

    >>> from privacy.noise import SeededNoise
    >>> round(noisy_sum(np.full(1000, 7.0), 0, 10, Rho(0.5), REPLACE_ONE, SeededNoise(1)), 1)  # 2000 + N(0, 10²)
    2003.5
    """
    total, unit = lattice_sum(values, lower, upper)
    sensitivity = float(2 * HALF if relation == REPLACE_ONE else HALF)
    noisy = noise.gaussian(np.array([total], dtype=np.int64), gaussian_sigma(rho, sensitivity))
    return float(noisy[0]) * unit


def noisy_histogram(
    values: Floats, edges: Sequence[float], rho: Rho, relation: Relation, noise: NoiseSource
) -> tuple[Counts, float]:
    """Noisy numbers of rows in (edges[i], edges[i+1]], shape (len(edges) − 1,), and the noise's standard deviation.

    Privacy: ρ-zCDP. A row is in at most one bin: L2 sensitivity 1 under add-remove; under replace-one it can leave one
    bin for another: √2.

    >>> from privacy.noise import SeededNoise
    >>> counts, sigma = noisy_histogram(np.arange(300.0), [0, 100, 250], Rho(0.5), REPLACE_ONE, SeededNoise(1))
    >>> counts.tolist(), round(sigma, 3)
    ([100, 151], 1.414)
    """
    places = np.searchsorted(np.asarray(edges), values, side="left")
    counts = np.bincount(places, minlength=len(edges) + 1)[1 : len(edges)].astype(np.int64)
    sigma = gaussian_sigma(rho, 2**0.5 if relation == REPLACE_ONE else 1.0)
    return noise.gaussian(counts, sigma), sigma
