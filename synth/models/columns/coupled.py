"""Coupled draws of the codes within groups.

A model of merged codes does not determine the position of a row within its group. If positions were drawn
independently, the highest incomes of an income group could be assigned to any of its rows. Instead, the rows of a group
exchange their codes, so that the positions of different columns are correlated as the groups are. The order of the
codes is the order of normal variables with the correlations of the groups, which is a normal copula. The variables are
drawn by Gibbs steps between the bounds of the groups [1]_.

The codes are not changed but only exchanged between rows of the same group. Therefore, the counts of each column and
all properties of the model are preserved. The exchange is post-processing and has no privacy cost.

References
----------
.. [1] Geweke (1991), Efficient simulation from the multivariate normal and Student-t distributions subject to linear
   constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Column
from equistrata.stats.copulas import MOST_CORRELATION, group_ends, group_scores, normal_copula

BLOCK = 1 << 18  # the maximum number of rows that exchange codes, which limits memory but keeps groups large
# The minimum correlation of a column that is coupled. Groups alone preserve nearly all of a weak correlation. In long
# tails, the dependence is also weaker than in a normal copula (docs/experiments/numbers.md).
_STRONG = 0.6
# The number of standard errors below which a correlation is set to 0, and the number of steps to find a large one.
_CLEAR, _STEPS = 2.0, 4
_APART = 100.0  # an offset between groups that is larger than any difference of normal variables


@dataclass(frozen=True, eq=False)
class Placed:
    """An ordered column of some rows.

    Parameters
    ----------
    groups : ndarray of int, shape (rows,)
        For each row, the position of its group in the order of the groups. It is −1 if the code is not in an ordered
        group.
    count : int
        The number of groups.
    codes : ndarray of int, shape (rows,), or None, default=None
        The code of each row. Codes ascend with the groups. It is None if each group is a single code.
    """

    groups: Indices
    count: int
    codes: Indices | None = None


def ordered_codes(column: Column, groups: Sequence[int] | None) -> Indices:
    """Return the merged codes of a column that are ordered.

    These are the bins of a numeric column or all values of an ordinal column.

    Parameters
    ----------
    column : Column
        The column with all codes.
    groups : sequence of int or None
        The group of each code. It is None if no codes are merged.

    Returns
    -------
    ndarray of int
        The ordered merged codes. The array is empty if the column is not ordered.
    """
    none = np.zeros(0, dtype=np.intp)
    if not column.ordered or column.open:
        return none
    bins = column.bins if column.numeric else column.size
    own = np.arange(bins) if groups is None else np.asarray(groups[:bins], dtype=np.intp)
    if (np.diff(own) < 0).any():  # because of rules, a group consists of several runs
        return none
    inside = np.unique(own)
    return np.setdiff1d(inside, [] if groups is None else groups[bins:])


def coupled(columns: Sequence[Placed], rng: np.random.Generator) -> list[Indices | None]:
    """Exchange the codes of each column within its groups.

    Parameters
    ----------
    columns : sequence of Placed
        The ordered columns of the same rows.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    list of ndarray of int or None
        The codes of each column after the exchange. An item is None if the column has no codes.
    """
    if not columns:
        return []
    starts = range(0, max(len(columns[0].groups), 1), BLOCK)
    parts = [_block([_rows(each, start) for each in columns], rng) for start in starts]
    return [None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True)]


def _rows(column: Placed, start: int) -> Placed:
    part = slice(start, start + BLOCK)
    return Placed(column.groups[part], column.count, None if column.codes is None else column.codes[part])


def _block(columns: Sequence[Placed], rng: np.random.Generator) -> list[Indices | None]:
    shares = [np.bincount(each.groups[each.groups >= 0], minlength=each.count).astype(float) for each in columns]
    correlations = _correlations(columns, shares)
    linked = [place for place, row in enumerate(correlations) if np.count_nonzero(np.abs(row) >= _STRONG) > 1]
    found = [each.codes for each in columns]
    if all(found[place] is None for place in linked):
        return found
    precision = np.asarray(np.linalg.inv(_definite(correlations[np.ix_(linked, linked)])), dtype=np.float64)
    numbers = _normal_numbers([_bounds(columns[place], shares[place]) for place in linked], precision, rng)
    for place, number in zip(linked, numbers, strict=True):
        own, codes = columns[place], found[place]
        if codes is not None:
            inside = np.flatnonzero(own.groups >= 0)
            order = np.argsort(number[inside] + own.groups[inside] * _APART)
            exchanged = codes.copy()
            exchanged[inside[order]] = np.sort(codes[inside])
            found[place] = exchanged
    return found


def _bounds(column: Placed, shares: Floats) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of the normal variable of each row.

    A row with a code that is in no ordered group has no bounds.
    """
    ends = group_ends(shares)
    return np.append(ends[:-1], -np.inf)[column.groups], np.append(ends[1:], np.inf)[column.groups]


