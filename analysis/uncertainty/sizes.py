"""The measured sizes of groups, with the variance of their noise, also of more groups than a covariance is made for."""

from __future__ import annotations

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement, Prediction

_EXACT = 1e-6  # the variance of a public number (σ = 0)


def measured_sizes(evidence: Evidence, groups: Strata) -> tuple[Floats, Floats]:
    """The measured rows of each group, and their variances, NOT_MEASURED where there are none; shape (k,).

    By all that was measured; of more than MOST_CELLS groups, by what has each of them by itself.
    """
    known = LeastSquares.of(groups.schema, evidence.all, groups.columns)
    if known is not None:
        cells = [int(np.ravel_multi_index(tuple(groups.codes_of(key).values()), known.shape)) for key in groups.keys]
        return known.counts([measurement.values for measurement in evidence.all])[cells], known.variance[cells]
    precision, sums = np.zeros(groups.sizes), np.zeros(groups.sizes)
    for each in evidence.all:
        fixed, axes = dict(each.where), [name for name in groups.columns if name not in dict(each.where)]
        whole = [name for name, merged in zip(each.columns, each.groups, strict=True) if merged is None]
        if isinstance(each, Prediction) or not {*axes} <= {*whole} or not {*fixed} <= {*groups.columns}:
            continue
        place = tuple(fixed.get(name, slice(None)) for name in groups.columns)
        values, variances = (_summed(each, table, axes) for table in (each.values, each.cell_sigma**2))
        precision[place] += 1 / np.maximum(variances, _EXACT)
        sums[place] += values / np.maximum(variances, _EXACT)
    codes = np.array([[*groups.codes_of(key).values()] for key in groups.keys]).T
    seen, totals = precision[tuple(codes)], sums[tuple(codes)]
    return totals / np.maximum(seen, 1 / NOT_MEASURED), np.where(seen > 0, 1 / np.maximum(seen, 1e-300), NOT_MEASURED)


def _summed(measurement: Measurement, table: Floats, axes: list[str]) -> Floats:
    """A table of a measurement's shape over these of its columns alone, in this order."""
    others = tuple(axis for axis, name in enumerate(measurement.columns) if name not in axes)
    left = [name for name in measurement.columns if name in axes]
    return np.transpose(table.sum(axis=others), [left.index(name) for name in axes])
