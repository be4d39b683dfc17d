"""Detection of jumps in the counts of a series.

A jump is a change of a count that is larger than its predicted variance explains. Each part of a marginal is tested
separately. The parts are the whole marginal, each stratum, each code over all strata, and each cell. The test of a
marginal has the level `UNLIKELY` for all of its parts together. If noise and drift do not explain the change of a part,
the variance of its former counts is raised to the most likely value given the change. The estimate is then based mostly
on the measurement of the month. The detection is post-processing. See docs/proofs/series.md for the proof.

>>> inflate_variances(np.array([3.0, -250.0]), np.full(2, 100.0), np.full(2, 100.0)).tolist()
[31154.5, 62400.0]
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import scipy

from equistrata.arrays import Floats

UNLIKELY = 0.003  # the level of the test for jumps in a marginal, which corresponds to three standard deviations


def inflate_variances(innovation: Floats, variance: Floats, noise: Floats) -> Floats:
    """Raise the variance of former counts in the parts that jumped.

    Parameters
    ----------
    innovation : ndarray
        The counts of this month minus the former counts.
    variance, noise : ndarray
        The variance of the former counts, which includes drift, and the noise variance of the counts of this month.
        Both have the shape of `innovation`.

    Returns
    -------
    ndarray
        The raised variance. In a part that jumped, it is the mean of innovation² − noise if this is larger than
        `variance`. This is the maximum likelihood estimate if the noise is equal in all cells.
    """
    found = variance.copy()
    squares = innovation**2 / (variance + noise)
    unlikely = UNLIKELY / np.prod([size + 1 for size in innovation.shape], initial=1.0)  # corrected for all parts
    every = range(innovation.ndim)
    for kept in (axes for size in range(innovation.ndim + 1) for axes in combinations(every, size)):
        rest = tuple(axis for axis in every if axis not in kept)
        cells = innovation.size / np.prod([innovation.shape[axis] for axis in kept], initial=1.0)
        chance = scipy.special.chdtrc(cells, squares.sum(rest, keepdims=True))
        wanted = (innovation**2 - noise).mean(rest, keepdims=True)
        found = np.where(chance < unlikely, np.maximum(found, wanted), found)
    return found
