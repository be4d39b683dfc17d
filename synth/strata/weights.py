"""Public group weights that may be wrong, joined with noisy counts that were paid for, by inverse variance.

See `equistrata.stats.relative_sizes` and docs/proofs/strata.md.

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

# Tuned: docs/experiments/weights.md.
_UNLISTED = 0.5  # people of the public table in a stratum that it lists with none: rounding or sampling hid them
_UNLISTED_SHARE = 1e-6  # the same where the public table holds shares and no number of people
_EXACT = 0.1  # the standard deviation, in rows, of a public number (σ = 0)


def combined_weights(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], public: PublicWeights
) -> PublicWeights:
    """Weights from public shares and from all that was measured of the strata's sizes. Post-processing.

    Args:
        strata: the declared strata, k of them.
        measurements: stratum → what was measured of it; or `()` → what was measured of the whole table, within strata,
            by some stratum columns, or over all rows.
        public: shares of the same strata, from a source that holds none of the rows.

    Returns:
        k shares that sum to one. No stratum is dropped, by noise (LEAST_SIZE) or by a public share of zero. If not
        even the number of rows can be read in the noise, the public shares.
    """
    source = f"{public.source} and noisy counts (charged), by inverse variance"
    shares = np.array([public.shares[key] for key in strata.keys])
    # None is zero: effects are relative, and zero times anything is zero.
    shares = np.where(shares > 0, shares, _UNLISTED / public.total if public.total else _UNLISTED_SHARE)
    shares /= shares.sum()
    precision, sums = _readings(strata, measurements)
    information, seen = float(shares @ precision @ shares), float(shares @ sums)
    if not seen > CLEAR * information**0.5:  # not even all rows together stand out of the noise
        return PublicWeights(dict(zip(strata.keys, shares.tolist(), strict=True)), source)
    sizes, _ = posterior_sizes(shares * (seen / information), strata.keys, precision, sums)
    return PublicWeights.from_counts(dict(zip(strata.keys, sizes.tolist(), strict=True)), strata, source)


def _readings(strata: Strata, measurements: Mapping[Key, Sequence[Measurement]]) -> tuple[Floats, Floats]:
    """The normal equations of the sizes: AᵀR⁻¹A, (k, k), and AᵀR⁻¹y, (k,), over all sums y = A·sizes + noise.

    A measurement is summed over the columns that do not define strata: c cells make noise of variance c·σ².
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
