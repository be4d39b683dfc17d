"""Splits of the rows of a tree's nodes between their halves, with effects that are estimated by empirical Bayes.

The effects of a level have a mixture of normal distributions around zero, and the weights are estimated for each level
[1]_. If the halves of a level differ from the expected split by noise alone, then the expected split is used. This is
post-processing of noisy counts, so it costs no privacy.

References
----------
.. [1] Stephens (2017), False Discovery Rates: a New Deal.

>>> sums, variances = [np.array([9.0, 11.0, 38.0, 42.0]), np.array([20.0, 80.0])], [np.full(4, 4.0), np.full(2, 8.0)]
>>> sums, variances = [*sums, np.array([100.0])], [*variances, np.array([16.0])]
>>> split_by(sums, variances, np.ones(4)).round(1).tolist()
[9.8, 10.3, 38.5, 41.4]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats

_EFFECTS = np.array([0.05, 0.15, 0.5, 1.5])  # the standard deviations of a share's effect if both halves are equal
# The exponent by which they decrease with the product of the expected shares. With one half, as for a fair coin,
# noise in an unexpected tail becomes an effect. With one, a tail that is longer than expected is not found.
_EFFECT_POWER = 0.85
_PSEUDO = 0.3  # the prior number of nodes of each kind in a level
_PASSES = 30


def split_by(sums: Sequence[Floats], variances: Sequence[Floats], prior: Floats) -> Floats:
    """Compute the posterior mean counts of the bins.

    Parameters
    ----------
    sums, variances : sequence of ndarray
        The sums and variances of each level. See `Tree`.
    prior : ndarray of shape (bins,)
        The proportions in which the rows of a node are split if the counts of its halves are not informative.

    Returns
    -------
    ndarray of shape (bins,)
        The counts, which are nonnegative and add up to at least one row.
    """
    base = [np.zeros(len(sums[0]))]
    base[0][: len(prior)] = prior
    while len(base) < len(sums):
        base.append(base[-1][::2] + base[-1][1::2])
    rows = np.maximum(sums[-1], 1.0)
    for total, variance, mass in zip(sums[-2::-1], variances[-2::-1], base[-2::-1], strict=True):
        left, right = mass[::2], mass[1::2]
        share = left / np.maximum(left + right, 1e-300)
        open_ = (share > 0) & (share < 1) & (rows > 0)
        q, n = share[open_], rows[open_]
        apart = (1 - q) * total[::2][open_] - q * total[1::2][open_]
        noise = (1 - q) ** 2 * variance[::2][open_] + q**2 * variance[1::2][open_]
        scale = n**2 / 4 * (4 * q * (1 - q)) ** (2 * _EFFECT_POWER)
        share[open_] = np.clip(q + _effects(apart, noise, scale) / n, 0.0, 1.0)
        rows = np.stack([rows * share, rows * (1 - share)], axis=1).ravel()
    return np.asarray(rows[: len(prior)])


def _effects(seen: Floats, noise: Floats, scale: Floats) -> Floats:
    """Return the posterior means of a level's effects. The prior variance of each is one of _EFFECTS² · scale."""
    if not len(seen):
        return seen
    prior = _EFFECTS**2 * scale[:, None]
    spread = prior + noise[:, None]
    likelihood = -(seen[:, None] ** 2) / (2 * spread) - np.log(spread) / 2
    likelihood = np.exp(likelihood - likelihood.max(1, keepdims=True))
    weights = np.full(len(_EFFECTS), 1 / len(_EFFECTS))
    for _ in range(_PASSES):  # EM
        kinds = likelihood * weights
        kinds /= kinds.sum(1, keepdims=True)
        weights = kinds.sum(0) + _PSEUDO
        weights /= weights.sum()
    kinds = likelihood * weights
    kinds /= kinds.sum(1, keepdims=True)
    return np.asarray((kinds * prior / spread).sum(1) * seen)
