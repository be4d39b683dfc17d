"""A numeric column of few bins over all rows, by every measurement that holds it.

A column by itself is measured at the levels of a tree, and again in each pair, over all rows and within strata, in
groups of its bins. What they say of the groups' sums, a model of all of them keeps badly: no cell is below zero, so
noise of empty cells moves its sums, and neighbours' the same way. So the bins' counts are found from all those sums at
once (`equistrata.stats.ordinal`), and the model is made with their sums in place of the column's own. Post-processing,
no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.drawn import drawn_ends
from equistrata.data.schema import Schema
from equistrata.stats.ordinal import Sums, ordinal_counts
from equistrata.stats.trees import FEW_BINS
from equistrata.synth.measurements import Former, Measurement, Prediction, Summed, summed, total_estimate
from equistrata.synth.models.coarsening import Alone, Coarsening

_FEWEST = 3  # bins that are seen
_BEYOND = 2.0  # times what the column alone expects: the most that is expected beyond (docs/experiments/coarsening.md)
_HEED = 4.0  # times as sharp as the column alone is known (docs/experiments/coarsening.md)
_ROUND = (5, 10)  # numbers that people round to, each a multiple of the one before


def counts_over_all(schema: Schema, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Columns of at most FEW_BINS fine bins → the posterior mean counts of their codes in all rows, shape (codes,).

    Columns that were not measured by themselves are left out.

    Args:
        measurements: of all rows.
    """
    found = {}
    for column in schema.columns:
        if column.fine and column.bins <= FEW_BINS:
            alone, sums = Alone.of(column, measurements), _sums(column, measurements)
            if alone.tree is not None and sums is not None:
                found[column.name] = np.append(_bins(column, alone, sums), alone.smooth[column.bins :])
    return found


def _bins(column: Column, alone: Alone, sums: Sums) -> Floats:
    """The bins' counts. Beyond those that are seen, a tail falls as the column alone says. They are those of the column
    alone where sums are so much sharper than others that nothing can be computed of both."""
    assert alone.tree is not None
    counts, peaks = alone.smooth[: column.bins], alone.tree.peaks
    rest = alone.tree.without(peaks)
    first, last = rest.seen
    if last - first < _FEWEST:
        return counts
    most = np.maximum(_BEYOND * rest.unimodal, counts)
    most[first:last] = np.inf
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = ordinal_counts(sums, rest.unimodal, peaks > 0, _kinds(column), most)
    except np.linalg.LinAlgError:
        return counts
    return np.maximum(found, 0.0) if np.isfinite(found).all() else counts


def _sums(column: Column, measurements: Sequence[Measurement]) -> Sums | None:
    """All that was measured of sums of the column's bins; None if each bin was not."""
    found, each_bin = Sums.of(column.bins), False
    for each in measurements:
        if column.name not in each.columns or isinstance(each, Summed) or not 0 < each.sigma < np.inf:
            continue
        alone = summed(each, (column.name,))
        groups = np.arange(column.size) if alone.groups[0] is None else np.asarray(alone.groups[0])
        inner, beside = groups[: column.bins], groups[column.bins :]
        own = np.unique(inner)
        if not np.isin(own, beside).any():
            found = found.added(np.searchsorted(own, inner), alone.values[own], alone.sigma**2)
            each_bin |= len(own) == column.bins
    return found if each_bin else None


def _kinds(column: Column) -> npt.NDArray[np.intp] | None:
    """How round the whole number in each bin is; None if bins have several."""
    least, most = drawn_ends(column)
    if not column.integer or (least != most).any():
        return None
    return np.asarray(sum((least % each == 0).astype(np.intp) for each in _ROUND))


def heeded(
    measurements: Sequence[Measurement], coarsening: Coarsening, counts: Mapping[str, Floats]
) -> list[Measurement]:
    """Measurements of merged codes, in which a column by itself has the sums of these counts, sharper than it was: they
    are made of all measurements, and the model has to fit the others besides.

    Args:
        measurements: as `Coarsening.coarse_all` has them.
        counts: of all codes, by column (`counts_over_all`).
    """
    found, rows = list[Measurement](), total_estimate(measurements)[0]
    for each in measurements:
        name = each.columns[0] if len(each.columns) == 1 else ""
        if name in counts and isinstance(each, Summed) and not isinstance(each, Prediction | Former):
            groups = np.asarray(coarsening.groups.get(name, range(len(counts[name]))))
            sums = np.bincount(groups, counts[name])
            # Counts beside the bins may be below zero, by noise, and nearly all that the others are above it.
            whole = max(float(sums.sum()), float(np.maximum(sums, 0.0).sum()) / 2, 1.0)
            values = np.asarray(sums * (rows / whole), dtype=np.float64)
            sigmas = each.sigmas / _HEED
            each = Summed(each.columns, values, each.sigma / _HEED, each.groups, sigmas=sigmas)
        found.append(each)
    return found
