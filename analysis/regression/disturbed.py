"""Random tables that are consistent with a replicate, with noise in measured sums and misfit in all other sums."""

from __future__ import annotations

from functools import partial

import numpy as np

from equistrata.analysis.bases.counts import MeasuredCounts
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED
from equistrata.analysis.uncertainty.misfit import table_effects
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, cells_where, join_level_columns
from equistrata.synth.strata.model import StratifiedModel


def draw_disturbed_table(
    known: MeasuredCounts, share: float, model: StratifiedModel, columns: Columns, rng: np.random.Generator
) -> Floats:
    """Draw a table over some columns from a model with `table_effects`.

    If the strata were measured separately, each stratum is drawn separately.

    Parameters
    ----------
    known : MeasuredCounts
        The measured counts.
    share : float
        The size s of the misfit as a share of the rows.
    model : StratifiedModel
        The model of a replicate.
    columns : tuple of str
        The columns of the table.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    ndarray
        A table with one axis for each column of `MeasuredCounts.by_strata(columns)`.
    """
    strata, wide = known.evidence.strata, known.by_strata(columns)
    table = model.marginal(wide)
    if not known.apart:
        sets = [frozenset(measurement.columns) for measurement in known.evidence.all]
        return table_effects(table, columns, sets, share, partial(_noise, known), rng)
    inner, common = tuple(name for name in wide if name not in strata.columns), int(rng.integers(2**63))
    for key in strata.keys:
        codes = strata.codes_of(key)
        sets = [m.involved for m in known.evidence.all if dict(m.where).items() <= codes.items()]
        cells = cells_where(wide, dict(codes))
        noise = partial(_noise, known, codes=codes)
        table[cells] = table_effects(table[cells], inner, sets, share, noise, rng, common)
    return table


def _noise(known: MeasuredCounts, columns: Columns, codes: dict[str, int] | None = None) -> Floats:
    """Return the variance of the measured counts over some columns, within a stratum if its codes are given."""
    strata = known.evidence.strata
    wide = columns if codes is None else join_level_columns(strata.schema, columns, strata.columns)
    found = known.table(wide)
    if found is not None:
        variance = found.variance.reshape(found.shape)
    else:  # too many cells for a covariance matrix, so use the most accurate measurement of all columns
        held = [m.sigma**2 for m in known.evidence.all if m.involved.issuperset(wide)]
        variance = np.full([strata.schema[name].size for name in wide], min(held, default=NOT_MEASURED))
    return variance if codes is None else np.asarray(variance[cells_where(wide, codes)])
