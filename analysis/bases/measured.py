"""Answers that are computed from measurements: ratios of counts by generalised least squares.

They do not depend on the model. See docs/proofs/estimates.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.analysis.bases.grounds import AnswerSources
from equistrata.analysis.bases.weights import weight_errors
from equistrata.analysis.derived import parts_of
from equistrata.analysis.questions import Question, broadcast_functionals
from equistrata.arrays import Floats
from equistrata.stats.distributions import upper_end
from equistrata.stats.fieller import Spread, ratio_interval, unbounded_limits
from equistrata.synth.measurements import Columns

LEAST_ROWS = 1.0


class TableCounts(Protocol):
    """A protocol for measured counts of cells. It is implemented by `LeastSquares` and `StratumCounts`."""

    @property
    def columns(self) -> Columns:
        """The columns of the table, one per axis."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table."""

    def counts(self, values: list[Floats]) -> Floats:
        """See `LeastSquares.counts`."""

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """See `LeastSquares.has`."""

    def spread(self, functionals: Floats) -> Floats:
        """See `LeastSquares.spread`."""


def measured_limits(grounds: AnswerSources, asked: Question, level: float, sampled: float) -> Floats:
    """Compute each ratio that follows from measurements, with its interval.

    Parameters
    ----------
    grounds : AnswerSources
        The sources of answers.
    asked : Question
        The question, which has n ratios.
    level : float
        The level of the intervals, in (0, 1).
    sampled : float
        The factor on the variance of simple random sampling.

    Returns
    -------
    ndarray of shape (n, 9)
        The first six columns are the columns of `ANSWER`. The last three are the estimate and the ends of its interval
        before clipping, which are used for changes. They are NaN if the denominator may consist only of noise. All
        columns are NaN for ratios that were not measured.
    """
    found = np.full((len(asked.top), 9), np.nan)
    if asked.strata is not None or (asked.assumed is not None and not _negligible(asked)):
        return found
    known, kept = grounds.counts, 1 - grounds.evidence.held_out
    for table in known.counted(asked.columns, asked.merged):
        sums = _Sums.of(grounds, asked, table)
        seen = np.isnan(found[:, 0]) & table.has(sums.top) & (True if asked.bottom is None else table.has(sums.bottom))
        for place in np.flatnonzero(seen).tolist():
            found[place] = _ratio(kept, sums, table, place, asked.bottom is None, level, sampled)
        if not np.isnan(found).any():
            break
    return found


def shared_noise(
    grounds: AnswerSources, asked: Question, value: Floats, first: npt.NDArray[np.intp], sampled: float
) -> Floats:
    """Return the correlation of each measured ratio's error with the error of a reference ratio, shape (n,).

    Groups share noise. If the sum of the groups was measured with less noise than each of the groups, then a positive
    error in one group implies a negative error in the others. The sampling errors of groups are independent. The
    correlation is 0 for ratios that were not measured.

    Parameters
    ----------
    grounds : AnswerSources
        The sources of answers.
    asked : Question
        The question, which has n ratios.
    value : ndarray of shape (n,)
        The estimates, or NaN for ratios that were not measured.
    first : ndarray of int, shape (n,)
        The index of the reference ratio for each ratio.
    sampled : float
        The factor on the variance of simple random sampling.

    Returns
    -------
    ndarray of shape (n,)
        The correlations.
    """
    shared, left = np.zeros(len(value)), np.isfinite(value)
    for table in grounds.counts.counted(asked.columns, asked.merged):
        sums = _Sums.of(grounds, asked, table)
        seen = left & table.has(sums.top) & table.has(sums.bottom)
        seen &= seen[first]
        below = np.maximum(sums.bottom @ sums.counts, LEAST_ROWS)
        off = np.where(seen, value, 0.0)
        linear = (sums.top - off[:, None] * sums.bottom) / below[:, None]
        weights, alone = ((each[0] - off[:, None] * each[1]) / below[:, None] for each in (sums.off, sums.own))
        spread = table.spread(linear)
        own = sampled * sampling(sums.top, sums.bottom, sums.squares, sums.sampled, off) / below**2
        both = np.sqrt((spread * linear).sum(1) + (weights**2).sum(1) + (alone**2).sum(1) + own)
        common = (spread * linear[first]).sum(1) + (weights * weights[first]).sum(1)
        shared[seen] = (common / np.maximum(both * both[first], 1e-300))[seen]
        left &= ~seen
    return shared


