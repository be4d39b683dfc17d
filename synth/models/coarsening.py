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
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.tails import outer
from equistrata.stats.wavelets import denoised
from equistrata.synth.measurements import NOISE_L1, Columns, Measurement, Merging, Prediction, Summed, sum_groups
from equistrata.synth.models.base import Model, Tilting
from equistrata.synth.models.expanded import ExpandedModel, merged_schema
from equistrata.synth.models.possible import Indices, zero_classes

# Times the rows: the noise floor of a pair of merged columns (docs/experiments/coarsening.md).
PAIR_NOISE = 0.1
FEWEST_GROUPS = 2
WIDE = 16  # codes: columns of no more are left alone
FINE_GROUPS, RUNS = 64, 32  # at most, of a numeric column without declared edges


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
        """The coarsest of wide columns that loses nothing of these measurements and of the structural zeros.

        Args:
            kept: columns whose codes stay apart, those that define strata say.
        """
        distinctions: dict[str, list[Sequence[int] | Indices]] = {
            name: [[0] * schema[name].size] for name in schema.names
        }
        for measurement in measurements:
            if _is_of_runs(schema, measurement):
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
            if codes.max() + 1 < schema[name].size > WIDE:
                merged[name] = _numbered(codes.ravel())
        return cls(schema, merged)

    @classmethod
    def chosen(cls, schema: Schema, measurements: Iterable[Measurement], most: float, kept: Columns = ()) -> Coarsening:
        """Columns of more than `most` and WIDE codes, merged by what was measured of each alone: see `merge_codes`."""
        classes, groups, measurements = _classes(schema), {}, list(measurements)
        for measurement in measurements:
            name = measurement.columns[0] if len(measurement.columns) == 1 else ""
            limit = min(most, FINE_GROUPS) if name and schema[name].fine else most
            if name and name not in kept and schema[name].size > max(limit, WIDE) and measurement.groups == (None,):
                counts = denoised(measurement.values, measurement.sigma)
                if schema[name].fine:
                    counts = _Counts.of(schema[name], measurements).smooth
                groups[name] = merge_codes(schema[name], counts, limit, classes[name])
                if schema[name].fine:
                    groups[name] = _with_tail(schema[name], groups[name], counts, limit, classes[name])
        return cls(schema, {name: merged for name, merged in groups.items() if max(merged) + 1 < len(merged)})

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
        groups = tuple(self.groups.get(name) for name in measurement.columns)
        return replace(measurement, groups=groups) if any(groups) else measurement

    def coarse(self, measurement: Measurement) -> Measurement:
        """A measurement of the table with all codes as one of merged codes: counts add up, and so do their variances.

        What `of` was made from, or was measured on the table of merged codes, loses nothing.
        """
        values, variance, sums = measurement.values, measurement.cell_sigma**2, False
        rest: list[Merging] = []
        for axis, (name, found) in enumerate(zip(measurement.columns, measurement.groups, strict=True)):
            own = self.groups.get(name)
            if own is None or found is None:
                rest.append(found)
            else:  # `own` tells apart what `found` does, and maybe more
                coarser = np.zeros(max(own) + 1, dtype=np.intp)
                coarser[list(own)] = found
                rest.append(None if len(coarser) == values.shape[axis] else tuple(coarser.tolist()))
            if own is not None and found is None:
                values, variance = (sum_groups(part, axis, own) for part in (values, variance))
                sums = True
        if not sums:
            return measurement if tuple(rest) == measurement.groups else replace(measurement, groups=tuple(rest))
        kind = Prediction if isinstance(measurement, Prediction) else Summed
        sigmas = np.sqrt(variance)
        typical = sqrt(float(variance.mean())) if kind is Summed else float(sigmas.min())
        return kind(measurement.columns, values, typical, tuple(rest), sigmas=sigmas)

    def coarse_all(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Each as `coarse`, without those of `runs_of` a column: groups may end within a run."""
        return [self.coarse(each) for each in measurements if not _is_of_runs(self.fine, each)]

    def expanded(self, model: Tilting, measurements: Sequence[Measurement], schema: Schema | None = None) -> Model:
        """A model of merged codes as one of all codes, with shares within groups as columns alone were measured.

        Args:
            schema: of the result: `fine`, or the columns of it that the model has.
        """
        names = [name for name in model.schema.names if name in self.groups]
        if not names:
            return model
        shares = {name: self._shares(name, measurements) for name in names}
        return ExpandedModel(schema or self.fine, model, {name: self.groups[name] for name in names}, shares)

    def _shares(self, name: str, measurements: Sequence[Measurement]) -> Floats:
        """P(code | group) of one column, shape (codes,), by what it alone was measured to hold, denoised."""
        column, groups = self.fine[name], np.asarray(self.groups[name])
        counts = _Counts.of(column, measurements)
        shares = np.zeros(column.size)
        for group in range(int(groups.max()) + 1):
            codes = np.flatnonzero(groups == group)
            kept = counts.smooth[codes]
            if column.fine and codes[0] == 0:
                kept = counts.tail(column, codes, upper=False)
            if column.fine and codes[-1] == column.bins - 1:
                kept = counts.tail(column, codes, upper=True)
            shares[codes] = _projected(kept)
        return shares


def modelled(
    schema: Schema, measurements: Sequence[Measurement], estimate: Callable[[Schema, list[Measurement]], Tilting]
) -> Model:
    """What `estimate` makes of measurements, found on merged codes (`Coarsening.of`) and expanded to all."""
    coarsening = Coarsening.of(schema, measurements)
    coarse = coarsening.coarse_all(measurements)
    return coarsening.expanded(estimate(coarsening.schema, coarse), measurements)


def groups_for(rho: float, rows: float) -> float:
    """How many groups two columns may have so that the noise floor of their pair is PAIR_NOISE of the rows.

    Args:
        rho: what the pair costs, in zCDP.
        rows: their number, as estimated from noisy numbers.

    >>> round(groups_for(0.0006, 40_000), 1)
    13.2
    """
    return max(sqrt(PAIR_NOISE * max(rows, 0.0) / (NOISE_L1 * gaussian_sigma(rho))), FEWEST_GROUPS)


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


def runs_of(column: Column) -> tuple[int, ...]:
    """The run of each code of a column: RUNS of neighbouring bins, as many in each; other codes have runs of their own.

    Sums over runs are measured besides, so that the noise of many bins does not add up.
    """
    runs = min(RUNS, column.bins)
    bins = np.arange(column.bins) * runs // column.bins
    return (*bins.tolist(), *range(runs, runs + column.size - column.bins))


def _is_of_runs(schema: Schema, measurement: Measurement) -> bool:
    names = measurement.columns
    return len(names) == 1 and schema[names[0]].fine and measurement.groups == (runs_of(schema[names[0]]),)


@dataclass(frozen=True, eq=False)
class _Counts:
    """What a column by itself was measured to hold: counts of its codes, and the same smoothed, shape (codes,).

    Attributes:
        sigma: standard deviation of a raw count.
        runs: of each code, `runs_of` the column.
        of_runs: variance of the sum of the raw counts of each run.
    """

    raw: Floats
    smooth: Floats
    sigma: float
    runs: Indices
    of_runs: Floats

    @classmethod
    def of(cls, column: Column, measurements: Iterable[Measurement]) -> _Counts:
        """By inverse variance; sums over `runs_of` the column by all that was measured of them."""
        alone = [m for m in measurements if m.columns == (column.name,) and np.isfinite(m.sigma)]
        raw, sigma = _joined([m for m in alone if m.groups == (None,)], column.size)
        smooth = denoised(raw, sigma) if np.isfinite(sigma) else raw
        of_runs = [m for m in alone if column.fine and m.groups == (runs_of(column),)]
        runs = np.asarray(runs_of(column))
        codes = np.bincount(runs)
        of_run: Floats = np.multiply(codes, sigma**2)
        if of_runs and np.isfinite(sigma):
            (seen, spread), own = _joined(of_runs, len(codes)), np.bincount(runs, raw)
            sums = own + (seen - own) * of_run / (of_run + spread**2)
            raw, smooth = (x + ((sums - np.bincount(runs, x)) / codes)[runs] for x in (raw, smooth))
            of_run = np.asarray(1 / (1 / of_run + 1 / spread**2))
        return cls(raw, smooth, sigma, runs, of_run.astype(np.float64))

    def tail(self, column: Column, codes: Indices, upper: bool) -> Floats:
        """Counts of an outer group of bins (`equistrata.stats.tails`): in the last the density falls, in the first it
        falls or rises. A tail is Pareto's where fine bins grow wider outwards."""
        order = slice(None) if upper else slice(None, None, -1)
        edges, outwards = np.array(column.cuts)[order], np.arange(column.bins)[order]
        found = outer(
            self.raw[outwards],
            self.smooth[outwards],
            edges,
            self.sigma,
            self._beyond(outwards),
            start=column.bins - len(codes),
            rising=not upper,
            heavy=not column.layout and np.ptp(np.diff(column.cuts[1:-1])) > 1,
        )
        return np.asarray(found[order])

    def _beyond(self, codes: Indices) -> Floats:
        """Standard deviation of the sum of each of these codes and those after it: whole runs are known better."""
        runs, size = self.runs[codes], np.bincount(self.runs)[self.runs[codes]]
        ends = np.flatnonzero(np.append(np.diff(runs) != 0, True))
        end = ends[np.searchsorted(ends, np.arange(len(codes)))]
        part = (end - np.arange(len(codes)) + 1) / size  # of its run
        within = part**2 * self.of_runs[runs] + size * part * (1 - part) * self.sigma**2
        after = np.append(np.cumsum(self.of_runs[runs[ends]][::-1])[::-1][1:], 0.0)
        return np.asarray(np.sqrt(within + after[np.searchsorted(ends, end)]))


def _joined(measurements: Sequence[Measurement], size: int) -> tuple[Floats, float]:
    """Measurements of the same counts by inverse variance, and the standard deviation; zero and infinity of none."""
    sums, precision = np.zeros(size), 0.0
    for measurement in measurements:
        weight = 1 / max(measurement.sigma, 1e-3) ** 2
        sums, precision = sums + weight * measurement.values, precision + weight
    return (sums / precision, precision**-0.5) if precision else (sums, np.inf)


def _with_tail(
    column: Column, groups: tuple[int, ...], counts: Floats, most: float, classes: Indices
) -> tuple[int, ...]:
    """Groups in which the rest of the last bins, of fewer rows than a group holds, is in the group before it."""
    last = groups[column.bins - 1]
    rest = [code for code in range(column.bins) if groups[code] == last]
    small = _projected(counts)[rest].sum() * most < 1 and rest[0] > 0 and classes[rest[0]] == classes[rest[0] - 1]
    return tuple(group - (group >= last) for group in groups) if small else groups


def _classes(schema: Schema) -> dict[str, Indices]:
    return dict(zip(schema.names, zero_classes(schema.sizes, schema.names, schema.impossible), strict=True))


def _numbered(groups: Indices) -> tuple[int, ...]:
    """Groups numbered in the order in which codes meet them."""
    places: dict[int, int] = {}
    return tuple(places.setdefault(group, len(places)) for group in groups.tolist())


def _projected(counts: Floats) -> Floats:
    """The nearest non-negative numbers with the same sum, over it; equal parts if there is none."""
    total = float(counts.sum())
    if total <= 0:
        return np.full(len(counts), 1 / len(counts))
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - excess[np.flatnonzero(falling > excess)[-1]], 0.0) / total)
