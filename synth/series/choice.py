"""The choice of former marginals that are used in the model of a month.

A model of all pairs would be as large as the whole table, and the model of month 12 must take no longer than that of
month 1. Therefore, the most informative marginals are chosen while the model remains small. The choice is
post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Columns, FormerEstimate, Measurement
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import cells_in, tree_cells

MODEL_SIZE = 4.0  # the maximum size of a model with former relations, in MiB


def usable(
    schema: Schema, strata: Columns, measured: Sequence[Measurement], predicted: Sequence[FormerEstimate]
) -> list[FormerEstimate]:
    """Choose the predicted marginals that are used in the model together with the measurements of a month.

    Marginals of single columns are always used, including those within strata. The other marginals are sorted by the
    strength of their dependence beyond noise (`told`). They are added in this order if the dependence is positive and
    the junction tree has at most MODEL_SIZE.

    Parameters
    ----------
    schema : Schema
        The schema of the month.
    strata : tuple of str
        The columns that define the strata.
    measured : sequence of Measurement
        The measurements of the month.
    predicted : sequence of Former
        The marginals that the series predicts.

    Returns
    -------
    list of Former
        The chosen marginals.
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
    """Compute the distance of a marginal from independence within strata.

    The distance is the L1 norm minus the noise floor, in rows.

    Parameters
    ----------
    each : Measurement
        The marginal.
    strata : tuple of str
        The columns that define the strata.

    Returns
    -------
    float
        The distance. It is not positive if the dependence is below the noise floor.
    """
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
