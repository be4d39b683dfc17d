"""Answers that follow from the model, with its replicates and the misfit of what was not measured.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import prod, sqrt

import numpy as np
from scipy.special import ndtri, stdtrit

from equistrata.analysis.axes import Merged
from equistrata.analysis.bases.grounds import FEW_REPLICATES, REPLICATES, Errors, Grounds, of_the_last
from equistrata.analysis.bases.measured import LEAST_ROWS, sampling, span
from equistrata.analysis.bases.placed import arms
from equistrata.analysis.bases.within import within_groups
from equistrata.analysis.questions import MOST_SUMS, Question, widened
from equistrata.analysis.uncertainty.alike import closeness
from equistrata.analysis.uncertainty.apart import FEW_GROUPS
from equistrata.analysis.uncertainty.misfit import (
    as_related,
    misfit_variance,
    strata_with,
    table_effects,
    with_margins,
)
from equistrata.arrays import Floats
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns, cells_where, sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.merging import merge_codes
from equistrata.synth.strata.model import StratifiedModel

IN_COMMON = 0.7  # of the misfit's variance within strata (docs/experiments/estimates.md)


def implied(grounds: Grounds, asked: Question, level: float, sampled: float) -> Floats:
    """As `measured`, from the model, its replicates, and the misfit of pairs that were not measured.

    A group of which the model has no row may have any value: the middle of the range, and the whole of it.
    """
    kept, (value, moved, off, known) = 1 - grounds.evidence.held_out, errors(grounds, asked, level, sampled)
    noise = (moved**2).mean(0)
    variance = noise + (off**2).sum(1) + known
    error = np.sqrt(variance)
    far = stdtrit(_freedom(len(moved), noise, variance), (1 + level) / 2) * error
    if asked.bottom is None:
        return np.column_stack([value, np.maximum(value - far, 0.0), value + far, error]) / kept
    least, most = np.array([span(*each) for each in zip(asked.top, asked.bottom, strict=True)]).T
    z = float(ndtri((1 + level) / 2))
    down, up = _placed(grounds, asked, value, np.column_stack([value - least, most - value]) / z)
    lower, upper = np.maximum(value - np.hypot(far, z * down), least), np.minimum(value + np.hypot(far, z * up), most)
    error = np.hypot(error, np.maximum(down, up))
    found = np.column_stack([value, lower, upper, error])
    rows = asked.bottom @ grounds.over(grounds.evidence.model, asked.columns, asked.merged).ravel()
    nothing = np.column_stack([(least + most) / 2, least, most, (most - least) / (2 * ndtri((1 + level) / 2))])
    return np.where((rows < LEAST_ROWS)[:, None], nothing, found)  # as a measured ratio to nothing


def _placed(grounds: Grounds, asked: Question, value: Floats, room: Floats) -> tuple[Floats | float, Floats | float]:
    """See `equistrata.analysis.bases.placed.arms`: of means, by each column of fine bins, within a model's groups."""
    schema, columns = grounds.evidence.strata.schema, asked.columns
    fine = [name for name in columns if schema[name].fine]
    if asked.of_rows or asked.merged or grounds.apart or asked.bottom is None:
        return 0.0, 0.0
    table = np.maximum(grounds.over(grounds.evidence.model, columns), 0.0)
    below = np.maximum(asked.bottom @ table.ravel(), LEAST_ROWS)
    linear = (asked.top - value[:, None] * asked.bottom) * table.ravel() / below[:, None]
    coarse = Coarsening.of(schema, grounds.evidence.published, grounds.evidence.strata.columns).groups
    down, up = np.zeros(len(value)), np.zeros(len(value))
    for name in fine:
        others = tuple(1 + axis for axis, each in enumerate(columns) if each != name)
        sums, law = linear.reshape(-1, *table.shape).sum(others), table.sum(tuple(axis - 1 for axis in others))
        groups = np.asarray(coarse.get(name, (0,) * len(law)))
        rows = np.maximum(np.bincount(groups, law), 1e-9)
        means = np.array([np.bincount(groups, each) for each in sums]) / rows
        weights = sums / np.maximum(law, 1e-9) - means[:, groups]
        own = arms(grounds, name, weights, room)
        down, up = np.hypot(down, own[0]), np.hypot(up, own[1])
    return down, up


