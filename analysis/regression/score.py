"""Intervals of logistic coefficients that hold where noise may be all of a group: by the score, not the coefficient.

A group of few rows may have no finite coefficient in some draws of the noise, and the mean square of what it moves by
says nothing. The sums that a logistic regression matches are linear in the noise, so the interval is of all values at
which the score, with the other coefficients at their maximum, is within its own error of 0 (Rao, 1948), as Fieller's of
a ratio. It may have no end on one side.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import scipy

from equistrata.analysis.regression.design import Regression
from equistrata.arrays import Floats

_FAR = 30.0  # log odds between the ends of a term's range: beyond, it is as good as infinite
_EXACT = 1e-3  # of the interval's end, in log odds over the term's range
MOST_WORK = 1e9  # cells times terms squared, for all of a regression's coefficients: a minute or so


def score_interval(
    asked: Regression,
    known: tuple[Floats, Floats],
    place: int,
    noises: Sequence[tuple[Floats, Floats]],
    assumed: Sequence[Floats],
    sampled: float,
    far: float,
) -> tuple[float, float]:
    """The ends for one coefficient, infinite where no value on that side is refuted.

    Args:
        known: the table of counts, shape (cells,), and the sums of terms times outcome that are matched.
        noises: the same of each replicate.
        assumed: tables as they might be otherwise, with the same sums.
        sampled: the part of the variance of the rows' sampling that counts.
        far: quantile of t.
    """
    weights, (counts, products) = asked.weights(known[0]), known
    own = asked.products(counts)
    moved = [(asked.weights(table) - weights, sums - own) for table, sums in noises]
    moved += [(asked.weights(table) - weights, np.zeros(len(own))) for table in assumed]
    share = np.array([1 / len(noises)] * len(noises) + [1.0] * len(assumed))
    tables, sums = np.array([each for each, _ in moved]), np.array([each for _, each in moved])
    term, best = asked.design[:, place], asked.coefficients(*known)

    def refuted(at: float) -> float:
        """Positive where a value is."""
        start = best.copy()
        start[place] = at
        chance = scipy.special.expit(asked.design @ asked.held(counts, products, start, place))
        along = asked.apart_from_others(weights * chance * (1 - chance), place)
        pulled = asked.design @ along
        off = sums @ along - tables @ (chance * pulled)
        variance = float(share @ off**2 + sampled * (weights * (asked.outcome - chance) ** 2) @ pulled**2)
        score = float(along @ products - (weights * chance) @ pulled)
        return score**2 - far**2 * variance

    reach = float(np.ptp(term)) or float(np.abs(term).max())  # an intercept has no range
    value, most = float(best[place]), _FAR / max(reach, 1e-12)
    ends = [value - most, value + most]
    if refuted(value) >= 0:  # no noise at all
        return value, value
    found = [
        scipy.optimize.brentq(refuted, value, end, xtol=_EXACT * most / _FAR) if refuted(end) > 0 else inf
        for end in ends
    ]
    return (-inf if found[0] == inf else float(found[0])), float(found[1])
