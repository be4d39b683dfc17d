"""The companion of a release's rows: each cell of its measured marginals, with an interval, and whether it is noise.

A cell is marked as noise where its interval includes 0 or is wider than the estimate: the rows may have people there or
not, and nothing should be said of them. Estimates are those of generalised least squares, by no model
(docs/proofs/estimates.md). Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

import numpy as np
import pandas as pd
from scipy.special import ndtri

from equistrata.analysis.evidence import Evidence
from equistrata.analysis.least_squares import NOT_MEASURED, LeastSquares
from equistrata.analysis.questions import named
from equistrata.stats.checks import share
from equistrata.synth.measurements import Columns, at_level

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
    parts = [{*m.columns, *dict(m.where)} for m in evidence.all if m.where]
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
