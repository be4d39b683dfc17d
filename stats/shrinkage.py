"""Adaptive shrinkage: many noisy numbers with known errors, of which most may be about 0 and some far from it.

Each real number has a scale that was predicted for it. Their law is a mixture of normal ones about 0, with standard
deviations of so many scales, 0 among them; its weights are found by maximum likelihood. The posterior of each number
follows. Its local false sign rate says how likely the number is 0 or of the other sign: where that is small for the
ones that are shown, few of them are chance. For that rate, a penalty prefers 0; for sizes, none does, so
that observations that say nothing leave every size possible. Post-processing, no cost.

Source: Stephens (2017), False discovery rates: a new deal, Biostatistics 18, 275.

>>> rng = np.random.default_rng(0)
>>> found = shrunken(np.append(rng.normal(0, 1, 99), 8.0), np.ones(100), np.ones(100))
>>> bool(found.wrong_sign[99] < 0.01), bool((found.wrong_sign[:99] > 0.05).all()), bool(found.size[:99].max() < 1)
(True, True, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats

_SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-4, 7)])  # standard deviations, of the predicted scale
_NULL = 10.0 * (_SCALES == 0)  # pseudo-counts that prefer 0, as Stephens has them
_EVEN = np.full(len(_SCALES), 0.5)  # pseudo-counts of Jeffreys' prior: a few observations say little of the law
_STEPS = 500


@dataclass(frozen=True, eq=False)
class Shrunken:
    """The posterior of each number, shape (n,).

    Attributes:
        size, deviation: mean and standard deviation of its absolute value.
        wrong_sign: the local false sign rate, in [0, 1].
    """

    size: Floats
    deviation: Floats
    wrong_sign: Floats


def shrunken(observed: Floats, noise: Floats, scale: Floats) -> Shrunken:
    """The posteriors of numbers, from noisy observations.

    Args:
        observed: shape (n,); what is not finite was not observed.
        noise: the standard deviation of each, positive.
        scale: what was predicted of each number's size, positive.
    """
    seen = np.isfinite(observed) & np.isfinite(noise)
    value = np.where(seen, observed, 0.0)[:, None]
    error = np.where(seen, noise, 1.0)[:, None] ** 2
    prior = (scale[:, None] * _SCALES) ** 2
    logs = np.where(seen[:, None], -0.5 * (np.log(prior + error) + value**2 / (prior + error)), 0.0)
    likely = np.exp(logs - logs.max(1, keepdims=True))
    careful, parts = (_parts(likely, seen, counts) for counts in (_NULL, _EVEN))
    kept = np.where(seen[:, None], prior / (prior + error), 0.0)
    mean, deviation = kept * value, np.sqrt(np.where(seen[:, None], kept * error, prior))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(deviation > 0, mean / deviation, 0.0)
    negative, zero = scipy.special.ndtr(-ratio), (deviation == 0)
    below = (careful * np.where(zero, 1.0, negative)).sum(1)
    above = (careful * np.where(zero, 1.0, 1 - negative)).sum(1)
    folded = deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (1 - 2 * negative)
    size = (parts * np.where(zero, 0.0, folded)).sum(1)
    square = (parts * (mean**2 + deviation**2)).sum(1)
    spread = np.sqrt(np.maximum(square - size**2, 0.0))
    return Shrunken(np.asarray(size), np.asarray(spread), np.asarray(np.minimum(below, above)))


def _parts(likely: Floats, seen: npt.NDArray[np.bool_], counted: Floats) -> Floats:
    """The probability of each scale for each number, shape as `likely`; `counted` are pseudo-counts."""
    weights = np.full(len(_SCALES), 1 / len(_SCALES))
    for _ in range(_STEPS if seen.any() else 0):
        parts = likely[seen] * weights
        counts = (parts / parts.sum(1, keepdims=True)).sum(0) + counted
        weights = counts / counts.sum()
    parts = likely * weights
    return np.asarray(parts / parts.sum(1, keepdims=True))
