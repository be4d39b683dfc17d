"""Codes within groups, drawn together: a column's place in its group goes with other columns' as their groups go.

A model of merged codes says nothing of where in a group a row is. Drawn independently, the highest incomes of a group
of incomes would be of anyone in it. Here rows of one group exchange their codes so that they are in the order of normal
numbers that have the correlations of the groups (a normal copula, drawn by Gibbs steps between the groups' ends;
Geweke 1991, Efficient simulation from the multivariate normal and Student-t distributions subject to linear
constraints). No code is changed, only who has it within a group: each column's counts, and all that the model knows,
stay as they are. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Column
from equistrata.stats.copulas import MOST_CORRELATION, group_ends, group_scores, normal_copula

BLOCK = 1 << 18  # rows that exchange codes at most: memory is bounded, and groups are large enough
# Columns without a correlation of so much are left to the groups. These have nearly all of weak ones, and in long tails
# columns go together less than a normal copula says (docs/experiments/numbers.md).
_STRONG = 0.6
_CLEAR, _STEPS = 2.0, 4  # standard errors, below which there is none; steps to find a strong one
_APART = 100.0  # more than normal numbers of one group and the next can be


@dataclass(frozen=True, eq=False)
class Placed:
    """An ordered column of some rows.

    Attributes:
        groups: each row's place among the groups in order, shape (rows,); -1 where its code is beside them.
        count: the number of groups.
        codes: each row's code, shape (rows,), ascending with the groups; None if each group is one code.
    """

    groups: Indices
    count: int
    codes: Indices | None = None


def ordered_codes(column: Column, groups: Sequence[int] | None) -> Indices:
    """The merged codes of a column that are in order: its bins, or all values of an ordinal column."""
    none = np.zeros(0, dtype=np.intp)
    if not column.ordered or column.open:
        return none
    bins = column.bins if column.numeric else column.size
    own = np.arange(bins) if groups is None else np.asarray(groups[:bins], dtype=np.intp)
    if (np.diff(own) < 0).any():  # a group of several runs, by rules
        return none
    inside = np.unique(own)
    return np.setdiff1d(inside, [] if groups is None else groups[bins:])


def coupled(columns: Sequence[Placed], rng: np.random.Generator) -> list[Indices | None]:
    """Each column's codes, exchanged within its groups; None where it has none."""
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
    """Between what a row's normal number lies, shapes (rows,): anything for a code beside the groups."""
    ends = group_ends(shares)
    return np.append(ends[:-1], -np.inf)[column.groups], np.append(ends[1:], np.inf)[column.groups]


def _correlations(columns: Sequence[Placed], shares: Sequence[Floats]) -> Floats:
    """Those of normal numbers that were cut into the groups, shape (columns, columns), 0 where none is clear.

    The mean product of the groups' scores is to the first order the correlation times both scores' variances (Hermite
    polynomials). Where it is strong, the correlation is the one of which the product is that.
    """
    scores = [group_scores(share) for share in shares]
    own = np.stack([np.append(score, 0.0)[each.groups] for each, score in zip(columns, scores, strict=True)])
    present = np.stack([each.groups >= 0 for each in columns]).astype(float)
    both, products = present @ present.T, own @ own.T
    variances = (own**2 @ present.T) * (present @ (own**2).T)  # of either, over the rows that have both
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(variances > 0, products * both / variances, 0.0)
        least = _CLEAR / np.sqrt(both)
    found = np.clip(np.where(np.abs(found) < least, 0.0, found), -MOST_CORRELATION, MOST_CORRELATION)
    for i, j in np.argwhere(np.triu(np.abs(found) > _STRONG / 2, 1)).tolist():
        found[i, j] = found[j, i] = _of_product(found[i, j], (scores[i], scores[j]), (shares[i], shares[j]))
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _of_product(first_order: float, scores: tuple[Floats, Floats], shares: tuple[Floats, Floats]) -> float:
    """The correlation of which scores have the product that would be `first_order` by the first order alone."""
    rows, columns = (share / share.sum() for share in shares)
    product = first_order * float(rows @ scores[0] ** 2) * float(columns @ scores[1] ** 2)
    found = first_order
    for _ in range(_STEPS):
        reached = float(scores[0] @ normal_copula(rows, columns, found) @ scores[1])
        found = float(np.clip(found * product / reached, -MOST_CORRELATION, MOST_CORRELATION))
    return found


def _definite(correlations: Floats) -> Floats:
    """The matrix with no eigenvalue so small that columns are as one, and ones on its diagonal."""
    values, vectors = np.linalg.eigh(correlations)
    matrix = (vectors * np.maximum(values, 1 - MOST_CORRELATION)) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    return np.asarray(matrix / np.outer(scale, scale))


def _normal_numbers(bounds: Sequence[tuple[Floats, Floats]], precision: Floats, rng: np.random.Generator) -> Floats:
    """Normal numbers of this precision between bounds, shape (columns, rows): a Gibbs step from independent ones. More
    changed no correlation by .001 in the mean: the bounds hold most of them."""
    numbers = np.stack([_between(low, high, rng) for low, high in bounds])
    for column, (row, (low, high)) in enumerate(zip(precision, bounds, strict=True)):
        mean = numbers[column] - (row @ numbers) / row[column]
        deviation = float(row[column]) ** -0.5
        moved = mean + deviation * _between((low - mean) / deviation, (high - mean) / deviation, rng)
        numbers[column] = np.clip(moved, low, high)
    return numbers


def _between(low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Standard normal numbers between bounds, shape (rows,): on the side of zero where probabilities are exact."""
    flip = np.where(low > 0, -1.0, 1.0)
    below, above = scipy.special.ndtr(np.where(low > 0, -high, low)), scipy.special.ndtr(np.where(low > 0, -low, high))
    numbers = scipy.special.ndtri(below + (above - below) * rng.random(len(low)))
    return np.asarray(flip * np.clip(numbers, -38.0, 38.0))