def errors(grounds: Grounds, asked: Question, level: float, sampled: float) -> Errors:
    """What the model says, shape (n,), and what it may be off by: the replicates' distances, shape (replicates, n);
    parts of the misfit that are independent, shape (n, parts), as for an interval of this level; the variance of all
    else, shape (n,). Of the question that was asked last, made once. Raises InputError if these are too many numbers.
    """
    return of_the_last(grounds.erring, (asked, level, sampled), lambda: _errors(grounds, asked, level, sampled))


def _errors(grounds: Grounds, asked: Question, level: float, sampled: float) -> Errors:
    """See `errors`."""
    columns = grounds.by_strata(asked.columns)
    sizes = {name: max(groups) + 1 for name, groups in asked.merged}
    cells = prod(sizes.get(name, grounds.evidence.strata.schema[name].size) for name in columns)
    if len(asked.top) * cells > MOST_SUMS:
        raise InputError(
            f"{len(asked.top):,} answers from a table of {', '.join(columns)}, {cells:,} cells, are too many; name "
            "fewer groups or values"
        )
    table = grounds.over(grounds.evidence.model, columns, asked.merged)
    counts, ratio = table.ravel(), asked.bottom is not None
    bottom_of = np.zeros_like(asked.top) if asked.bottom is None else asked.bottom
    top, bottom, squares = (
        widened(each, asked.columns, columns, table.shape) for each in (asked.top, bottom_of, asked.squares)
    )

    def value_of(counts: Floats) -> Floats:
        return np.asarray(top @ counts / (np.maximum(bottom @ counts, LEAST_ROWS) if ratio else 1.0))

    value = value_of(counts)
    below = np.maximum(bottom @ counts, LEAST_ROWS) if ratio else np.ones(len(value))
    misfits = _misfits(grounds, asked, columns, table, level)
    sizes_off = _size_misfits(grounds, columns, asked.merged)
    functionals = (top - value[:, None] * bottom) / below[:, None]
    numbers = not asked.of_rows  # shares have the misfit of cells, which s is of
    if columns == asked.columns and table.ndim == 2:
        off = _of_pair(grounds, columns, table, functionals, (misfits, sizes_off), asked.merged)
    else:
        summed = numbers and not (asked.merged or set(grounds.evidence.strata.columns) <= {*asked.columns})
        related = _as_elsewhere(grounds, columns, table) if summed else None
        apart = 0.0 if related is None else value_of(related.ravel()) - value
        off = _parts(grounds, functionals, np.asarray(misfits + sizes_off), columns, apart)
    if columns == asked.columns and table.ndim == 2 and not asked.merged and grounds.never_measured(columns):
        off = np.concatenate([off, _of_groups(grounds, columns, table, functionals, level)], axis=1)
    known = sampled * sampling(top, bottom, squares, counts, value * ratio) / below**2
    if not asked.merged:
        known = known + within_groups(grounds, columns, table, functionals)
    if asked.assumed is not None:
        known = known + (widened(asked.assumed, asked.columns, columns, table.shape) @ counts / below) ** 2

    def moved_by(model: StratifiedModel) -> Floats:
        return value_of(grounds.over(model, columns, asked.merged).ravel()) - value

    return value, _moved(grounds, moved_by, (off**2).sum(1) + known), off, known


