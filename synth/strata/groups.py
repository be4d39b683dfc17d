"""Priors for a column by a stratum column, where nothing was measured within strata.

A pair of a stratum column and another one has the same noise for a value of a hundred rows as for one of all, so what
it says of the former is noise: a race of sixty had jobs, all of them or none. The shares of such values are shrunk to
those of all rows, by empirical Bayes: counts n·p ± n·√(τ²·p·(1 − p)), as of a Fay and Herriot (1979) model, where n is
less than twice the noise of a cell. Post-processing, no cost.

>>> from equistrata.data.schema import Schema
>>> strata = Strata.over(Schema.load("acs_employment").select(["SEX", "RAC1P", "DIS"]), ["SEX", "RAC1P"])
>>> rows = np.array([6000.0, 60, 50, 40, 30, 20, 10, 5, 2000])
>>> noisy = Measurement(("RAC1P", "DIS"), rows[:, None] * [0.1, 0.9] + 90 * np.array([1, -1]), 100.0)
>>> [found] = priors(strata, [noisy, Measurement(("DIS",), np.array([820.0, 7400]), 10.0)], lambda _: rows, 1.0)
>>> found.values[1].round().tolist(), found.sigmas[[1, 0]].round(1).tolist()
([6.0, 54.0], [[2.2, 2.2], [inf, inf]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Columns, Measurement, Merging, Prediction, summed
from equistrata.synth.models.base import PUBLIC_SIGMA

# τ² where less was seen: about that of a census table's columns (docs/experiments/estimates.md).
LEAST_VARIANCE = 0.015
READABLE = 2.0  # times σ of a cell: values of the stratum columns with more rows speak for themselves


def priors(
    strata: Strata, measurements: Sequence[Measurement], sizes: Callable[[Columns], Floats], sharpest: float
) -> list[Prediction]:
    """A prediction beside each pair of stratum columns and another column.

    Args:
        strata: of which columns are stratum columns.
        measurements: of all rows.
        sizes: the rows by some stratum columns, an axis each.
        sharpest: the least σ.
    """
    found = []
    for each in measurements:
        fixed = tuple(name for name in each.columns if name in strata.columns)
        rest = [axis for axis, name in enumerate(each.columns) if name not in strata.columns]
        if not fixed or len(rest) != 1:
            continue
        (axis,) = rest
        share = _shares(measurements, each.columns[axis], each.groups[axis])
        rows = np.expand_dims(sizes(fixed), axis)
        shape = [-1 if place == axis else 1 for place in range(each.values.ndim)]
        share = share.reshape(shape)
        expected, chance = rows * share, rows**2 * share * (1 - share)
        excess = float(((each.values - expected) ** 2 - each.sigma**2).sum()) / max(float(chance.sum()), 1e-12)
        sigmas = np.maximum(np.sqrt(max(excess, LEAST_VARIANCE) * chance), sharpest)
        sigmas = np.where(rows < READABLE * each.sigma, sigmas, np.inf)
        if np.isfinite(sigmas).any():
            found.append(Prediction(each.columns, expected, float(sigmas.min()), each.groups, sigmas=sigmas))
    return found


def _shares(measurements: Sequence[Measurement], name: str, groups: Merging) -> Floats:
    """The shares of a column's codes, merged alike, by all measurements that have it."""
    counts, precision = np.zeros(()), 0.0
    for each in measurements:
        if name in each.columns and each.groups[each.columns.index(name)] == groups:
            alone = summed(each, (name,))
            weight = max(alone.sigma, PUBLIC_SIGMA) ** -2
            counts, precision = counts + alone.values * weight, precision + weight
    positive = np.maximum(counts / precision, 0.0)
    return np.asarray(positive / max(float(positive.sum()), 1e-12))
