"""Joint counts of two ordered columns, smoothed: most of the noise in their cells is not in what changes slowly.

What is left beside a normal copula is taken apart into cosines. Those of about the same frequency are shrunk together,
by what the noise leaves of them: where the columns' relation is smooth, little of it is left, and where it is not,
nothing is changed. Post-processing of noisy counts, no cost.

Sources: James and Stein (1961), the positive part; blocks by frequency: Cavalier and Tsybakov (2001), Mathematical
Methods of Statistics 10, 247.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.fft import dctn, idctn

from equistrata.arrays import Floats
from equistrata.stats.copulas import fitted_correlation, normal_copula

FEWEST_GROUPS = 3  # of either column: with fewer there is nothing to smooth
_BLOCKS = 1.5  # for each doubling of the frequency
_LEAST_SHARE = 1e-6  # of a group, in a margin


@dataclass(frozen=True, eq=False)
class SmoothedTable:
    """Joint counts with less noise.

    Attributes:
        values: shape (a, b), with the margins that were given.
        freedom: how many numbers of independent noise of the cells' σ are left in them, besides the margins'.
    """

    values: Floats
    freedom: float


def smoothed_table(values: Floats, sigma: float, first: Floats, second: Floats) -> SmoothedTable:
    """The joint counts of groups of two ordered columns, smoothed.

    Args:
        values: noisy counts, shape (a, b), a and b of at least FEWEST_GROUPS.
        sigma: the standard deviation of the independent noise on each, positive.
        first, second: the margins, better known than the values' sums, shapes (a,) and (b,), with one positive sum.
    """
    rows, columns = (_shares(margin) for margin in (first, second))
    total = float(first.sum())
    even = np.outer(rows, columns)
    noisy = even + _inner(values / total - even)
    copula = normal_copula(rows, columns, fitted_correlation(noisy, rows, columns)) * total
    left = dctn(_inner(values - copula), norm="ortho")
    kept, freedom = np.zeros_like(left), 1.0  # one number for the correlation
    for block in _blocks(left.shape):
        size, square = int(block.sum()), float(np.square(left[block]).sum())
        part = max(0.0, 1 - max(size - 2, 1) * sigma**2 / square) if square > 0 else 0.0
        kept[block] = part * left[block]
        freedom += part * size
    return SmoothedTable(np.asarray(copula + idctn(kept, norm="ortho")), freedom)


def _blocks(shape: tuple[int, ...]) -> list[Any]:
    """Masks of the cosines that change along both axes, in blocks by the higher of their two frequencies."""
    frequency = np.maximum(*np.meshgrid(*map(np.arange, shape), indexing="ij"))
    block = np.floor(_BLOCKS * np.log2(np.maximum(frequency, 2))).astype(int)
    block[0], block[:, 0] = -1, -1  # the margins
    return [block == each for each in np.unique(block) if each >= 0]


def _inner(table: Floats) -> Floats:
    """What is left of a table without its margins."""
    return np.asarray(table - table.mean(0) - table.mean(1, keepdims=True) + table.mean())


def _shares(margin: Floats) -> Floats:
    positive = np.maximum(margin, _LEAST_SHARE * float(margin.sum()))
    return np.asarray(positive / positive.sum())
