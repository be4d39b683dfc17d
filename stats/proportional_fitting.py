"""Tables with wanted sums, by iterative proportional fitting: of all that have them, the nearest in relative entropy.

Source: Deming and Stephan (1940), On a least squares adjustment of a sampled frequency table, Annals of Mathematical
Statistics 11, 427; Csiszár (1975), I-divergence geometry, Annals of Probability 3, 146.

>>> with_sums(np.array([[1.0, 1.0], [1.0, 3.0]]), [np.array([[4.0], [2.0]]), np.array([[3.0, 3.0]])], 50).round(2)
array([[2.35, 1.65],
       [0.65, 1.35]])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats

_LEAST = 1e-12  # a sum below it is taken as this: what is empty stays so


def with_sums(table: Floats, sums: Sequence[Floats], times: int) -> Floats:
    """A table scaled to these sums, again and again; the last of them hold exactly, and all where they agree.

    Args:
        table: not negative, of any shape.
        sums: each over the axes along which it has length 1, and along the others as long as the table.
        times: how often each is scaled to.
    """
    for wanted in list(sums) * times:
        over = tuple(axis for axis, length in enumerate(wanted.shape) if length == 1)
        table = table * (wanted / np.maximum(table.sum(over, keepdims=True), _LEAST))
    return table
