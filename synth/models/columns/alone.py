"""Estimates of single columns from the measurements of each column alone.

A numeric column of which only the bounds are declared has fine bins, which are measured in a tree. The estimates are
post-processing of noisy numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column, Schema
from equistrata.stats.trees import Tree, levels_of
from equistrata.stats.wavelets import denoised
from equistrata.synth.measurements import Measurement, Merging, Prediction, SummedMeasurement, root_mean_square

_LEAST_SIGMA = 1e-3  # the minimum standard deviation of a count that is used for weights


@dataclass(frozen=True, eq=False)
class Alone:
    """The estimated counts of a column from the measurements of this column alone.

    Parameters
    ----------
    raw, smooth : ndarray of shape (codes,)
        The counts of the codes by least squares, and the same counts after smoothing.
    tree : Tree or None, default=None
        The tree of the fine bins. It is None for other columns and if the column was not measured.
    deviations : ndarray of shape (codes − bins,)
        The standard deviations of the counts of the codes that are not bins.
    """

    raw: Floats
    smooth: Floats
    tree: Tree | None = None
    deviations: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, column: Column, measurements: Iterable[Measurement], prior: Floats | None = None) -> Alone:
        """Estimate the counts of a column by inverse-variance weighting.

        Parameters
        ----------
        column : Column
            The column.
        measurements : iterable of Measurement
            The measurements. Those of other columns are ignored.
        prior : ndarray or None, default=None
            The proportions of the fine bins, which are used if the measurements contain no information about them (see
            `Tree.posterior`).

        Returns
        -------
        Alone
            The estimates.
        """
        alone = [m for m in measurements if m.columns == (column.name,) and np.isfinite(m.sigma)]
        raw, sigma = joined([m for m in alone if m.groups == (None,)], column.size)
        if not np.isfinite(sigma).any():
            start = raw if prior is None else np.append(prior, np.zeros(column.size - column.bins))
            return cls(start, start)
        if not column.fine:
            return cls(raw, denoised(raw, root_mean_square(sigma)))
        levels, (beside, precision) = {0: (raw[: column.bins], sigma[: column.bins])}, _weighed(raw, sigma, column.bins)
        places = [_level(column, measurement.groups[0]) for measurement in alone]
        for level in sorted({place for place in places if place}):
            size = ((column.bins - 1) >> level) + 1
            own = [measurement for measurement, place in zip(alone, places, strict=True) if place == level]
            found, spread = joined(own, size + column.size - column.bins)
            levels[level] = (found[:size], spread[:size])
            weighed, more = _weighed(found, spread, size)
            beside, precision = beside + weighed, precision + more
        tree = Tree.of(column.bins, levels)
        others, noise = beside / precision, 1 / precision
        smooth = np.append(tree.posterior(prior), others)
        return cls(np.append(tree.least_squares, others), smooth, tree, np.sqrt(noise))

    def sums(self, column: Column, groups: Merging) -> SummedMeasurement:
        """Estimate the counts of groups of codes by least squares, and return them as one measurement."""
        assert self.tree is not None
        codes = np.arange(column.size) if groups is None else np.asarray(groups)
        ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        starts, beside = np.append(0, ends[:-1]), self.deviations**2
        bins = column.bins
        variances = [
            self.tree.variance(first, min(last, bins)) + float(beside[max(first - bins, 0) : max(last - bins, 0)].sum())
            for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        spread = np.bincount(codes[starts], variances)  # because of rules, a group can consist of several runs
        values = np.asarray(np.bincount(codes, self.raw), dtype=np.float64)
        return SummedMeasurement((column.name,), values, sqrt(float(spread.mean())), sigmas=np.sqrt(spread))


def proportions(schema: Schema, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Estimate the counts of fine bins.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    measurements : sequence of Measurement
        The measurements.

    Returns
    -------
    dict of str to ndarray
        For each measured column with fine bins, the posterior mean count of each bin, as an array of shape (bins,).
    """
    fine = [column for column in schema.columns if column.fine and not column.open]
    found = {column.name: (column, Alone.of(column, measurements)) for column in fine}
    return {name: each.smooth[: column.bins] for name, (column, each) in found.items() if each.tree is not None}


def tree_of(column: Column) -> tuple[Merging, ...]:
    """Return the groups with which a column with fine bins is measured.

    There is one grouping for each level of a tree of the bins (`levels_of`), starting with all codes. Codes that are
    not bins are separate nodes at each level.

    Parameters
    ----------
    column : Column
        The column.

    Returns
    -------
    tuple of tuple of int or None
        For each level, the group of each code. It is None if no codes are merged.
    """
    return tuple(_nodes(column, level) for level in levels_of(column.bins))


def is_of_tree(schema: Schema, measurement: Measurement) -> bool:
    """Return True if the groups of a measurement are a level of the tree of the bins of its column.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    measurement : Measurement
        The measurement.
    """
    alone = len(measurement.columns) == 1 and not isinstance(measurement, Prediction)
    column = schema[measurement.columns[0]] if alone else None
    return column is not None and column.fine and _level(column, measurement.groups[0]) is not None


def _nodes(column: Column, level: int) -> Merging:
    """Return the group of each code at a level of the tree, or None if no codes are merged."""
    last = (column.bins - 1) >> level
    beside = range(last + 1, last + 1 + column.size - column.bins)
    return (*(code >> level for code in range(column.bins)), *beside) if level else None


def _level(column: Column, nodes: Merging) -> int | None:
    """Return the level of the tree with these nodes, or None if there is no such level.

    Trees of earlier versions are also recognised.
    """
    if nodes is None:
        return 0
    level = nodes.count(0).bit_length() - 1
    return level if level > 0 and nodes == _nodes(column, level) else None


def joined(measurements: Sequence[Measurement], size: int) -> tuple[Floats, Floats]:
    """Combine measurements of the same counts by inverse-variance weighting.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements.
    size : int
        The number of counts.

    Returns
    -------
    counts : ndarray of shape (size,)
        The combined counts. A count without measurements is 0.
    sigma : ndarray of shape (size,)
        The standard deviations. They are infinite for counts without measurements.
    """
    sums, precision = np.zeros(size), np.zeros(size)
    for measurement in measurements:
        weight = 1 / np.maximum(measurement.cell_sigma, _LEAST_SIGMA) ** 2
        sums, precision = sums + weight * measurement.values, precision + weight
    with np.errstate(divide="ignore"):
        return np.divide(sums, precision, out=np.zeros(size), where=precision > 0), precision**-0.5


def _weighed(counts: Floats, sigma: Floats, first: int) -> tuple[Floats, Floats]:
    """Return the counts from index `first` multiplied by their precision, and the precision."""
    precision = sigma[first:] ** -2
    return counts[first:] * precision, precision
