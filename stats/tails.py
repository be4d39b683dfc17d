"""How a tail goes on beyond what is seen of it: the mean of falling curves, by how well they fit noisy counts.

A density falls from half of its mode as A·2^(−(t/h)^p), t nodes further out. Where nodes widen outwards, p = 1 is
Pareto's law and p = 2 about the log-normal one. Amplitudes, half-lives and powers of a grid are alike a priori, and
each node may hold half as much again, or less, than the curve says. So a tail of which little is known is as heavy as
the curves that fit it are together, not as the one that fits best (Bayesian model averaging).

>>> rows, nodes = 400 * 0.8 ** np.arange(40), np.arange(40)
>>> noisy = rows + np.random.default_rng(1).normal(0, 20, 40)
>>> found = expected_beyond([(nodes, noisy, np.full(40, 400.0))], rows[0], np.ones(40))
>>> bool(0.5 < found[20:30].sum() / rows[20:30].sum() < 2)
True
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from equistrata.arrays import Floats

# docs/experiments/coarsening.md
_POWERS = np.array([1.0, 1.5, 2.0])
_HALF_LIVES = np.geomspace(0.3, 10, 22)  # nodes
_AMPLITUDES = np.array([0.5, 0.7, 1.0, 1.4, 2.0])  # times the density where the tail begins
_APART = 0.5  # of a node's rows: the standard deviation of what they are off a curve

Sums = tuple[npt.NDArray[np.intp], Floats, Floats]


def expected_beyond(sums: Iterable[Sums], first: float, sizes: Floats) -> Floats:
    """The density of a tail's nodes, outwards, shape (nodes,).

    Args:
        sums: what is known, each by itself: the sum that each node is part of (below zero for none), noisy sums, and
            their variances.
        first: the density of the first node, about.
        sizes: of the nodes, in what the density is per.
    """
    out = (np.arange(len(sizes)) / _HALF_LIVES[:, None]) ** _POWERS[:, None, None]
    shapes = (first * _AMPLITUDES[:, None, None, None] * 2.0**-out).reshape(-1, len(sizes))
    rows, likelihoods = shapes * sizes, np.zeros(len(shapes))
    for groups, values, variances in sums:
        inside = (groups == np.arange(len(values))[:, None]).astype(np.float64)
        spread = variances + _APART**2 * (rows**2 @ inside.T)
        likelihoods -= ((values - rows @ inside.T) ** 2 / spread + np.log(spread)).sum(1) / 2
    return np.asarray(np.exp(likelihoods - logsumexp(likelihoods)) @ shapes)
