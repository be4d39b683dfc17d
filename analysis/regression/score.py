"""Score intervals of logistic coefficients, which are valid for groups that may consist only of noise.

In a small group, a coefficient can be infinite in some draws of the noise, so its variance is not meaningful. However,
the sufficient statistics of a logistic regression are linear in the noise. The interval contains all values of the
coefficient for which the score is not significantly different from 0, where the other coefficients are replaced by
their maximum likelihood estimates [1]_. This is similar to Fieller's interval of a ratio. The interval may be unbounded
on one side.

References
----------
.. [1] Rao (1948).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import scipy

from equistrata.analysis.regression.design import Regression
from equistrata.arrays import Floats

_FAR = 30.0  # log odds between the ends of a term's range; larger values are treated as infinite
_EXACT = 1e-3  # the accuracy of the ends of the interval, in log odds over the range of the term
MOST_WORK = 1e9  # the maximum of cells times squared terms over all coefficients, which takes about a minute


def score_interval(
    asked: Regression,
    known: tuple[Floats, Floats],
    place: int,
    noises: Sequence[tuple[Floats, Floats]],
    assumed: Sequence[Floats],
    sampled: float,
    far: float,
) -> tuple[float, float]:
    """Compute the interval of one coefficient.

    Parameters
    ----------
    asked : Regression
        The regression.
    known : tuple of ndarray
        The table of counts, shape (cells,), and the sums of terms times outcome.
    place : int
        The index of the coefficient.
    noises : sequence of tuple
        The same arrays for each replicate.
    assumed : sequence of ndarray
        Alternative tables of counts with the same sums.
    sampled : float
        The factor on the sampling variance of the rows.
    far : float
        The quantile of Student's t.

    Returns
    -------
    tuple of float
        The ends of the interval. An end is infinite if no value on this side is rejected.
    """
    weights, (counts, products) = asked.weights(known[0]), known
    own = asked.products(counts)
    moved = [(asked.weights(table) - weights, sums - own) for table, sums in noises]
    moved += [(asked.weights(table) - weights, np.zeros(len(own))) for table in assumed]
    share = np.array([1 / len(noises)] * len(noises) + [1.0] * len(assumed))
    tables, sums = np.array([each for each, _ in moved]), np.array([each for _, each in moved])
    term, best = asked.design[:, place], asked.coefficients(*known)

    def refuted(at: float) -> float:
        """Return a positive number if a value is rejected."""
        start = best.copy()
        start[place] = at
        chance = scipy.special.expit(asked.design @ asked.held(counts, products, start, place))
        along = asked.orthogonal_combination(weights * chance * (1 - chance), place)
        pulled = asked.design @ along
        off = sums @ along - tables @ (chance * pulled)
        variance = float(share @ off**2 + sampled * (weights * (asked.outcome - chance) ** 2) @ pulled**2)
        score = float(along @ products - (weights * chance) @ pulled)
        return score**2 - far**2 * variance

    reach = float(np.ptp(term)) or float(np.abs(term).max())  # the intercept has no range
    value, most = float(best[place]), _FAR / max(reach, 1e-12)
    ends = [value - most, value + most]
    if refuted(value) >= 0:  # there is no noise
        return value, value
    found = [
        scipy.optimize.brentq(refuted, value, end, xtol=_EXACT * most / _FAR) if refuted(end) > 0 else inf
        for end in ends
    ]
    return (-inf if found[0] == inf else float(found[0])), float(found[1])
