"""The normal copula of two ordered columns in groups: a prior for their joint counts that has one parameter.

>>> even = np.full(4, 0.25)
>>> normal_copula(even, even, 0.0).round(4)[0].tolist(), normal_copula(even, even, 0.9).round(3)[0].tolist()
([0.0625, 0.0625, 0.0625, 0.0625], [0.193, 0.052, 0.005, 0.0])
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy

from equistrata.arrays import Floats

# Beyond these correlations two columns in groups are as one, and the integral over angles is no longer exact.
MOST_CORRELATION = 0.985
_POINTS, _REACH = 24, 8.0  # of Gauss and Legendre's rule; standard deviations
_LEAST = 1e-12  # share


def normal_copula(first: Floats, second: Floats, correlation: float) -> Floats:
    """Joint probabilities of groups, shape (a, b), with these margins: of two normal numbers cut into the groups.

    Args:
        first, second: the groups' probabilities in their order, shapes (a,) and (b,), positive sums.
        correlation: of the normal numbers, in [-MOST_CORRELATION, MOST_CORRELATION].

    Source: the bivariate normal distribution function as an integral over angles (Drezner and Wesolowsky,
    doi:10.1080/00949659008811236, equation 3).
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
    """Where a normal number is cut into groups of these shares, shape (groups + 1,), from -8 to 8."""
    below = np.clip(np.append(0.0, np.cumsum(shares)) / max(float(shares.sum()), _LEAST), 0.0, 1.0)
    return np.asarray(np.clip(scipy.special.ndtri(below), -_REACH, _REACH))


def group_scores(shares: Floats) -> Floats:
    """The mean of the normal number in each group, shape (groups,); 0 in one without a share."""
    ends, parts = group_ends(shares), shares / max(float(shares.sum()), _LEAST)
    density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.divide(-np.diff(density), parts, out=np.zeros(len(parts)), where=parts > _LEAST))


@cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return nodes, weights
