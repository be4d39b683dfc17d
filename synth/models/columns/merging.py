"""Which neighbouring codes of a column are merged: runs of about an equal part of the rows each.

Post-processing of noisy numbers: of the counts of a column by itself, and of the price of a pair.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Column
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.laws import NOISE_L1

# Times the rows: the noise floor of a pair of merged columns; and where three of them in a clique would take more than
# a column's part of TRIPLE_CELLS, and within strata (docs/experiments/nist.md, docs/experiments/numbers.md).
PAIR_NOISE, LOW_PAIR_NOISE = 0.3, 0.1
TRIPLE_CELLS = 320_000
FEWEST_GROUPS = 2
_NO_ROWS = 1e-9  # of the noise: a sum that is zero except for rounding


def groups_for(rho: float, rows: float, columns: int) -> float:
    """How many groups two columns may have: the noise floor of their pair is PAIR_NOISE of the rows, if models hold it.

    Args:
        rho: what the pair costs, in zCDP.
        rows: their number, as estimated from noisy numbers.
        columns: how many there are in all.

    >>> round(groups_for(0.0006, 40_000, 10), 1), round(groups_for(0.006, 40_000, 20), 1)
    (22.8, 25.2)
    """
    room = float((TRIPLE_CELLS / max(columns, 1)) ** (1 / 3))
    return max(min(groups_at(rho, rows, PAIR_NOISE), room), groups_at(rho, rows, LOW_PAIR_NOISE))


def groups_at(rho: float, rows: float, floor: float) -> float:
    """How many groups two columns may have so that the noise floor of their pair is this part of the rows.

    >>> round(groups_at(0.0006, 40_000, 0.1), 1)
    13.2
    """
    return max(sqrt(floor * max(rows, 0.0) / (NOISE_L1 * gaussian_sigma(rho))), FEWEST_GROUPS)


def merge_codes(column: Column, counts: Floats, most: float, classes: Indices) -> tuple[int, ...]:
    """The group of each code: runs of neighbours, in the declared order, of about an equal part of the rows each.

    A code with such a part of its own stays alone, and so do a numeric column's codes beside its bins.

    Args:
        counts: noisy, of each code.
        most: a group holds 1/most of the rows, or is the last of its run.
        classes: codes of different classes stay apart (`zero_classes`).

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
    """As `merge_codes`, of bins of numbers: few rows after the last full group join it.

    >>> counts = np.array([45.0, 36, 14, 3, 2])
    >>> merge_bins(Column("X", values=(0, 1, 2, 3, 4)), counts, 8, np.zeros(5, np.intp))
    (0, 1, 2, 2, 2)
    """
    groups, bins = merge_codes(column, counts, most, classes), column.bins or column.size
    last = groups[bins - 1]
    rest = [code for code in range(bins) if groups[code] == last]
    small = projected_shares(counts)[rest].sum() * most < 1 and rest[0] > 0 and classes[rest[0]] == classes[rest[0] - 1]
    small = small and last >= FEWEST_GROUPS  # one group alone has no relation to anything
    return tuple(group - (group >= last) for group in groups) if small else groups


def projected_shares(counts: Floats) -> Floats:
    """The nearest non-negative numbers with the same sum, over it; equal parts if there is none."""
    total = float(counts.sum())
    if total <= _NO_ROWS * float(np.abs(counts).sum()):
        return np.full(len(counts), 1 / len(counts))
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - excess[np.flatnonzero(falling > excess)[-1]], 0.0) / total)
