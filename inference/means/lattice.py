"""Noisy sums and histograms in whole units, so that a row's effect is bounded exactly.

Rounding errors of floating-point sums can exceed the sensitivity that the noise is made for (Mironov, CCS 2012). Here
each clipped row is rounded to one of 2³⁰ + 1 lattice points, and noise is added to an exact whole number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.privacy.budget import REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource

HALF = 2**29  # lattice units in half a clip interval: sums of 2³³ rows fit into 64 bits
LAPLACE_ROWS = 2**53 // HALF  # from this many rows on a sum of lattice units is no longer exact as a float


@dataclass(frozen=True)
class Purchase:
    """One charge: `rho` of `budget`, entered as `what`, for Gaussian noise from `noise`."""

    rho: Rho
    budget: Budget
    noise: NoiseSource
    what: str

    def gaussian(self, make: Callable[[], Counts], sensitivity: float) -> tuple[Counts, float]:
        """Whole numbers of this L2 sensitivity with noise, and its σ: see `NoiseSource.gaussian`. Costs `rho`."""
        return self.noise.gaussian(make, sensitivity, self.rho, self.budget, self.what)


def lattice_sum(values: Floats, lower: float, upper: float) -> int:
    """Σ(clip(x) − c) for the midpoint c of [lower, upper], in whole lattice units. Not private.

    Sensitivity: HALF under add-remove, 2·HALF under replace-one.

    >>> lattice_sum(np.array([0.0, 7.5, 1000.0]), 0.0, 10.0) * lattice_unit(0.0, 10.0)  # −5 + 2.5 + 5
    2.5
    """
    unit = lattice_unit(lower, upper)
    if not unit:
        return 0
    with np.errstate(over="ignore"):
        places = np.rint((values - (lower + upper) / 2) / unit)
    return int(np.clip(places, -HALF, HALF).astype(np.int64).sum())


def lattice_unit(lower: float, upper: float) -> float:
    """The step of the lattice on [lower, upper], in the unit of the data; 0 where that has no width."""
    return max((upper - lower) / (2 * HALF), 0.0)


def noisy_sum(values: Floats, lower: float, upper: float, relation: Relation, purchase: Purchase) -> float:
    """Σ(clip(x) − c) with discrete Gaussian noise, in the unit of the data; c is the midpoint of [lower, upper].

    values: shape (n,), any real numbers, infinities included. The clip, lower ≤ upper, is declared or paid for.

    Cost: ρ-zCDP; sensitivity (upper − lower)/2 under add-remove, upper − lower under replace-one. See
    docs/proofs/coinpress.md.

    >>> from equistrata.privacy.noise import SeededNoise
    >>> purchase = Purchase(Rho(0.5), Budget(Rho(0.5)), SeededNoise(1), "sum")
    >>> round(noisy_sum(np.full(1000, 7.0), 0, 10, REPLACE_ONE, purchase), 1)  # 2000 + N(0, 10²)
    2003.5
    """
    sensitivity = float(2 * HALF if relation == REPLACE_ONE else HALF)
    noisy, _ = purchase.gaussian(lambda: np.array([lattice_sum(values, lower, upper)]), sensitivity)
    return float(noisy[0]) * lattice_unit(lower, upper)


def noisy_histogram(
    values: Floats, edges: Sequence[float], relation: Relation, purchase: Purchase
) -> tuple[Counts, float]:
    """Noisy numbers of rows in (edges[i], edges[i+1]], shape (len(edges) − 1,), and the noise's standard deviation.

    Cost: ρ-zCDP. A row is in at most one bin: L2 sensitivity 1 under add-remove, √2 under replace-one.

    >>> from equistrata.privacy.noise import SeededNoise
    >>> purchase = Purchase(Rho(0.5), Budget(Rho(0.5)), SeededNoise(1), "shells")
    >>> counts, sigma = noisy_histogram(np.arange(300.0), [0, 100, 250], REPLACE_ONE, purchase)
    >>> counts.tolist(), round(sigma, 3)
    ([100, 151], 1.414)
    """

    def counts() -> Counts:
        places = np.searchsorted(np.asarray(edges), values, side="left")
        return np.bincount(places, minlength=len(edges) + 1)[1 : len(edges)].astype(np.int64)

    return purchase.gaussian(counts, 2**0.5 if relation == REPLACE_ONE else 1.0)
