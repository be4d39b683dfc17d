"""Answers about a column of numbers of which other columns were measured with groups of its bins, not with each bin.

What a group of bins holds is measured, whatever the model is; where its rows are within it is the model's, of all rows.
A stratum's may be elsewhere: in a group of R rows, which are a part f of all rows in it, their mean has variance
σ²·(1/R + τ²·min(1, 2(1 − f)²)) about the model's, σ² that of rows within the group and τ² ELSEWHERE. Groups are
independent. To that the noise of the model's own answer is added, by replicates. That answer itself says of a small
stratum what others say, and its replicates are alike, so neither shows how unlike the stratum may be.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from equistrata.analysis.axes import holds
from equistrata.analysis.bases.grounds import Grounds
from equistrata.analysis.bases.implied import errors
from equistrata.analysis.bases.measured import LEAST_ROWS, measured, span
from equistrata.analysis.questions import Question
from equistrata.arrays import Floats
from equistrata.synth.measurements import sum_groups

Groups = tuple[int, ...]
ELSEWHERE = 0.05  # τ² (docs/experiments/estimates.md)


def grouped(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """As `measured`, of a question that was measured with groups of one column's bins; NaN of all others."""
    found = _groups(grounds, asked)
    if found is None:
        return np.full((len(asked.top), 4), np.nan)
    name, groups = found
    coarse, spread = _coarse(grounds, asked, name, groups)
    value, lower, upper, _ = measured(grounds, coarse, level, sampled).T
    _, moved, _, known = errors(grounds, asked, level, sampled)
    off = np.sqrt(_elsewhere(grounds, coarse, spread) + (moved**2).mean(0) + known)
    assert asked.bottom is not None
    least, most = np.array([span(*each) for each in zip(asked.top, asked.bottom, strict=True)]).T
    z = float(ndtri((1 + level) / 2))
    down, up = (z * each for each in _beyond(coarse, spread, lower, upper))
    lower = np.maximum(value - np.hypot(value - lower, z * off) - down, least)
    upper = np.minimum(value + np.hypot(upper - value, z * off) + up, most)
    return np.column_stack([value, lower, upper, (upper - lower) / (2 * z)])


def _beyond(coarse: Question, spread: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The deviation of rows within the first and the last group, where an interval goes as far as their means: it may
    be of a few rows, and these may be anywhere in a group. 0 elsewhere. Shape (n,) each."""
    assert coarse.bottom is not None
    inside = coarse.bottom > 0
    below = np.where(inside, coarse.bottom, 1.0)
    means, deviations, each = coarse.top / below, np.sqrt(spread / below), np.arange(len(lower))
    first = np.where(inside, means, np.inf).argmin(1)
    last = np.where(inside, means, -np.inf).argmax(1)
    near = 1e-6 * (means[each, last] - means[each, first])
    return (
        deviations[each, first] * (lower <= means[each, first] + near),
        deviations[each, last] * (upper >= means[each, last] - near),
    )


def _elsewhere(grounds: Grounds, coarse: Question, spread: Floats) -> Floats:
    """The variance of each answer by where rows are within groups, shape (n,)."""
    ((name, _),) = coarse.merged
    assert coarse.bottom is not None
    table = np.maximum(grounds.over(grounds.evidence.model, coarse.columns, coarse.merged), 0.0)
    axis = coarse.columns.index(name)

    def by_group(part: Floats) -> Floats:
        cells = np.moveaxis((part * table.ravel()).reshape(len(part), *table.shape), axis + 1, -1)
        return np.asarray(cells.reshape(len(part), -1, table.shape[axis]).sum(1))

    rows = by_group(coarse.bottom)
    every = np.maximum(table.sum(tuple(other for other in range(table.ndim) if other != axis)), LEAST_ROWS)
    apart = np.minimum(1.0, 2 * (1 - np.minimum(rows / every, 1.0)) ** 2)
    return np.asarray(
        (by_group(spread) * (1 + ELSEWHERE * apart * rows)).sum(1) / np.maximum(rows.sum(1), LEAST_ROWS) ** 2
    )


def _groups(grounds: Grounds, asked: Question) -> tuple[str, Groups] | None:
    """The one column of fine bins that is asked about, and the finest groups of it that were measured with the rest."""
    schema, columns = grounds.evidence.strata.schema, asked.columns
    fine = [name for name in columns if schema[name].fine]
    if grounds.apart or asked.merged or asked.bottom is None or len(columns) < 2 or len(fine) != 1:
        return None
    found: list[Groups] = []
    for each in grounds.evidence.published:
        if holds(each, columns, schema) and set(columns) <= set(each.columns):
            groups = dict(zip(each.columns, each.groups, strict=True))
            own = groups.pop(fine[0])
            if own is not None and all(groups[name] is None for name in columns if name != fine[0]):
                found.append(own)
    return (fine[0], max(found, key=max)) if found else None


def _coarse(grounds: Grounds, asked: Question, name: str, groups: Groups) -> tuple[Question, Floats]:
    """The question about groups of a column's codes; and the variance of what is asked for in each, shape (n, cells).

    The rows of each group are where the model has all rows.
    """
    schema, axis = grounds.evidence.strata.schema, asked.columns.index(name)
    shape = [schema[column].size for column in asked.columns]
    counts = np.maximum(grounds.evidence.model.marginal((name,)), 1e-9)
    shares = counts / np.bincount(groups, counts)[list(groups)]

    def over(part: Floats) -> Floats:
        cells = part.reshape(len(part), *shape) * shares.reshape(-1, *[1] * (len(shape) - 1 - axis))
        return np.asarray(sum_groups(cells, axis + 1, groups).reshape(len(part), -1))

    assert asked.bottom is not None
    numbers = np.divide(asked.top, asked.bottom, out=np.zeros_like(asked.top), where=asked.bottom > 0)
    top, bottom = over(asked.top), over(asked.bottom)
    means = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    spread = np.maximum(over(asked.bottom * numbers**2) - bottom * means**2, 0.0)
    return Question(asked.columns, asked.labels, top, bottom, over(asked.squares), merged=((name, groups),)), spread
