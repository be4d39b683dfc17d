"""Answers that follow from measurements, whatever the model is: ratios of counts by generalised least squares.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from equistrata.analysis.bases.grounds import Grounds, of_the_last
from equistrata.analysis.questions import Question, widened
from equistrata.arrays import Floats
from equistrata.stats.fieller import Spread, ratio_interval, unbounded_limits
from equistrata.stats.laws import upper_end

LEAST_ROWS = 1.0


class Counted(Protocol):
    """Counts of cells that were measured: `LeastSquares`, or parts of such."""

    def counts(self, values: Sequence[Floats]) -> Floats:
        """See `LeastSquares.counts`."""

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """See `LeastSquares.has`."""

    def spread(self, functionals: Floats) -> Floats:
        """See `LeastSquares.spread`."""


def measured(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """Estimate, ends and standard error of each ratio that was measured, shape (n, 4); NaN of the others."""
    return measured_limits(grounds, asked, level, sampled)[:, :4].copy()


def measured_limits(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """As `measured`, and beside it the estimate and its ends where no range cuts them off, shape (n, 7): what a change
    is made of. NaN where noise alone may be below a ratio. Of the question that was asked last, made once.
    """
    return of_the_last(grounds.limits, (asked, level, sampled), lambda: _measured(grounds, asked, level, sampled))


def _measured(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """See `measured_limits`."""
    found = np.full((len(asked.top), 7), np.nan)
    if asked.assumed is not None and not _negligible(asked):
        return found
    for table in grounds.counted(asked.columns, asked.merged, asked.bottom is None):
        unknown = np.isnan(found[:, 0])
        top, squares = (widened(part, asked.columns, table.columns, table.shape) for part in (asked.top, asked.squares))
        bottom = None if asked.bottom is None else widened(asked.bottom, asked.columns, table.columns, table.shape)
        values = grounds.values_in(asked.merged)
        found[unknown] = ratios(grounds, table, values, (top, bottom, squares), level, sampled)[unknown]
        if not np.isnan(found).any():
            break
    return found


def ratios(
    grounds: Grounds,
    table: Counted,
    values: Sequence[Floats],
    parts: tuple[Floats, Floats | None, Floats],
    level: float,
    sampled: float,
) -> Floats:
    """As `measured_limits`, of ratios of sums of a table's cells.

    Args:
        values: of the measurements that it was solved by.
        parts: what is above, below, and the squares, as in a question, over the table's cells.
    """
    top, bottom, squares = parts
    found, counts = np.full((len(top), 7), np.nan), table.counts(values)
    seen = table.has(top) if bottom is None else table.has(top) & table.has(bottom)
    for place in np.flatnonzero(seen):
        below = None if bottom is None else bottom[place]
        found[place] = _ratio(grounds, counts, table, top[place], below, squares[place], level, sampled)
    return found


def _ratio(
    grounds: Grounds,
    counts: Floats,
    table: Counted,
    top: Floats,
    bottom: Floats | None,
    squares: Floats,
    level: float,
    sampled: float,
) -> tuple[float, ...]:
    z, kept = float(ndtri((1 + level) / 2)), 1 - grounds.evidence.held_out
    both = np.stack([top, top if bottom is None else bottom])
    (of_x, joint), (_, of_n) = (both @ table.spread(both).T).tolist()
    x = float(top @ counts)
    if bottom is None:
        error, x = sqrt(of_x + sampled * max(x, 0.0)) / kept, x / kept
        return x, max(x - z * error, 0.0), float(upper_end(x, error, level)), error, x, x - z * error, x + z * error
    n = float(bottom @ counts)
    squared = max(float(squares @ counts), 0.0)
    spread = Spread(of_x, joint, of_n) + Spread(sampled * squared, sampled * x, sampled * max(n, 0.0))
    least, most = span(top, bottom)
    if not least < most:
        return least, least, most, 0.0, least, least, least
    lower, upper = ratio_interval(x, n, spread, level=level, lower=least, upper=most)
    value = x / n if n >= LEAST_ROWS else (lower + upper) / 2
    limits = unbounded_limits(x, n, spread, level)
    free = (np.nan, np.nan, np.nan) if limits is None or n < LEAST_ROWS else (x / n, *limits)
    return min(max(value, lower), upper), lower, upper, (upper - lower) / (2 * z), *free


def sampling(top: Floats, bottom: Floats, squares: Floats, counts: Floats, value: Floats) -> Floats:
    """Sums over the rows of the squares of what each is above the ratio, shape (n,)."""
    return np.asarray(np.maximum(squares @ counts - 2 * value * (top @ counts) + value**2 * (bottom @ counts), 0.0))


def span(top: Floats, bottom: Floats) -> tuple[float, float]:
    """The least and the largest that a ratio may be; 0 and 1 where nothing is below."""
    inside = bottom > 0
    values = top[inside] / bottom[inside]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _negligible(asked: Question) -> bool:
    """Whether what is assumed within bins is far below what the bins say: at most a hundredth of their spread."""
    assert asked.assumed is not None
    inside = asked.top[0][np.ones(asked.top.shape[1], bool) if asked.bottom is None else asked.bottom[0] > 0]
    return bool(asked.assumed.max() <= 0.01 * max(float(np.ptp(inside)), 1e-12)) if inside.size else True
