"""Public group weights that are not those of the measured rows: of another year, say, or with columns exchanged.

Post-processing of what was measured of the strata's sizes, no cost.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import norm

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import MOST_CELLS, NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.synth.measurements import Measurement, Prediction

_CLEAR = 4.0  # standard deviations of a measured share that are not put down to noise
_EXACT = 1e-6  # the variance of a public number (σ = 0)
_FAR = 1.25  # times as large, or as small: what a file of a few years ago may be off by is not stated


def weights_apart(evidence: Evidence, public: PublicWeights) -> list[dict[str, Any]]:
    """The groups of which the public share is far from the measured one, by more than noise; farthest first.

    Groups are the strata, or where their sizes are not known well enough, or are none of them far, the groups by fewer
    of their columns. Each has its `stratum`, in `words`, and its `weight` and `measured` share.
    """
    whole = evidence.strata
    for count in range(len(whole.columns), 0, -1):
        found = [
            each
            for columns in combinations(whole.columns, count)
            for each in _apart(evidence, public, Strata.over(whole.schema, columns))
        ]
        if found:
            found.sort(key=lambda each: -each.pop("apart"))
            return found
    return []


def _apart(evidence: Evidence, public: PublicWeights, groups: Strata) -> list[dict[str, Any]]:
    """The groups that are far, each with how far besides (`apart`)."""
    sizes, variances = measured_sizes(evidence, groups)
    rows = float(sizes.sum())
    if not (variances < NOT_MEASURED / 2).all() or not rows > _CLEAR * float(variances.sum()) ** 0.5:
        return []
    # Among more groups one is as far by chance as among MOST_CELLS.
    clear = float(norm.isf(norm.sf(_CLEAR) * min(MOST_CELLS / len(sizes), 1.0)))
    weights, shares = _weights(evidence.strata, public, groups), np.maximum(sizes, 0.0) / rows
    deviations = np.sqrt(variances) / rows
    # Of a share that may be as large or small as noise lets it be, a ratio to the nearest.
    nearest = np.clip(weights, np.maximum(shares - clear * deviations, 0.0), shares + clear * deviations)
    apart = np.abs(nearest - weights)
    far = (apart > 0) & (np.maximum(nearest, weights) > _FAR * np.minimum(nearest, weights))
    return [
        {
            "stratum": groups.label(groups.keys[place]),
            "words": groups.words(groups.keys[place]),
            "weight": round(float(weights[place]), 6),
            "measured": round(float(shares[place]), 6),
            "apart": float(apart[place]),
        }
        for place in np.flatnonzero(far).tolist()
    ]


def _weights(strata: Strata, public: PublicWeights, groups: Strata) -> Floats:
    places = {key: place for place, key in enumerate(groups.keys)}
    axes = [strata.columns.index(name) for name in groups.columns]
    found = np.zeros(len(places))
    for key, share in public.shares.items():
        found[places[tuple(key[axis] for axis in axes)]] += share
    return found


def measured_sizes(evidence: Evidence, groups: Strata) -> tuple[Floats, Floats]:
    """The measured rows of each group, and their variances, NOT_MEASURED where there are none; shape (k,).

    By all that was measured; of more than MOST_CELLS groups, by what has each of them by itself.
    """
    known = LeastSquares.of(groups.schema, evidence.all, groups.columns)
    if known is not None:
        cells = [int(np.ravel_multi_index(tuple(groups.codes_of(key).values()), known.shape)) for key in groups.keys]
        return known.counts([measurement.values for measurement in evidence.all])[cells], known.variance[cells]
    precision, sums = np.zeros(groups.sizes), np.zeros(groups.sizes)
    for each in evidence.all:
        fixed, axes = dict(each.where), [name for name in groups.columns if name not in dict(each.where)]
        whole = [name for name, merged in zip(each.columns, each.groups, strict=True) if merged is None]
        if isinstance(each, Prediction) or not {*axes} <= {*whole} or not {*fixed} <= {*groups.columns}:
            continue
        place = tuple(fixed.get(name, slice(None)) for name in groups.columns)
        values, variances = (_summed(each, table, axes) for table in (each.values, each.cell_sigma**2))
        precision[place] += 1 / np.maximum(variances, _EXACT)
        sums[place] += values / np.maximum(variances, _EXACT)
    codes = np.array([[*groups.codes_of(key).values()] for key in groups.keys]).T
    seen, totals = precision[tuple(codes)], sums[tuple(codes)]
    return totals / np.maximum(seen, 1 / NOT_MEASURED), np.where(seen > 0, 1 / np.maximum(seen, 1e-300), NOT_MEASURED)


def _summed(measurement: Measurement, table: Floats, axes: list[str]) -> Floats:
    """A table of a measurement's shape over these of its columns alone, in this order."""
    others = tuple(axis for axis, name in enumerate(measurement.columns) if name not in axes)
    left = [name for name in measurement.columns if name in axes]
    return np.transpose(table.sum(axis=others), [left.index(name) for name in axes])
