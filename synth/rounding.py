"""Whole numbers in place of expected ones: how many of a table's rows get which value, without bias and with little error.

Drawn rows differ from their model by chance alone, and a group of twenty differs much. Rounding keeps every count
within one of its quota. `round_table` also keeps the sums over all rows of the table within one, so that a column's counts
stay right although they are drawn group by group.

>>> quotas = np.full((4, 2), 0.5)
>>> counts = round_table(np.ones(4, dtype=np.int64), quotas, np.random.default_rng(0))
>>> counts.sum(1).tolist(), counts.sum(0).tolist()
([1, 1, 1, 1], [2, 2])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

MOST_CELLS = 4_000  # of a table whose columns are kept right: with more, chance evens out by itself, and it takes long
_TINY = 1e-9


def round_table(totals: Counts, shares: Floats, rng: np.random.Generator) -> Counts:
    """Whole counts per row of `shares` that add up to `totals`, whose sums over rows are right as well.

    Every count is within one of its quota, totals · shares, and equal to it in expectation; so are the sums over rows, if no more
    than `MOST_CELLS` quotas are left to be rounded. Quotas are moved around cycles of the table until all are whole (dependent
    rounding: Gandhi, Khuller, Parthasarathy and Srinivasan, J. ACM 2006); each move keeps all sums and all expectations.

    Args:
        totals: shape (r,), at least 0.
        shares: shape (r, c), at least 0; each row in proportion, and with a sum above 0 where the total is.
    """
    used = np.flatnonzero(totals)
    if len(used) < 2 or len(used) * shares.shape[1] > MOST_CELLS:
        return round_rows(totals, shares, rng)
    quotas = shares[used] / shares[used].sum(axis=1, keepdims=True) * totals[used, None]
    whole = np.floor(quotas + _TINY)
    counts = np.zeros(shares.shape, dtype=np.int64)
    counts[used] = whole + _round_cycles(np.maximum(quotas - whole, 0.0), rng)
    return counts


def round_rows(totals: Counts, shares: Floats, rng: np.random.Generator) -> Counts:
    """Whole counts per row of `shares` that add up to `totals`, as in `round_table`, each row by itself: systematic sampling.

    Every count is within one of its quota, and equal to it in expectation.
    """
    running = np.cumsum(shares, axis=1)
    last = running[:, -1:]
    running = running / np.where(last > 0, last, 1.0) * totals[:, None]
    marks = np.floor(running + rng.random((len(totals), 1))).astype(np.int64)
    # Rounding errors must neither lose the last row nor give it to a cell of no probability.
    closed = running >= totals[:, None] * (1 - 1e-12)
    marks = np.where(closed, totals[:, None], np.minimum(marks, totals[:, None]))
    return np.diff(marks, axis=1, prepend=0)


def _round_cycles(parts: Floats, rng: np.random.Generator) -> Floats:
    """Zeros and ones with these expectations, in [0, 1), and these sums by row, which are whole; by column within one.

    One more row makes the columns' sums whole too. Then an open cell is never alone in its row or column, so a walk from
    open cell to open cell, within a row and within a column in turn, comes back to where it was: a cycle. What is added to its
    odd cells and taken from its even ones changes no sum, and closes one cell at least.
    """
    sums = parts.sum(axis=0)
    cells = np.vstack([parts, np.maximum(np.ceil(sums - _TINY) - sums, 0.0)]).tolist()
    rows = len(cells)
    links: list[dict[int, None]] = [{} for _ in range(rows + len(sums))]  # of rows, then of columns, to each other
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            if _TINY < value < 1 - _TINY:
                links[row][rows + column] = links[rows + column][row] = None
    for start in range(rows):
        while links[start]:
            cycle = [(a, b - rows) if a < rows else (b, a - rows) for a, b in _cycle(links, start)]
            more, less = cycle[::2], cycle[1::2]
            up = min([1 - cells[r][c] for r, c in more] + [cells[r][c] for r, c in less])
            down = min([cells[r][c] for r, c in more] + [1 - cells[r][c] for r, c in less])
            step = up if rng.random() * (up + down) < down else -down
            for number, (r, c) in enumerate(cycle):
                cells[r][c] += -step if number % 2 else step
                if not _TINY < cells[r][c] < 1 - _TINY:
                    del links[r][rows + c], links[rows + c][r]
    return np.array(cells[:-1], dtype=np.float64).round().astype(np.float64)


def _cycle(links: Sequence[Mapping[int, None]], start: int) -> list[tuple[int, int]]:
    """A cycle as its steps from node to node; or one step to a dead end, which only rounding errors can make."""
    nodes, place, came = [start], {start: 0}, -1
    while True:
        here = nodes[-1]
        to = next((node for node in links[here] if node != came), None)
        if to is None:
            return [(here, came)]
        nodes.append(to)
        if to in place:
            return list(pairwise(nodes[place[to] :]))
        place[to], came = len(nodes) - 1, here
