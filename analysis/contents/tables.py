"""Replicate tables, and the combination of results that were computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from equistrata.analysis.answers import Answers
from equistrata.analysis.contents.raking import measured_cells, raked
from equistrata.analysis.derived import NUMBERS
from equistrata.analysis.uncertainty.misfit import misfit_variance, pair_effects
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.stats.checks import confidence
from equistrata.synth.strata.model import StratifiedModel


def replicate_rows(
    answers: Answers, model: StratifiedModel, schema: Schema, count: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draw rows from the model of a replicate, with a misfit for pairs of columns that were not measured.

    The counts of measured columns do not change.
    """
    table = model.sample(count, rng).select(schema.names)
    if answers.misfit.unmeasured:  # without raking, the misfits of many pairs would change measured columns
        parts = measured_cells(table, answers.evidence.published)
        counts = [part.sums(np.ones(len(table))) for part in parts]
        weights = raked(misfit_effects(answers, model, table, rng), parts, counts)
        table = table.take(_systematic(weights, rng))
    return table.decode(rng)


def misfit_effects(answers: Answers, model: StratifiedModel, table: CodedTable, rng: np.random.Generator) -> Floats:
    """Draw random factors for the rows, with mean 1, for the error of the model in pairs that were not measured."""
    found = np.ones(len(table))
    for pair in answers.misfit.unmeasured:
        counts = model.marginal(pair)
        variance = misfit_variance(counts, answers.misfit.share * counts.sum())
        found *= pair_effects(counts, variance, rng).ravel()[table.index_of(pair)]
    return found


def _systematic(weights: Floats, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Draw as many places as there are weights by systematic sampling, with probabilities proportional to weights."""
    sums = np.cumsum(weights)
    points = (np.arange(len(weights)) + rng.random()) * sums[-1] / max(len(weights), 1)
    return np.asarray(np.minimum(np.searchsorted(sums, points, side="right"), len(weights) - 1))


def combine(
    replicates: Sequence[Any] | Floats | pd.DataFrame, released: Any = None, level: float = 0.95
) -> pd.DataFrame:
    """Combine the results of a program on replicates into an estimate with an interval.

    The standard error is the root mean squared difference between the results on replicates and the released result. It
    includes the spread of the replicates and the bias due to noise and shrinkage.

    Parameters
    ----------
    replicates : sequence, ndarray or DataFrame
        The result for each replicate, which can be a number, or numbers by name.
    released : object, optional
        The result for the released rows. The default is the mean of the replicates.
    level : float
        The level of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        One row per number with `estimate`, `lower`, `upper` and `standard_error`.

    Raises
    ------
    InputError
        If there are fewer than two replicates, if a result is not a finite number or is missing, or if the names of the
        results differ between the replicates and the released rows.
    """
    confidence(level)
    try:
        table = _numbers(replicates)
        centre = table.mean() if released is None else _numbers([released]).iloc[0]
        if released is not None and not isinstance(released, pd.Series | Mapping) and len(centre) == table.shape[1]:
            centre.index = table.columns
    except (TypeError, ValueError):
        raise InputError(
            "replicates must be a list that has a number, or a mapping from names to numbers, for each replicate"
        ) from None
    if len(table) < 2:
        raise InputError("a spread needs at least two replicates; make more replicates")
    if set(centre.index) != set(table.columns):
        raise InputError(
            "the released result has other names, or another number of names, than the replicates; run the same "
            "program on all of them"
        )
    centre = centre.reindex(table.columns)
    for name in table.columns:  # the spread would be too small if these replicates were left out
        if lacking := int((~np.isfinite(table[name])).sum()):
            raise InputError(
                f"result {name!r} is not a finite number for {lacking} of {len(table)} replicates; leave it out, "
                "or compute a result that all of them have, such as that of a larger group"
            )
        if not np.isfinite(centre[name]):
            raise InputError(f"result {name!r} is not a finite number for the released rows; leave it out")
    error = np.sqrt(((table - centre) ** 2).mean())
    far = float(scipy.special.stdtrit(len(table), (1 + level) / 2)) * error
    return pd.DataFrame(dict(zip(NUMBERS, (centre, centre - far, centre + far, error), strict=True)))


def _numbers(results: Sequence[Any] | Floats | pd.DataFrame) -> pd.DataFrame:
    """Return a data frame with one row per result. Raises TypeError or ValueError if the results are not numbers."""
    if isinstance(results, pd.DataFrame):
        return results.astype(float)
    if isinstance(results, str):
        raise TypeError
    return pd.DataFrame(
        [each if isinstance(each, pd.Series | Mapping) else np.atleast_1d(each) for each in results]
    ).astype(float)
