"""Distances of released values: how far each column's distribution is from the real one, over all rows and by stratum.

They do not change when nominal values are declared in another order, or numbers are rescaled with their bounds, and
nothing is divided by a mean that may be near zero.

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
    """Parity of distributions: (1/k)·d(X) + Σ_i d(G_i) over k strata, d a mean over columns of their distances.

    A column's distance is total variation, half the L1 distance of shares, or for numbers, dates and ordinal codes
    `Scale.distance`; both in [0, 1]. Added up as the stratification paper adds errors of means (Definition 11): 0 means
    that every column that defines no strata has its distribution in all rows and in every stratum, and k + 1/k is the
    most. A stratum without synthetic rows has distance 1. Without strata it is d(X).

    Privacy: EXACT, so internal; not private.
    """
    scales = {name: _scale(pair, name) for name in pair.columns}
    return _parity(pair, {name: _variation if scale is None else scale.distance for name, scale in scales.items()})


def total_variation(pair: Pair) -> ParityError:
    """The same with the total variation distance of every column, of numbers in their bins.

    Privacy: EXACT, so internal; not private.
    """
    return _parity(pair, dict.fromkeys(pair.columns, _variation))


def wasserstein(pair: Pair) -> dict[str, float]:
    """Numeric column → Wasserstein-1 distance of its present values over all rows, in the column's own unit.

    Values within a bin count as its middle. Privacy: EXACT, so internal; not private.
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
    """Real and synthetic shares of a column's codes over all rows, then in each stratum, shape (1 + k, codes)."""
    size, k = pair.real.schema[name].size, len(pair.labels)
    sides = ((pair.real, pair.real_place, pair.times[0]), (pair.synthetic, pair.synthetic_place, pair.times[1]))
    found = []
    for table, place, times in sides:
        # Place -1, the strata left out, counts over all rows only.
        cells = (place + 1) * size + table.column(name).astype(np.int64)
        counts = np.bincount(cells, times, (1 + k) * size).reshape(1 + k, size).astype(np.float64)
        counts[0] = counts.sum(0)
        found.append(counts / np.maximum(counts.sum(1, keepdims=True), 1.0))
    return found[0], found[1]


def _variation(real: Floats, synthetic: Floats) -> float:
    return float(np.abs(real - synthetic).sum() / 2)
