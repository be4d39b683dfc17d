"""How far a release is expected to be off, by group and column, from published numbers alone. Post-processing, no cost.

A group of n rows has a share p of a code by the model. Before anything was measured of it, its rows are a sample of the
model: variance p(1 − p)/n. What was measured of the group's column has noise of variance v. The posterior variance of
the real share is their product over their sum; where noise, shrinkage and the fit alone (replicates) move the share by
more, that counts. The expected total variation follows as for Gaussian errors. What differs from the model by more than
chance is not in it, so small groups that are unlike the others are worse than expected.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pandas as pd

from equistrata.analysis.answers import Answers
from equistrata.analysis.least_squares import LeastSquares
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, at_level

_NOT_MEASURED = 1e12  # variance


def expected_distances(answers: Answers) -> pd.DataFrame:
    """A row for each group of the strata (one of all rows without any) and each other column.

    Columns: those that define strata, by released values; `rows`, as estimated; `column`; `distance`, the expected
    total variation distance of the released shares from the real ones, in [0, 1].
    """
    evidence = answers.evidence
    schema, strata = evidence.strata.schema, evidence.strata
    keys, frames = list(strata.keys), []
    sizes = np.array([evidence.model.weights.shares[key] for key in keys]) * evidence.model.total
    for name in (name for name in schema.names if name not in strata.columns):
        columns = at_level(schema, (name,), strata.columns)
        axis = columns.index(name)
        shares = _shares(evidence.model.marginal(columns), axis)
        moved = [(_shares(model.marginal(columns), axis) - shares) ** 2 for model, _ in answers.replicated()]
        chance = shares * (1 - shares)
        noise = _noise(answers, columns, axis)
        places = [tuple(strata.codes_of(key)[other] for other in columns if other != name) for key in keys]
        for key, place, rows in zip(keys, places, np.maximum(sizes, 1.0), strict=True):
            before, after = chance[place] / rows, noise[place] / rows**2
            posterior = before * after / np.maximum(before + after, 1e-300)
            error = np.maximum(np.mean([each[place] for each in moved], axis=0), posterior)
            distance = min(0.5 * sqrt(2 / pi) * float(np.sqrt(error).sum()), 1.0)
            frames.append((*key, rows / (1 - evidence.held_out), name, distance))
    return pd.DataFrame(frames, columns=[*strata.columns, "rows", "column", "distance"])


def _shares(counts: Floats, axis: int) -> Floats:
    """By group, with the column's codes last."""
    last = np.moveaxis(counts, axis, -1)
    return np.asarray(last / np.maximum(last.sum(-1, keepdims=True), 1e-9))


def _noise(answers: Answers, columns: Columns, axis: int) -> Floats:
    """The variance of the measured count of each cell, the column's codes last."""
    evidence = answers.evidence
    table = LeastSquares.of(evidence.strata.schema, evidence.all, columns)
    shape = [evidence.strata.schema[name].size for name in columns]
    if table is None:
        return np.full(np.moveaxis(np.empty(shape), axis, -1).shape, _NOT_MEASURED)
    lost = (table.missing**2).sum(1) > 1e-9 if table.missing.size else np.zeros(len(table.covariance), dtype=bool)
    variance = np.where(lost, _NOT_MEASURED, np.diag(table.covariance))
    return np.asarray(np.moveaxis(variance.reshape(shape), axis, -1))