def _as_elsewhere(grounds: Grounds, columns: Columns, table: Floats) -> Floats | None:
    """A model's table over two columns and those of strata, where strata that did not measure the two together have
    the relation of those that did. None if all strata did, or none, or it is not of two.

    The model makes the two independent there. What a mean over strata is off by, since all of these lack the relation,
    is then no guess: values that are close are off together.
    """
    strata = grounds.evidence.strata
    inner = tuple(name for name in columns if name not in strata.columns)
    relation = grounds.elsewhere(inner) if grounds.apart and len(inner) == 2 else None
    if relation is None or not set(strata.columns) <= set(columns):
        return None
    found, measured = table.copy(), strata_with(grounds.evidence, inner)
    for key in strata.keys:
        if key not in measured:
            cells = cells_where(columns, strata.codes_of(key))
            found[cells] = as_related(np.maximum(table[cells], 0.0), relation)
    return found


def _moved(grounds: Grounds, moved_by: Callable[[StratifiedModel], Floats], rest: Floats) -> Floats:
    """How far replicates are from the model, shape (replicates, n): few, if their noise is a small part of the errors.

    The rest of an error's variance is known, and an interval from few replicates has Student's quantile for as much of
    it as they say. Where half of the answers would have no narrower one by REPLICATES of nothing else, FEW_REPLICATES
    do: each of a large release takes seconds.
    """
    moved: list[Floats] = []
    for model, _ in grounds.replicates(grounds.count):
        moved.append(moved_by(model))
        if len(moved) == FEW_REPLICATES:
            noise = np.mean(np.square(moved), axis=0)
            if np.median(_freedom(FEW_REPLICATES, noise, noise + rest)) >= REPLICATES:
                break
    return np.array(moved)


def _freedom(count: int, noise: Floats, variance: Floats) -> Floats:
    """Degrees of freedom of a variance of which only the noise is a mean of so few squares."""
    return np.asarray(count * (variance / np.maximum(noise, 1e-4 * variance + 1e-300)) ** 2)


def _of_pair(
    grounds: Grounds,
    columns: Columns,
    table: Floats,
    functionals: Floats,
    misfits: tuple[Floats, Floats | float],
    merged: Merged,
) -> Floats:
    """The misfit of two columns in parts: that of the model, alike at values that are close, and of a sample of it."""
    schema, (off, more) = grounds.evidence.strata.schema, misfits
    own = np.minimum(off, np.maximum(table, 0.0))
    close = [
        None if name in dict(merged) or schema[name].fine else closeness(schema[name], table.sum(1 - axis))
        for axis, name in enumerate(columns)
    ]
    return with_margins(functionals, np.asarray(own + more), off - own, (close[0], close[1]))


def _of_groups(grounds: Grounds, columns: Columns, table: Floats, functionals: Floats, level: float) -> Floats:
    """The misfit of two columns that were not measured together, in parts, of the groups of fine bins that models have.

    Of a hundred bins, each off by itself, a mean would hardly be off. No parts where no column has such bins.
    """
    schema = grounds.evidence.strata.schema
    coarse = Coarsening.of(schema, grounds.evidence.published).groups
    fine: dict[str, tuple[int, ...]] = {}
    for axis, name in enumerate(columns):
        if (column := schema[name]).fine:
            few = np.zeros(column.size, dtype=np.intp)
            fine[name] = coarse.get(name) or merge_codes(column, table.sum(1 - axis), FEW_GROUPS, few)
    if not fine:
        return np.zeros((len(functionals), 0))
    parts, counts = (functionals * table.ravel()).reshape(-1, *table.shape), table
    for name, groups in fine.items():
        axis = columns.index(name)
        parts, counts = sum_groups(parts, axis + 1, groups), sum_groups(counts, axis, groups)
    means = (parts / np.maximum(counts, 1e-9)).reshape(len(parts), -1)
    off = grounds.pair_variance(columns, counts, level)
    own = np.minimum(off, np.maximum(counts, 0.0))
    one, other = (closeness(schema[name], counts.sum(1 - axis), fine.get(name)) for axis, name in enumerate(columns))
    return with_margins(means, own, off - own, (one, other))


