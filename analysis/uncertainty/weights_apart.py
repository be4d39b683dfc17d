"""Public group weights that are not those of the measured rows: of another year, say, or with columns exchanged.

Post-processing of what was measured of the strata's sizes, no cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.data.weights import PublicWeights

_CLEAR = 4.0  # standard deviations of a measured share that are not put down to noise
_FAR = 1.25  # times as large, or as small: what a file of a few years ago may be off by is not stated


def weights_apart(evidence: Evidence, public: PublicWeights) -> list[dict[str, Any]]:
    """The strata of which the public share is far from the measured one, by more than noise; farthest first.

    Each with its `stratum`, in `words`, and its `weight` and `measured` share. Empty where sizes were not measured, or
    are too many to be read together.
    """
    strata = evidence.strata
    known = LeastSquares.of(strata.schema, evidence.all, strata.columns)
    if known is None:
        return []
    cells = [int(np.ravel_multi_index(tuple(strata.codes_of(key).values()), known.shape)) for key in strata.keys]
    sizes = known.counts([measurement.values for measurement in evidence.all])[cells]
    variances, rows = known.variance[cells], float(sizes.sum())
    if not (variances < NOT_MEASURED / 2).all() or not rows > _CLEAR * float(variances.sum()) ** 0.5:
        return []
    weights, shares = np.array([public.shares[key] for key in strata.keys]), np.maximum(sizes, 0.0) / rows
    deviations = np.sqrt(variances) / rows
    # Of a share that may be as large or small as noise lets it be, a ratio to the nearest.
    nearest = np.clip(weights, np.maximum(shares - _CLEAR * deviations, 0.0), shares + _CLEAR * deviations)
    apart = np.abs(nearest - weights)
    far = (apart > 0) & (np.maximum(nearest, weights) > _FAR * np.minimum(nearest, weights))
    return [
        {
            "stratum": strata.label(strata.keys[place]),
            "words": strata.words(strata.keys[place]),
            "weight": round(float(weights[place]), 6),
            "measured": round(float(shares[place]), 6),
        }
        for place in np.flatnonzero(far)[np.argsort(-apart[far], kind="stable")].tolist()
    ]
