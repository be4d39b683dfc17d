"""Post-stratification of synthetic rows to control totals.

The rows agree with control totals either by their weights, or by the number of rows of each cell. In
post-stratification [1]_, each weight is multiplied by the total of its cell and divided by the sum of the weights of
this cell. Both methods are post-processing of drawn rows with public totals and have no privacy cost.

References
----------
.. [1] Holt and Smith (1979), Post Stratification, JRSS A 142, 33.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Schema
from equistrata.data.survey.controls import Controls
from equistrata.data.table import CodedTable
from equistrata.data.weights import whole_parts
from equistrata.errors import InputError
from equistrata.synth.strata.exchange import RuleChanges, satisfies_rules
from equistrata.synth.strata.model import StratifiedModel

_DONORS = 1000  # the number of rows that are drawn for a cell that is empty in the model


def poststratified(weights: Floats, cells: Indices, totals: Floats) -> Floats:
    """Adjust weights to the total of each cell.

    Within a cell, the weights keep their proportions. If all weights of a cell are 0, its rows get equal weights.

    Parameters
    ----------
    weights : ndarray of shape (rows,)
        The non-negative weights.
    cells : ndarray of int, shape (rows,)
        The cell of each row, as an index into `totals`. A cell with a positive total must have at least one row.
    totals : ndarray of shape (cells,)
        The total of each cell.

    Returns
    -------
    ndarray of shape (rows,)
        The adjusted weights.

    Examples
    --------
    >>> poststratified(np.array([1.0, 3.0, 0.0]), np.array([0, 0, 1]), np.array([8.0, 5.0])).tolist()
    [2.0, 6.0, 5.0]
    """
    rows, sums = (np.bincount(cells, each, len(totals)) for each in (None, weights))
    none = ~(sums > 0)
    sums = np.where(none, rows, sums)
    factors = np.divide(totals, sums, out=np.zeros(len(totals)), where=sums > 0)
    return np.asarray(np.where(none[cells], 1.0, weights) * factors[cells])


def calibrate_weights(controls: Controls, frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Adjust the weights of released rows to the control totals.

    Totals of cells without rows are not reached.

    Parameters
    ----------
    controls : Controls
        The control totals.
    frame : DataFrame
        The released rows, which have a survey weight.
    schema : Schema
        The schema of the rows.

    Returns
    -------
    DataFrame
        The rows with adjusted weights.
    """
    table, name = CodedTable.encode(frame, schema.coded()), str(schema.survey_weight)
    weights = frame[name].to_numpy(dtype=np.float64)
    return frame.assign(**{name: poststratified(weights, controls.cells_of(table), controls.totals.ravel())})


def with_all_cells(
    table: CodedTable, model: StratifiedModel, controls: Controls, rng: np.random.Generator, changed: list[RuleChanges]
) -> tuple[CodedTable, int]:
    """Replace rows so that each cell with a positive total has at least one row.

    A row of the largest cell is replaced by a row that the model draws for the empty cell. There must be at least as
    many rows as cells with a positive total.

    Parameters
    ----------
    table : CodedTable
        The drawn rows.
    model : StratifiedModel
        The model that draws the new rows.
    controls : Controls
        The control totals.
    rng : numpy.random.Generator
        The random number generator.
    changed : list of Changed
        A list to which the numbers of rows that were changed by rules are appended.

    Returns
    -------
    table : CodedTable
        The rows.
    replaced : int
        The number of replaced rows.

    Raises
    ------
    InputError
        If no row of a cell can satisfy the rules of the schema.
    """
    cells, codes = controls.cells_of(table), table.codes.copy(order="F")
    counts = np.bincount(cells, minlength=controls.totals.size)
    empty = np.flatnonzero((controls.totals.ravel() > 0) & (counts == 0)).tolist()
    for cell in empty:
        most = int(counts.argmax())
        place = int(np.flatnonzero(cells == most)[0])
        codes[place] = rows_of_cell(model, controls, cell, 1, table.schema.names, rng, changed).codes[0]
        cells[place] = cell
        counts[[most, cell]] += -1, 1
    return CodedTable(codes, table.schema), len(empty)


def people(
    model: StratifiedModel,
    controls: Controls,
    rows: int | None,
    names: tuple[str, ...],
    rng: np.random.Generator,
    changed: list[RuleChanges],
) -> CodedTable:
    """Draw rows that represent one person each.

    The number of rows of each cell is its total, rounded by the largest remainder method. The rows are in random order.

    Parameters
    ----------
    model : StratifiedModel
        The model that draws the rows.
    controls : Controls
        The control totals.
    rows : int or None
        The total number of rows, which are divided among the cells in the same proportions. If None, it is the whole
        population.
    names : tuple of str
        The columns of the rows.
    rng : numpy.random.Generator
        The random number generator.
    changed : list of Changed
        A list to which the numbers of rows that were changed by rules are appended.

    Returns
    -------
    CodedTable
        The rows.

    Raises
    ------
    InputError
        If no row of a cell can satisfy the rules of the schema.
    """
    counts = whole_parts(controls.totals.ravel().tolist(), round(controls.people) if rows is None else rows)
    parts = [
        rows_of_cell(model, controls, cell, int(counts[cell]), names, rng, changed)
        for cell in np.flatnonzero(counts).tolist()
    ]
    if not parts:  # if the total rounds to 0 rows
        return model.sample(0, rng).select(names)
    table = CodedTable.concatenate(parts)
    return table.take(rng.permutation(len(table)))


def rows_of_cell(
    model: StratifiedModel,
    controls: Controls,
    cell: int,
    count: int,
    names: tuple[str, ...],
    rng: np.random.Generator,
    changed: list[RuleChanges],
) -> CodedTable:
    """Draw rows of a cell.

    If the cell is empty in the model, other rows are drawn and get the codes of the cell.

    Parameters
    ----------
    model : StratifiedModel
        The model that draws the rows.
    controls : Controls
        The control totals, which define the cells.
    cell : int
        The index of the cell.
    count : int
        The number of rows.
    names : tuple of str
        The columns of the rows.
    rng : numpy.random.Generator
        The random number generator.
    changed : list of Changed
        A list to which the numbers of rows that were changed by rules are appended.

    Returns
    -------
    CodedTable
        The rows.

    Raises
    ------
    InputError
        If no row of the cell can satisfy the rules of the schema.
    """
    schema, codes = model.strata.schema, controls.codes_of(cell)
    where = {name: [schema[name].keys[code] for code in own] for name, own in codes.items()}
    try:
        found = CodedTable.concatenate(list(model.batches(count, rng, where, changed=changed))).select(names)
        found = found.take(controls.cells_of(found) == cell)  # a rule may have moved some rows to another cell
    except InputError:
        found = model.sample(0, rng).select(names)
    if not len(found):
        others = model.sample(_DONORS, rng).select(names)
        given = others.codes.copy(order="F")
        for name, own in codes.items():
            given[:, others.schema.index(name)] = rng.choice(own, len(others))
        found = CodedTable(given, others.schema)
        found = found.take(satisfies_rules(found))
    if not len(found):
        raise InputError(
            f"no row with {', '.join(f'{name} in {own}' for name, own in where.items())} satisfies the rules of schema "
            f"{schema.name!r}, but the control totals have people there; correct the totals or the rules"
        )
    again = rng.integers(len(found), size=count - len(found)) if len(found) < count else np.arange(0)
    return found.take(np.concatenate([np.arange(min(count, len(found))), again]))
