"""How much of a marginal is noise: what is measured only where its noise floor is a small enough part of the rows.

Post-processing: prices, public sizes and noisy numbers alone.

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
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Measurement, summed

# Times the rows: the noise floor of all sizes above which sums over them say more (`below_floor`); and at most this
# times the number of values of the stratum columns over that of strata (docs/experiments/levels.md).
NOISY_SIZES, NOISY_SIZES_OF_SUMS = 0.25, 0.5


def noise_floor(rho: float, cells: float) -> float:
    """The expected L1 norm of the noise on a marginal of so many cells that costs `rho`, in rows."""
    return NOISE_L1 * gaussian_sigma(rho) * cells


def pair_noise(schema: Schema, rho: float, average: Callable[[Iterable[int]], float] = mean) -> float:
    """The expected L1 norm of the noise on a pair of columns that costs `rho`, in rows, averaged over all pairs."""
    return noise_floor(rho, average(schema[a].size * schema[b].size for a, b in combinations(schema.names, 2)))


def pairs_readable(
    schema: Schema, rho: Rho, rows: float, fraction: float, average: Callable[[Iterable[int]], float] = mean
) -> bool:
    """Whether the noise floor (`pair_noise`) of a tree of pairs bought with `rho` is at most `fraction` of `rows`.

    All arguments are public or noisy numbers.
    """
    return pair_noise(schema, float(rho) / (len(schema.names) - 1), average) <= fraction * rows


def sum_noise(measurements: Iterable[Measurement], names: Iterable[str]) -> float:
    """The standard deviation of the number of rows with values of these columns; infinite if it was not measured."""
    wanted = set(names)
    sums = [summed(each, tuple(names)).sigma for each in measurements if wanted <= set(each.columns)]
    precision = sum(sigma**-2 for sigma in sums if sigma)
    return float(precision**-0.5) if precision else math.inf


def below_floor(sigma: float, values: Sequence[int], rows: float) -> bool:
    """Whether the noise floor of all strata's sizes together is more than a part of the rows: NOISY_SIZES, or less.

    Where there are many more strata than their columns have values, sums over them say as much with less noise.

    Args:
        sigma: of one size, by all that was measured of it.
        values: the number of values of each stratum column.
        rows: their number.
    """
    strata = math.prod(values)
    most = min(NOISY_SIZES, NOISY_SIZES_OF_SUMS * sum(values) / strata)
    return NOISE_L1 * sigma * strata > most * rows
