"""Pairs of ordered columns, smoothed before a model is made of them (`equistrata.stats.ordered_tables`).

Their groups' joint counts have a σ each that is as large as many cells. How ages go with incomes changes slowly from
one group to the next, and a model that knows it keeps the relation where it would be lost in noise, and puts no rows
where there are none. Post-processing of noisy numbers, no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Column, Schema
from equistrata.stats.laws import at_least_zero
from equistrata.stats.ordered_tables import FEWEST_GROUPS, smoothed_table
from equistrata.synth.measurements import (
    Columns,
    Filtered,
    Former,
    Measurement,
    Prediction,
    Smoothed,
    root_mean_square,
)
from equistrata.synth.models.columns.alone import joined

_MOST_LEFT = 0.8  # of a pair's independent noise: where more is left, the pair is as it was measured


def smoothed_pairs(
    fine: Schema, merged: Schema, groups: Mapping[str, Sequence[int]], measurements: Sequence[Measurement]
) -> list[Measurement]:
    """The measurements, those of two ordered columns smoothed.

    Args:
        fine, merged, groups: all codes, merged ones, and which were merged.
        measurements: of merged codes. Joined with former months, their σ is of all cells together.
    """
    places = {name: ordered_codes(fine[name], groups.get(name)) for name in fine.names}
    alone = {name: _alone(name, merged, measurements) for name, codes in places.items() if len(codes) >= FEWEST_GROUPS}
    return [_smoothed(each, merged, places, alone) for each in measurements]


def _smoothed(
    pair: Measurement, schema: Schema, ordered: Mapping[str, Indices], alone: Mapping[str, _Margin | None]
) -> Measurement:
    if (
        type(pair) not in (Measurement, Filtered)
        or len(pair.columns) != 2
        or not 0 < pair.sigma < np.inf
        or any(pair.groups)
    ):
        return pair
    first, second = _possible([ordered[name] for name in pair.columns], pair.columns, schema)
    if min(len(first), len(second)) < FEWEST_GROUPS:
        return pair
    margins = [
        _margin(pair, axis, own, other, alone[pair.columns[axis]])
        for axis, own, other in ((0, first, second), (1, second, first))
    ]
    counts, variances = [each.counts for each in margins], [each.variances for each in margins]
    weights = 1 / np.array([float(each.sum()) for each in variances])
    total = float(weights @ [float(each.sum()) for each in counts] / weights.sum())
    if not total > pair.sigma:
        return pair
    positive = [at_least_zero(each, np.sqrt(noise)) for each, noise in zip(counts, variances, strict=True)]
    block = np.ix_(first, second)
    found = smoothed_table(pair.values[block], pair.sigma, *(each * (total / each.sum()) for each in positive))
    if found.freedom > _MOST_LEFT * (len(first) - 1) * (len(second) - 1):
        return pair
    # So much that a row of cells has the variance of its sum, which all of them share.
    shared = max(float(variances[0].mean()) / len(second), float(variances[1].mean()) / len(first))
    variance = found.freedom * pair.sigma**2 / found.values.size + shared
    values, sigmas = pair.values.copy(), pair.cell_sigma.copy()
    values[block], sigmas[block] = found.values, np.minimum(sqrt(variance), sigmas[block])
    return Smoothed(pair.columns, values, root_mean_square(sigmas), pair.groups, sigmas=sigmas)


@dataclass(frozen=True, eq=False)
class _Margin:
    """Counts of one column's groups, and their variances, shape (groups,)."""

    counts: Floats
    variances: Floats


def _margin(pair: Measurement, axis: int, own: Indices, other: Indices, alone: _Margin | None) -> _Margin:
    """Rows of a column's `own` groups that are in the `other` column's, by inverse variance: the sum of their cells,
    and what the column alone has less the cells of the other column's other codes."""
    across = np.moveaxis(pair.values, axis, 0)[own]
    inside = across[:, other].sum(1)
    summed = _Margin(inside, np.full(len(own), len(other) * pair.sigma**2))
    if alone is None:
        return summed
    beside, codes = across.sum(1) - inside, across.shape[1] - len(other)
    counts, noise = alone.counts[own] - beside, alone.variances[own] + codes * pair.sigma**2
    variances = 1 / (1 / noise + 1 / summed.variances)
    return _Margin(variances * (counts / noise + inside / summed.variances), variances)


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


def _possible(places: Sequence[Indices], pair: Columns, schema: Schema) -> list[Indices]:
    """The codes without those of which a rule makes some cell impossible: of the column that loses less."""
    kept = list(places)
    for zero in schema.impossible:
        if len(zero.columns) == 2 and set(zero.columns) == set(pair):
            codes = dict(zip(zero.columns, zero.codes, strict=True))
            both = [np.setdiff1d(each, codes[name]) for each, name in zip(kept, pair, strict=True)]
            lost = [len(each) - len(left) for each, left in zip(kept, both, strict=True)]
            if min(lost):
                axis = int(lost[1] * len(kept[0]) < lost[0] * len(kept[1]))
                kept[axis] = both[axis]
    return kept


def _alone(name: str, schema: Schema, measurements: Sequence[Measurement]) -> _Margin | None:
    """What a column by itself was measured to hold, by inverse variance; None if some code was not."""
    own = [
        each
        for each in measurements
        if each.columns == (name,) and not any(each.groups) and not isinstance(each, Former | Prediction)
    ]
    counts, deviations = joined(own, schema[name].size)
    return _Margin(counts, deviations**2) if np.isfinite(deviations).all() else None
