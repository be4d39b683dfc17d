"""Replicate weights: columns with which a statistical package finds standard errors of weighted estimates by itself.

They have the form of the American Community Survey's (successive difference replication; Fay and Train, 1995): the
variance of an estimate t is 4/R · Σ (t_r − t)² over the R columns. A redraw multiplies the weights by factors m, and
its column is half-way to it, w·(1 + m)/2. Two independent parts make m:

- **privacy**: the rows are raked so that the people in each measured cell move as from the fitted model to a replicate,
  which is measured and modelled again (`equistrata.analysis.uncertainty.replicates`). Pairs that were not measured have
  their misfit.
- **sampling**: factors with mean 1 and the variance of the design effect, independent between rows, as of the Bayesian
  bootstrap (Rubin, 1981). By them a mean has Kish's variance.

Public totals of people are met by every column. Post-processing of published numbers and rows, no cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from equistrata.analysis.answers import Answers
from equistrata.analysis.contents.raking import MeasuredCells, measured_cells, raked
from equistrata.analysis.contents.tables import misfit_effects
from equistrata.arrays import Floats
from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.measurements import cells_where, sum_groups
from equistrata.synth.strata.model import StratifiedModel
from equistrata.synth.strata.poststratified import poststratified

MODELS = 20  # of which each makes several columns, since a census table takes seconds to be modelled again


def replicate_weights(
    answers: Answers, rows: pd.DataFrame, schema: Schema, count: int, design_effect: float, workers: int = 1
) -> pd.DataFrame:
    """So many columns of weights of released rows, in their order.

    Args:
        answers: of the release; its seed makes the columns.
        rows: as released.
        schema: of the released rows.
        design_effect: the variance of the factors of sampling, 1 or more.
        workers: processes that make models side by side. They change no number.
    """
    weight, table = str(schema.survey_weight), CodedTable.encode(rows, schema.coded())
    weights, fitted = rows[weight].to_numpy(dtype=np.float64), answers.evidence.model
    measured = measured_cells(table, answers.evidence.all)
    parts = measured_cells(table, answers.evidence.all, without=weight)
    if not weights.sum() > 0:
        raise InputError(f"{weight!r} adds up to nothing, so nothing says how many people rows stand for")
    names, numbers = weight_names(rows, weight, count), drawn_numbers(schema[weight])
    before = people_of(fitted, weight, numbers, parts)
    scale = weights.sum() / max(float(fitted.marginal((weight,)) @ numbers), 1e-12)
    # Rows beyond the private ones are no further sample.
    spread = design_effect * max(1.0, len(rows) / max(fitted.total, 1.0))
    rng = np.random.default_rng([answers.seed, 5])
    models = answers.replicates(min(count, MODELS), workers)
    moves = [people_of(model, weight, numbers, parts) for model, _ in models]
    controls, found = answers.controls, {}
    for place, name in enumerate(names):
        after = moves[place % len(moves)]
        moved = weights * group_effects(measured, table, weight, numbers, rng)
        targets = [
            # A cell that has more people than the model has moves by as many.
            now * np.maximum(1 + (new - old) / np.maximum(np.maximum(old, now / scale), 1e-12), 0.0)
            for now, old, new in zip([part.sums(moved) for part in parts], before, after, strict=True)
        ]
        moved = raked(moved * misfit_effects(answers, fitted, table, rng), parts, targets)
        moved *= rng.gamma(1 / spread, spread, len(rows))
        if controls is not None:
            moved = poststratified(moved, controls.cells_of(table), controls.totals.ravel())
        found[name] = (weights + moved) / 2
    return pd.DataFrame(found, index=rows.index)


def weight_names(rows: pd.DataFrame, weight: str, count: int) -> list[str]:
    """PWGTP1, PWGTP2, …; with an underscore before the number if the weight's name ends in a digit. Raises InputError
    where the rows have such a column."""
    stem = f"{weight}_" if weight[-1].isdigit() else weight
    names = [f"{stem}{place}" for place in range(1, count + 1)]
    if taken := {*names} & {*rows.columns}:
        raise InputError(f"the release has a column {min(taken)!r} already, which a replicate weight would be called")
    return names


def group_effects(
    measured: Sequence[MeasuredCells], table: CodedTable, weight: str, numbers: Floats, rng: np.random.Generator
) -> Floats:
    """Random factors of rows, with mean 1, by how much more or less the rows of a cell may weigh than all of a group.

    Within the groups of the weight in which it was measured with others, it has nothing to do with these in the
    release. The rows of each bin are off by about as many as they are, with the rows of cells and of bins known, as in
    `equistrata.analysis.bases.weights.weight_errors`.
    """
    found, codes = np.ones(len(table)), table.column(weight)
    for part in measured:
        if weight not in part.columns or len(part.columns) == 1:
            continue
        axis = part.columns.index(weight)
        groups = np.arange(len(numbers)) if part.groups[axis] is None else np.asarray(part.groups[axis])
        law = np.bincount(codes[part.rows], minlength=len(numbers))
        inside = np.bincount(groups, law)
        shares = law / np.maximum(inside, 1)[groups]
        mean = np.maximum(np.bincount(groups, shares * numbers), 1e-12)
        apart = (numbers - mean[groups]) ** 2
        fixed, random = (np.bincount(groups, each * apart) for each in (shares**2, shares))
        rows = np.moveaxis(part.sums(np.ones(len(table))).reshape(part.shape), axis, -1)
        variance = (rows**2 * fixed + rows * random).reshape(-1, rows.shape[-1])
        off = rng.standard_normal(variance.shape) * np.sqrt(variance)
        off -= variance / np.maximum(variance.sum(0), 1e-300) * off.sum(0)
        factors = 1 + off.reshape(rows.shape) / (np.maximum(rows, 1) * mean)
        found[part.rows] *= np.maximum(np.moveaxis(factors, -1, axis), 0.0).ravel()[part.cells]
    return found


def people_of(model: StratifiedModel, weight: str, numbers: Floats, parts: Sequence[MeasuredCells]) -> list[Floats]:
    """The weighted total of each cell by a model, flat; each row of a code of the weight stands for its number."""
    known, found = dict[tuple[str, ...], Floats](), []
    for part in parts:
        columns = (*part.columns, *dict(part.where))
        if columns not in known:
            known[columns] = np.tensordot(numbers, model.marginal((weight, *columns)), 1)
        counts = known[columns][cells_where(columns, dict(part.where))]
        for axis, groups in enumerate(part.groups):
            counts = counts if groups is None else sum_groups(counts, axis, groups)
        found.append(np.maximum(counts, 0.0).ravel())
    return found
