"""Measured sizes of groups with the variance of their noise, for any number of groups."""

from __future__ import annotations

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement, Prediction

_EXACT = 1e-6  # the variance that is used for a public number (σ = 0)


def measured_sizes(evidence: Evidence, groups: Strata) -> tuple[Floats, Floats]:
    """Return the measured number of rows of each group and its variance.

    If there are at most MOST_CELLS groups, all measurements are combined by least squares. Otherwise, only the
    measurements that contain the count of each group are combined.

    Parameters
    ----------
    evidence : Evidence
        The measurements of a release.
    groups : Strata
        The k groups.

    Returns
    -------
    tuple of ndarray, each of shape (k,)
        The sizes and their variances. The variance is NOT_MEASURED if the size of a group was not measured.
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
    """Sum a table with the shape of a measurement over all other columns, and return it in the order of `axes`."""
    others = tuple(axis for axis, name in enumerate(measurement.columns) if name not in axes)
    left = [name for name in measurement.columns if name in axes]
    return np.transpose(table.sum(axis=others), [left.index(name) for name in axes])
