"""How far an answer moves if rows lean within groups of a column's bins as they do between them.

Other columns are measured with groups of bins, and where a department's salaries are within a group is taken to be
where all rows' are. But a department with more than its part of the next higher group has its rows high in this one,
too. Were both laws normal on some common scale, the log of their ratio would be linear in the normal score of all rows'
ranks; so its slope in a group is taken from the groups beside it, and all rows' law there is tilted by it. That is a
guess, not a measurement: answers are not moved by it, but their intervals reach it (docs/experiments/estimates.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from equistrata.analysis.bases.measured import LEAST_ROWS
from equistrata.arrays import Floats

STEEPEST = 3.0  # of the slopes: a group that is wholly in the tail of all rows
_FARTHEST = 1e-6  # of all rows: beyond are no scores
_LEAST_ROOM = 1e-3  # between the scores of two groups


def scores(law: Floats, bins: int) -> Floats:
    """The normal score of the middle rank of each code of a column, 0 of those beside its bins; shape as `law`."""
    numbers = np.maximum(law[:bins], 0.0)
    ranks = (np.cumsum(numbers) - numbers / 2) / max(float(numbers.sum()), 1e-300)
    found = np.zeros(len(law))
    found[:bins] = ndtri(np.clip(ranks, _FARTHEST, 1 - _FARTHEST))
    return found


def slopes(rows: Floats, error: Floats, every: Floats, middles: Floats, inside: npt.NDArray[np.bool_]) -> Floats:
    """The slope of the log ratio of some rows to all rows in each group of bins, by the groups beside it; 0 of others.

    Args:
        rows, error: of each group, as asked for, with the standard deviation of noise.
        every: all rows of each.
        middles: the mean score in each, in order.
        inside: which are groups of bins.
    """
    found, places = np.zeros(len(rows)), np.flatnonzero(inside)
    total, all_rows = max(float(rows[places].sum()), LEAST_ROWS), max(float(every[places].sum()), LEAST_ROWS)
    # As many rows as may be noise are all rows': of few, nothing is seen.
    own = (np.maximum(rows, 0.0) + error * every / all_rows + 1.0) / total
    ratio = np.log(own / ((every + 1.0) / all_rows))
    for place, group in enumerate(places):
        one, other = places[max(place - 1, 0)], places[min(place + 1, len(places) - 1)]
        room = middles[other] - middles[one]
        if room > _LEAST_ROOM:
            found[group] = (ratio[other] - ratio[one]) / room
    return np.clip(found, -STEEPEST, STEEPEST)


def leaned(law: Floats, groups: npt.NDArray[np.intp], at: Floats, slope: Floats) -> Floats:
    """By how many times more rows each code has in its group, tilted by the group's slope; shape as `law`.

    Args:
        law: all rows of each code.
        groups: of each code.
        at: the codes' scores.

    >>> groups, at = np.array([0, 0, 1, 1]), np.array([-1.0, 0.0, 0.0, 1.0])
    >>> leaned(np.ones(4), groups, at, np.array([0.0, np.log(3)])).round(9).tolist()
    [1.0, 1.0, 0.5, 1.5]
    """
    times = np.exp(slope[groups] * at)
    rows = np.maximum(law, 1e-9)
    return np.asarray(times * (np.bincount(groups, rows) / np.bincount(groups, rows * times))[groups])
