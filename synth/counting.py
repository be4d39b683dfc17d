"""Exact counts and noisy marginals of private rows.

Exact counts are private, so only a noise source can use them. The result of a noise source is a `Measurement`. If every
unit counts as one, the rows of a unit are counted in parts.
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

PARTS = 1024  # the number of parts of a unit that counts as one, which are shared by its rows


def measure_marginal(
    table: CodedTable,
    columns: Sequence[str],
    rho: Rho,
    budget: Budget,
    noise: NoiseSource,
    groups: Sequence[Merging] = (),
) -> Measurement:
    """Measure a marginal with discrete Gaussian noise.

    Parameters
    ----------
    table : CodedTable
        The private rows.
    columns : sequence of str
        The columns of the marginal.
    rho : Rho
        The privacy cost in zCDP.
    budget : Budget
        The budget, which is charged `rho` before the rows are counted.
    noise : NoiseSource
        The source of the noise.
    groups : sequence of tuple of int or None, default=()
        For each column, the group of each code. Codes of the same group are merged before they are counted. If None,
        the codes of the column are not merged.

    Returns
    -------
    Measurement
        The noisy counts. The noise has variance 1/(2ρ).

    Privacy
    -------
    The marginal is ρ-zCDP. Neighbouring tables differ by one added or removed row, which changes one cell by 1, so the
    L2 sensitivity is 1. If every unit counts as one (`Unit.weights`), neighbouring tables differ by one unit. Its rows
    add at most 1 in total, so the L2 sensitivity is again 1.

    References
    ----------
    .. [1] Canonne, Kamath and Steinke, arXiv:2004.00010, Theorem 4.
    """
    blank = Measurement(tuple(columns), np.zeros((1,) * len(columns)), 0.0, tuple(groups))

    def counts() -> npt.NDArray[Any]:
        return blank.merged(parts_counted(table, columns))

    what = f"marginal of {', '.join(columns) or 'the whole'}"
    parts = parts_of(table.schema)
    noisy, sigma = noise.gaussian(counts, float(parts), rho, budget, what)
    return Measurement(blank.columns, noisy.astype(float) / parts, sigma / parts, blank.groups)


def parts_of(schema: Schema) -> int:
    """Return the number of equal parts in which counts are kept.

    Counts in parts are whole numbers. The number is PARTS if every unit counts as one, and 1 otherwise.
    """
    return PARTS if schema.weighed else 1


def row_parts(schema: Schema) -> Counts:
    """Compute the parts that one row of a unit contributes, by the number of rows of the unit.

    A row of a unit with m rows contributes ⌊PARTS/m⌋ parts in total, so a unit contributes at most PARTS. The total is
    split between two codes: units of one row, and units of `at_most` rows. The parts of the first code plus `at_most`
    times the parts of the second code are one row, to within less than `at_most` parts. Therefore the two codes
    determine the number of rows, whatever the sizes of the units.

    Returns
    -------
    ndarray of shape (at_most, 2)
        The parts of one row for each of the two codes. Row m − 1 is for units of m rows.

    Examples
    --------
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
    """Count the rows over some columns, in parts (see `parts_of`).

    Parameters
    ----------
    table : CodedTable
        The private rows.
    columns : sequence of str
        The columns to count over.

    Returns
    -------
    ndarray
        The exact counts, with one axis per column.

    Privacy
    -------
    The counts are EXACT, so only a noise source can use them. If one row is added or removed, the counts change by up
    to `parts_of` parts in total. This is the sensitivity in every Lp norm. If every unit counts as one, it is the
    sensitivity for adding or removing one unit.
    """
    if not table.schema.weighed:
        return table.marginal(columns)
    inner = [name for name in columns if name != UNIT_ROWS]
    return in_parts(table.schema, columns, table.marginal([*inner, UNIT_ROWS]))


def in_parts(schema: Schema, columns: Sequence[str], rows: Counts) -> Counts:
    """Convert counts of rows into counts in parts.

    Parameters
    ----------
    schema : Schema
        The schema of the table.
    columns : sequence of str
        The columns of the result.
    rows : ndarray
        Counts of rows. The last axis is the number of rows of their unit.

    Returns
    -------
    ndarray
        Counts in parts, with one axis per column.
    """
    parts = rows @ row_parts(schema)
    if UNIT_ROWS not in columns:
        return np.asarray(parts.sum(axis=-1))
    return np.asarray(np.moveaxis(parts, -1, list(columns).index(UNIT_ROWS)))
