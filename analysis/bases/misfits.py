"""Misfit of a model's answers as independent components.

The misfit is the error of a model for columns that were not measured together, or only in groups of codes. The errors
of unmeasured cells are assumed to be independent with variance `misfit_variance`, and are then conditioned on the
measured sums. Columns with fine bins are only measured with other columns in groups of bins. In this case, the groups
have an error if the columns were not measured together, and the cells within each group have an error given the sum of
the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np

from equistrata.analysis.axes import holds
from equistrata.analysis.bases.grounds import AnswerSources, table_of
from equistrata.analysis.bases.weights import FEW_GROUPS
from equistrata.analysis.questions import Question
from equistrata.analysis.uncertainty.misfit import misfit_variance, strata_with, with_margins
from equistrata.arrays import Floats
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.synth.measurements import Columns, cells_where, join_level_columns, sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.merging import merge_codes

_SWEEPS = 25  # iterations for known sums; if they have not converged, intervals are too wide
Groups = Mapping[str, tuple[int, ...]]  # the group of each code, by column


def misfit_parts(grounds: AnswerSources, asked: Question, table: Floats, functionals: Floats) -> Floats:
    """Compute the misfit of a model's answers.

    Parameters
    ----------
    grounds : AnswerSources
        The sources of answers.
    asked : Question
        The question, which has n answers.
    table : ndarray
        The model's table over the columns of the question.
    functionals : ndarray of shape (n, cells)
        The answers as sums over the cells of the table.

    Returns
    -------
    ndarray of shape (n, parts)
        Independent components of the errors. The product of this matrix and its transpose is the covariance of the
        errors.
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


def _lacking(grounds: AnswerSources, asked: Question, table: Floats) -> Floats | None:
    """Return the model's table of the strata in which the columns were not measured together.

    Returns None if they were measured together in all strata, or if the question has a single column.
    """
    evidence, columns = grounds.evidence, asked.columns
    strata = evidence.strata
    measured = {*strata_with(evidence, columns, asked.merged)}
    if len(columns) < 2 or len(measured) == len(strata.keys):
        return None
    if not measured:
        return table
    wide = join_level_columns(strata.schema, columns, strata.columns)
    model = table_of(evidence.model, wide, asked.merged)
    found = np.zeros_like(model)
    for key in strata.keys:
        if key not in measured:
            cells = cells_where(wide, strata.codes_of(key))
            found[cells] = model[cells]
    return np.asarray(found.sum(tuple(axis for axis, name in enumerate(wide) if name not in columns)))


def measured_groups(grounds: AnswerSources, asked: Question) -> Groups:
    """Return the finest groups of codes in which the columns were measured together, by column."""
    schema, columns, found = grounds.evidence.strata.schema, asked.columns, dict[str, tuple[int, ...]]()
    finest = -1
    for each in grounds.evidence.published:
        if holds(each, columns, schema, asked.merged):
            kinds = {name: own for name, own in zip(each.columns, each.groups, strict=True) if own is not None}
            cells = prod(max(kinds[name]) + 1 if name in kinds else schema[name].size for name in columns)
            if cells > finest:
                finest, found = cells, {name: kinds[name] for name in columns if name in kinds}
    return {name: groups for name, groups in found.items() if name not in dict(asked.merged)}


def _model_groups(grounds: AnswerSources, asked: Question, table: Floats) -> Groups:
    """Return the groups of codes that the model uses for columns with fine bins.

    If a column was not measured with any other column, a small number of groups is used.
    """
    schema, found = grounds.evidence.strata.schema, dict[str, tuple[int, ...]]()
    coarse = Coarsening.of(schema, grounds.evidence.published).groups
    for axis, name in enumerate(asked.columns):
        column = schema[name]
        if column.fine and name not in dict(asked.merged):
            law = table.sum(tuple(other for other in range(table.ndim) if other != axis))
            few = np.zeros(column.size, dtype=np.intp)
            found[name] = coarse.get(name) or merge_codes(column, law, FEW_GROUPS, few)
    return found


def _between(
    grounds: AnswerSources, asked: Question, lacking: Floats, functionals: Floats, groups: Groups
) -> list[Floats]:
    """Return the misfit of columns that were not measured together, given the sums over each column.

    If the strata were measured separately, each stratum has its own misfit.
    """
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


def _by_sets(grounds: AnswerSources, asked: Question, means: Floats, counts: Floats) -> list[Floats]:
    """Return the misfit of an answer about people.

    Each set of two or three columns that were not measured together has its own misfit, given the sums over fewer
    columns. For example, all pairs of a weight and two columns can be measured, but not all three columns together.
    `means` has shape (n, *counts.shape) and contains functionals of the cells.
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


def _within(
    grounds: AnswerSources, columns: Columns, table: Floats, functionals: Floats, groups: Groups
) -> list[Floats]:
    """Return the misfit of the codes within groups, given the sums of the groups.

    The sum of each group is known for each combination of the other columns. If only one column is in groups, then the
    total of each of its codes is known as well.
    """
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
    """Return the same as `with_margins` if only the sums of rows are known, for functionals of shape (n, a, b)."""
    known = (functionals * variance).sum(2, keepdims=True) / np.maximum(variance.sum(1), 1e-300)[:, None]
    return np.asarray(((functionals - known) * np.sqrt(variance)).reshape(len(functionals), -1))


def _size_variance(grounds: AnswerSources, asked: Question) -> Floats:
    """Return the variance of the number of rows in each cell due to unknown sizes of units.

    This applies if units count as one. It is 0 if the sizes were measured with these columns. The number of units in
    each cell is treated as known. If c(m) is the number of units with m rows, then the number of rows is Σ m·c(m), and
    its variance is Σ (m − m̄)²·Var c(m).
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
