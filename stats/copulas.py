"""The normal copula of two ordered columns in groups, which is a prior for their joint counts with one parameter.

>>> even = np.full(4, 0.25)
>>> normal_copula(even, even, 0.0).round(4)[0].tolist(), normal_copula(even, even, 0.9).round(3)[0].tolist()
([0.0625, 0.0625, 0.0625, 0.0625], [0.193, 0.052, 0.005, 0.0])
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy

from equistrata.arrays import Floats

# For larger correlations, the two columns are almost equal, and the integral over angles is no longer accurate.
MOST_CORRELATION = 0.985
_POINTS, _REACH = 24, 8.0  # nodes of the Gauss-Legendre rule; the range in standard deviations
_LEAST = 1e-12  # the smallest share


def normal_copula(first: Floats, second: Floats, correlation: float) -> Floats:
    """Compute the joint probabilities of two normal variables that are cut into groups.

    Parameters
    ----------
    first, second : ndarray of shape (a,) and (b,)
        The probabilities of the groups in order. Each array must have a positive sum.
    correlation : float
        The correlation of the normal variables, in [-MOST_CORRELATION, MOST_CORRELATION].

    Returns
    -------
    ndarray of shape (a, b)
        The joint probabilities, which have the given margins.

    References
    ----------
    .. [1] Drezner and Wesolowsky, doi:10.1080/00949659008811236, equation 3 (the bivariate normal distribution function
    as an integral over angles).
    """
    a, b = group_ends(first), group_ends(second)
    nodes, weights = _rule()
    angle = float(np.arcsin(correlation))
    sines = np.sin(angle * (nodes + 1) / 2)
    spread = a[:, None, None] ** 2 + b[None, :, None] ** 2 - 2 * sines * a[:, None, None] * b[None, :, None]
    below = scipy.special.ndtr(a)[:, None] * scipy.special.ndtr(b) + angle / (4 * np.pi) * (
        np.exp(-spread / (2 * (1 - sines**2))) @ weights
    )
    return np.asarray(np.maximum(np.diff(np.diff(below, axis=0), axis=1), 0.0))


def group_ends(shares: Floats) -> Floats:
    """Compute the points that cut a normal variable into groups.

    Parameters
    ----------
    shares : ndarray of shape (groups,)
        The shares of the groups. They do not have to add up to 1.

    Returns
    -------
    ndarray of shape (groups + 1,)
        The points in increasing order, which are between -8 and 8.
    """
    below = np.clip(np.append(0.0, np.cumsum(shares)) / max(float(shares.sum()), _LEAST), 0.0, 1.0)
    return np.asarray(np.clip(scipy.special.ndtri(below), -_REACH, _REACH))


def group_scores(shares: Floats) -> Floats:
    """Compute the mean of a normal variable in each group.

    Parameters
    ----------
    shares : ndarray of shape (groups,)
        The shares of the groups. They do not have to add up to 1.

    Returns
    -------
    ndarray of shape (groups,)
        The means. The mean is 0 for a group with no share.
    """
    ends, parts = group_ends(shares), shares / max(float(shares.sum()), _LEAST)
    density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.divide(-np.diff(density), parts, out=np.zeros(len(parts)), where=parts > _LEAST))


@cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return nodes, weights
