"""How far a mean may be off by where a column's rows are within groups of its bins.

Other columns are measured with groups of a column's bins, and where rows are within a group is taken from a smooth law
of all rows. Replicates are drawn from that law: they say how far it moves by noise, and not how far it is from rows.
Of a long tail it has what is seen above noise, and the mean of each group lacks the rest. The counts of all rows by bin
were measured without any law, and by these an answer Σ w·c has noise of variance w·Σ·w, where w is what a row in each
bin adds to the answer beyond the mean of its group. A law that smooths gives up some truth for less of that noise, so
the deviation of what it gives up is taken as a part of it (LAW). Post-processing, no cost. See
docs/experiments/estimates.md.
"""

from __future__ import annotations

import numpy as np

from equistrata.analysis.bases.grounds import Grounds
from equistrata.arrays import Floats

LAW = 0.2  # of the standard deviation of the noise that a smooth law spares (docs/experiments/estimates.md)


def spread(grounds: Grounds, name: str, weights: Floats) -> Floats:
    """The weights times the covariance of what a law of a column is off by, shape (n, codes).

    Nothing where the column was not measured by itself, or has too many codes for a covariance.

    Args:
        weights: w of each answer, shape (n, codes).
    """
    known = grounds.table((name,))
    if known is None:
        return np.zeros_like(weights)
    return np.asarray(LAW**2 * known.spread(weights) * known.has(weights)[:, None])


def arms(grounds: Grounds, name: str, weights: Floats, room: Floats) -> tuple[Floats, Floats]:
    """The standard deviation of answers below and above their values, shape (n,) each, in so far as there is room.

    Args:
        weights: see `spread`.
        room: how far below and above they would be if all rows were at the ends of their groups, shape (n, 2), over the
            interval's quantile.
    """
    deviation = np.sqrt(np.maximum((spread(grounds, name, weights) * weights).sum(1), 0.0))
    low, high = np.minimum(deviation[:, None], np.maximum(room, 0.0)).T
    return low, high
