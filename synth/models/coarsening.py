"""Coarsening: codes of a column that no measurement of several columns tells apart are one code while a model is found.

A table of few rows cannot fill the cells of two columns of a hundred codes each. So a mechanism measures every column
at its full codes, and merges neighbouring codes before columns are measured together: into as many groups as the noise
of a pair allows (`groups_for`). Within a group, codes keep the shares that the column by itself was measured to have.
That loses nothing of what was measured: given the group, the maximum-entropy model holds a code independent of all
other columns. See docs/proofs/coarsening.md. Post-processing of noisy numbers.

>>> schema = Schema("ages", (Column("AGE", values=tuple(range(100))), Column("SEX", values=(1, 2))))
>>> alone = Measurement(("AGE",), np.linspace(80.0, 10.0, 100), 1.0)
>>> Coarsening.chosen(schema, [alone], most=4).schema.sizes, Coarsening.of(schema, [alone]).schema.sizes
((4, 2), (1, 2))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.laws import NOISE_L1
from equistrata.stats.trees import Tree, levels_of
from equistrata.stats.wavelets import denoised
from equistrata.synth.measurements import Columns, Measurement, Merging, Prediction, Summed, sum_groups
from equistrata.synth.models.base import Model, Tilting
from equistrata.synth.models.expanded import ExpandedModel, merged_schema
from equistrata.synth.models.possible import Indices, zero_classes

# Times the rows: the noise floor of a pair of merged columns; and where three of them in a clique would take more than
# a column's part of TRIPLE_CELLS, and within strata (docs/experiments/nist.md, docs/experiments/coarsening.md).
PAIR_NOISE, LOW_PAIR_NOISE = 0.3, 0.1
TRIPLE_CELLS = 320_000
FEWEST_GROUPS = 2
WIDE = 16  # codes: columns of no more, unless they are numbers without edges, are left alone
FINE_GROUPS = 64  # at most, of a numeric column without declared edges
# Times fewer groups of it where it is measured within strata, and how many at least (docs/experiments/coarsening.md).
STRATA_FEWER, STRATA_FEWEST = 2.0, 4.0
# A last group there that has more than these parts of the numbers' spread and of their rows is cut, so that the farther
# part has a third of what a group has at least (docs/experiments/coarsening.md).
STRATA_SPREAD, STRATA_ROWS, STRATA_FAR = 0.6, 0.25, 1 / 3
_REST = 0.5  # of what a group has at least: a rest of fewer rows is none of its own (docs/experiments/coarsening.md)
_NO_ROWS = 1e-9  # of the noise: a sum that is zero except for rounding


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Which codes of a schema's columns are merged.

    Attributes:
        fine: the schema with all codes.
        groups: for each column with merged codes, the group of each code; groups are numbered 0, 1, … without a gap.
    """

    fine: Schema
    groups: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, schema: Schema, measurements: Iterable[Measurement], kept: Columns = ()) -> Coarsening:
        """The coarsest of wide columns, and of those with fine bins, that loses nothing of these measurements and of
        the structural zeros.

        Args:
            kept: columns whose codes stay apart, those that define strata say.
        """
        distinctions: dict[str, list[Sequence[int] | Indices]] = {
            name: [[0] * schema[name].size] for name in schema.names
        }
        for measurement in measurements:
            if _is_of_tree(schema, measurement):
                continue
            for name, groups in zip(measurement.columns, measurement.groups, strict=True):
                if groups is not None or len(measurement.columns) > 1:
                    distinctions[name].append(range(schema[name].size) if groups is None else groups)
        for name in kept:
            distinctions[name].append(range(schema[name].size))
        for name, classes in _classes(schema).items():
            distinctions[name].append(classes)
        merged = {}
        for name, kinds in distinctions.items():
            _, codes = np.unique(np.stack([np.asarray(kind) for kind in kinds]), axis=1, return_inverse=True)
            if codes.max() + 1 < schema[name].size and (schema[name].size > WIDE or schema[name].fine):
                merged[name] = _numbered(codes.ravel())
        return cls(schema, merged)

    @classmethod
    def chosen(cls, schema: Schema, measurements: Iterable[Measurement], most: float, kept: Columns = ()) -> Coarsening:
        """Columns of more than `most` and WIDE codes, and those with fine bins, merged by what was measured of each
        alone: see `merge_codes`."""
        classes, groups, measurements = _classes(schema), {}, list(measurements)
        for measurement in measurements:
            name = measurement.columns[0] if len(measurement.columns) == 1 else ""
            limit = min(most, FINE_GROUPS) if name and schema[name].fine else most
            if name and schema[name].fine and schema[name].size <= max(limit, WIDE):
                limit = FINE_GROUPS  # rare codes alone: their noise would be rows far out
            elif name and schema[name].size <= max(limit, WIDE):
                continue
            if name and name not in kept and measurement.groups == (None,):
                if schema[name].fine:
                    counts = Alone.of(schema[name], measurements).smooth
                else:
                    counts = denoised(measurement.values, measurement.sigma)
                groups[name] = merge_codes(schema[name], counts, limit, classes[name])
                if schema[name].fine:
                    groups[name] = _without_rests(schema[name], groups[name], counts, limit, classes[name])
                    groups[name] = _with_tail(schema[name], groups[name], counts, limit, classes[name])
        return cls(schema, {name: merged for name, merged in groups.items() if max(merged) + 1 < len(merged)})

    def within_strata(self, measurements: Iterable[Measurement], most: float) -> dict[str, Merging]:
        """How merged columns with fine bins are merged further where they are measured within strata.

        What a number is off by in a stratum grows with the square root of the groups, and how rows are spread within
        groups is known of all rows together and smooth (`equistrata.synth.strata.density`). Not so of a long tail:
        where the last of few groups has most of the numbers' spread, strata differ within it, and it is cut in two.

        Args:
            most: as for `chosen`.
        """
        classes, found, measurements = _classes(self.schema), dict[str, Merging](), list(measurements)
        for name, groups in self.groups.items():
            column = self.fine[name]
            inner, beside = (np.unique(part) for part in np.split(np.asarray(groups), [column.bins]))
            if not column.fine or np.intersect1d(inner, beside).size or len(inner) <= STRATA_FEWEST:
                continue
            smooth = Alone.of(column, measurements).smooth
            counts = np.bincount(groups, smooth)
            numbers = Column(name, values=tuple(inner.tolist()))
            limit = max(min(most, FINE_GROUPS) / STRATA_FEWER, STRATA_FEWEST)
            merged = merge_codes(numbers, counts[inner], limit, classes[name][inner])
            merged = _without_rests(numbers, merged, counts[inner], limit, classes[name][inner])
            merged = _with_tail(numbers, merged, counts[inner], limit, classes[name][inner])
            own = np.asarray(merged)[np.searchsorted(inner, groups[: column.bins])]
            rows, spread = _rows_and_spread(column, smooth[: column.bins], own)
            if rows[-1] > STRATA_ROWS and spread[-1] > STRATA_SPREAD:
                merged = _far_out_apart(merged, counts[inner], STRATA_FAR / limit)
            codes = np.empty(len(counts), dtype=np.intp)
            codes[inner], codes[beside] = merged, max(merged) + 1 + np.arange(len(beside))
            if max(merged) + 1 < len(merged):
                found[name] = _numbered(codes)
        return found

    def as_before(
        self, former: Sequence[Measurement], within: Mapping[str, Merging]
    ) -> tuple[Coarsening, dict[str, Merging]]:
        """This coarsening, and the groups `within_strata`, with the groups that former measurements had, if any.

        Of a column's groups the finest are those of pairs over all rows; coarser ones are within strata.
        """
        groups, inner = dict(self.groups), dict(within)
        for name in self.fine.names:
            kinds = {
                dict(zip(each.columns, each.groups, strict=True))[name]
                for each in former
                if name in each.columns and len(each.columns) > 1
            }
            merged = sorted({kind for kind in kinds if kind}, key=max)
            if not kinds:
                continue
            groups.pop(name, None)
            inner.pop(name, None)
            if merged and None not in kinds:
                groups[name] = own = merged[-1]
                if len(merged) > 1:
                    inner[name] = tuple(merged[0][own.index(group)] for group in range(max(own) + 1))
        return replace(self, groups=groups), inner

    @cached_property
    def schema(self) -> Schema:
        """The schema of merged codes."""
        return merged_schema(self.fine, self.groups)

    def merged(self, table: CodedTable) -> CodedTable:
        """The rows with merged codes. Row by row, so neighbouring tables stay neighbours."""
        if not self.groups:
            return table
        codes = np.empty(table.codes.shape, dtype=code_dtype(self.schema), order="F")
        for place, name in enumerate(self.fine.names):
            codes[:, place] = table.column(name)
            if name in self.groups:
                codes[:, place] = np.asarray(self.groups[name])[table.column(name)]
        return CodedTable(codes, self.schema)

    def measured(self, measurement: Measurement) -> Measurement:
        """What was measured of the table of merged codes, as a measurement of the table with all codes."""
        groups = tuple(
            tuple(further[code] for code in own) if further is not None and own is not None else own or further
            for own, further in zip(map(self.groups.get, measurement.columns), measurement.groups, strict=True)
        )
        return replace(measurement, groups=groups) if any(groups) else measurement

    def coarse(self, measurement: Measurement) -> Measurement:
        """A measurement of the table with all codes as one of merged codes: counts add up, and so do their variances.

        What `of` was made from, or was measured on the table of merged codes, loses nothing. Of groups on either side,
        those of one have to be unions of the other's.
        """
        values, variance, sums = measurement.values, measurement.cell_sigma**2, False
        rest: list[Merging] = []
        for axis, (name, found) in enumerate(zip(measurement.columns, measurement.groups, strict=True)):
            own = self.groups.get(name)
            seen = found if found is not None else range(len(own or ()))
            finer = own is not None and (found is None or max(found) > max(own))
            if own is None or found is None:
                rest.append(found)
            elif finer:  # `found` tells apart what `own` does, and more
                rest.append(None)
            else:  # `own` tells apart what `found` does, and maybe more
                coarser = np.zeros(max(own) + 1, dtype=np.intp)
                coarser[list(own)] = found
                rest.append(None if len(coarser) == values.shape[axis] else tuple(coarser.tolist()))
            if own is not None and finer:
                groups = dict(zip(seen, own, strict=True))
                parts = tuple(groups[part] for part in range(len(groups)))
                values, variance = (sum_groups(part, axis, parts) for part in (values, variance))
                sums = True
        if not sums:
            return measurement if tuple(rest) == measurement.groups else replace(measurement, groups=tuple(rest))
        kind = type(measurement) if isinstance(measurement, Summed) else Summed
        sigmas = np.sqrt(variance)
        typical = float(sigmas.min()) if kind is Prediction else sqrt(float(variance.mean()))
        return kind(measurement.columns, values, typical, tuple(rest), sigmas=sigmas)

    def coarse_all(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Each as `coarse`; those of a tree of bins as one, by least squares."""
        measurements, found = list(measurements), list[Measurement]()
        for name in self.fine.names:
            if any(each.columns == (name,) and _is_of_tree(self.fine, each) for each in measurements):
                alone = Alone.of(self.fine[name], measurements)
                if alone.tree is not None:
                    found.append(alone.sums(self.fine[name], self.groups.get(name)))
        return [*(self.coarse(each) for each in measurements if not _is_of_tree(self.fine, each)), *found]

    def expanded(
        self,
        model: Tilting,
        measurements: Sequence[Measurement],
        schema: Schema | None = None,
        shares: Mapping[str, Floats] | None = None,
        priors: Mapping[str, Floats] | None = None,
    ) -> Model:
        """A model of merged codes as one of all codes, with shares within groups as columns alone were measured.

        Args:
            schema: of the result: `fine`, or the columns of it that the model has.
            shares: of the columns in which they are known, others as `shares`.
            priors: of columns with fine bins, see `shares`.
        """
        names = [name for name in model.schema.names if name in self.groups]
        if not names:
            return model
        known, prior = shares or {}, priors or {}
        found = {name: self.shares(name, measurements, prior.get(name)) for name in names if name not in known}
        groups = {name: self.groups[name] for name in names}
        return ExpandedModel(schema or self.fine, model, groups, {name: {**known, **found}[name] for name in names})

    def shares(self, name: str, measurements: Sequence[Measurement], prior: Floats | None = None) -> Floats:
        """P(code | group) of one column, shape (codes,), by what it alone was measured to hold, denoised.

        Args:
            prior: of fine bins: their proportions in a table of which this is a part.
        """
        return self.parts(name, Alone.of(self.fine[name], measurements, prior).smooth)

    def parts(self, name: str, counts: Floats) -> Floats:
        """P(code | group) of one column by its codes' counts, shape (codes,)."""
        groups, shares = np.asarray(self.groups[name]), np.zeros(len(counts))
        for group in range(int(groups.max()) + 1):
            codes = np.flatnonzero(groups == group)
            shares[codes] = _projected(counts[codes])
        return shares


def modelled(
    schema: Schema,
    measurements: Sequence[Measurement],
    estimate: Callable[[Schema, list[Measurement]], Tilting],
    priors: Mapping[str, Floats] | None = None,
) -> Model:
    """What `estimate` makes of measurements, found on merged codes (`Coarsening.of`) and expanded to all.

    Args:
        priors: of columns with fine bins, see `Coarsening.shares`.
    """
    coarsening = Coarsening.of(schema, measurements)
    coarse = coarsening.coarse_all(measurements)
    return coarsening.expanded(estimate(coarsening.schema, coarse), measurements, priors=priors)


def proportions(schema: Schema, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Columns with fine bins that were measured by themselves → their bins' posterior mean counts, shape (bins,)."""
    fine = [column for column in schema.columns if column.fine and not column.open]
    found = {column.name: (column, Alone.of(column, measurements)) for column in fine}
    return {name: each.smooth[: column.bins] for name, (column, each) in found.items() if each.tree is not None}


def groups_for(rho: float, rows: float, columns: int) -> float:
    """How many groups two columns may have: the noise floor of their pair is PAIR_NOISE of the rows, if models hold it.

    Args:
        rho: what the pair costs, in zCDP.
        rows: their number, as estimated from noisy numbers.
        columns: how many there are in all.

    >>> round(groups_for(0.0006, 40_000, 10), 1), round(groups_for(0.006, 40_000, 20), 1)
    (22.8, 25.2)
    """
    room = float((TRIPLE_CELLS / max(columns, 1)) ** (1 / 3))
    return max(min(groups_at(rho, rows, PAIR_NOISE), room), groups_at(rho, rows, LOW_PAIR_NOISE))


def groups_at(rho: float, rows: float, floor: float) -> float:
    """How many groups two columns may have so that the noise floor of their pair is this part of the rows.

    >>> round(groups_at(0.0006, 40_000, 0.1), 1)
    13.2
    """
    return max(sqrt(floor * max(rows, 0.0) / (NOISE_L1 * gaussian_sigma(rho))), FEWEST_GROUPS)


def merge_codes(column: Column, counts: Floats, most: float, classes: Indices) -> tuple[int, ...]:
    """The group of each code: runs of neighbours, in the declared order, of about an equal part of the rows each.

    A code with such a part of its own stays alone, and so do a numeric column's codes beside its bins.

    Args:
        counts: noisy, of each code.
        most: a group holds 1/most of the rows, or is the last of its run.
        classes: codes of different classes stay apart (`zero_classes`).

    >>> merge_codes(Column("X", values=(0, 1, 2, 3, 4, 5)), np.array([1., 2, 50, 4, 3, 40]), 4, np.zeros(6, np.intp))
    (0, 0, 1, 2, 2, 3)
    """
    counts = _projected(counts)
    least = 1 / most
    if column.numeric:
        beside = np.arange(column.size - column.bins)
        classes = np.append(classes[: column.bins], classes.max(initial=0) + 1 + beside)
    groups, group, held, last = [], -1, np.inf, None
    for count, kind in zip(counts, classes, strict=True):
        if held >= least or count >= least or kind != last:
            group, held = group + 1, 0.0
        groups.append(group)
        held, last = held + float(count), kind
    return tuple(groups)


def tree_of(column: Column) -> tuple[Merging, ...]:
    """How a column with fine bins is measured: at the levels of a tree of its bins (`levels_of`), all codes first.

    Other codes are nodes of their own at each level.
    """
    return tuple(_nodes(column, level) for level in levels_of(column.bins))


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


def _is_of_tree(schema: Schema, measurement: Measurement) -> bool:
    alone = len(measurement.columns) == 1 and not isinstance(measurement, Prediction)
    column = schema[measurement.columns[0]] if alone else None
    return column is not None and column.fine and _level(column, measurement.groups[0]) is not None


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
        raw, sigma = _joined([m for m in alone if m.groups == (None,)], column.size)
        if not np.isfinite(sigma):
            start = raw if prior is None else np.append(prior, np.zeros(column.size - column.bins))
            return cls(start, start)
        if not column.fine:
            return cls(raw, denoised(raw, sigma))
        levels, beside, precision = {0: (raw[: column.bins], sigma)}, raw[column.bins :] / sigma**2, sigma**-2
        places = [_level(column, measurement.groups[0]) for measurement in alone]
        for level in sorted({place for place in places if place}):
            size = ((column.bins - 1) >> level) + 1
            own = [measurement for measurement, place in zip(alone, places, strict=True) if place == level]
            found, spread = _joined(own, size + column.size - column.bins)
            levels[level] = (found[:size], spread)
            beside, precision = beside + found[size:] / spread**2, precision + spread**-2
        tree = Tree.of(column.bins, levels)
        others = beside / precision
        smooth = np.append(tree.posterior(prior), others)
        return cls(np.append(tree.least_squares, others), smooth, tree, np.full(len(others), precision**-0.5))

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


def _joined(measurements: Sequence[Measurement], size: int) -> tuple[Floats, float]:
    """Measurements of the same counts by inverse variance, and the standard deviation; zero and infinity of none."""
    sums, precision = np.zeros(size), 0.0
    for measurement in measurements:
        weight = 1 / max(measurement.sigma, 1e-3) ** 2
        sums, precision = sums + weight * measurement.values, precision + weight
    return (sums / precision, precision**-0.5) if precision else (sums, np.inf)


def _without_rests(
    column: Column, groups: tuple[int, ...], counts: Floats, most: float, classes: Indices
) -> tuple[int, ...]:
    """Groups in which a rest is in the group before it: the few rows (_REST) between a run that is full and a code that
    stays alone, as 39 hours before 40. It would have the noise of a group, and tell nothing.

    >>> counts = np.array([15.0, 15, 1, 45, 24])
    >>> _without_rests(Column("X", values=(0, 1, 2, 3, 4)), (0, 0, 1, 2, 3), counts, 4, np.zeros(5, np.intp))
    (0, 0, 0, 1, 2)
    """
    shares, bins, found = _projected(counts), column.bins or column.size, [0]
    starts = [groups.index(group) for group in range(max(groups) + 1)]
    masses = np.bincount(groups, shares)
    for before, start, after in zip(starts, starts[1:], starts[2:], strict=False):
        cut_short = after < bins and shares[after] >= 1 / most and masses[groups[start]] < _REST / most
        alone = shares[before] >= 1 / most  # a code of so many rows is a run by itself
        apart = not cut_short or alone or classes[before] != classes[start]
        found.append(found[-1] + int(apart))
    found.extend(range(found[-1] + 1, found[-1] + 1 + len(starts) - len(found)))
    return tuple(found[group] for group in groups)


def _with_tail(
    column: Column, groups: tuple[int, ...], counts: Floats, most: float, classes: Indices
) -> tuple[int, ...]:
    """Groups in which the rest of the last bins, of fewer rows than a group holds, is in the group before it."""
    bins = column.bins or column.size
    last = groups[bins - 1]
    rest = [code for code in range(bins) if groups[code] == last]
    small = _projected(counts)[rest].sum() * most < 1 and rest[0] > 0 and classes[rest[0]] == classes[rest[0] - 1]
    small = small and last >= FEWEST_GROUPS  # one group alone has no relation to anything
    return tuple(group - (group >= last) for group in groups) if small else groups


def _rows_and_spread(column: Column, counts: Floats, groups: Indices) -> tuple[Floats, Floats]:
    """Each group's part of the rows with a number, and of the absolute deviations of numbers from the mean of their
    group, shape (groups,)."""
    shares, middles = _projected(counts), drawn_numbers(column)
    rows = np.maximum(np.bincount(groups, shares), 1e-12)
    means = np.bincount(groups, shares * middles) / rows
    found = np.bincount(groups, shares * np.abs(middles - means[groups]))
    return rows, np.asarray(found / max(float(found.sum()), 1e-12))


def _far_out_apart(groups: tuple[int, ...], counts: Floats, least: float) -> tuple[int, ...]:
    """Groups of which the last is two, where its codes allow it: the farther one as small as it may be.

    Args:
        least: part of the rows in it.

    >>> _far_out_apart((0, 0, 1, 1, 1), np.array([20.0, 30, 30, 15, 5]), 0.1)
    (0, 0, 1, 2, 2)
    """
    last = groups.index(max(groups))
    far = np.cumsum(_projected(counts)[:last:-1])  # of the codes from the end to the second one of the last group
    if not len(far) or far[-1] < least:
        return groups
    start = len(groups) - 1 - int(np.argmax(far >= least))
    return tuple(group + (code >= start) for code, group in enumerate(groups))


def _classes(schema: Schema) -> dict[str, Indices]:
    return dict(zip(schema.names, zero_classes(schema.sizes, schema.names, schema.impossible), strict=True))


def _numbered(groups: Indices) -> tuple[int, ...]:
    """Groups numbered in the order in which codes meet them."""
    places: dict[int, int] = {}
    return tuple(places.setdefault(group, len(places)) for group in groups.tolist())


def _projected(counts: Floats) -> Floats:
    """The nearest non-negative numbers with the same sum, over it; equal parts if there is none."""
    total = float(counts.sum())
    if total <= _NO_ROWS * float(np.abs(counts).sum()):
        return np.full(len(counts), 1 / len(counts))
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - excess[np.flatnonzero(falling > excess)[-1]], 0.0) / total)