def disturbed(grounds: Grounds, model: StratifiedModel, columns: Columns, rng: np.random.Generator) -> Floats:
    """A model's table over columns as rows might have it: `table_effects`, of each stratum measured by itself.

    Over `Grounds.by_strata` of the columns, one axis each.
    """
    strata, wide = grounds.evidence.strata, grounds.by_strata(columns)
    table = model.marginal(wide)
    if wide == columns and not any(measurement.where for measurement in grounds.evidence.all):
        return table_effects(table, columns, grounds.sets, grounds.misfit_of, grounds.noise, rng)
    inner, common = tuple(name for name in wide if name not in strata.columns), int(rng.integers(2**63))
    for key in strata.keys:
        codes = strata.codes_of(key)
        here = [m for m in grounds.evidence.all if dict(m.where).items() <= codes.items()]
        sets = [m.involved for m in here]
        cells = cells_where(wide, dict(codes))
        noise = partial(grounds.noise_in, codes=codes)
        table[cells] = table_effects(
            table[cells], inner, sets, grounds.misfit_of, noise, rng, common, grounds.elsewhere
        )
    return table


def _misfits(grounds: Grounds, asked: Question, columns: Columns, table: Floats, level: float) -> Floats:
    """The misfit's variance of each cell of a table over `columns`: of strata in which a pair was not measured."""
    found, strata, names = np.zeros(table.shape), grounds.evidence.strata, asked.columns
    if columns == names and len(names) == 2 and grounds.never_measured(names, asked.merged):
        return grounds.pair_variance(names, table, level, asked.merged)
    pairs = list(combinations(names, 2))
    if columns == names and (asked.merged or not set(strata.columns) <= set(columns)):
        if any(grounds.never_measured(pair, asked.merged) for pair in pairs):
            found = misfit_variance(table, grounds.misfit * table.sum())
        return found
    measured = [strata_with(grounds.evidence, pair) for pair in pairs]
    for key in strata.keys:
        if not all(key in keys for keys in measured):
            cells = cells_where(columns, strata.codes_of(key))
            found[cells] = misfit_variance(table[cells], grounds.misfit * table[cells].sum())
    return found


def _parts(
    grounds: Grounds, functionals: Floats, misfits: Floats, columns: Columns, apart: Floats | float = 0.0
) -> Floats:
    """The misfit of cells within strata, in independent parts: of each cell, and what strata have in common.

    A relation that was not measured is missing in all strata alike, so what its cells are off by there adds up.

    Args:
        apart: how far answers would be if these strata had the relation of the others: where it is more than what is in
            common would be, it takes the place of that.
    """
    off = (functionals * np.sqrt(misfits.ravel())).reshape(-1, *misfits.shape)
    strata = tuple(1 + axis for axis, name in enumerate(columns) if name in grounds.evidence.strata.columns)
    common = sqrt(IN_COMMON) * off.sum(axis=strata).reshape(len(off), -1)
    more = np.square(apart) > np.square(common).sum(1)
    own = sqrt(1 - IN_COMMON) * off.reshape(len(off), -1)
    return np.column_stack([own, np.where(more[:, None], 0.0, common), np.where(more, apart, 0.0)])


def _size_misfits(grounds: Grounds, columns: Columns, merged: Merged) -> Floats | float:
    """The same, of how many rows the units in each cell have, where units count as one and it was not measured.

    Units are known, and rows are Σ m·c(m) over the c(m) that count as of m rows: off by Σ (m − m̄)²·Var c(m).
    """
    evidence = grounds.evidence
    if not evidence.strata.schema.weighed:
        return 0.0
    if any({*columns, UNIT_ROWS} <= m.involved for m in evidence.published):
        return 0.0
    units = np.maximum(grounds.over(evidence.fitted, (*columns, UNIT_ROWS), merged), 0.0)
    sizes = evidence.unit_sizes
    mean = (units @ sizes) / np.maximum(units.sum(-1), 1e-9)
    together = all(any({name, UNIT_ROWS} <= {*m.columns} for m in evidence.published) for name in columns)
    off = misfit_variance(units, 0.0 if together else grounds.misfit * units.sum())
    return np.asarray(((sizes - mean[..., None]) ** 2 * off).sum(-1))
