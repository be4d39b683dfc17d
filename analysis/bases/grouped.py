"""Answers about a column of numbers of which other columns were measured with groups of its bins, not with each bin.

What a group of bins holds is measured, whatever the model is; where its rows are within it is the model's: of all rows,
or where strata were measured one by one, of the stratum, which there is all rows' with little of its own where it is
small. A stratum's rows may be elsewhere: in a group of R rows, which are a part f of all rows in it, their mean has
variance σ²·((1 − f)/R + s² + τ²·min(1, 2(1 − f)²)) about the model's, σ² that of rows within the group, s² SMOOTHED, τ²
ELSEWHERE, and by other columns than those of strata, as ages by marital status, BY_OTHERS. Groups are independent. To
that is added what replicates say of where the model has the rows of each group. How many there are in a group they do
not say again: that noise is in the measured interval, and of a small stratum they say what others say, and are alike,
so they do not show how unlike it may be. An interval also reaches where rows would be that lean within groups as they
do between them (`equistrata.analysis.bases.leaning`).

Where strata were measured one by one, a stratum of a few rows is answered by its bins, as they were measured: where the
model has its rows in a group is where others are. Of many rows the narrower interval is taken: by bins it is wide where
empty ones are noise, by groups where bins are known well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from equistrata.analysis.bases.grounds import Grounds, of_the_last
from equistrata.analysis.bases.grouping import Completed, Grouping, completed, fine_name, grouping, located, unmeasured
from equistrata.analysis.bases.leaning import leaned, scores, slopes
from equistrata.analysis.bases.measured import LEAST_ROWS, ratios, span
from equistrata.analysis.bases.placed import arms, spread
from equistrata.analysis.bases.within import code_variance, times_chance
from equistrata.analysis.questions import Question
from equistrata.analysis.uncertainty.apart import StratumCounts
from equistrata.arrays import Floats

SMOOTHED = 0.01  # s² (docs/experiments/estimates.md)
CLEAR = (
    10.0  # standard deviations of its noise: with fewer rows, where they are in a group is others', not the stratum's
)
REACH = 1.6  # times what rows lean by: as far as an interval reaches (docs/experiments/estimates.md)


@dataclass(frozen=True, eq=False)
class _Solved:
    """A question by groups: what is above, below, and the squares, over groups, shape (n, groups); the variance of rows
    within each, times how many are asked for; the model's rows in each, and of each cell."""

    found: Grouping
    top: Floats
    bottom: Floats
    squares: Floats
    spread: Floats
    rows: Floats
    counts: Floats


