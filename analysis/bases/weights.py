"""Survey weights in a question, read in the groups of bins in which they were measured with other columns.

Each row of a group is assigned the mean weight of the group, which is computed from the measurements of the weight
alone. The error of this approximation is included in the error of the answer (see docs/proofs/estimates.md).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from equistrata.analysis.axes import Merged, holds
from equistrata.analysis.bases.grounds import AnswerSources
from equistrata.analysis.people import PostStrata, SurveyWeight
from equistrata.analysis.questions import MOST_CELLS, MOST_SUMS, Question
from equistrata.arrays import Floats, Indices
from equistrata.data.columns.drawn import drawn_ends, drawn_numbers
from equistrata.data.schema import Schema
from equistrata.data.survey.controls import Controls
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns
from equistrata.synth.models.columns.merging import merge_codes
from equistrata.synth.strata.model import StratifiedModel

FEW_GROUPS = 8  # the number of groups for a column that was not measured with any other column
LEAST_PEOPLE = 1.0
_LEAST = 1e-9  # the smallest number of rows that is not treated as zero


def survey_weight(grounds: AnswerSources, columns: Columns, merged: Merged) -> SurveyWeight:
    """Return the survey weight for a question about some columns.

    Raises InputError if the weight is one of these columns, or if the weights add up to nothing.
    """
    schema = grounds.evidence.strata.schema
    name = str(schema.survey_weight)
    if name in columns:
        raise InputError(
            f"{name!r} is the survey weight, so it cannot also be a column of an answer about people; ask for rows of "
            "the file (weighted=False, or --unweighted)"
        )
    law, numbers = grounds.weight_law, drawn_numbers(schema[name])
    if not law @ numbers >= LEAST_PEOPLE:
        raise InputError(
            f"the survey weight {name!r} adds up to zero, so the number of people is unknown; ask for rows of the file "
            "(weighted=False, or --unweighted)"
        )
    groups = _groups(grounds, columns, merged, law)
    rows = np.maximum(np.bincount(groups, law), _LEAST)
    even = np.bincount(groups)[list(groups)]  # in a group without rows, all bins are equally likely
    shares = np.where(np.bincount(groups, law)[list(groups)] > _LEAST, law / rows[list(groups)], 1 / even)
    return SurveyWeight(name, groups, shares, numbers, float(law @ numbers / law.sum()))


def question_about_people(
    schema: Schema, asked: Question, weight: SurveyWeight, controls: Controls | None = None
) -> Question:
    """Convert a question about rows into a question about people.

    Parameters
    ----------
    schema : Schema
        The schema of the release.
    asked : Question
        The question about rows.
    weight : SurveyWeight
        The survey weight, which becomes an additional axis of the table.
    controls : Controls, optional
        The control totals of people to which the weights are adjusted.

    Returns
    -------
    Question
        The question in which each cell is multiplied by the weight.

    Raises
    ------
    InputError
        If the table is too large.
    """
    if asked.bottom is None:
        weight = replace(weight, scale=1.0)
    by = {} if controls is None else dict(zip(controls.columns, controls.groups, strict=True))
    columns = tuple(name for name in schema.names if name in {*asked.columns, weight.column, *by})
    merged, own = {**dict(asked.merged), weight.column: weight.groups}, {}
    for name in by:
        every = tuple(range(schema[name].size))
        kinds = [np.array(groups or every) for groups in (merged.get(name), by[name])]
        if name not in asked.columns and by[name] is not None:
            merged[name] = tuple(kinds[1].tolist())
        elif name in merged:  # the coarsest groups that refine both groupings
            both, codes = np.unique(np.array(kinds), axis=1, return_inverse=True)
            merged[name], own[name] = tuple(codes.ravel().tolist()), both[0]
    added = tuple(name for name in columns if name not in asked.columns)
    blank = replace(asked, columns=columns, merged=tuple(merged.items()), weight=weight, added=added)
    shape = blank.shape(schema)
    modelled = prod(schema[name].size for name in columns) if by else 0
    if prod(shape) > MOST_CELLS or len(asked.top) * prod(shape) > MOST_SUMS or modelled > MOST_SUMS:
        fewer = "give fewer columns" if modelled > MOST_SUMS else "ask for some values in 'where', give fewer groups"
        raise InputError(
            f"{len(asked.top):,} answers about people, from {max(prod(shape), modelled):,} cells of "
            f"{', '.join(columns)}, are too many; {fewer}, or ask for rows of the file (weighted=False, or "
            "--unweighted)"
        )
    times, narrow = blank.by_group(schema, weight.mean), asked.shape(schema)
    finer = tuple(size if name in asked.columns else 1 for name, size in zip(columns, shape, strict=True))

    def wide(part: Floats | None) -> Floats | None:
        if part is None:
            return None
        table = part.reshape(-1, *narrow)
        for name, places in own.items():
            table = np.take(table, places, axis=1 + asked.columns.index(name))
        return np.broadcast_to(table.reshape(-1, *finer), (len(part), *shape)).reshape(len(part), -1) * times

    parts = {name: wide(getattr(asked, name)) for name in ("top", "bottom", "squares", "assumed")}
    strata = None if controls is None else _post_strata(blank, controls, shape)
    return replace(blank, strata=strata, **parts)  # type: ignore[arg-type]


def _post_strata(blank: Question, controls: Controls, shape: tuple[int, ...]) -> PostStrata:
    cell: Indices = np.zeros(shape, dtype=np.intp)
    for name, groups, size in zip(controls.columns, controls.groups, controls.totals.shape, strict=True):
        axis = blank.columns.index(name)
        length = shape[axis]
        read = np.array(dict(blank.merged).get(name) or range(length))
        to = np.zeros(length, dtype=np.intp)
        to[read] = range(len(read)) if groups is None else groups
        cell = cell * size + to.reshape([length if place == axis else 1 for place in range(len(shape))])
    assert blank.weight is not None
    return PostStrata(cell.ravel(), controls.totals.ravel() / blank.weight.scale)


def _groups(grounds: AnswerSources, columns: Columns, merged: Merged, law: Floats) -> tuple[int, ...]:
    """Return the group of each code of the weight.

    The groups in which the weight was measured with all of the columns are preferred, then the groups in which it was
    measured with most columns, then the finest groups.
    """
    schema, published = grounds.evidence.strata.schema, grounds.evidence.published
    column = schema[str(schema.survey_weight)]
    every = tuple(range(column.size))
    kinds = {
        dict(zip(m.columns, m.groups, strict=True))[column.name] or every
        for m in published
        if column.name in m.columns and len({*m.columns} - {UNIT_ROWS}) > 1
    }
    if not kinds:
        return merge_codes(column, law, FEW_GROUPS, np.zeros(column.size, dtype=np.intp))

    def served(groups: tuple[int, ...]) -> tuple[bool, int, int, tuple[int, ...]]:
        read = (*merged, (column.name, groups))
        sets = [(*columns, column.name), *((name, column.name) for name in columns)]
        held = [any(holds(m, each, schema, read) for m in published) for each in sets]
        return held[0], sum(held[1:]), max(groups), groups

    return max(kinds, key=served)


def _means(weight: SurveyWeight, law: Floats) -> Floats:
    """Return the mean weight of each group for a distribution of codes.

    If a group has no rows, the mean weight of the question is used.
    """
    rows, people = (np.bincount(weight.groups, each) for each in (law, law * weight.numbers))
    return np.where(rows > _LEAST, people / np.maximum(rows, _LEAST) / weight.scale, weight.mean)


def _moved(grounds: AnswerSources, weight: SurveyWeight) -> Floats:
    """Return the change of each group's mean weight due to new noise, shape (draws, groups).

    The changes are divided by the square root of the number of draws.
    """
    moved = np.array([_means(weight, law) for law in grounds.weight_draws]) - weight.mean
    return np.asarray(moved / np.sqrt(len(moved)))


def model_weight_ratios(model: StratifiedModel, weight: SurveyWeight) -> Floats:
    """Return the ratio of a model's mean weight to the question's mean weight in each group."""
    own = _means(weight, np.maximum(model.marginal((weight.column,)), 0.0))
    return np.divide(own, weight.mean, out=np.ones(len(own)), where=weight.mean > 0)


def weight_errors(
    grounds: AnswerSources, asked: Question, functionals: Floats, sides: Floats, counts: Floats, noise: bool
) -> tuple[Floats, Floats]:
    """Compute the error of answers due to the use of mean weights in each group.

    Within a group, the rows on one side of an answer may have larger weights than the other rows. On each side, the
    number of rows in each bin has an error of at most about this number (see `misfit_variance`). It is conditional on
    the number of rows in the group and on the number of rows in the bin over all sides. There are two more sources of
    error. The weights may be elsewhere in their bins, which is treated as an error that all bins have in common. The
    distribution of the weight was measured with noise.

    Parameters
    ----------
    grounds : AnswerSources
        The sources of answers.
    asked : Question
        The question about people.
    functionals : ndarray of shape (n, cells)
        The answers as sums over the cells of the question.
    sides : ndarray of shape (n, cells)
        The sign of each element shows if the cell is above or below the answer.
    counts : ndarray of shape (cells,)
        The number of rows in each cell.
    noise : bool
        If True, the noise in the distribution of the weight is included. It must be False for answers of the model,
        because their replicates already include this noise.

    Returns
    -------
    tuple of ndarray, each of shape (n, parts)
        The components of the error that all answers share, and the components that are specific to each answer. Both
        are linear in the functionals. The variance is the sum of the squares of both.
    """
    weight = asked.weight
    if weight is None:
        return np.zeros((len(functionals), 0)), np.zeros((len(functionals), 0))
    schema = grounds.evidence.strata.schema
    shape, axis = asked.shape(schema), asked.columns.index(weight.column)

    def by_group(table: Floats) -> Floats:
        """Reshape a table to (n, other cells, groups)."""
        return np.moveaxis(table.reshape(-1, *shape), axis + 1, -1).reshape(len(table), -1, shape[axis])

    rows, groups = by_group(np.maximum(counts, 0.0)[None]), np.array(weight.groups)
    each, sign = by_group(functionals) / np.maximum(weight.mean, 1e-12), np.sign(by_group(sides))
    sums = []  # the rows and functionals on each side, shape (n, groups)
    for side in (-1, 0, 1):
        inside = rows * (sign == side)
        sums.append((inside.sum(1), (each * inside).sum(1)))
    alike, mean = (np.stack(part, axis=1) for part in zip(*sums, strict=True))
    mean = mean / np.maximum(alike, _LEAST)
    numbers = weight.numbers / weight.scale
    # `spread` is the variance of the number of people due to the misfit of bins.
    apart, spread = numbers - weight.mean[groups], np.zeros(alike.shape)
    for group in range(shape[axis]):
        codes = np.flatnonzero((groups == group) & (weight.shares > 0))
        fine = alike[:, :, group, None] * weight.shares[codes]
        variance = fine**2 + fine
        known = (variance @ apart[codes]) / np.maximum(variance.sum(-1), 1e-300)
        spread[:, :, group] = (variance * (apart[codes] - known[..., None]) ** 2).sum(-1)
    common = (mean * spread).sum(1, keepdims=True) / np.maximum(spread.sum(1, keepdims=True), 1e-300)
    own = ((mean - common) * np.sqrt(spread)).reshape(len(each), -1)
    low, high = drawn_ends(schema[weight.column])
    bins = np.bincount(groups, weight.shares * (high - low) / 6) / weight.scale
    shared = [(each * rows * bins).sum((1, 2))[:, None]]
    if noise:
        shared.append((each * rows).sum(1) @ _moved(grounds, weight).T)
    return np.concatenate(shared, axis=1), own
