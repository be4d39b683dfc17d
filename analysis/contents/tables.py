"""Whole tables like the released one, and what a program's results on them say together."""

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
    """So many rows of a replicate's model, with a misfit of pairs that were not measured: what was keeps its counts."""
    table = model.sample(count, rng).select(schema.names)
    if answers.misfit.unmeasured:  # many of them together would move columns that are known
        parts = measured_cells(table, answers.evidence.published)
        counts = [part.sums(np.ones(len(table))) for part in parts]
        weights = raked(misfit_effects(answers, model, table, rng), parts, counts)
        table = table.take(_systematic(weights, rng))
    return table.decode(rng)


def misfit_effects(answers: Answers, model: StratifiedModel, table: CodedTable, rng: np.random.Generator) -> Floats:
    """Random factors of rows, with mean 1, by how far the model may be off pairs that were not measured."""
    found = np.ones(len(table))
    for pair in answers.misfit.unmeasured:
        counts = model.marginal(pair)
        variance = misfit_variance(counts, answers.misfit.share * counts.sum())
        found *= pair_effects(counts, variance, rng).ravel()[table.index_of(pair)]
    return found


def _systematic(weights: Floats, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.intp]]:
    """As many places as weights, each about as often as its weight says."""
    sums = np.cumsum(weights)
    points = (np.arange(len(weights)) + rng.random()) * sums[-1] / max(len(weights), 1)
    return np.asarray(np.minimum(np.searchsorted(sums, points, side="right"), len(weights) - 1))


def combine(
    replicates: Sequence[Any] | Floats | pd.DataFrame, released: Any = None, level: float = 0.95
) -> pd.DataFrame:
    """The results of a program on replicates, as an estimate with an interval.

    The standard error is the root mean square of the replicates' distances from the released result: their spread,
    and what noise and shrinkage move them by on average.

    Args:
        replicates: a number, or numbers by name, for each replicate.
        released: the same of the released rows; the replicates' mean if it is not given.
        level: of the interval, in (0, 1).

    Raises:
        InputError: fewer than two replicates; what are no numbers; a number that some replicate, or the released rows,
            lack (NaN, infinite, or no such name); results by other names than the released ones.
    """
    confidence(level)
    try:
        table = _numbers(replicates)
        centre = table.mean() if released is None else _numbers([released]).iloc[0]
        if released is not None and not isinstance(released, pd.Series | Mapping) and len(centre) == table.shape[1]:
            centre.index = table.columns
    except (TypeError, ValueError):
        raise InputError("replicates are a list with a number, or numbers by name, for each of them") from None
    if len(table) < 2:
        raise InputError("a spread needs two replicates or more; make more of them")
    if set(centre.index) != set(table.columns):
        raise InputError(
            "the released result has other names, or another number of them, than the replicates'; run the same "
            "program on all"
        )
    centre = centre.reindex(table.columns)
    for name in table.columns:  # without those replicates the spread would be of others, and too narrow
        if lacking := int((~np.isfinite(table[name])).sum()):
            raise InputError(
                f"result {name!r} is no finite number for {lacking} of {len(table)} replicates; leave it out, or ask "
                "for what all of them have, as of a larger group"
            )
        if not np.isfinite(centre[name]):
            raise InputError(f"result {name!r} is no finite number of the released rows; leave it out")
    error = np.sqrt(((table - centre) ** 2).mean())
    far = float(scipy.special.stdtrit(len(table), (1 + level) / 2)) * error
    return pd.DataFrame(dict(zip(NUMBERS, (centre, centre - far, centre + far, error), strict=True)))


def _numbers(results: Sequence[Any] | Floats | pd.DataFrame) -> pd.DataFrame:
    """A line for each result. Raises TypeError or ValueError where these are no numbers."""
    if isinstance(results, pd.DataFrame):
        return results.astype(float)
    if isinstance(results, str):
        raise TypeError
    return pd.DataFrame(
        [each if isinstance(each, pd.Series | Mapping) else np.atleast_1d(each) for each in results]
    ).astype(float)