def grouped(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """As `measured`, of a question that was measured with groups of one column's bins; NaN of all others."""
    solved = _solved(grounds, asked)
    if solved is None:
        return np.full((len(asked.top), 4), np.nan)
    found, top, bottom, rows = solved.found, solved.top, solved.bottom, solved.rows
    answers = ratios(grounds, found.known, found.values, (top, bottom, solved.squares), level, sampled)[:, :4]
    if isinstance(found.known, Completed):
        answers[unmeasured(bottom, rows, found.known.rest)] = np.nan
    assumed = np.zeros(len(answers))
    if found.assumed is not None:
        assumed = found.assumed @ solved.counts / np.maximum(found.bottom @ solved.counts, LEAST_ROWS)
    name, narrow = fine_name(grounds, found), grounds.narrow(asked.columns)
    off = _elsewhere(found, bottom, solved.spread, rows)
    off += _in_part(found, top, bottom, rows, code_variance(grounds, found.columns, (name,)))
    off += _moved(narrow, found, top, bottom, rows)
    assert asked.bottom is not None
    ends = np.array([span(*each) for each in zip(asked.top, asked.bottom, strict=True)])
    z = float(ndtri((1 + level) / 2))
    reach: tuple[Floats | float, Floats | float] = (0.0, 0.0)
    if not (asked.of_rows or grounds.apart):
        reach = arms(grounds, name, _weights(grounds, solved), _room(solved) / z)
    beyond = _beyond(top, bottom, solved.spread, *answers[:, 1:3].T)
    answers = _longer(answers, np.hypot(np.sqrt(off), assumed), beyond, ends, z, _leaning(grounds, solved), reach)
    bins = _bins(grounds, found)
    if bins is not None:
        own = ratios(grounds, bins, grounds.values, (found.top, found.bottom, found.squares), level, sampled)[:, :4]
        own = _longer(own, assumed, (0.0, 0.0), ends, z)
        error = np.sqrt(np.maximum((found.known.spread(bottom) * bottom).sum(1), 0.0))
        better = (bottom @ rows < CLEAR * error) | (own[:, 3] < answers[:, 3])
        better &= np.isfinite(own[:, 0])
        answers[better] = own[better]
    return answers


def _longer(
    answers: Floats,
    off: Floats,
    beyond: tuple[Floats | float, Floats | float],
    ends: Floats,
    z: float,
    lean: Floats | float = 0.0,
    reach: tuple[Floats | float, Floats | float] = (0.0, 0.0),
) -> Floats:
    """With arms that are longer by a deviation in squares, one of them by where rows `lean`, either by its own
    deviation (`reach`), and below and above by others besides, within the ends."""
    (value, lower, upper, _), (down, up) = answers.T, beyond
    sides = zip((np.minimum, np.maximum), reach, strict=True)
    low, high = (np.hypot(z * np.hypot(off, own), REACH * side(lean, 0.0)) for side, own in sides)
    lower = np.maximum(value - np.hypot(value - lower, low) - z * down, ends[:, 0])
    upper = np.minimum(value + np.hypot(upper - value, high) + z * up, ends[:, 1])
    return np.column_stack([value, lower, upper, (upper - lower) / (2 * z)])


def _weights(grounds: Grounds, solved: _Solved) -> Floats:
    """What a row of all in each code adds to an answer beyond the mean of its group, shape (n, codes): see
    `equistrata.analysis.bases.placed`."""
    found, name = solved.found, fine_name(grounds, solved.found)
    schema = grounds.evidence.strata.schema
    counts = located(grounds, grounds.narrow(found.columns).evidence.model, found)
    shares, every = found.shares(counts), np.maximum(found.rows(np.maximum(counts, 0.0)), LEAST_ROWS)
    below = np.maximum(solved.bottom @ solved.rows, LEAST_ROWS)
    value = solved.top @ solved.rows / below
    linear = found.top - value[:, None] * found.bottom
    means = found.sums(linear, shares)
    part = np.clip(solved.rows / every, 0.0, 1.0) / below[:, None]
    code = np.indices([schema[each].size for each in found.columns])[found.columns.index(name)].ravel()
    moved = (linear - means[:, found.label]) * part[:, found.label]
    return np.array([np.bincount(code, each, schema[name].size) for each in moved])


def _room(solved: _Solved) -> Floats:
    """How far below and above answers would be if all rows were at the ends of their groups, shape (n, 2)."""
    found, groups = solved.found, len(solved.rows)
    below = np.maximum(solved.bottom @ solved.rows, LEAST_ROWS)
    value, room = solved.top @ solved.rows / below, np.zeros((len(below), 2))
    for place, (above, inside) in enumerate(zip(found.top, found.bottom, strict=True)):
        asked = inside > 0
        numbers = above[asked] / inside[asked]
        for side, (extreme, start) in enumerate(((np.minimum, np.inf), (np.maximum, -np.inf))):
            ends = np.full(groups, start)
            extreme.at(ends, found.label[asked], numbers)
            ends[~np.isfinite(ends)] = 0.0
            room[place, side] = abs(ends @ (solved.bottom[place] * solved.rows) / below[place] - value[place])
    return room


def _bins(grounds: Grounds, found: Grouping) -> StratumCounts | None:
    """The bins' counts where strata measured them one by one, and nothing else is asked about."""
    others = {*found.columns} - {*grounds.evidence.strata.columns}
    return grounds.stratum_by_stratum(found.columns) if grounds.apart and len(others) == 1 else None


def shared_noise(grounds: Grounds, asked: Question, answers: Floats, first: npt.NDArray[np.intp]) -> Floats:
    """The correlation of each error with that of another answer, by the noise of the groups' counts alone, shape (n,).

    Args:
        answers: see `grouped`.
        first: the other's place, for each.
    """
    solved = _solved(grounds, asked)
    if solved is None:
        return np.zeros(len(first))
    below = np.maximum(solved.bottom @ solved.rows, LEAST_ROWS)
    off = np.nan_to_num(answers[:, 0])
    linear = (solved.top - off[:, None] * solved.bottom) / below[:, None]
    common = (solved.found.known.spread(linear) * linear[first]).sum(1)
    if not (asked.of_rows or grounds.apart):  # all have the same law within groups
        weights = _weights(grounds, solved)
        common += (spread(grounds, fine_name(grounds, solved.found), weights) * weights[first]).sum(1)
    error = np.maximum(np.nan_to_num(answers[:, 3]), 1e-150)
    return np.asarray(common / (error * error[first]))


def _solved(grounds: Grounds, asked: Question) -> _Solved | None:
    """Of the question that was asked last, made once: a difference needs it three times."""
    return cast("_Solved | None", of_the_last(grounds._solved, asked, lambda: _solve(grounds, asked)))


def _solve(grounds: Grounds, asked: Question) -> _Solved | None:
    found = grouping(grounds, asked)
    if found is None:
        return None
    narrow = grounds.narrow(asked.columns)
    model = narrow.evidence.model
    shares = found.shares(located(grounds, model, found))
    top, bottom, squares = (found.sums(each, shares) for each in (found.top, found.bottom, found.squares))
    numbers = np.divide(found.top, found.bottom, out=np.zeros_like(found.top), where=found.bottom > 0)
    means = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    spread = np.maximum(found.sums(found.bottom * numbers**2, shares) - bottom * means**2, 0.0)
    counts = np.maximum(narrow.over(model, found.columns).ravel(), 0.0)
    rows = found.rows(counts)
    if isinstance(found.known, StratumCounts):
        known = completed(narrow, found, found.known, np.concatenate([top, bottom]), rows)
        if known is None:
            return None
        found = replace(found, known=known)
    return _Solved(found, top, bottom, squares, spread, rows, counts)


def _beyond(top: Floats, bottom: Floats, spread: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The deviation of rows within the first and the last group, where an interval goes as far as their means: it may
    be of a few rows, and these may be anywhere in a group. 0 elsewhere. Shape (n,) each."""
    inside = bottom > 0
    below = np.where(inside, bottom, 1.0)
    means, deviations, each = top / below, np.sqrt(spread / below), np.arange(len(lower))
    first = np.where(inside, means, np.inf).argmin(1)
    last = np.where(inside, means, -np.inf).argmax(1)
    near = 1e-6 * (means[each, last] - means[each, first])
    return (
        deviations[each, first] * (lower <= means[each, first] + near),
        deviations[each, last] * (upper >= means[each, last] - near),
    )


def _elsewhere(found: Grouping, bottom: Floats, spread: Floats, rows: Floats) -> Floats:
    """The variance of each answer by where rows are within groups, shape (n,).

    Args:
        bottom, spread: over groups, shape (n, groups).
        rows: of each group, by the model, shape (groups,).
    """
    variance = np.zeros(len(bottom))
    every = np.maximum(found.every, LEAST_ROWS)
    for place, (below, within) in enumerate(zip(bottom * rows, spread * rows, strict=True)):
        size = np.bincount(found.bins, below, len(every))
        left = 1 - np.minimum(size / every, 1.0)
        variance[place] = np.bincount(found.bins, within, len(every)) @ (
            left + (SMOOTHED + found.unlike * np.minimum(1.0, 2 * left**2)) * size
        )
    return np.asarray(variance / np.maximum(bottom @ rows, LEAST_ROWS) ** 2)


def _in_part(found: Grouping, top: Floats, bottom: Floats, rows: Floats, tau: float) -> Floats:
    """The variance of each answer by who is in the bins that are asked about, where these are a part of a group's,
    shape (n,): the women of a group of ages may be of any of them.

    Args:
        top, bottom: over groups, shape (n, groups).
        rows: of each group, by the model, shape (groups,).
        tau: τ² of codes (`equistrata.analysis.bases.within`).
    """
    variance, of_bins = np.zeros(len(top)), len(found.every)
    for place, (above, below) in enumerate(zip(top, bottom, strict=True)):
        inside, size = below > 0, below * rows
        number = np.divide(above, below, out=np.zeros_like(above), where=inside)
        asked, whole, sums, squares = (
            np.bincount(found.bins, each, of_bins).astype(np.float64)
            for each in (size, rows * inside, size * number, size * number**2)
        )
        left = 1 - np.minimum(asked / np.maximum(whole, LEAST_ROWS), 1.0)
        apart = np.maximum(squares - sums**2 / np.maximum(asked, 1e-9), 0.0)  # squares of how far rows are off
        variance[place] = (apart * left * times_chance(asked, left, tau)).sum()
    return np.asarray(variance / np.maximum(bottom @ rows, LEAST_ROWS) ** 2)


def _leaning(grounds: Grounds, solved: _Solved) -> Floats:
    """What each answer moves by if rows lean within groups as between them, shape (n,); 0 where strata were measured
    one by one, since each has a model of its own."""
    found, moved = solved.found, np.zeros(len(solved.top))
    if grounds.apart:
        return moved
    schema = grounds.evidence.strata.schema
    name = fine_name(grounds, found)
    law = np.maximum(grounds.narrow(found.columns).evidence.model.marginal((name,)), 0.0)
    code = np.indices([schema[each].size for each in found.columns])[found.columns.index(name)].ravel()
    groups = np.zeros(len(law), dtype=np.intp)
    groups[code] = found.bins[found.label]
    bins, at, inside = schema[name].bins, scores(law, schema[name].bins), np.zeros(len(found.every), dtype=bool)
    inside[groups[:bins]] = True
    middles = np.bincount(groups, law * at, len(inside)) / np.maximum(np.bincount(groups, law, len(inside)), 1e-9)
    by_bins = found.bins[None] == np.arange(len(inside))[:, None]
    shares = found.shares(located(grounds, grounds.narrow(found.columns).evidence.model, found))
    for place, (top, bottom) in enumerate(zip(solved.top, solved.bottom, strict=True)):
        parts = np.where(by_bins, bottom, 0.0)
        error = np.sqrt(np.maximum((found.known.spread(parts) * parts).sum(1), 0.0))
        slope = slopes(parts @ solved.rows, error, found.every, middles, inside)
        if slope.any():
            tilted = shares * leaned(law, groups, at - middles[groups], slope)[code]
            own = slice(place, place + 1)
            above, below = (found.sums(each[own], tilted)[0] @ solved.rows for each in (found.top, found.bottom))
            moved[place] = above / max(below, LEAST_ROWS) - top @ solved.rows / max(bottom @ solved.rows, LEAST_ROWS)
    return moved


def _moved(grounds: Grounds, found: Grouping, top: Floats, bottom: Floats, rows: Floats) -> Floats:
    """The variance of each answer by where replicates have the rows of each group, shape (n,)."""
    counts = (located(grounds, model, found) for model, _ in grounds.replicated())
    return np.asarray(np.mean([_off(found, each, top, bottom, rows) ** 2 for each in counts], 0))


def _off(found: Grouping, counts: Floats, top: Floats, bottom: Floats, rows: Floats) -> Floats:
    """What each answer moves by if the rows of each group are where these counts have them, shape (n,)."""
    shares = found.shares(counts)
    above, below = found.sums(found.top, shares) @ rows, found.sums(found.bottom, shares) @ rows
    value = top @ rows / np.maximum(bottom @ rows, LEAST_ROWS)
    return np.asarray(above / np.maximum(below, LEAST_ROWS) - value)
