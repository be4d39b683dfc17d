"""Merging of neighbouring codes of a column into groups with about equal numbers of rows.

The groups depend on the noisy counts of the column alone and on the price of a pair, so they are post-processing.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Column
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.distributions import NOISE_L1

# The noise floors of a pair of merged columns, as fractions of the rows. The second is used within strata, and if a
# clique of three such columns would need more cells than the part of TRIPLE_CELLS for one column. If the first is 0.5,
# pairs are more accurate, but numbers with bounds only are less accurate.
PAIR_NOISE, LOW_PAIR_NOISE = 0.3, 0.1
TRIPLE_CELLS = 320_000
FEWEST_GROUPS = 2
_NO_ROWS = 1e-9  # the relative size of a sum that is zero up to floating-point errors


def groups_for(rho: float, rows: float, columns: int) -> float:
    """Compute the number of groups of each column of a pair.

    The noise floor of the pair is `PAIR_NOISE` of the number of rows, if a model with these groups is not too large.
    Otherwise, the number of groups is reduced, but not below the number for `LOW_PAIR_NOISE`.

    Parameters
    ----------
    rho : float
        The privacy cost of the pair in zCDP.
    rows : float
        The number of rows, which is estimated from noisy numbers.
    columns : int
        The total number of columns.

    Returns
    -------
    float
        The number of groups.

    Examples
    --------
    >>> round(groups_for(0.0006, 40_000, 10), 1), round(groups_for(0.006, 40_000, 20), 1)
    (22.8, 25.2)
    """
    room = float((TRIPLE_CELLS / max(columns, 1)) ** (1 / 3))
    return max(min(groups_at(rho, rows, PAIR_NOISE), room), groups_at(rho, rows, LOW_PAIR_NOISE))


def groups_at(rho: float, rows: float, floor: float) -> float:
    """Compute the number of groups of each column of a pair for a given noise floor.

    Parameters
    ----------
    rho : float
        The privacy cost of the pair in zCDP.
    rows : float
        The number of rows, which is estimated from noisy numbers.
    floor : float
        The noise floor of the pair, as a fraction of the number of rows.

    Returns
    -------
    float
        The number of groups, which is at least `FEWEST_GROUPS`.

    Examples
    --------
    >>> round(groups_at(0.0006, 40_000, 0.1), 1)
    13.2
    """
    return max(sqrt(floor * max(rows, 0.0) / (NOISE_L1 * gaussian_sigma(rho))), FEWEST_GROUPS)


def merge_codes(column: Column, counts: Floats, most: float, classes: Indices) -> tuple[int, ...]:
    """Merge neighbouring codes into groups with about equal numbers of rows.

    The order of the codes is the declared order. A code that alone has enough rows for a group is not merged. Codes of
    a numeric column that are not bins are not merged either.

    Parameters
    ----------
    column : Column
        The column.
    counts : ndarray of shape (codes,)
        The noisy count of each code.
    most : float
        The target number of groups. A group has at least 1/most of the rows, unless it is the last group of its run.
    classes : ndarray of int, shape (codes,)
        The class of each code (see `zero_classes`). Codes of different classes are not merged.

    Returns
    -------
    tuple of int
        The group of each code.

    Examples
    --------
    >>> merge_codes(Column("X", values=(0, 1, 2, 3, 4, 5)), np.array([1., 2, 50, 4, 3, 40]), 4, np.zeros(6, np.intp))
    (0, 0, 1, 2, 2, 3)
    """
    counts = projected_shares(counts)
    least = 1 / most
    if column.numeric:
        beside = np.arange(column.size - column.bins)
        classes = np.append(classes[: column.bins], classes.max(initial=0) + 1 + beside)
    groups, group, held, last = [], -1, np.inf, None
    for count, kind in zip(counts, classes, strict=True):
        if held >= least or count >= least or kind != last:
            group, held = group + 1, 0.0
        groups.append(group)
        held, last = held + float(count), kind
    return tuple(groups)


def merge_bins(column: Column, counts: Floats, most: float, classes: Indices) -> tuple[int, ...]:
    """Merge neighbouring bins of a numeric column.

    The function differs from `merge_codes` in one way. If there are few rows after the last full group, they are added
    to it.

    Parameters
    ----------
    column : Column
        The column.
    counts : ndarray of shape (codes,)
        The noisy count of each code.
    most : float
        The target number of groups. A full group has at least 1/most of the rows.
    classes : ndarray of int, shape (codes,)
        The class of each code (see `zero_classes`). Codes of different classes are not merged.

    Returns
    -------
    tuple of int
        The group of each code.

    Examples
    --------
    >>> counts = np.array([45.0, 36, 14, 3, 2])
    >>> merge_bins(Column("X", values=(0, 1, 2, 3, 4)), counts, 8, np.zeros(5, np.intp))
    (0, 1, 2, 2, 2)
    """
    groups, bins = merge_codes(column, counts, most, classes), column.bins or column.size
    last = groups[bins - 1]
    rest = [code for code in range(bins) if groups[code] == last]
    small = projected_shares(counts)[rest].sum() * most < 1 and rest[0] > 0 and classes[rest[0]] == classes[rest[0] - 1]
    small = small and last >= FEWEST_GROUPS  # a single group has no relation to other columns
    return tuple(group - (group >= last) for group in groups) if small else groups


def projected_shares(counts: Floats) -> Floats:
    """Compute the closest non-negative numbers with the same sum, and divide them by the sum.

    If the sum is not positive, all shares are equal.

    Parameters
    ----------
    counts : ndarray
        The noisy counts.

    Returns
    -------
    ndarray
        The shares, which sum to 1.
    """
    total = float(counts.sum())
    if total <= _NO_ROWS * float(np.abs(counts).sum()):
        return np.full(len(counts), 1 / len(counts))
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - excess[np.flatnonzero(falling > excess)[-1]], 0.0) / total)
