"""Answers that follow from measurements, whatever the model is: ratios of counts by generalised least squares.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from math import sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.analysis.bases.counts import MeasuredCounts
from equistrata.analysis.questions import Question, widened
from equistrata.arrays import Floats
from equistrata.stats.fieller import Spread, ratio_interval, unbounded_limits
from equistrata.stats.laws import upper_end
from equistrata.synth.measurements import Columns

LEAST_ROWS = 1.0


class Counted(Protocol):
    """Counts of cells that were measured: `LeastSquares`, or one for each stratum."""

    @property
    def columns(self) -> Columns:
        """One axis of the table each."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""

    def counts(self, values: list[Floats]) -> Floats:
        """See `LeastSquares.counts`."""

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """See `LeastSquares.has`."""

    def spread(self, functionals: Floats) -> Floats:
        """See `LeastSquares.spread`."""


def measured_limits(known: MeasuredCounts, asked: Question, level: float, sampled: float) -> Floats:
    """Estimate, ends and standard error of each ratio that was measured; then the estimate and its ends where no range
    cuts them off, of which a change is made: NaN where noise alone may be below a ratio. Shape (n, 7); NaN of ratios
    that were not measured."""
    found = np.full((len(asked.top), 7), np.nan)
    if asked.assumed is not None and not _negligible(asked):
        return found
    kept = 1 - known.evidence.held_out
    for table in known.counted(asked.columns, asked.merged):
        top, bottom, squares = _parts(asked, table)
        counts = table.counts(known.values(asked.merged))
        seen = np.isnan(found[:, 0]) & table.has(top) & (True if bottom is None else table.has(bottom))
        for place in np.flatnonzero(seen):
            below = None if bottom is None else bottom[place]
            found[place] = _ratio(kept, counts, table, top[place], below, squares[place], level, sampled)
        if not np.isnan(found).any():
            break
    return found


def shared_noise(
    known: MeasuredCounts, asked: Question, value: Floats, first: npt.NDArray[np.intp], sampled: float
) -> Floats:
    """The correlation of each measured ratio's error with that of another one, shape (n,); 0 of others.

    Groups share noise: where their sum was measured with less noise than each of them, what one has too much the other
    lacks. The sampling of their rows they do not share.

    Args:
        value: the estimates, NaN of those that were not measured.
        first: the other's place, for each.
    """
    shared, left = np.zeros(len(value)), np.isfinite(value)
    for table in known.counted(asked.columns, asked.merged):
        top, bottom, squares = _parts(asked, table)
        assert bottom is not None
        seen = left & table.has(top) & table.has(bottom)
        seen &= seen[first]
        counts = table.counts(known.values(asked.merged))
        below = np.maximum(bottom @ counts, LEAST_ROWS)
        off = np.where(seen, value, 0.0)
        linear = (top - off[:, None] * bottom) / below[:, None]
        spread = table.spread(linear)
        own = sampled * sampling(top, bottom, squares, counts, off) / below**2
        both = np.sqrt((spread * linear).sum(1) + own)
        shared[seen] = ((spread * linear[first]).sum(1) / np.maximum(both * both[first], 1e-300))[seen]
        left &= ~seen
    return shared


def _parts(asked: Question, table: Counted) -> tuple[Floats, Floats | None, Floats]:
    """What is above, below, and the squares, over the cells of a table."""
    top, squares = (widened(part, asked.columns, table.columns, table.shape) for part in (asked.top, asked.squares))
    below = None if asked.bottom is None else widened(asked.bottom, asked.columns, table.columns, table.shape)
    return top, below, squares


def _ratio(
    kept: float,
    counts: Floats,
    table: Counted,
    top: Floats,
    bottom: Floats | None,
    squares: Floats,
    level: float,
    sampled: float,
) -> tuple[float, ...]:
    z = float(scipy.special.ndtri((1 + level) / 2))
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
