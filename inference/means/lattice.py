"""Noisy sums and histograms of whole numbers, so that the effect of one row is bounded exactly.

The rounding errors of a floating-point sum may be larger than the sensitivity for which the noise is calibrated
(Mironov, CCS 2012). Therefore each clipped row is rounded to one of 2³⁰ + 1 lattice points, and the noise is added to
an exact whole number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.privacy.budget import REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource

HALF = 2**29  # the number of lattice units in half of a clip interval; a sum of 2³³ rows fits into 64 bits
LAPLACE_ROWS = 2**53 // HALF  # for this number of rows or more, a sum of lattice units is not exact as a float


@dataclass(frozen=True)
class GaussianCharge:
    """One charge to a budget for Gaussian noise.

    Attributes
    ----------
    rho : Rho
        The cost in zCDP.
    budget : Budget
        The budget that is charged.
    noise : NoiseSource
        The source of the noise.
    what : str
        The name of the charge.
    """

    rho: Rho
    budget: Budget
    noise: NoiseSource
    what: str

    def gaussian(self, make: Callable[[], Counts], sensitivity: float) -> tuple[Counts, float]:
        """Add Gaussian noise to whole numbers with the given L2 sensitivity, and return its σ.

        The cost is `rho`.
        """
        return self.noise.gaussian(make, sensitivity, self.rho, self.budget, self.what)


def lattice_sum(values: Floats, lower: float, upper: float) -> int:
    """Compute Σ(clip(x) − c) in whole lattice units, where c is the midpoint of [lower, upper].

    The sum is not private. The sensitivity is HALF under add-remove and 2·HALF under replace-one.

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
    """Return the step of the lattice on [lower, upper], in the unit of the data.

    It is 0 if the interval has no width.
    """
    return max((upper - lower) / (2 * HALF), 0.0)


def noisy_sum(values: Floats, lower: float, upper: float, relation: Relation, purchase: GaussianCharge) -> float:
    """Measure Σ(clip(x) − c) with discrete Gaussian noise, where c is the midpoint of [lower, upper].

    Parameters
    ----------
    values : ndarray of shape (n,)
        Any real numbers, including infinite ones.
    lower, upper : float
        The ends of the clip, with lower ≤ upper. They are declared or were paid for.
    relation : Relation
        The neighbouring relation.
    purchase : GaussianCharge
        The charge for the noise.

    Returns
    -------
    float
        The noisy sum, in the unit of the data.

    Privacy
    -------
    ρ-zCDP. The sensitivity is (upper − lower)/2 under add-remove, and upper − lower under replace-one. See
    docs/proofs/coinpress.md.

    Examples
    --------
    >>> from equistrata.privacy.noise import SeededNoise
    >>> purchase = GaussianCharge(Rho(0.5), Budget(Rho(0.5)), SeededNoise(1), "sum")
    >>> round(noisy_sum(np.full(1000, 7.0), 0, 10, REPLACE_ONE, purchase), 1)  # 2000 + N(0, 10²)
    2003.5
    """
    sensitivity = float(2 * HALF if relation == REPLACE_ONE else HALF)
    noisy, _ = purchase.gaussian(lambda: np.array([lattice_sum(values, lower, upper)]), sensitivity)
    return float(noisy[0]) * lattice_unit(lower, upper)


def noisy_histogram(
    values: Floats, edges: Sequence[float], relation: Relation, purchase: GaussianCharge
) -> tuple[Counts, float]:
    """Measure the number of rows in each bin (edges[i], edges[i+1]].

    Parameters
    ----------
    values : ndarray of shape (n,)
        The values of the rows.
    edges : sequence of float
        The edges of the bins, in increasing order.
    relation : Relation
        The neighbouring relation.
    purchase : GaussianCharge
        The charge for the noise.

    Returns
    -------
    tuple of ndarray and float
        The noisy counts, shape (len(edges) − 1,), and the standard deviation of the noise.

    Privacy
    -------
    ρ-zCDP. Each row is in at most one bin, so the L2 sensitivity is 1 under add-remove and √2 under replace-one.

    Examples
    --------
    >>> from equistrata.privacy.noise import SeededNoise
    >>> purchase = GaussianCharge(Rho(0.5), Budget(Rho(0.5)), SeededNoise(1), "shells")
    >>> counts, sigma = noisy_histogram(np.arange(300.0), [0, 100, 250], REPLACE_ONE, purchase)
    >>> counts.tolist(), round(sigma, 3)
    ([100, 151], 1.414)
    """

    def counts() -> Counts:
        places = np.searchsorted(np.asarray(edges), values, side="left")
        return np.bincount(places, minlength=len(edges) + 1)[1 : len(edges)].astype(np.int64)

    return purchase.gaussian(counts, 2**0.5 if relation == REPLACE_ONE else 1.0)
