"""Which of the relations that a series knows enter a month's model: those that say most, as long as it stays small.

A model of all pairs would be the whole table, and month 12 must take no longer than month 1. Post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Former, Measurement
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import cells_in, tree_cells

MODEL_SIZE = 4.0  # MiB of a model, up to which former relations are added to it (docs/experiments/series.md)


def usable(
    schema: Schema, strata: Columns, measured: Sequence[Measurement], predicted: Sequence[Former]
) -> list[Former]:
    """Of what a series predicts, what enters the model beside a month's measurements.

    Marginals of single columns, also within strata, always do. Others in the order of what they say, beyond noise, that
    their columns alone do not, while the junction tree has at most MODEL_SIZE; those that say nothing do not.
    """
    alone = [each for each in predicted if len(_inner(each, strata)) < 2]
    worth = {place: told(each, strata) for place, each in enumerate(predicted) if len(_inner(each, strata)) > 1}
    sizes = Coarsening.of(schema, [*measured, *predicted], strata).schema
    cliques = model_cliques(schema, [*measured, *alone], strata)
    most = max(cells_in(MODEL_SIZE), tree_cells(sizes.sizes, cliques))
    chosen = list(alone)
    for place in sorted(worth, key=lambda place: -worth[place]):
        each = predicted[place]
        more = sorted({*cliques, *model_cliques(schema, [each])})
        if worth[place] > 0 and tree_cells(sizes.sizes, more) <= most:
            chosen.append(each)
            cliques = more
    return chosen


def told(each: Measurement, strata: Columns) -> float:
    """How far a marginal is from columns that are independent within strata: L1 norm less the noise floor, in rows."""
    axes = [axis for axis, name in enumerate(each.columns) if name not in strata]
    counts = np.maximum(each.values, 0.0)
    sizes = counts.sum(tuple(axes), keepdims=True)
    alone: Floats = sizes
    for axis in axes:
        rest = tuple(other for other in axes if other != axis)
        alone = alone * (counts.sum(rest, keepdims=True) / np.maximum(sizes, 1e-9))
    return float(np.abs(each.values - alone).sum()) - NOISE_L1 * float(each.cell_sigma.sum())


def _inner(each: Measurement, strata: Columns) -> list[str]:
    return [name for name in each.columns if name not in strata]
