"""Noisy sums and means of clipped numbers, in whole units, so that a row's effect is bounded exactly.

Floating-point sums have rounding errors that depend on every row, and so can move by more than the sensitivity that the
noise was made for (Mironov, CCS 2012; Casacuberta et al., arXiv:2207.10635). Here each clipped row is rounded to one of
2³⁰ + 1 points of a lattice; sums of whole numbers are exact, and noise is added to the whole number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.privacy.budget import REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource

HALF = 2**29  # lattice units in half a clip interval: 2³³ rows fit into 64 bits


def lattice_sum(values: Floats, lower: float, upper: float) -> tuple[int, float]:
    """Σ(clip(x) − c) for the midpoint c of [lower, upper], as a whole number of units, and the unit.

    One row counts for between −HALF and HALF units: sensitivity HALF under add-remove, 2·HALF under replace-one.
    Not private: the caller adds the noise.

    >>> total, unit = lattice_sum(np.array([0.0, 7.5, 1000.0]), 0.0, 10.0)
    >>> total * unit  # −5 + 2.5 + 5
    2.5
    """
    unit = lattice_unit(lower, upper)
    if not unit:
        return 0, 0.0
    with np.errstate(over="ignore"):
        places = np.rint((values - (lower + upper) / 2) / unit)
    return int(np.clip(places, -HALF, HALF).astype(np.int64).sum()), unit


def lattice_unit(lower: float, upper: float) -> float:
    """The step of the lattice on [lower, upper], in the unit of the data; 0 where that has no width."""
    return max((upper - lower) / (2 * HALF), 0.0)


def noisy_sum(
    values: Floats,
    lower: float,
    upper: float,
    relation: Relation,
    rho: Rho,
    budget: Budget,
    noise: NoiseSource,
    what: str,
) -> float:
    """Σ(clip(x) − c) with discrete Gaussian noise, in the unit of the data; c is the midpoint of [lower, upper].

    Args:
        values: shape (n,), any real numbers, infinities included.
        lower, upper: the clip interval, lower ≤ upper, in the unit of the data; not derived from rows for free.
        relation: add-remove (sensitivity (upper − lower)/2) or replace-one (upper − lower).
        rho: what it costs, ρ > 0, charged to `budget` under the name `what`.
        noise: where the noise comes from.

    Privacy: ρ-zCDP under `relation`. Proof: a row changes the whole number by at most Δ units, and noise of standard
    deviation Δ/√(2ρ) costs ρ (Bun and Steinke, arXiv:1605.02065, Proposition 1.6; for the discrete Gaussian Canonne,
    Kamath and Steinke, arXiv:2004.00010, Theorem 4); the rest is post-processing.

    >>> from equistrata.privacy.noise import SeededNoise
    >>> budget = Budget(Rho(0.5))
    >>> total = noisy_sum(np.full(1000, 7.0), 0, 10, REPLACE_ONE, Rho(0.5), budget, SeededNoise(1), "sum")
    >>> round(total, 1)  # 2000 + N(0, 10²)
    2003.5
    """
    sensitivity = float(2 * HALF if relation == REPLACE_ONE else HALF)
    noisy, _ = noise.gaussian(lambda: np.array([lattice_sum(values, lower, upper)[0]]), sensitivity, rho, budget, what)
    return float(noisy[0]) * lattice_unit(lower, upper)


def noisy_histogram(
    values: Floats,
    edges: Sequence[float],
    relation: Relation,
    rho: Rho,
    budget: Budget,
    noise: NoiseSource,
    what: str,
) -> tuple[Counts, float]:
    """Noisy numbers of rows in (edges[i], edges[i+1]], shape (len(edges) − 1,), and the noise's standard deviation.

    Privacy: ρ-zCDP, charged to `budget` under the name `what`. A row is in at most one bin: L2 sensitivity 1 under add-remove; under replace-one it can leave one
    bin for another: √2.

    >>> from equistrata.privacy.noise import SeededNoise
    >>> budget, noise = Budget(Rho(0.5)), SeededNoise(1)
    >>> counts, sigma = noisy_histogram(np.arange(300.0), [0, 100, 250], REPLACE_ONE, Rho(0.5), budget, noise, "shells")
    >>> counts.tolist(), round(sigma, 3)
    ([100, 151], 1.414)
    """

    def counts() -> Counts:
        places = np.searchsorted(np.asarray(edges), values, side="left")
        return np.bincount(places, minlength=len(edges) + 1)[1 : len(edges)].astype(np.int64)

    return noise.gaussian(counts, 2**0.5 if relation == REPLACE_ONE else 1.0, rho, budget, what)
