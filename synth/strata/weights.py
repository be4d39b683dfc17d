"""Public group weights that may be wrong, joined with noisy counts that were paid for, by inverse variance.

How wrong the public shares are is estimated from the counts (empirical Bayes): sizes are the public ones times random
effects with Student's t law, one kind for each stratum column and one for strata. See docs/proofs/strata.md.

Sources: Fay and Herriot, JASA 1979 (small areas, known noise); Lange, Little and Taylor, JASA 1989 (t errors by EM).

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
from equistrata.stats.random_effects import families
from equistrata.synth.measurements import LEAST_SIZE, Measurement, Prediction

# Tuned: docs/experiments/weights.md.
_FREEDOM = 2.0  # degrees of freedom of the effects' t law
_DOUBT = 0.1  # effects of zero added for each effect there is: where noise could be all, a scale shrinks to nothing
_START = 0.25  # squared scale of the relative effects at the start
_LEAST = 1e-10  # least squared scale: public shares that fit perfectly keep a scale of 0.001 %
_CLEAR = 4.0  # standard deviations that are not put down to noise
_ITERATIONS, _CONVERGED = 300, 1e-3  # of EM; change of the logarithm of a squared scale
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
    if not seen > _CLEAR * information**0.5:  # not even all rows together stand out of the noise
        return PublicWeights(dict(zip(strata.keys, shares.tolist(), strict=True)), source)
    sizes, spread = _sizes(shares * (seen / information), families(strata.keys), precision, sums)
    least = np.maximum(sizes, LEAST_SIZE * spread)
    return PublicWeights.from_counts(dict(zip(strata.keys, least.tolist(), strict=True)), strata, source)


def _sizes(expected: Floats, kinds: Sequence[Floats], precision: Floats, sums: Floats) -> tuple[Floats, Floats]:
    """The strata's sizes and their standard deviations, shape (k,), with the law of the effects estimated.

    Args:
        expected: sizes if the public shares were right, (k,), positive.
        kinds: for each kind of effect, (k, effects): 1 where a stratum has it.
        precision, sums: what the measurements say (`_readings`).
    """
    kind = np.repeat(np.arange(len(kinds)), [family.shape[1] for family in kinds])
    # Sizes are linear in the coefficients: first the number of rows (over its guess), then the relative effects.
    basis = np.hstack([np.ones((len(expected), 1)), *kinds]) * expected[:, None]
    read, seen = basis.T @ precision @ basis, basis.T @ sums
    effects = np.arange(1, len(read))
    scales, weights = np.full(len(kinds), _START), np.ones(len(kind))
    # EM ends at the mode next to where it starts: a stratum whose counts are far from its public size starts there.
    own, far = len(kind) - len(expected), sums - precision @ expected
    known = np.maximum(np.diag(precision), 1e-300)
    surprise = np.where(np.abs(far) > _CLEAR * np.sqrt(known), far / known / expected, 0.0)
    weights[own:] = (_FREEDOM + 1) / (_FREEDOM + 1 + surprise**2 / _START)
    for _ in range(_ITERATIONS):
        system = read.copy()
        system[effects, effects] += weights / scales[kind]
        covariance = np.linalg.inv(system)
        coefficients = covariance @ seen
        squares = coefficients[1:] ** 2 + np.diag(covariance)[1:]
        weights = (_FREEDOM + 1) / (_FREEDOM + squares / scales[kind])
        found = np.maximum(np.bincount(kind, weights * squares) / np.bincount(kind) / (1 + _DOUBT), _LEAST)
        converged = bool(np.abs(np.log(found / scales)).max() < _CONVERGED)
        scales = found
        if converged:
            break
    variance = ((basis @ covariance) * basis).sum(axis=1)
    return basis @ coefficients, np.sqrt(np.maximum(variance, 0.0))


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
