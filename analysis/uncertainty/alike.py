"""What a model is off by at one value of an ordered column is much the same at the next: a correlation of misfits.

Marital status moves ages as a whole: where it has too many of 30 to 39, it has too many of 40 to 49 as well. Were each
cell off by itself, a mean or a sum of several values would hardly be off. In tables of a census half of what two
columns have to do with each other (φ²) is a trend in an ordered one, whether it has five values or twenty; independent
cells have 1/(values − 1) of it. So two values that have a part d of all rows between them have misfits of correlation
exp(−d/NEAR), of which a trend has half where sums are known (docs/experiments/estimates.md).

>>> from equistrata.data.schema import Column
>>> close = closeness(Column("AGE", values=(1, 2, 3), type="ordinal"), np.array([10.0, 20.0, 10.0]))
>>> (close / close[0, 0]).round(2).tolist()
[[1.0, 0.69, 0.47], [0.69, 1.0, 0.69], [0.47, 0.69, 1.0]]
>>> closeness(Column("SEX", values=(1, 2)), np.array([10.0, 20.0])) is None
True
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column

NEAR = 1.0  # of the rows (docs/experiments/estimates.md)
Close = tuple[Floats | None, Floats | None]


def closeness(column: Column, counts: Floats, groups: Sequence[int] | None = None) -> Floats | None:
    """The covariance of the misfits of an ordered column's codes, or of groups of them; None of names.

    Its diagonal is one number above 1: known sums take more from misfits that are alike than from independent ones, so
    that a single value is off by as much as if they were. Codes beside numbers, as absent, are alike to none.

    Args:
        counts: of each code, or of each group.
        groups: the group of each code.
    """
    if not (column.numeric or column.ordered):
        return None
    index = np.arange(column.size) if groups is None else np.asarray(groups)
    numbers = np.arange(column.size) < (column.bins if column.numeric else column.size)
    inside = np.bincount(index[numbers], minlength=len(counts)) > 0
    rows = np.where(inside, np.maximum(counts, 1e-9), 0.0)
    share = rows / rows.sum()
    place = np.cumsum(share) - share / 2  # codes, and groups of them, are in order
    near = np.exp(-np.abs(place[:, None] - place) / NEAR)
    larger = (1 - share @ share) / max(float(1 - share @ near @ share), 1e-9)
    return np.asarray(np.where(inside[:, None] & inside, larger * near, np.eye(len(counts))))


def root(close: Floats) -> Floats:
    """A matrix of which the product with its transpose is this covariance."""
    scale, basis = np.linalg.eigh(close)
    return np.asarray(basis * np.sqrt(np.maximum(scale, 0.0)))