def _correlations(columns: Sequence[Placed], shares: Sequence[Floats]) -> Floats:
    """Estimate the correlations of normal variables that are divided into the groups.

    The result is a matrix of shape (columns, columns), in which insignificant correlations are 0. To first order, the
    mean product of the scores of two groups is the correlation multiplied by the variances of both scores (Hermite
    polynomials). If this estimate is large, the correlation is computed that gives the same mean product exactly.
    """
    scores = [group_scores(share) for share in shares]
    own = np.stack([np.append(score, 0.0)[each.groups] for each, score in zip(columns, scores, strict=True)])
    present = np.stack([each.groups >= 0 for each in columns]).astype(float)
    both, products = present @ present.T, own @ own.T
    variances = (own**2 @ present.T) * (present @ (own**2).T)  # for each pair, over the rows with values of both
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(variances > 0, products * both / variances, 0.0)
        least = _CLEAR / np.sqrt(both)
    found = np.clip(np.where(np.abs(found) < least, 0.0, found), -MOST_CORRELATION, MOST_CORRELATION)
    for i, j in np.argwhere(np.triu(np.abs(found) > _STRONG / 2, 1)).tolist():
        found[i, j] = found[j, i] = _of_product(found[i, j], (scores[i], scores[j]), (shares[i], shares[j]))
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _of_product(first_order: float, scores: tuple[Floats, Floats], shares: tuple[Floats, Floats]) -> float:
    """Find the correlation for which the scores have the same mean product as in the first-order estimate."""
    rows, columns = (share / share.sum() for share in shares)
    product = first_order * float(rows @ scores[0] ** 2) * float(columns @ scores[1] ** 2)
    found = first_order
    for _ in range(_STEPS):
        reached = float(scores[0] @ normal_copula(rows, columns, found) @ scores[1])
        found = float(np.clip(found * product / reached, -MOST_CORRELATION, MOST_CORRELATION))
    return found


def _definite(correlations: Floats) -> Floats:
    """Make a correlation matrix positive definite.

    Small eigenvalues are increased so that no columns are identical, and the diagonal is scaled to 1.
    """
    values, vectors = np.linalg.eigh(correlations)
    matrix = (vectors * np.maximum(values, 1 - MOST_CORRELATION)) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    return np.asarray(matrix / np.outer(scale, scale))


def _normal_numbers(bounds: Sequence[tuple[Floats, Floats]], precision: Floats, rng: np.random.Generator) -> Floats:
    """Draw normal variables with the given precision matrix between bounds, as an array of shape (columns, rows).

    The function makes one Gibbs step from independent variables. Further steps changed the correlations by at most .001
    on average, because the bounds determine most of the correlations.
    """
    numbers = np.stack([_between(low, high, rng) for low, high in bounds])
    for column, (row, (low, high)) in enumerate(zip(precision, bounds, strict=True)):
        mean = numbers[column] - (row @ numbers) / row[column]
        deviation = float(row[column]) ** -0.5
        moved = mean + deviation * _between((low - mean) / deviation, (high - mean) / deviation, rng)
        numbers[column] = np.clip(moved, low, high)
    return numbers


def _between(low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Draw standard normal variables between bounds.

    If the lower bound is positive, both bounds are reflected at zero because probabilities are more accurate in the
    lower tail.
    """
    flip = np.where(low > 0, -1.0, 1.0)
    below, above = scipy.special.ndtr(np.where(low > 0, -high, low)), scipy.special.ndtr(np.where(low > 0, -low, high))
    numbers = scipy.special.ndtri(below + (above - below) * rng.random(len(low)))
    return np.asarray(flip * np.clip(numbers, -38.0, 38.0))
