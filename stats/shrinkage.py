"""Adaptive shrinkage of noisy numbers with known errors, of which most may be close to 0.

A scale was predicted for each of the real numbers. Their distribution is a mixture of normal distributions around 0.
The standard deviations are multiples of the predicted scale, including 0, and the weights are estimated by maximum
likelihood. This determines the posterior of each number. The local false sign rate is the probability that a number is
0 or has the other sign. If this rate is small for all numbers that are reported, then only a few of them are due to
chance. For this rate, a penalty favours 0. For sizes, there is no such penalty, so that uninformative observations
leave every size possible. All results are post-processing, so they cost no privacy.

References
----------
.. [1] Stephens (2017), False discovery rates: a new deal, Biostatistics 18, 275.

>>> rng = np.random.default_rng(0)
>>> found = adaptive_shrinkage(np.append(rng.normal(0, 1, 99), 8.0), np.ones(100), np.ones(100))
>>> bool(found.wrong_sign[99] < 0.01), bool((found.wrong_sign[:99] > 0.05).all()), bool(found.size[:99].max() < 1)
(True, True, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats

# The standard deviations as multiples of the predicted scale.
_SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-4, 7)])
_NULL = 10.0 * (_SCALES == 0)  # pseudo-counts that favour 0, as in Stephens (2017)
# Pseudo-counts of Jeffreys' prior, because few observations contain little information about the weights.
_EVEN = np.full(len(_SCALES), 0.5)
_STEPS = 500


@dataclass(frozen=True, eq=False)
class Shrunken:
    """The posterior of n numbers.

    Attributes
    ----------
    size, deviation : ndarray of shape (n,)
        The mean and the standard deviation of the absolute value.
    wrong_sign : ndarray of shape (n,)
        The local false sign rate, in [0, 1].
    """

    size: Floats
    deviation: Floats
    wrong_sign: Floats


def adaptive_shrinkage(observed: Floats, noise: Floats, scale: Floats) -> Shrunken:
    """Compute the posterior of numbers from noisy observations.

    Parameters
    ----------
    observed : ndarray of shape (n,)
        The observations. A value that is not finite was not observed.
    noise : ndarray of shape (n,)
        The standard deviation of each observation, which must be positive.
    scale : ndarray of shape (n,)
        The predicted size of each number, which must be positive.

    Returns
    -------
    Shrunken
        The posterior.
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
    """Return the probability of each scale for each number, with the shape of `likely`.

    `counted` contains the pseudo-counts.
    """
    weights = np.full(len(_SCALES), 1 / len(_SCALES))
    for _ in range(_STEPS if seen.any() else 0):
        parts = likely[seen] * weights
        counts = (parts / parts.sum(1, keepdims=True)).sum(0) + counted
        weights = counts / counts.sum()
    parts = likely * weights
    return np.asarray(parts / parts.sum(1, keepdims=True))
