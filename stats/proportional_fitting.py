"""Iterative proportional fitting, which adjusts a table to given sums.

Among all tables with these sums, the result is the closest one in relative entropy.

References
----------
.. [1] Deming and Stephan (1940), On a least squares adjustment of a sampled frequency table, Annals of Mathematical
Statistics 11, 427.
.. [2] Csiszár (1975), I-divergence geometry, Annals of Probability 3, 146.

>>> fit_margins(np.array([[1.0, 1.0], [1.0, 3.0]]), [np.array([[4.0], [2.0]]), np.array([[3.0, 3.0]])], 50).round(2)
array([[2.35, 1.65],
       [0.65, 1.35]])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats

_LEAST = 1e-12  # smaller sums are replaced by this value, so empty parts remain empty


def fit_margins(table: Floats, sums: Sequence[Floats], times: int) -> Floats:
    """Scale a table repeatedly until it has the given sums.

    The last of the sums hold exactly. All of them hold after convergence if they are consistent.

    Parameters
    ----------
    table : ndarray
        A nonnegative table of any shape.
    sums : sequence of ndarray
        The sums. Each array is a sum over the axes along which it has length 1, and has the length of the table along
        the other axes.
    times : int
        The number of iterations.

    Returns
    -------
    ndarray
        The scaled table.
    """
    for wanted in list(sums) * times:
        over = tuple(axis for axis, length in enumerate(wanted.shape) if length == 1)
        table = table * (wanted / np.maximum(table.sum(over, keepdims=True), _LEAST))
    return table
