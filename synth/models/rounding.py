"""Whole numbers in place of expected ones: how many rows get which value, without bias and with little error.

Drawn rows differ from their model by chance, small groups most. Rounding keeps every count near its quota, and, since
columns are drawn one after the other, group by group, each column's counts over all groups as well.

>>> spread(np.array([3, 3]), np.array([[0.5, 0.5], [0.5, 0.5]]), np.random.default_rng(0)).sum(axis=0).tolist()
[3, 3]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats


def assign(group: npt.NDArray[np.intp], shares: Floats, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """For each row, in row `group` of `shares`, a column of it: counts as `spread`, which rows get it at random."""
    counts = spread(np.bincount(group, minlength=len(shares)), shares, rng)
    order = rng.permutation(len(group))
    # A stable sort of a narrow type is a radix sort, ten times as fast.
    order = order[np.argsort(group[order].astype(np.min_scalar_type(len(shares))), kind="stable")]
    drawn = np.empty(len(group), dtype=np.intp)
    drawn[order] = np.repeat(np.tile(np.arange(shares.shape[1]), len(shares)), counts.ravel())
    return drawn


def spread(totals: Counts, shares: Floats, rng: np.random.Generator) -> Counts:
    """Whole counts per row of `shares` that add up to `totals`, each in expectation its quota, totals · shares.

    One column after the other takes its part of what is left, by systematic rounding down the rows: within one of its
    quota in every row and in every run of rows. So where rows are sorted by several variables, counts by the first of
    them are kept too.

    Args:
        totals: shape (r,), at least 0.
        shares: shape (r, c), at least 0; each row in proportion, and with a sum above 0 where the total is.
    """
    counts = np.zeros(shares.shape, dtype=np.int64)
    left = totals.astype(np.int64)
    ahead = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1]  # the share of this column and all after it
    for column in range(shares.shape[1]):
        share, rest = shares[:, column], ahead[:, column]
        # Exactly 1 at a row's last possible column, since what comes after it adds nothing.
        quota = np.divide(share, rest, out=np.zeros_like(share), where=rest > 0) * left
        marks = np.floor(np.cumsum(quota) + rng.random()).astype(np.int64)
        # Rounding errors of the running sum must not move a count out of its quota's floor and ceiling.
        taken = np.clip(np.diff(marks, prepend=0), np.floor(quota), np.ceil(quota)).astype(np.int64)
        counts[:, column] = taken
        left -= taken
    return counts
