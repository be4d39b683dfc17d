"""Jumps: where a month's innovation is larger than its predicted variance explains, the former counts are doubted.

Every part of a marginal (all of it, a stratum, one code in all strata, a cell) is tested by itself. Where noise and
drift explain its innovation with a chance below `UNLIKELY`, all parts of the marginal together, the variance of its
former counts is raised to the one that is most likely given the innovation. So this month's measurement counts instead.
Post-processing. Proof: docs/proofs/series.md.

>>> inflated(np.array([3.0, -250.0]), np.full(2, 100.0), np.full(2, 100.0)).tolist()
[31154.5, 62400.0]
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import scipy

from equistrata.arrays import Floats

UNLIKELY = 0.003  # the chance, by noise and drift alone, of any jump in a marginal: that of three standard deviations


def inflated(innovation: Floats, variance: Floats, noise: Floats) -> Floats:
    """The variance of former counts, raised in the parts that jumped.

    Parameters
    ----------
    innovation : ndarray
        This month's counts less the former ones.
    variance, noise : ndarray
        Of the former counts, with drift, and of this month's; of the same shape.

    Returns
    -------
    ndarray
        `variance`, or in a part that jumped the mean of innovation² − noise, if that is more. For equal noise that is
        the variance of maximum likelihood.
    """
    found = variance.copy()
    squares = innovation**2 / (variance + noise)
    unlikely = UNLIKELY / np.prod([size + 1 for size in innovation.shape], initial=1.0)  # all parts together
    every = range(innovation.ndim)
    for kept in (axes for size in range(innovation.ndim + 1) for axes in combinations(every, size)):
        rest = tuple(axis for axis in every if axis not in kept)
        cells = innovation.size / np.prod([innovation.shape[axis] for axis in kept], initial=1.0)
        chance = scipy.special.chdtrc(cells, squares.sum(rest, keepdims=True))
        wanted = (innovation**2 - noise).mean(rest, keepdims=True)
        found = np.where(chance < unlikely, np.maximum(found, wanted), found)
    return found
