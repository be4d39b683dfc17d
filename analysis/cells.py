"""The companion of a release's rows: each cell of its measured marginals, with an interval, and whether it is noise.

A cell is marked as noise where its interval includes 0 or is wider than the estimate: the rows may have people there or
not, and nothing should be said of them. Estimates are those of generalised least squares, by no model
(docs/proofs/estimates.md). Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from equistrata.analysis.evidence import Evidence
from equistrata.analysis.least_squares import NOT_MEASURED, LeastSquares
from equistrata.analysis.questions import named, widened
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.stats.checks import share
from equistrata.synth.measurements import NOISE_L1, Columns, Measurement, at_level, cells_where, measured_pairs
from equistrata.synth.models.coarsening import Coarsening

CELLS = "cells.csv"  # its name in a release
MOST_CELLS = 600  # of a table
MOST_WORK = 2e9  # cells cubed, of all tables together: some ten seconds


def noisy_cells(evidence: Evidence, level: float = 0.95) -> pd.DataFrame:
    """A row for each cell of the one-way and two-way marginals that were measured, and of each column within strata.

    Two columns that were measured in strata alone are shown within strata.

    Columns: `columns`, those of the marginal; each column of the schema, with the released value (a bin by its words),
    empty where the marginal lacks it; `estimate`, `lower`, `upper`: a count of rows with its interval; `noise`.
    Small marginals first; those of more than MOST_CELLS cells, and what takes more than MOST_WORK, are left out.

    Args:
        level: of the intervals, in (0, 1).
    """
    share("level", level)
    names, frames = evidence.names, []
    for columns in _marginals(evidence):
        table = LeastSquares.of(evidence.strata.schema, evidence.all, columns)
        if table is not None:
            frames.append(_cells(evidence, table, float(ndtri((1 + level) / 2))))
    frames = [frame for frame in frames if len(frame)]  # none where units count, and none of their sizes was measured
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return found.reindex(columns=["columns", *names, "estimate", "lower", "upper", "noise"])


def _marginals(evidence: Evidence) -> Iterator[Columns]:
    """Small ones first; each once."""
    schema, by = evidence.strata.schema, evidence.strata.columns
    wholes = [set(m.columns) for m in evidence.all if not m.where]
    parts = [m.involved for m in evidence.all if m.where]
    asked: list[Columns] = [(name,) for name in schema.names]
    asked += combinations(schema.names, 2)
    asked = [c if any(set(c) <= each for each in wholes) else at_level(schema, c, by) for c in asked]
    asked += [at_level(schema, (name,), by) for name in schema.names]
    held = [columns for columns in dict.fromkeys(asked) if any(set(columns) <= each for each in (*wholes, *parts))]
    cells = {columns: prod(schema[name].size for name in columns) for columns in held}
    work = 0
    for columns in sorted(held, key=lambda columns: cells[columns]):
        work += cells[columns] ** 3
        if cells[columns] > MOST_CELLS or work > MOST_WORK:
            break
        yield columns


def _cells(evidence: Evidence, table: LeastSquares, z: float) -> pd.DataFrame:
    schema, kept = evidence.strata.schema, 1 - evidence.held_out
    counts = table.counts([measurement.values for measurement in evidence.all])
    variance = table.variance + evidence.held_out * np.maximum(counts, 0.0)
    seen = table.variance < NOT_MEASURED
    codes = np.indices(table.shape).reshape(len(table.shape), -1)[:, seen]
    value, far = counts[seen] / kept, z * np.sqrt(variance[seen]) / kept
    called = {}
    for name, places in zip(table.columns, codes, strict=True):
        words = named(schema[name])
        called[name] = pd.Series([words[code] for code in places], dtype=object)
    return pd.DataFrame(
        {
            "columns": " × ".join(table.columns),
            **called,
            "estimate": value.round(1),
            "lower": np.maximum(value - far, 0.0).round(1),
            "upper": np.maximum(value + far, 0.0).round(1),
            "noise": (value <= far) | (2 * far > value),
        }
    )


def kept_relations(evidence: Evidence) -> list[dict[str, Any]]:
    """Each pair of columns that was measured together, and the noise in it: the expected total variation distance of
    its measured shares from the real ones, ½ Σ √(2/π) σ of a cell over the rows, at most 1.

    Columns with fine bins count by the groups in which the pair was measured, unless strata were measured one by one.
    Each has `columns`; `error`, over all rows; `groups`, the same within each stratum, by its label (of a pair with a
    column that defines strata: of the other one). None where that was not measured, where there are no strata, and for
    tables of more than MOST_CELLS cells or more than MOST_WORK together.
    """
    by, work, found = evidence.strata.columns, 0.0, []
    together = [(*dict(m.where), *m.columns) for m in evidence.all]
    for pair in measured_pairs(evidence.names, together)[0]:
        schema, published = _in_groups(evidence, pair)
        values, tables = [measurement.values for measurement in published], []
        for columns in (at_level(schema, pair, ()), at_level(schema, pair, by)):
            cells = prod(schema[name].size for name in columns)
            fits = cells <= MOST_CELLS and work + cells**3 <= MOST_WORK
            work += cells**3 * fits
            tables.append(LeastSquares.of(schema, published, columns) if fits else None)
        own, wide = tables
        error, groups = None, None
        for table in (own, wide):
            if error is None and table is not None:
                sizes = tuple(schema[name].size for name in at_level(schema, pair, ()))
                sums = widened(np.eye(prod(sizes)), at_level(schema, pair, ()), table.columns, table.shape)
                if table.has(sums).all():
                    variance = ((sums @ table.covariance) * sums).sum(1)
                    error = _distance(variance, float(table.counts(values).sum()))
        if wide is not None and by:
            counts, variance = (each.reshape(wide.shape) for each in (wide.counts(values), wide.variance))
            places = {
                key: cells_where(wide.columns, dict(evidence.strata.codes_of(key))) for key in evidence.strata.keys
            }
            known = {key: place for key, place in places.items() if (variance[place] < NOT_MEASURED / 2).all()}
            groups = {
                evidence.strata.label(key): _distance(variance[place], float(counts[place].sum()))
                for key, place in known.items()
            } or None
        found.append({"columns": list(pair), "error": error, "groups": groups})
    return found


def _in_groups(evidence: Evidence, pair: Columns) -> tuple[Schema, Sequence[Measurement]]:
    """The schema and all measurements; of the pair's columns with fine bins in the groups in which it was measured."""
    schema, published = evidence.strata.schema, evidence.all
    fine = [name for name in pair if schema[name].fine]
    if not fine or any(measurement.where for measurement in published):
        return schema, published
    groups = Coarsening.of(schema, [m for m in published if set(pair) <= set(m.columns)]).groups
    merged = Coarsening(schema, {name: groups[name] for name in fine if name in groups})
    own = [measurement for measurement in published if set(merged.groups) & set(measurement.columns)]
    rest = [measurement for measurement in published if not set(merged.groups) & set(measurement.columns)]
    return merged.schema, [*merged.coarse_all(own), *rest]


def _distance(variance: Floats, rows: float) -> float:
    """The expected total variation distance of shares of so many rows, of counts with these variances; in [0, 1]."""
    return min(NOISE_L1 / 2 * float(np.sqrt(np.maximum(variance, 0.0)).sum()) / max(rows, 1.0), 1.0)
