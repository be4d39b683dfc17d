"""What columns by themselves were measured to hold: by code, and in a tree of bins where only bounds are declared.

Post-processing of noisy numbers.
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
from equistrata.synth.measurements import Measurement, Merging, Prediction, Summed, root_mean_square

_LEAST_SIGMA = 1e-3  # of a count, for weights


@dataclass(frozen=True, eq=False)
class Alone:
    """What a column by itself was measured to hold.

    Attributes:
        raw, smooth: counts of its codes, by least squares, and the same smoothed, shape (codes,).
        tree: of its fine bins; None for other columns, and where it was not measured.
        deviations: of what is beside the bins, shape (codes − bins,).
    """

    raw: Floats
    smooth: Floats
    tree: Tree | None = None
    deviations: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, column: Column, measurements: Iterable[Measurement], prior: Floats | None = None) -> Alone:
        """By inverse variance.

        Args:
            prior: of fine bins, their proportions where nothing is seen of them; see `Tree.posterior`.
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

    def sums(self, column: Column, groups: Merging) -> Summed:
        """Least squares of the groups' counts, as one measurement."""
        assert self.tree is not None
        codes = np.arange(column.size) if groups is None else np.asarray(groups)
        ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        starts, beside = np.append(0, ends[:-1]), self.deviations**2
        bins = column.bins
        variances = [
            self.tree.variance(first, min(last, bins)) + float(beside[max(first - bins, 0) : max(last - bins, 0)].sum())
            for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        spread = np.bincount(codes[starts], variances)  # a group may be of several runs, by rules
        values = np.asarray(np.bincount(codes, self.raw), dtype=np.float64)
        return Summed((column.name,), values, sqrt(float(spread.mean())), sigmas=np.sqrt(spread))


def proportions(schema: Schema, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Columns with fine bins that were measured by themselves → their bins' posterior mean counts, shape (bins,)."""
    fine = [column for column in schema.columns if column.fine and not column.open]
    found = {column.name: (column, Alone.of(column, measurements)) for column in fine}
    return {name: each.smooth[: column.bins] for name, (column, each) in found.items() if each.tree is not None}


def tree_of(column: Column) -> tuple[Merging, ...]:
    """How a column with fine bins is measured: at the levels of a tree of its bins (`levels_of`), all codes first.

    Other codes are nodes of their own at each level.
    """
    return tuple(_nodes(column, level) for level in levels_of(column.bins))


def is_of_tree(schema: Schema, measurement: Measurement) -> bool:
    """Whether it is of a level of the tree of its column's bins."""
    alone = len(measurement.columns) == 1 and not isinstance(measurement, Prediction)
    column = schema[measurement.columns[0]] if alone else None
    return column is not None and column.fine and _level(column, measurement.groups[0]) is not None


def _nodes(column: Column, level: int) -> Merging:
    """The group of each code at a level of the tree; None where no codes are merged."""
    last = (column.bins - 1) >> level
    beside = range(last + 1, last + 1 + column.size - column.bins)
    return (*(code >> level for code in range(column.bins)), *beside) if level else None


def _level(column: Column, nodes: Merging) -> int | None:
    """The level of the tree that has these nodes, in this version or an earlier one; None if there is none."""
    if nodes is None:
        return 0
    level = nodes.count(0).bit_length() - 1
    return level if level > 0 and nodes == _nodes(column, level) else None


def joined(measurements: Sequence[Measurement], size: int) -> tuple[Floats, Floats]:
    """Measurements of the same counts by inverse variance, and the standard deviation of each, shapes (size,); zero and
    infinity of what none has."""
    sums, precision = np.zeros(size), np.zeros(size)
    for measurement in measurements:
        weight = 1 / np.maximum(measurement.cell_sigma, _LEAST_SIGMA) ** 2
        sums, precision = sums + weight * measurement.values, precision + weight
    with np.errstate(divide="ignore"):
        return np.divide(sums, precision, out=np.zeros(size), where=precision > 0), precision**-0.5


def _weighed(counts: Floats, sigma: Floats, first: int) -> tuple[Floats, Floats]:
    """Counts from `first` on, times their precision, and that."""
    precision = sigma[first:] ** -2
    return counts[first:] * precision, precision
