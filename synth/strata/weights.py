"""Weights of strata from public shares and noisy counts.

The public shares may be wrong. They are combined with noisy counts, which are paid for, by inverse variance. See
`equistrata.stats.relative_sizes` and docs/proofs/strata.md.

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> strata = Strata.over(Schema.load("acs_employment").select(["SEX", "ESR"]), ["SEX"])
>>> public = PublicWeights({(1,): 0.5, (2,): 0.5}, "file 'old.csv'")
>>> for sigma in (1.0, 1000.0, 3000.0):
...     noisy = {key: [Measurement((), np.array(size), sigma)] for key, size in {(1,): 9000.0, (2,): 6000.0}.items()}
...     print({key: round(share, 2) for key, share in combined_weights(strata, noisy, public).shares.items()})
{(1,): 0.6, (2,): 0.4}
{(1,): 0.57, (2,): 0.43}
{(1,): 0.5, (2,): 0.5}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Key, Strata
from equistrata.data.weights import PublicWeights
from equistrata.stats.relative_sizes import CLEAR, posterior_sizes
from equistrata.synth.measurements import Measurement, Prediction

_UNLISTED = 0.5  # the number of people in a stratum with a public count of 0, because of rounding or sampling
_UNLISTED_SHARE = 1e-6  # the share of such a stratum if the public table has shares without a number of people
_EXACT = 0.1  # the standard deviation of a public number (σ = 0), in rows


def combined_weights(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], public: PublicWeights
) -> PublicWeights:
    """Combine public shares with all measurements of the sizes of the strata.

    The combination is post-processing.

    Parameters
    ----------
    strata : Strata
        The strata.
    measurements : mapping of tuple to sequence of Measurement
        The measurements of each stratum. The key `()` stands for measurements of the whole table, which can be within
        strata, by some of the stratum columns, or over all rows.
    public : PublicWeights
        The public shares of the same strata. Their source must not contain any of the private rows.

    Returns
    -------
    PublicWeights
        The shares, which sum to 1. No stratum is dropped because of noise (`LEAST_SIZE`) or because its public share is
        0. If the number of rows cannot be distinguished from noise, the public shares are returned.
    """
    source = f"{public.source} and noisy counts (charged), by inverse variance"
    shares = np.array([public.shares[key] for key in strata.keys])
    # No share is 0, because effects are relative and a share of 0 could not change.
    shares = np.where(shares > 0, shares, _UNLISTED / public.total if public.total else _UNLISTED_SHARE)
    shares /= shares.sum()
    precision, sums = _readings(strata, measurements)
    information, seen = float(shares @ precision @ shares), float(shares @ sums)
    if not seen > CLEAR * information**0.5:  # the total number of rows is within the noise
        return PublicWeights(dict(zip(strata.keys, shares.tolist(), strict=True)), source)
    sizes, _ = posterior_sizes(shares * (seen / information), strata.keys, precision, sums)
    return PublicWeights.from_counts(dict(zip(strata.keys, sizes.tolist(), strict=True)), strata, source)


def _readings(strata: Strata, measurements: Mapping[Key, Sequence[Measurement]]) -> tuple[Floats, Floats]:
    """Compute the normal equations of the sizes of the k strata.

    These are AᵀR⁻¹A with shape (k, k) and AᵀR⁻¹y with shape (k,), over all sums y = A·sizes + noise. Each measurement
    is summed over the columns that do not define the strata. A sum over c cells has noise with variance c·σ².
    """
    count = len(strata.keys)
    precision, sums = np.zeros((count, count)), np.zeros(count)
    codes = [strata.codes_of(key) for key in strata.keys]
    for measured_of, found in measurements.items():
        of = [place for place, key in enumerate(strata.keys) if measured_of in ((), key)]
        for measurement in found:
            if isinstance(measurement, Prediction):
                continue
            inside = [place for place in of if measurement.where in ((), tuple(codes[place].items()))]
            axes = list(zip(measurement.columns, measurement.groups, strict=True))
            fixed = [(name, groups) for name, groups in axes if name in strata.columns]
            values = measurement.values.sum(axis=tuple(n for n, axis in enumerate(axes) if axis not in fixed))
            cells = measurement.values.size // max(values.size, 1)
            design = np.zeros((*values.shape, count))
            for place in inside:
                at = [groups[codes[place][name]] if groups else codes[place][name] for name, groups in fixed]
                design[(*at, place)] = 1.0
            design, weight = design.reshape(-1, count), 1 / (cells * max(measurement.sigma, _EXACT) ** 2)
            precision += weight * (design.T @ design)
            sums += weight * (design.T @ np.ravel(values))
    return precision, sums
