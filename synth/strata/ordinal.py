"""A numeric column of few bins over all rows, by every measurement that holds it.

A column by itself is measured at the levels of a tree, and again in each pair, over all rows and within strata, in
groups of its bins. What they say of the groups' sums, a model of all of them keeps badly: no cell is below zero, so
noise of empty cells moves its sums, and neighbours' the same way. So the bins' counts are found from all those sums at
once (`equistrata.stats.ordinal`), and the model is made with their sums in place of the column's own. Where they are
smooth, the order of bins says what a model of groups does not know, so its strata are tilted towards them (Deming and
Stephan, 1940). Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.drawn import drawn_ends
from equistrata.data.schema import Schema
from equistrata.data.strata import Key
from equistrata.stats.ordinal import Sums, ordinal_counts
from equistrata.stats.proportional_fitting import with_sums
from equistrata.stats.trees import FEW_BINS
from equistrata.synth.measurements import Former, Measurement, Prediction, Summed, summed, total_estimate
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import Alone, rows_by_others

_FEWEST = 3  # bins that are seen
_BEYOND = 2.0  # times what the column alone expects: the most that is expected beyond (docs/experiments/numbers.md)
_HEED = 4.0  # times as sharp as the column alone is known (docs/experiments/numbers.md)
_LIKELY = 0.5  # that a column is smooth
_WAY = 0.5  # from a model's sums to the counts (docs/experiments/numbers.md)
_COLUMN_PASSES = 2  # a tilt of one column moves those it is related to
_PASSES = 20  # of proportional fitting
_LEAST = 1e-3  # rows of a group
_ROUND = (5, 10)  # numbers that people round to, each a multiple of the one before


@dataclass(frozen=True, eq=False)
class OverAll:
    """Columns → the posterior mean counts of their codes in all rows, shape (codes,); and the columns that are smooth,
    more likely than not."""

    counts: Mapping[str, Floats]
    smooth: frozenset[str] = frozenset()


def counts_over_all(schema: Schema, measurements: Sequence[Measurement]) -> OverAll:
    """Of columns of at most FEW_BINS fine bins that were measured by themselves.

    Args:
        measurements: of all rows.
    """
    counts, smooth = {}, set()
    for column in schema.columns:
        if column.fine and column.bins <= FEW_BINS:
            alone = Alone.of(column, measurements, rows=rows_by_others(column, measurements))
            sums = _sums(column, measurements)
            if alone.tree is not None and sums is not None:
                inside, variance = alone.inside
                sums = sums.added(np.zeros(column.bins, dtype=np.intp), np.array([inside]), variance)
                bins, likely = _bins(column, alone, sums)
                counts[column.name] = np.append(bins, alone.smooth[column.bins :])
                smooth |= {column.name} if likely > _LIKELY else set()
    return OverAll(counts, frozenset(smooth))


def _bins(column: Column, alone: Alone, sums: Sums) -> tuple[Floats, float]:
    """The bins' counts, and how likely they are smooth. Beyond those that are seen, a tail falls as the column alone
    says. They are those of the column alone where sums are so much sharper than others that nothing can be computed of
    both."""
    assert alone.tree is not None
    counts, peaks = alone.smooth[: column.bins], alone.tree.peaks
    rest = alone.tree.with_total(*alone.inside).without(peaks)
    first, last = rest.seen
    if last - first < _FEWEST:
        return counts, 0.0
    most = np.maximum(_BEYOND * rest.unimodal, counts)
    most[first:last] = np.inf
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = ordinal_counts(sums, rest.unimodal, peaks > 0, _kinds(column), most)
    except np.linalg.LinAlgError:
        return counts, 0.0
    return (np.maximum(found.counts, 0.0), found.smooth) if np.isfinite(found.counts).all() else (counts, 0.0)


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


def raked_over_all(models: Mapping[Key, Tilting], coarsening: Coarsening, over_all: OverAll) -> dict[Key, Tilting]:
    """Models of merged codes, tilted so that in all strata together the bins of smooth columns are spread as halfway
    between them and these counts: the errors of the two are partly their own.

    Each stratum keeps its part of rows in the bins, and other columns are spread as before.

    Args:
        models: of each stratum.
    """
    found, wanted = dict(models), dict[str, Floats]()
    names = next(iter(models.values())).schema.names
    raked = [name for name in names if name in over_all.smooth and _apart(coarsening, name)]
    for name in [name for name in names if name not in raked] if raked else []:  # the last to be raked hold best
        wanted[name] = np.array(sum(model.marginal((name,)) for model in models.values()))
    for name in raked:
        inner = _groups(coarsening, name)[: coarsening.fine[name].bins]
        now = np.maximum(sum(model.marginal((name,)) for model in models.values()), 0.0)[: inner.max() + 1]
        known = np.bincount(inner, over_all.counts[name][: len(inner)])
        known *= now.sum() / max(float(known.sum()), _LEAST)
        # A stratum may have all its rows where no row is expected of any: they stay there.
        wanted[name] = np.maximum(_WAY * known + (1 - _WAY) * now, _LEAST)
    for _ in range(_COLUMN_PASSES):
        for name, sums in wanted.items():
            rows = np.array([np.maximum(model.marginal((name,)), 0.0) for model in found.values()])
            for key, factor in zip(models, _factors(rows[:, : len(sums)], sums), strict=True):
                weights = np.append(factor, np.ones(rows.shape[1] - len(sums)))
                found[key] = _tilted(found[key], name, weights / weights.max(), models[key].total)
    return found


def _groups(coarsening: Coarsening, name: str) -> npt.NDArray[np.intp]:
    """The group of each code of a column."""
    return np.asarray(coarsening.groups.get(name, range(coarsening.fine[name].size)), dtype=np.intp)


def _apart(coarsening: Coarsening, name: str) -> bool:
    """Whether the groups of a column's bins come first, and hold no other codes."""
    inner, beside = np.split(_groups(coarsening, name), [coarsening.fine[name].bins])
    return len(np.unique(inner)) == inner.max() + 1 and not np.isin(inner, beside).any()


def _tilted(model: Tilting, name: str, weights: Floats, total: float) -> Tilting:
    """The model with a column's codes weighted, of as many rows."""
    tilted, _ = model.tilted({name: weights})
    return replace(tilted, total=total)


def _factors(rows: Floats, wanted: Floats) -> Floats:
    """By what to multiply the cells of a table, shape (strata, groups), so that columns are as `wanted`, in proportion,
    and rows add up to what they do."""
    wanted = wanted * (rows.sum() / max(float(wanted.sum()), 1e-300))
    fitted = with_sums(rows, [wanted[None, :], rows.sum(1, keepdims=True)], _PASSES)
    return np.divide(fitted, rows, out=np.ones_like(rows), where=rows > 0)
