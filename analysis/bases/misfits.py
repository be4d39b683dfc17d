"""The misfit of a model's answers in independent parts: of columns that were not measured together, or in groups only.

Each cell that was not measured is off by itself (`misfit_variance`), with the sums that were measured known. Columns
with fine bins are measured with others in groups of bins, if at all. Then groups are off where the columns were not
measured together, and the cells within each group are off with the group's sums known.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np

from equistrata.analysis.axes import holds
from equistrata.analysis.bases.grounds import Grounds, table_of
from equistrata.analysis.bases.weights import FEW_GROUPS
from equistrata.analysis.questions import Question
from equistrata.analysis.uncertainty.misfit import misfit_variance, strata_with, with_margins
from equistrata.arrays import Floats
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.synth.measurements import Columns, at_level, cells_where, sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.merging import merge_codes

_SWEEPS = 25  # of the fit of known sums; what it has not reached makes intervals wider
Groups = Mapping[str, tuple[int, ...]]  # the group of each code


def misfit_parts(grounds: Grounds, asked: Question, table: Floats, functionals: Floats) -> Floats:
    """What the model's answers may be off by: their covariance is the product of the result and its transpose.

    Args:
        table: the model's, over the question's columns.
        functionals: the answers as sums of its cells, shape (n, cells).

    Returns: shape (n, parts).
    """
    parts = [np.zeros((len(functionals), 0))]
    lacking = _lacking(grounds, asked, table)
    groups = measured_groups(grounds, asked) if lacking is None else _model_groups(grounds, asked, table)
    if lacking is not None:
        parts += _between(grounds, asked, lacking, functionals, groups)
    if groups and not asked.nested:
        parts += _within(grounds, asked.columns, table, functionals, groups)
    if grounds.evidence.strata.schema.weighed:
        parts.append(functionals * np.sqrt(_size_variance(grounds, asked)).ravel())
    return np.concatenate(parts, axis=1)


def _lacking(grounds: Grounds, asked: Question, table: Floats) -> Floats | None:
    """The model's table of the strata in which these columns were not measured together; None if they all were, or a
    single column is asked for."""
    evidence, columns = grounds.evidence, asked.columns
    strata = evidence.strata
    measured = {*strata_with(evidence, columns, asked.merged)}
    if len(columns) < 2 or len(measured) == len(strata.keys):
        return None
    if not measured:
        return table
    wide = at_level(strata.schema, columns, strata.columns)
    model = table_of(evidence.model, wide, asked.merged)
    found = np.zeros_like(model)
    for key in strata.keys:
        if key not in measured:
            cells = cells_where(wide, strata.codes_of(key))
            found[cells] = model[cells]
    return np.asarray(found.sum(tuple(axis for axis, name in enumerate(wide) if name not in columns)))


def measured_groups(grounds: Grounds, asked: Question) -> Groups:
    """The finest groups of codes in which columns were measured together, of the columns that were merged."""
    schema, columns, found = grounds.evidence.strata.schema, asked.columns, dict[str, tuple[int, ...]]()
    finest = -1
    for each in grounds.evidence.published:
        if holds(each, columns, schema, asked.merged):
            kinds = {name: own for name, own in zip(each.columns, each.groups, strict=True) if own is not None}
            cells = prod(max(kinds[name]) + 1 if name in kinds else schema[name].size for name in columns)
            if cells > finest:
                finest, found = cells, {name: kinds[name] for name in columns if name in kinds}
    return {name: groups for name, groups in found.items() if name not in dict(asked.merged)}


def _model_groups(grounds: Grounds, asked: Question, table: Floats) -> Groups:
    """The groups in which the model has columns of fine bins; of one that was measured with no other column, a few."""
    schema, found = grounds.evidence.strata.schema, dict[str, tuple[int, ...]]()
    coarse = Coarsening.of(schema, grounds.evidence.published).groups
    for axis, name in enumerate(asked.columns):
        column = schema[name]
        if column.fine and name not in dict(asked.merged):
            law = table.sum(tuple(other for other in range(table.ndim) if other != axis))
            few = np.zeros(column.size, dtype=np.intp)
            found[name] = coarse.get(name) or merge_codes(column, law, FEW_GROUPS, few)
    return found


def _between(grounds: Grounds, asked: Question, lacking: Floats, functionals: Floats, groups: Groups) -> list[Floats]:
    """Of columns that were not measured together: of each stratum that is asked for where strata were measured one by
    one, with the sums over each column known."""
    columns, share = asked.columns, grounds.misfit.share
    counts = np.maximum(lacking, 1e-9)
    sums = (functionals * counts.ravel()).reshape(-1, *lacking.shape)
    for name, own in groups.items():
        axis = columns.index(name)
        counts, sums = sum_groups(counts, axis, own), sum_groups(sums, axis + 1, own)
    means = sums / counts
    if asked.weight is not None:
        return _by_sets(grounds, asked, means, counts)
    strata = [axis for axis, name in enumerate(columns) if name in grounds.evidence.strata.columns]
    outer = strata if grounds.counts.apart and len(columns) > len(strata) else []
    inner = [axis for axis in range(len(columns)) if axis not in outer]
    blocks = counts.transpose(*outer, *inner).reshape(-1, *(counts.shape[axis] for axis in inner))
    order = [0, *(axis + 1 for axis in (*outer, *inner))]
    own_means = means.transpose(order).reshape(len(means), len(blocks), -1)
    parts = []
    for place, block in enumerate(blocks):
        variance = misfit_variance(block, share * block.sum())
        if variance.ndim > 1:
            parts.append(with_margins(own_means[:, place], variance.reshape(len(block), -1)))
        elif block.sum() > 1e-6:
            parts.append(_with_totals(own_means[:, place, None], variance[None]))
    return parts


def _by_sets(grounds: Grounds, asked: Question, means: Floats, counts: Floats) -> list[Floats]:
    """Where people are counted: each two or three columns that were not measured together are off by themselves, with
    the sums over fewer of them known. A weight and two columns, say, of which all pairs were measured.

    Args:
        means: functionals of the cells, shape (n, *counts.shape).
    """
    columns, evidence, parts = asked.columns, grounds.evidence, []
    for size in (2, 3):
        for axes in combinations(range(len(columns)), size):
            some = tuple(columns[axis] for axis in axes)
            if len(strata_with(evidence, some, asked.merged)) == len(evidence.strata.keys):
                continue
            rest = tuple(axis for axis in range(len(columns)) if axis not in axes)
            rows = counts.sum(rest)
            left = (means * counts).sum(tuple(axis + 1 for axis in rest)) / rows
            inner = [place for place, name in enumerate(some) if name not in evidence.strata.columns]
            over = tuple(inner) if grounds.counts.apart else None
            variance = misfit_variance(rows, grounds.misfit.share * rows.sum(over, keepdims=True))
            for _ in range(_SWEEPS):
                for place in range(size):
                    left -= (left * variance).sum(place + 1, keepdims=True) / variance.sum(place, keepdims=True)
            parts.append((left * np.sqrt(variance)).reshape(len(left), -1))
    return parts


def _within(grounds: Grounds, columns: Columns, table: Floats, functionals: Floats, groups: Groups) -> list[Floats]:
    """Of codes within groups, of which the sums are known: over all other columns, and if one column alone is in
    groups, of each code."""
    share = grounds.misfit.share * table.sum()
    axes = [columns.index(name) for name in groups]
    others = [axis for axis in range(len(columns)) if axis not in axes]
    sizes = [table.shape[axis] for axis in axes]
    rows = np.maximum(table.transpose(*others, *axes).reshape(-1, prod(sizes)), 0.0)
    places = [np.asarray(each)[code] for each, code in zip(groups.values(), np.indices(sizes), strict=True)]
    label = np.unique(np.ravel_multi_index([each.ravel() for each in places], sizes), return_inverse=True)[1]
    weights = functionals.reshape(-1, *table.shape).transpose(0, *(1 + axis for axis in (*others, *axes)))
    weights = weights.reshape(len(functionals), *rows.shape)
    parts = []
    for place in range(int(label.max()) + 1):
        inside = np.flatnonzero(label == place)
        if len(inside) > 1:
            block, own = rows[:, inside], weights[:, :, inside]
            part = misfit_variance(block, share)
            if len(axes) == 1 and len(block) > 1:
                parts.append(with_margins(own.reshape(len(own), -1), part))
            else:
                parts.append(_with_totals(own, part))
    return parts


def _with_totals(functionals: Floats, variance: Floats) -> Floats:
    """As `with_margins`, where the sums of rows are known and those of columns are not; shape (n, a, b)."""
    known = (functionals * variance).sum(2, keepdims=True) / np.maximum(variance.sum(1), 1e-300)[:, None]
    return np.asarray(((functionals - known) * np.sqrt(variance)).reshape(len(functionals), -1))


def _size_variance(grounds: Grounds, asked: Question) -> Floats:
    """Of how many rows the units in each cell have, where units count as one and that was not measured; 0 where it was.

    Units are known, and rows are Σ m·c(m) over the c(m) that count as of m rows: off by Σ (m − m̄)²·Var c(m).
    """
    evidence, columns = grounds.evidence, asked.columns
    units = np.maximum(table_of(evidence.fitted, (*columns, UNIT_ROWS), asked.merged), 0.0)
    if any({*columns, UNIT_ROWS} <= m.involved for m in evidence.published):
        return np.zeros(units.shape[:-1])
    sizes = evidence.unit_sizes
    mean = (units @ sizes) / np.maximum(units.sum(-1), 1e-9)
    together = all(any({name, UNIT_ROWS} <= {*m.columns} for m in evidence.published) for name in columns)
    off = misfit_variance(units, 0.0 if together else grounds.misfit.share * units.sum())
    return np.asarray(((sizes - mean[..., None]) ** 2 * off).sum(-1))
