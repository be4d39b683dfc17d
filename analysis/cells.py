"""The companion of a release's rows: each cell of its measured marginals, with an interval, and whether it is noise.

A cell is marked as noise where its interval includes 0 or is wider than the estimate: the rows may have people there or
not, and nothing should be said of them. Estimates are those of generalised least squares, by no model
(docs/proofs/estimates.md). Post-processing, no cost.
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
from equistrata.analysis.questions import widened
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.stats.checks import confidence
from equistrata.stats.independence import Interaction
from equistrata.stats.laws import NOISE_L1, upper_end
from equistrata.stats.proportional_fitting import with_sums
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import (
    Columns,
    Measurement,
    Summed,
    Where,
    at_level,
    cells_where,
    measured_pairs,
    summed,
)
from equistrata.synth.models.coarsening import Coarsening

CELLS = "cells.csv"  # its name in a release
MOST_CELLS = 600  # of a table
MOST_WORK = 2e9  # cells cubed, of all tables together: some ten seconds
CHANCE = 0.05  # that any pair of independent columns is called a relation
LEAST_KEPT = 0.5  # of a measured relation, that released rows have if they keep it
_RAKINGS = 50


@dataclass(eq=False)
class Solved:
    """Counts over columns and their variances, by least squares of all that was measured; each table is solved once.

    Of a table only these are kept: a covariance of all pairs of cells is large.

    Attributes:
        strata: the columns that define strata.
        apart: whether strata were measured one by one. Then a table by strata holds all that was measured, and sums
            over them are known better than by what is left of measurements of all rows.
    """

    schema: Schema
    measurements: Sequence[Measurement]
    strata: Columns
    apart: bool
    _known: dict[tuple[Columns, Columns], tuple[Floats, Floats] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> Solved:
        """Nothing is solved yet."""
        apart = any(measurement.where for measurement in evidence.all)
        return cls(evidence.strata.schema, evidence.all, evidence.strata.columns, apart)

    def cells(self, columns: Columns) -> int:
        return prod(self.schema[name].size for name in columns)

    def counts(self, columns: Columns, by: Columns) -> tuple[Floats, Floats] | None:
        """Shape (cells,) each; a variance of NOT_MEASURED where it was not. None if nothing of them was measured.

        Args:
            by: the columns of the table that is solved, of which `columns` are some.
        """
        if (columns, by) not in self._known:
            table = LeastSquares.of(self.schema, self.measurements, by)
            inner = at_level(self.schema, [name for name in by if name not in self.strata], ())
            for asked in {columns, by, inner} - {()}:
                self._known[asked, by] = None if table is None else self._sums(table, asked)
        return self._known[columns, by]

    def _sums(self, table: LeastSquares, columns: Columns) -> tuple[Floats, Floats]:
        counts = table.counts([measurement.values for measurement in self.measurements])
        if columns == table.columns:
            return counts, table.variance
        sums = widened(np.eye(self.cells(columns)), columns, table.columns, table.shape)
        variance = ((sums @ table.covariance) * sums).sum(1)
        return sums @ counts, np.where(table.has(sums), variance, NOT_MEASURED)


def noisy_cells(
    evidence: Evidence,
    level: float = 0.95,
    solved: Solved | None = None,
) -> pd.DataFrame:
    """A row for each cell of the one-way and two-way marginals that were measured, and of each column within strata.

    Two columns that were measured in strata alone are shown within strata.

    Columns: `columns`, those of the marginal; each column of the schema, with the released value (a bin by its words),
    empty where the marginal lacks it; `estimate`, `lower`, `upper`: a count of rows with its interval; `noise`.
    Small marginals first; those of more than MOST_CELLS cells, and what takes more than MOST_WORK, are left out. Where
    strata were measured one by one, others are sums over them, as far as these limits allow.

    Args:
        level: of the intervals, in (0, 1).
        solved: of the same evidence, with what was solved before.
    """
    confidence(level)
    names, frames, solved = evidence.names, [], solved or Solved.of(evidence)
    with one_thread():
        for columns, by in _with_strata(solved, list(_marginals(evidence))):
            found = _best(solved, columns, by)
            if found is not None:
                frames.append(_cells(evidence, columns, *found, level))
    frames = [frame for frame in frames if len(frame)]  # none where units count, and none of their sizes was measured
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return table.reindex(
        columns=["columns", *(heading(name, IN_CELLS) for name in names), "estimate", "lower", "upper", "noise"]
    )


def _with_strata(solved: Solved, marginals: Sequence[Columns]) -> Iterator[tuple[Columns, Columns]]:
    """Each marginal with the columns of the table that it is read from: its own, or those of the strata besides."""
    cells = {columns: solved.cells(columns) for columns in marginals}
    work = sum(each**3 for each in cells.values())
    for columns in marginals:
        by = at_level(solved.schema, columns, solved.strata) if solved.apart else columns
        if by not in cells:
            more = solved.cells(by)
            if more <= MOST_CELLS and work + more**3 <= MOST_WORK:
                cells[by], work = more, work + more**3
        yield columns, by if by in cells else columns


def _best(solved: Solved, columns: Columns, by: Columns) -> tuple[Floats, Floats] | None:
    """As `Solved.counts` by the wider table, and without it where that does not have a cell."""
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
    """Small ones first; each once."""
    schema, by = evidence.strata.schema, evidence.strata.columns
    wholes = [set(m.columns) for m in evidence.all if not m.where]
    parts = [m.involved for m in evidence.all if m.where]
    asked: list[Columns] = [(name,) for name in evidence.names]
    asked += combinations(evidence.names, 2)
    asked = [c if any(set(c) <= each for each in wholes) else at_level(schema, c, by) for c in asked]
    asked += [at_level(schema, (name,), by) for name in evidence.names]
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
    """The variance of counts that comes from rows that were held out, whole units of them together."""
    return np.asarray(evidence.held_out * evidence.strata.schema.unit.at_most * np.maximum(counts, 0.0))


def relation_errors(evidence: Evidence, solved: Solved | None = None) -> list[dict[str, Any]]:
    """Each pair of columns that was measured together, and the noise in it: the expected total variation distance of
    its measured shares from the real ones, ½ Σ √(2/π) σ of a cell over the rows, at most 1. Rows that were held out are
    part of it.

    Columns with fine bins count by the groups in which the pair was measured, unless strata were measured one by one.
    Each has `columns` and `error`, over all rows; None where that was not measured, and for tables of more than
    MOST_CELLS cells or more than MOST_WORK together.
    """
    work, found, solved = 0.0, [], solved or Solved.of(evidence)
    for pair in _measured_together(evidence.names, evidence.all):
        own, fitting = _in_groups(solved, pair), []
        levels = [(), evidence.strata.columns][:: -1 if own.apart else 1]
        for columns in (at_level(own.schema, pair, level) for level in levels):
            cells = own.cells(columns)
            fits = cells <= MOST_CELLS and work + cells**3 <= MOST_WORK
            work += cells**3 * fits
            fitting += [columns] * fits
        narrow = at_level(own.schema, pair, ())
        found_by = (own.counts(narrow, columns) for columns in fitting)
        whole = next((each for each in found_by if each is not None and (each[1] < NOT_MEASURED).all()), None)
        error = None
        if whole is not None:
            counts, variance = whole
            rows = max(float(counts.sum()), 1.0)
            others = 1 - np.clip(counts / rows, 0.0, 1.0)  # of a share: what is held out takes from the whole as well
            error = _distance(variance + _sampling(evidence, counts) * others, rows)
        found.append({"columns": list(pair), "error": error})
    return found


def _measured_together(names: Columns, measurements: Sequence[Measurement]) -> list[Columns]:
    return measured_pairs(names, [(*dict(m.where), *m.columns) for m in measurements])[0]


def kept_relations(evidence: Evidence, rows: CodedTable) -> list[Columns]:
    """The pairs of columns that depend on each other, as far as was measured, and do so in the released rows.

    A pair is kept if its measured counts are farther from independence than noise and sampling make them, at a level
    of CHANCE for all pairs together (`Interaction`), and the rows have LEAST_KEPT of that or more.

    Args:
        rows: the released ones.
    """
    unit, kept = evidence.strata.schema.unit, []
    alike = (
        1.0 if evidence.strata.schema.weighed else float(unit.at_most)
    )  # units are sampled, and count as one or more
    pairs = _measured_together(evidence.names, evidence.published)
    for pair in pairs:
        measured = _pair_counts(evidence, pair)
        if measured is None:
            continue
        counts = measured.values
        seen = Interaction.of(counts, measured.cell_sigma**2, alike)
        if seen.p_value < CHANCE / len(pairs) and len(rows):
            made = measured.merged(rows.marginal(pair)).astype(float) * (max(counts.sum(), 0.0) / len(rows))
            margins = [np.maximum(counts.sum(axis, keepdims=True), 0.0) for axis in (1, 0)]  # weights may be others
            kept += [pair] * (seen.share_in(with_sums(made, margins, _RAKINGS)) >= LEAST_KEPT)
    return kept


def _pair_counts(evidence: Evidence, pair: Columns) -> Measurement | None:
    """A pair's least noisy measurement, its cells' noise independent; None if it is of some strata alone, or of others
    in other groups of codes."""
    found: dict[Where, Measurement] = {}
    for each in evidence.published:
        if not isinstance(each, Summed) and each.involved.issuperset(pair):
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
    return Summed(pair, values, 0.0, groups, sigmas=np.sqrt(variance))


def _turned(measurement: Measurement, pair: Columns) -> Measurement:
    """With its axes in this order."""
    order = [measurement.columns.index(name) for name in pair if name in measurement.columns]
    columns = tuple(measurement.columns[axis] for axis in order)
    groups = tuple(measurement.groups[axis] for axis in order)
    return Measurement(columns, np.transpose(measurement.values, order), measurement.sigma, groups, measurement.where)


def _in_groups(solved: Solved, pair: Columns) -> Solved:
    """The same; of a pair with fine bins, in the groups in which it was measured."""
    schema, published = solved.schema, solved.measurements
    fine = [name for name in pair if schema[name].fine]
    if not fine or any(measurement.where for measurement in published):
        return solved
    groups = Coarsening.of(schema, [m for m in published if set(pair) <= set(m.columns)]).groups
    merged = Coarsening(schema, {name: groups[name] for name in fine if name in groups})
    own = [measurement for measurement in published if set(merged.groups) & set(measurement.columns)]
    rest = [measurement for measurement in published if not set(merged.groups) & set(measurement.columns)]
    return Solved(merged.schema, [*merged.coarse_all(own), *rest], solved.strata, apart=False)


def _distance(variance: Floats, rows: float) -> float:
    """The expected total variation distance of shares of so many rows, of counts with these variances; in [0, 1]."""
    return min(NOISE_L1 / 2 * float(np.sqrt(np.maximum(variance, 0.0)).sum()) / max(rows, 1.0), 1.0)
