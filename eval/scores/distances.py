"""Distances between the distributions of the released columns and the real ones, over all rows and in each stratum.

The distances do not change if nominal values are declared in another order, or if numbers and their bounds are
rescaled. They are not divided by a mean, which may be near zero.

>>> import pandas as pd
>>> real = pd.DataFrame({"G": [1, 1, 2, 2], "Y": ["a", "b", "a", "a"]})
>>> found = parity_distance(Pair.of(real, real.assign(Y=["a", "a", "a", "a"]), ["G"]))
>>> found.by_stratum, found.value  # half of stratum 1 is elsewhere; a quarter of all rows, times 1/2
({'G=1': 0.5, 'G=2': 0.0}, 0.625)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equistrata.arrays import Floats
from equistrata.eval.scores.parity import ParityError
from equistrata.eval.scores.tables import Pair
from equistrata.stats.scales import WORST_DISTANCE, Scale

Distance = Callable[[Floats, Floats], float]


def parity_distance(pair: Pair) -> ParityError:
    """Compute the parity of distributions: (1/k)·d(X) + Σ_i d(G_i) over k strata.

    The distance d is a mean over the columns that define no strata. The distance of a column is the total variation
    distance, which is half of the L1 distance between the shares. For numbers, dates and ordinal codes it is
    `Scale.distance`. Both are in [0, 1]. The distances are added in the same way as the stratification paper adds the
    errors of means (Definition 11). A value of 0 means that every such column has the same distribution in all rows and
    in every stratum. The maximum is k + 1/k. The distance of a stratum without synthetic rows is 1. If there are no
    strata, the value is d(X).

    Parameters
    ----------
    pair : Pair
        The real and the synthetic table, with their strata.

    Returns
    -------
    ParityError
        The value, and the distances of the columns over all rows and in each stratum.

    Privacy
    -------
    Not private. The distances are exact, so they are internal.
    """
    scales = {name: _scale(pair, name) for name in pair.columns}
    return _parity(pair, {name: _variation if scale is None else scale.distance for name, scale in scales.items()})


def total_variation(pair: Pair) -> ParityError:
    """Compute the parity of distributions with the total variation distance for every column.

    The numbers of a numeric column are compared by their bins. The result is exact, so it is internal and not private.
    """
    return _parity(pair, dict.fromkeys(pair.columns, _variation))


def wasserstein(pair: Pair) -> dict[str, float]:
    """Compute the Wasserstein-1 distance of each numeric column over all rows, in the unit of the column.

    Missing cells are left out, and each value is replaced by the midpoint of its bin. The result is exact, so it is
    internal and not private.
    """
    scales = {name: _scale(pair, name) for name in pair.columns}
    return {name: scale.moved(*(side[0] for side in _shares(pair, name))) for name, scale in scales.items() if scale}


def _scale(pair: Pair, name: str) -> Scale | None:
    return Scale.of(pair.real.schema[name], pair.declared)


def _parity(pair: Pair, distances: dict[str, Distance]) -> ParityError:
    names, k = pair.columns, len(pair.labels)
    errors = np.empty((1 + k, len(names)))
    for place, (name, distance) in enumerate(distances.items()):
        real, synthetic = _shares(pair, name)
        for group in range(1 + k):
            there = synthetic[group].any()
            errors[group, place] = distance(real[group], synthetic[group]) if there else WORST_DISTANCE
    if not pair.strata:
        return ParityError(names, (), 1.0, errors[0], errors[:0])
    return ParityError(names, pair.labels, 1 / k, errors[0], errors[1:])


def _shares(pair: Pair, name: str) -> tuple[Floats, Floats]:
    """Compute the real and the synthetic shares of the codes of a column, as two arrays of shape (1 + k, n_codes).

    The first row is for all rows of the table, and each other row is for one of the k strata.
    """
    size, k = pair.real.schema[name].size, len(pair.labels)
    sides = ((pair.real, pair.real_place, pair.times[0]), (pair.synthetic, pair.synthetic_place, pair.times[1]))
    found = []
    for table, place, times in sides:
        # Rows with place -1 are in strata that are left out. They are counted only over all rows.
        cells = (place + 1) * size + table.column(name).astype(np.int64)
        counts = np.bincount(cells, times, (1 + k) * size).reshape(1 + k, size).astype(np.float64)
        counts[0] = counts.sum(0)
        found.append(counts / np.maximum(counts.sum(1, keepdims=True), 1.0))
    return found[0], found[1]


def _variation(real: Floats, synthetic: Floats) -> float:
    return float(np.abs(real - synthetic).sum() / 2)
