"""Replicate weights, from which statistical packages can estimate standard errors of weighted estimates.

The weights have the same form as in the American Community Survey (successive difference replication; Fay and Train,
1995). The variance of an estimate t is 4/R · Σ (t_r − t)² over R columns. Each column is based on factors m, by which a
new draw would multiply the weights. The column contains w·(1 + m)/2, which is halfway between the weights and the new
draw. The factors m have two independent parts:

- **privacy**: The rows are raked so that the number of people in each measured cell changes in the same way as between
  the fitted model and a replicate, which is measured and fitted again (`equistrata.analysis.uncertainty.replicates`).
  Pairs that were not measured also vary by their misfit.
- **sampling**: The factors are independent between rows with mean 1 and a variance that is equal to the design effect,
  as in the Bayesian bootstrap (Rubin, 1981). With these factors, a mean has the variance of Kish.

Every column meets the public control totals. All results are post-processing of published numbers and rows, so they
cost no privacy.
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

MODELS = 20  # the number of models; each is used for several columns, because fitting a census table takes seconds


def replicate_weights(
    answers: Answers, rows: pd.DataFrame, schema: Schema, count: int, design_effect: float, workers: int = 1
) -> pd.DataFrame:
    """Compute replicate weights for the released rows.

    Parameters
    ----------
    answers : Answers
        The answers of the release. Its seed determines the replicate weights.
    rows : DataFrame
        The released rows.
    schema : Schema
        The schema of the released rows.
    count : int
        The number of replicate weights.
    design_effect : float
        The variance of the sampling factors, which is at least 1.
    workers : int
        The number of processes that fit models in parallel. The results do not depend on it.

    Returns
    -------
    DataFrame
        One column per replicate weight, with the rows in the same order as `rows`.
    """
    weight, table = str(schema.survey_weight), CodedTable.encode(rows, schema.coded())
    weights, fitted = rows[weight].to_numpy(dtype=np.float64), answers.evidence.model
    measured = measured_cells(table, answers.evidence.all)
    parts = measured_cells(table, answers.evidence.all, without=weight)
    if not weights.sum() > 0:
        raise InputError(
            f"the survey weight {weight!r} adds up to zero, so replicate weights cannot be made; use tables instead"
        )
    names, numbers = weight_names(rows, weight, count), drawn_numbers(schema[weight])
    before = weighted_totals(fitted, weight, numbers, parts)
    scale = weights.sum() / max(float(fitted.marginal((weight,)) @ numbers), 1e-12)
    # If there are more rows than in the private table, the additional rows are not an additional sample.
    spread = design_effect * max(1.0, len(rows) / max(fitted.total, 1.0))
    rng = np.random.default_rng([answers.seed, 5])
    models = answers.replicates(min(count, MODELS), workers)
    moves = [weighted_totals(model, weight, numbers, parts) for model, _ in models]
    controls, found = answers.controls, {}
    for place, name in enumerate(names):
        after = moves[place % len(moves)]
        moved = weights * group_effects(measured, table, weight, numbers, rng)
        targets = [
            # If a cell has more people than in the model, it changes by the same number of people as in the model.
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
    """Return the names of the replicate weights, such as PWGTP1 and PWGTP2.

    If the name of the weight ends in a digit, an underscore is added before the number. Raises InputError if the rows
    already have such a column.
    """
    stem = f"{weight}_" if weight[-1].isdigit() else weight
    names = [f"{stem}{place}" for place in range(1, count + 1)]
    if taken := {*names} & {*rows.columns}:
        raise InputError(
            f"the release already has a column {min(taken)!r}, which is the name of a replicate weight; rename it"
        )
    return names


def group_effects(
    measured: Sequence[MeasuredCells], table: CodedTable, weight: str, numbers: Floats, rng: np.random.Generator
) -> Floats:
    """Draw random factors for the rows, with mean 1, for the difference of weights between cells of a group.

    In the release, the weight is independent of other columns within the groups in which it was measured with them. The
    number of rows in each bin has an error of about its own size, given the number of rows in cells and in bins. The
    same error is used in `equistrata.analysis.bases.weights.weight_errors`.
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


def weighted_totals(
    model: StratifiedModel, weight: str, numbers: Floats, parts: Sequence[MeasuredCells]
) -> list[Floats]:
    """Return the weighted total of each cell in a model as a flat array.

    The weight of each code is given by `numbers`.
    """
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
