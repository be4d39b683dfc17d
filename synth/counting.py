"""Marginals of private rows: counted, in parts where units count as one each, and measured by the call that charges.

Exact counts are private: only a noise source may see them. What it gives back is a `Measurement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement, Merging

PARTS = 1024  # of a unit that counts as one: its rows share them


def measure_marginal(
    table: CodedTable,
    columns: Sequence[str],
    rho: Rho,
    budget: Budget,
    noise: NoiseSource,
    groups: Sequence[Merging] = (),
) -> Measurement:
    """Measure one marginal with discrete Gaussian noise, codes merged by `groups` first.

    Cost: `rho` of `budget`, charged before rows are counted. Neighbours differ by one added or removed row, which
    changes one cell by one: L2 sensitivity 1, and variance 1/(2ρ) gives ρ-zCDP. Where units count as one each
    (`Unit.weights`), neighbours differ by one unit, which adds one in all: L2 sensitivity 1 again.

    Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Theorem 4.
    """
    blank = Measurement(tuple(columns), np.zeros((1,) * len(columns)), 0.0, tuple(groups))

    def counts() -> npt.NDArray[Any]:
        return blank.merged(parts_counted(table, columns))

    what = f"marginal of {', '.join(columns) or 'the whole'}"
    parts = parts_of(table.schema)
    noisy, sigma = noise.gaussian(counts, float(parts), rho, budget, what)
    return Measurement(blank.columns, noisy.astype(float) / parts, sigma / parts, blank.groups)


def parts_of(schema: Schema) -> int:
    """In how many equal parts counts are kept, so that they are whole: 1, or PARTS where units count as one each."""
    return PARTS if schema.weighed else 1


def row_parts(schema: Schema) -> Counts:
    """The parts of a row of a unit with m rows, shape (k, 2): of units of one row, and of units of k = `at_most` rows.

    They are ⌊PARTS/m⌋ in all, so a unit has PARTS at most. The first and k times the second are one row, to less than k
    parts: so two codes say how many rows there are, whatever the sizes of units.

    >>> from equistrata.data.schema import Column
    >>> from equistrata.data.units.unit import Unit
    >>> row_parts(Schema("people", (Column("SEX", values=(1, 2)),), unit=Unit("HOME", 3, weights="units"))).tolist()
    [[1024, 0], [256, 256], [0, 341]]
    """
    rows = np.arange(1, schema.unit.at_most + 1)
    parts = PARTS // rows
    many = np.minimum(np.rint((PARTS - parts) / (schema.unit.at_most - 1)).astype(np.int64), parts)
    return np.column_stack([parts - many, many])


def parts_counted(table: CodedTable, columns: Sequence[str]) -> Counts:
    """Exact counts over columns, one axis each, in parts (`parts_of`). Private: only a noise source may see them.

    Sensitivity: adding or removing a row (a unit, where these count as one each) adds up to `parts_of` in all, so that
    is the sensitivity in every Lp norm.
    """
    if not table.schema.weighed:
        return table.marginal(columns)
    inner = [name for name in columns if name != UNIT_ROWS]
    return in_parts(table.schema, columns, table.marginal([*inner, UNIT_ROWS]))


def in_parts(schema: Schema, columns: Sequence[str], rows: Counts) -> Counts:
    """Counts of rows, by how many rows their units have along the last axis, as counts over columns in parts."""
    parts = rows @ row_parts(schema)
    if UNIT_ROWS not in columns:
        return np.asarray(parts.sum(axis=-1))
    return np.asarray(np.moveaxis(parts, -1, list(columns).index(UNIT_ROWS)))
