"""Systematic rounding of expected counts.

Expected counts are replaced by whole numbers without bias and with small errors. Rows that are drawn independently
differ from their model by chance, especially in small groups. Rounding keeps every count close to its quota. The
columns of a table are drawn one after the other and group by group, so rounding also keeps the counts of each column
over all groups close to their quotas.

>>> spread(np.array([3, 3]), np.array([[0.5, 0.5], [0.5, 0.5]]), np.random.default_rng(0)).sum(axis=0).tolist()
[3, 3]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats


def assign(group: npt.NDArray[np.intp], shares: Floats, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Assign a code to each row at random with systematically rounded counts.

    Parameters
    ----------
    group : ndarray of int
        The group of each row, which is a row of `shares`.
    shares : ndarray of shape (groups, codes)
        The proportions of the codes in each group.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    ndarray of int
        The code of each row. The counts are those of `spread`, and the rows of a group that get a code are random.
    """
    counts = spread(np.bincount(group, minlength=len(shares)), shares, rng)
    order = rng.permutation(len(group))
    # NumPy uses a radix sort for a stable sort of a narrow type, which is ten times as fast.
    order = order[np.argsort(group[order].astype(np.min_scalar_type(len(shares))), kind="stable")]
    drawn = np.empty(len(group), dtype=np.intp)
    drawn[order] = np.repeat(np.tile(np.arange(shares.shape[1]), len(shares)), counts.ravel())
    return drawn


def spread(totals: Counts, shares: Floats, rng: np.random.Generator) -> Counts:
    """Distribute row totals over columns as whole counts.

    The expected value of each count is its quota, which is the total of its row multiplied by its share. The columns
    are processed one after the other, and each column gets a part of the remaining total. This part is computed by
    systematic rounding along the rows. It differs from its quota by less than 1 in each row, and also in each run of
    consecutive rows. Therefore, if the rows are sorted by several variables, the counts by the first of these variables
    are also kept.

    Parameters
    ----------
    totals : ndarray of int, shape (r,)
        The non-negative total of each row.
    shares : ndarray of shape (r, c)
        The non-negative proportions of each row. Their sum must be positive in rows with a positive total.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    ndarray of int, shape (r, c)
        The counts. The sum of each row is its total.
    """
    counts = np.zeros(shares.shape, dtype=np.int64)
    left = totals.astype(np.int64)
    ahead = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1]  # the share of this column and of all later columns
    for column in range(shares.shape[1]):
        share, rest = shares[:, column], ahead[:, column]
        # The ratio is exactly 1 at the last possible column of a row, because later columns have the share 0.
        quota = np.divide(share, rest, out=np.zeros_like(share), where=rest > 0) * left
        marks = np.floor(np.cumsum(quota) + rng.random()).astype(np.int64)
        # Floating-point errors of the running sum must not move a count outside the floor and the ceiling of its quota.
        taken = np.clip(np.diff(marks, prepend=0), np.floor(quota), np.ceil(quota)).astype(np.int64)
        counts[:, column] = taken
        left -= taken
    return counts
