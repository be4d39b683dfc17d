"""Intervals for each cell of the measured marginals, and whether the cell is noise.

This table accompanies the rows of a release. A cell is marked as noise if its interval includes 0 or is wider than the
estimate. In this case, the private table may or may not have rows in the cell, so nothing should be concluded about it.
The estimates are generalised least squares estimates, which do not depend on a model (docs/proofs/estimates.md). They
are computed by post-processing, so they cost no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import scipy

from equistrata.analysis.axes import named
from equistrata.analysis.headings import IN_CELLS, heading
from equistrata.analysis.questions import broadcast_functionals
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.stats.checks import confidence
from equistrata.stats.distributions import NOISE_L1, upper_end
from equistrata.stats.independence import Interaction
from equistrata.stats.proportional_fitting import fit_margins
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import (
    Columns,
    Measurement,
    SummedMeasurement,
    Where,
    cells_where,
    join_level_columns,
    measured_pairs,
    summed,
)
from equistrata.synth.models.coarsening import Coarsening

CELLS = "cells.csv"  # the name of the file in a release
MOST_CELLS = 600  # the maximum number of cells of a table
MOST_WORK = 2e9  # the maximum sum of cubed numbers of cells over all tables, which takes about ten seconds
CHANCE = 0.05  # the probability that at least one pair of independent columns is considered related
LEAST_KEPT = 0.5  # the share of a measured relation that the released rows must have to preserve it
_RAKINGS = 50


@dataclass(eq=False)
class CellEstimates:
    """Least squares estimates of counts with their variances. Each table is solved only once.

    Only the counts and variances of a table are stored, because the covariance matrix of all its cells is large.

    Attributes
    ----------
    schema : Schema
        The schema of the measurements.
    measurements : sequence of Measurement
        The measurements that are combined.
    strata : tuple of str
        The columns that define the strata.
    apart : bool
        If True, the strata were measured separately. In this case, a table by strata uses all measurements, and sums
        over the strata are more accurate than a table without the strata.
    """

    schema: Schema
    measurements: Sequence[Measurement]
    strata: Columns
    apart: bool
    _known: dict[tuple[Columns, Columns], tuple[Floats, Floats] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> CellEstimates:
        """Create an object in which no table is solved yet."""
        apart = any(measurement.where for measurement in evidence.all)
        return cls(evidence.strata.schema, evidence.all, evidence.strata.columns, apart)

    def cells(self, columns: Columns) -> int:
        return prod(self.schema[name].size for name in columns)

    def counts(self, columns: Columns, by: Columns) -> tuple[Floats, Floats] | None:
        """Return the estimated counts and their variances, each of shape (cells,).

        Parameters
        ----------
        columns : tuple of str
            The columns of the counts.
        by : tuple of str
            The columns of the table that is solved. They must include `columns`.

        Returns
        -------
        tuple of ndarray or None
            The counts and their variances. The variance of a cell is NOT_MEASURED if the cell was not measured. None if
            the table has too many cells or was not measured.
        """
        if (columns, by) not in self._known:
            table = LeastSquares.of(self.schema, self.measurements, by)
            inner = join_level_columns(self.schema, [name for name in by if name not in self.strata], ())
            for asked in {columns, by, inner} - {()}:
                self._known[asked, by] = None if table is None else self._sums(table, asked)
        return self._known[columns, by]

    def _sums(self, table: LeastSquares, columns: Columns) -> tuple[Floats, Floats]:
        counts = table.counts([measurement.values for measurement in self.measurements])
        if columns == table.columns:
            return counts, table.variance
        sums = broadcast_functionals(np.eye(self.cells(columns)), columns, table.columns, table.shape)
        variance = ((sums @ table.covariance) * sums).sum(1)
        return sums @ counts, np.where(table.has(sums), variance, NOT_MEASURED)


def noisy_cells(
    evidence: Evidence,
    level: float = 0.95,
    solved: CellEstimates | None = None,
) -> pd.DataFrame:
    """Estimate each cell of the measured one-way and two-way marginals, and of each column within the strata.

    If two columns were only measured within the strata, then the cells are those of the marginal by strata. The
    smallest marginals come first. Marginals with more than MOST_CELLS cells are left out, and so are the marginals that
    would exceed MOST_WORK. If the strata were measured separately, the other marginals are sums over the strata, as far
    as these limits allow.

    Parameters
    ----------
    evidence : Evidence
        The measurements of a release.
    level : float
        The level of the intervals, in (0, 1).
    solved : Solved, optional
        Tables of the same evidence that were solved before.

    Returns
    -------
    DataFrame
        One row per cell. `columns` contains the columns of the marginal. There is one column for each column of the
        schema with the released value, or with the words of a bin. It is empty if the marginal does not include the
        column. `estimate`, `lower` and `upper` are a count of rows and its interval. `noise` is True if the cell is
        noise.
    """
    confidence(level)
    names, frames, solved = evidence.names, [], solved or CellEstimates.of(evidence)
    with one_thread():
        for columns, by in _with_strata(solved, list(_marginals(evidence))):
            found = _best(solved, columns, by)
            if found is not None:
                frames.append(_cells(evidence, columns, *found, level))
    frames = [frame for frame in frames if len(frame)]  # empty if units count and their sizes were not measured
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return table.reindex(
        columns=["columns", *(heading(name, IN_CELLS) for name in names), "estimate", "lower", "upper", "noise"]
    )


def _with_strata(solved: CellEstimates, marginals: Sequence[Columns]) -> Iterator[tuple[Columns, Columns]]:
    """Yield each marginal with the columns of the table from which it is computed, which may include the strata."""
    cells = {columns: solved.cells(columns) for columns in marginals}
    work = sum(each**3 for each in cells.values())
    for columns in marginals:
        by = join_level_columns(solved.schema, columns, solved.strata) if solved.apart else columns
        if by not in cells:
            more = solved.cells(by)
            if more <= MOST_CELLS and work + more**3 <= MOST_WORK:
                cells[by], work = more, work + more**3
        yield columns, by if by in cells else columns


def _best(solved: CellEstimates, columns: Columns, by: Columns) -> tuple[Floats, Floats] | None:
    """Return the counts of the wider table, with missing cells filled in from the narrower table."""
    wide = solved.counts(columns, by)
    if wide is not None and (wide[1] < NOT_MEASURED).all():
        return wide
    narrow = solved.counts(columns, columns)
    if wide is None or narrow is None:
        return wide or narrow
    lacks = wide[1] >= NOT_MEASURED
    counts, variance = (np.where(lacks, one, other) for one, other in zip(narrow, wide, strict=True))
    return np.asarray(counts), np.asarray(variance)


def _marginals(evidence: Evidence) -> Iterator[Columns]:
    """Yield the columns of each marginal once, in increasing order of the number of cells."""
    schema, by = evidence.strata.schema, evidence.strata.columns
    wholes = [set(m.columns) for m in evidence.all if not m.where]
    parts = [m.involved for m in evidence.all if m.where]
    asked: list[Columns] = [(name,) for name in evidence.names]
    asked += combinations(evidence.names, 2)
    asked = [c if any(set(c) <= each for each in wholes) else join_level_columns(schema, c, by) for c in asked]
    asked += [join_level_columns(schema, (name,), by) for name in evidence.names]
    held = [columns for columns in dict.fromkeys(asked) if any(set(columns) <= each for each in (*wholes, *parts))]
    cells = {columns: prod(schema[name].size for name in columns) for columns in held}
    work = 0
    for columns in sorted(held, key=lambda columns: cells[columns]):
        work += cells[columns] ** 3
        if cells[columns] > MOST_CELLS or work > MOST_WORK:
            break
        yield columns


def _cells(evidence: Evidence, columns: Columns, counts: Floats, variance: Floats, level: float) -> pd.DataFrame:
    schema, kept, seen = evidence.strata.schema, 1 - evidence.held_out, variance < NOT_MEASURED
    variance = variance + _sampling(evidence, counts)
    shape = [schema[name].size for name in columns]
    codes = np.indices(shape).reshape(len(shape), -1)[:, seen]
    value, error = counts[seen] / kept, np.sqrt(variance[seen]) / kept
    far = float(scipy.special.ndtri((1 + level) / 2)) * error
    called = {}
    for name, places in zip(columns, codes, strict=True):
        words = named(schema[name])
        called[heading(name, IN_CELLS)] = pd.Series([words[code] for code in places], dtype=object)
    return pd.DataFrame(
        {
            "columns": " × ".join(columns),
            **called,
            "estimate": value.round(1),
            "lower": np.maximum(value - far, 0.0).round(1),
            "upper": upper_end(value, error, level).round(1),
            "noise": (value <= far) | (2 * far > value),
        }
    )


def _sampling(evidence: Evidence, counts: Floats) -> Floats:
    """Return the variance of counts due to rows that were held out, because whole units are held out together."""
    return np.asarray(evidence.held_out * evidence.strata.schema.unit.at_most * np.maximum(counts, 0.0))


def relation_errors(evidence: Evidence, solved: CellEstimates | None = None) -> list[dict[str, Any]]:
    """Compute the expected error of each pair of columns that was measured together.

    The error is the expected total variation distance between the measured shares and the real ones. It is computed as
    ½ Σ √(2/π) σ over all cells, divided by the number of rows, and is at most 1. It includes the error due to rows that
    were held out. For columns with fine bins, the error refers to the groups in which the pair was measured, unless the
    strata were measured separately.

    Parameters
    ----------
    evidence : Evidence
        The measurements of a release.
    solved : Solved, optional
        Tables of the same evidence that were solved before.

    Returns
    -------
    list of dict
        One dictionary per pair, with `columns` and the `error` over all rows. The error is None if the pair was not
        measured over all rows or if its table is too large (MOST_CELLS and MOST_WORK).
    """
    work, found, solved = 0.0, [], solved or CellEstimates.of(evidence)
    for pair in _measured_together(evidence.names, evidence.all):
        own, fitting = _in_groups(solved, pair), []
        levels = [(), evidence.strata.columns][:: -1 if own.apart else 1]
        for columns in (join_level_columns(own.schema, pair, level) for level in levels):
            cells = own.cells(columns)
            fits = cells <= MOST_CELLS and work + cells**3 <= MOST_WORK
            work += cells**3 * fits
            fitting += [columns] * fits
        narrow = join_level_columns(own.schema, pair, ())
        found_by = (own.counts(narrow, columns) for columns in fitting)
        whole = next((each for each in found_by if each is not None and (each[1] < NOT_MEASURED).all()), None)
        error = None
        if whole is not None:
            counts, variance = whole
            rows = max(float(counts.sum()), 1.0)
            others = 1 - np.clip(counts / rows, 0.0, 1.0)  # held-out rows also reduce the total
            error = _distance(variance + _sampling(evidence, counts) * others, rows)
        found.append({"columns": list(pair), "error": error})
    return found


def _measured_together(names: Columns, measurements: Sequence[Measurement]) -> list[Columns]:
    return measured_pairs(names, [(*dict(m.where), *m.columns) for m in measurements])[0]


def kept_relations(evidence: Evidence, rows: CodedTable) -> list[Columns]:
    """Return the pairs of columns with a measured relation that is preserved in the released rows.

    A pair is related if its measured counts are farther from independence than noise and sampling can explain. The
    level of this test is CHANCE for all pairs together (see `Interaction`). The relation is preserved if its size in
    the released rows is at least LEAST_KEPT of the measured size.

    Parameters
    ----------
    evidence : Evidence
        The measurements of a release.
    rows : CodedTable
        The released rows.

    Returns
    -------
    list of tuple of str
        The pairs of columns.
    """
    unit, kept = evidence.strata.schema.unit, []
    alike = (
        1.0 if evidence.strata.schema.weighed else float(unit.at_most)
    )  # units are sampled, and each of them has one or more rows
    pairs = _measured_together(evidence.names, evidence.published)
    for pair in pairs:
        measured = _pair_counts(evidence, pair)
        if measured is None:
            continue
        counts = measured.values
        seen = Interaction.of(counts, measured.cell_sigma**2, alike)
        if seen.p_value < CHANCE / len(pairs) and len(rows):
            made = measured.merged(rows.marginal(pair)).astype(float) * (max(counts.sum(), 0.0) / len(rows))
            margins = [np.maximum(counts.sum(axis, keepdims=True), 0.0) for axis in (1, 0)]  # weights may differ
            kept += [pair] * (seen.share_in(fit_margins(made, margins, _RAKINGS)) >= LEAST_KEPT)
    return kept


def _pair_counts(evidence: Evidence, pair: Columns) -> Measurement | None:
    """Return the least noisy measurement of a pair of columns, with independent noise in its cells.

    Returns None if only some of the strata were measured, or if the strata were measured in different groups of codes.
    """
    found: dict[Where, Measurement] = {}
    for each in evidence.published:
        if not isinstance(each, SummedMeasurement) and each.involved.issuperset(pair):
            part = _turned(summed(each, pair), pair)
            if each.where not in found or part.sigma < found[each.where].sigma:
                found[each.where] = part
    if () in found or not found:
        return found.get(())
    if len(found) < len(evidence.strata.keys) or len({part.groups for part in found.values()}) > 1:
        return None
    own = found[next(iter(found))]
    schema, inner = evidence.strata.schema, dict(zip(own.columns, own.groups, strict=True))
    groups = tuple(inner.get(name) for name in pair)
    sizes = [schema[name].size if of is None else max(of) + 1 for name, of in zip(pair, groups, strict=True)]
    values, variance = np.zeros(sizes), np.zeros(sizes)
    for where, part in found.items():
        cells = cells_where(pair, dict(where))
        values[cells] += part.values
        variance[cells] += part.sigma**2
    return SummedMeasurement(pair, values, 0.0, groups, sigmas=np.sqrt(variance))


def _turned(measurement: Measurement, pair: Columns) -> Measurement:
    """Return the measurement with its axes in the order of `pair`."""
    order = [measurement.columns.index(name) for name in pair if name in measurement.columns]
    columns = tuple(measurement.columns[axis] for axis in order)
    groups = tuple(measurement.groups[axis] for axis in order)
    return Measurement(columns, np.transpose(measurement.values, order), measurement.sigma, groups, measurement.where)


def _in_groups(solved: CellEstimates, pair: Columns) -> CellEstimates:
    """Return `solved`, or for a pair with fine bins, a version in the groups in which the pair was measured."""
    schema, published = solved.schema, solved.measurements
    fine = [name for name in pair if schema[name].fine]
    if not fine or any(measurement.where for measurement in published):
        return solved
    groups = Coarsening.of(schema, [m for m in published if set(pair) <= set(m.columns)]).groups
    merged = Coarsening(schema, {name: groups[name] for name in fine if name in groups})
    own = [measurement for measurement in published if set(merged.groups) & set(measurement.columns)]
    rest = [measurement for measurement in published if not set(merged.groups) & set(measurement.columns)]
    return CellEstimates(merged.schema, [*merged.coarse_all(own), *rest], solved.strata, apart=False)


def _distance(variance: Floats, rows: float) -> float:
    """Return the expected total variation distance of shares, in [0, 1], from the variances of their counts."""
    return min(NOISE_L1 / 2 * float(np.sqrt(np.maximum(variance, 0.0)).sum()) / max(rows, 1.0), 1.0)
