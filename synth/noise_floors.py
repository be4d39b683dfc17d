"""Noise floors of marginals.

A marginal is measured only if its noise floor is a small fraction of the number of rows. The functions use prices,
public sizes and noisy numbers, so they are post-processing.

>>> round(noise_floor(0.5, 10), 2)  # ten cells of σ = 1
7.98
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from statistics import mean

from equistrata.data.schema import Schema
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Measurement, summed

# The sizes of strata are too noisy to use directly if their noise floor is above the fraction NOISY_SIZES of the rows.
# The fraction is at most NOISY_SIZES_OF_SUMS times the number of values of the stratum columns divided by the number
# of strata. See `below_floor`.
NOISY_SIZES, NOISY_SIZES_OF_SUMS = 0.25, 0.5


def noise_floor(rho: float, cells: float) -> float:
    """Compute the expected L1 norm of the noise on a marginal, in rows.

    Parameters
    ----------
    rho : float
        The privacy cost of the marginal in zCDP.
    cells : float
        The number of cells of the marginal.
    """
    return NOISE_L1 * gaussian_sigma(rho) * cells


def pair_noise(schema: Schema, rho: float, average: Callable[[Iterable[int]], float] = mean) -> float:
    """Compute the expected L1 norm of the noise on a pair of columns, in rows.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    rho : float
        The privacy cost of one pair in zCDP.
    average : callable, default=mean
        The function that averages the numbers of cells over all pairs.
    """
    return noise_floor(rho, average(schema[a].size * schema[b].size for a, b in combinations(schema.names, 2)))


def pairs_readable(
    schema: Schema, rho: Rho, rows: float, fraction: float, average: Callable[[Iterable[int]], float] = mean
) -> bool:
    """Check whether a tree of pairs can be measured with little noise.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    rho : Rho
        The privacy cost of the whole tree in zCDP.
    rows : float
        The number of rows, which is public or noisy.
    fraction : float
        The maximum noise floor, as a fraction of the number of rows.
    average : callable, default=mean
        The function that averages the numbers of cells over all pairs.

    Returns
    -------
    bool
        True if the noise floor (`pair_noise`) of one pair of the tree is at most `fraction` of the number of rows.
    """
    return pair_noise(schema, float(rho) / (len(schema.names) - 1), average) <= fraction * rows


def sum_noise(measurements: Iterable[Measurement], names: Iterable[str]) -> float:
    """Compute the standard deviation of the number of rows with given values of some columns.

    Parameters
    ----------
    measurements : iterable of Measurement
        The noisy marginals.
    names : iterable of str
        The columns for which values are given.

    Returns
    -------
    float
        The standard deviation, in rows. It is infinite if no measurement has all of these columns.
    """
    wanted = set(names)
    sums = [summed(each, tuple(names)).sigma for each in measurements if wanted <= set(each.columns)]
    precision = sum(sigma**-2 for sigma in sums if sigma)
    return float(precision**-0.5) if precision else math.inf


def below_floor(sigma: float, values: Sequence[int], rows: float) -> bool:
    """Check whether the sizes of all strata are too noisy to use directly.

    Sums over the strata are less noisy than the sizes. If there are many more strata than values of their columns,
    these sums are used earlier.

    Parameters
    ----------
    sigma : float
        The standard deviation of the size of one stratum, from all measurements, in rows.
    values : sequence of int
        The number of values of each column that defines the strata.
    rows : float
        The total number of rows.

    Returns
    -------
    bool
        True if the noise floor of all sizes is more than `NOISY_SIZES` of the rows, or a smaller part if there are many
        strata.
    """
    strata = math.prod(values)
    most = min(NOISY_SIZES, NOISY_SIZES_OF_SUMS * sum(values) / strata)
    return NOISE_L1 * sigma * strata > most * rows