@dataclass(frozen=True, eq=False)
class _Sums:
    """A question over the cells of a table.

    Attributes
    ----------
    top, bottom, squares : ndarray of shape (n, cells)
        The sums of the question. `bottom` is equal to `top` if counts are requested.
    counts : ndarray of shape (cells,)
        The counts of the cells.
    sampled : ndarray of shape (cells,)
        The counts multiplied by the sampling factors of their weights.
    off, own : ndarray of shape (2, n, parts)
        The errors of the numerators and denominators due to the weights (see `weight_errors`).
    """

    top: Floats
    bottom: Floats
    squares: Floats
    counts: Floats
    sampled: Floats
    off: Floats
    own: Floats

    @classmethod
    def of(cls, grounds: AnswerSources, asked: Question, table: TableCounts) -> _Sums:
        schema, below = grounds.evidence.strata.schema, asked.top if asked.bottom is None else asked.bottom
        wide = (asked.top, below, asked.squares, asked.sampling_times(schema)[None])
        top, bottom, squares, times = (
            broadcast_functionals(each, asked.columns, table.columns, table.shape) for each in wide
        )
        counts = table.counts(grounds.counts.values(asked.merged))
        others = tuple(axis for axis, name in enumerate(table.columns) if name not in asked.columns)
        cells = counts.reshape(table.shape).sum(others).ravel()
        value = (asked.top @ cells) / np.maximum(below @ cells, LEAST_ROWS)
        sides = asked.top if asked.bottom is None else asked.top - value[:, None] * below
        parts = [weight_errors(grounds, asked, each, sides, cells, noise=True) for each in (asked.top, below)]
        off, own = (np.array(each) for each in zip(*parts, strict=True))
        return cls(top, bottom, squares, counts, counts * times[0], off, own)


def _ratio(
    kept: float, sums: _Sums, table: TableCounts, place: int, counted: bool, level: float, sampled: float
) -> tuple[float, ...]:
    z = float(scipy.special.ndtri((1 + level) / 2))
    top, bottom, counts = sums.top[place], sums.bottom[place], sums.counts
    both, off = np.stack([top, bottom]), np.concatenate([sums.off[:, place], sums.own[:, place]], axis=1)
    (of_x, joint), (_, of_n) = (both @ table.spread(both).T + off @ off.T).tolist()
    x, n, squared = float(top @ counts), float(bottom @ counts), float(sums.squares[place] @ sums.sampled)
    if counted:
        drawn = sampled * max(squared, 0.0)
        error, x = sqrt(of_x + drawn) / kept, x / kept
        ends = max(x - z * error, 0.0), float(upper_end(x, error, level))
        return x, *ends, error, *parts_of(error, of_x, drawn), x, x - z * error, x + z * error
    noise = Spread(of_x, joint, of_n)
    drawn_x, drawn_n = float(top @ sums.sampled), max(float(bottom @ sums.sampled), 0.0)
    rows = Spread(sampled * max(squared, 0.0), sampled * drawn_x, sampled * drawn_n)
    least, most = span(top, bottom)
    if not least < most:
        return least, least, most, 0.0, 0.0, 0.0, least, least, least
    spread = noise + rows
    lower, upper = ratio_interval(x, n, spread, level=level, lower=least, upper=most)
    value = x / n if n >= LEAST_ROWS else (lower + upper) / 2
    limits = unbounded_limits(x, n, spread, level)
    free = (np.nan, np.nan, np.nan) if limits is None or n < LEAST_ROWS else (x / n, *limits)
    value, error = min(max(value, lower), upper), (upper - lower) / (2 * z)
    return value, lower, upper, error, *parts_of(error, noise.at(value), rows.at(value)), *free


def sampling(top: Floats, bottom: Floats, squares: Floats, counts: Floats, value: Floats) -> Floats:
    """Return the sum over rows of the squared differences between values and the ratio, shape (n,)."""
    return np.asarray(np.maximum(squares @ counts - 2 * value * (top @ counts) + value**2 * (bottom @ counts), 0.0))


def span(top: Floats, bottom: Floats) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a ratio. They are 0 and 1 if the denominator is empty."""
    inside = bottom > 0
    values = top[inside] / bottom[inside]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _negligible(asked: Question) -> bool:
    """Return True if the uncertainty within bins is at most a hundredth of the range of the bins."""
    assert asked.assumed is not None
    assert asked.bottom is not None
    inside = asked.bottom > 0
    if not inside[0].any():
        return True
    values = (asked.top[0] / np.where(inside[0], asked.bottom[0], 1.0))[inside[0]]
    assumed = float((asked.assumed[inside] / asked.bottom[inside]).max())
    return assumed <= 0.01 * max(float(np.ptp(values)), 1e-12)
