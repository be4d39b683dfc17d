"""Rows that agree with control totals: by their weights, or by how many there are of each cell.

Post-stratification (Holt and Smith, 1979, JRSS A 142, 33): each weight is multiplied by the total of its cell over the
sum of the weights there. Post-processing of drawn rows with public totals, which costs no privacy.
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
from equistrata.synth.strata.exchange import Changed, obey_rules
from equistrata.synth.strata.model import StratifiedModel

_DONORS = 1000  # rows that are drawn for a cell in which the model has nobody


def poststratified(weights: Floats, cells: Indices, totals: Floats) -> Floats:
    """Weights, at least 0, that sum to the total of each cell, in proportion to these. Where all are 0 they are equal.

    Parameters
    ----------
    cells
        Of each row, as an index into `totals`. A cell of a positive total has a row.

    >>> poststratified(np.array([1.0, 3.0, 0.0]), np.array([0, 0, 1]), np.array([8.0, 5.0])).tolist()
    [2.0, 6.0, 5.0]
    """
    rows, sums = (np.bincount(cells, each, len(totals)) for each in (None, weights))
    none = ~(sums > 0)
    factors = totals / np.maximum(np.where(none, rows, sums), np.finfo(float).tiny)
    return np.asarray(np.where(none[cells], 1.0, weights) * factors[cells])


def weighted_to(controls: Controls, frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Released rows with weights that meet the totals of the cells that have rows."""
    table, name = CodedTable.encode(frame, schema.coded()), str(schema.survey_weight)
    weights = frame[name].to_numpy(dtype=np.float64)
    return frame.assign(**{name: poststratified(weights, controls.cells_of(table), controls.totals.ravel())})


def with_all_cells(
    table: CodedTable, model: StratifiedModel, controls: Controls, rng: np.random.Generator, changed: list[Changed]
) -> tuple[CodedTable, int]:
    """Drawn rows with one at least in each cell of a positive total, and how many were replaced for it.

    A row of the cell with most rows makes place for one that the model draws for the cell, so there must be as many
    rows as such cells. Raises InputError where no row of a cell obeys the schema's rules.
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
    changed: list[Changed],
) -> CodedTable:
    """Rows of these columns that are people: as many in each cell as it has, by largest remainder, in random order.

    Parameters
    ----------
    rows
        In all, in the same proportions; None for the whole population.
    """
    counts = whole_parts(controls.totals.ravel().tolist(), round(controls.people) if rows is None else rows)
    parts = [
        rows_of_cell(model, controls, cell, int(counts[cell]), names, rng, changed)
        for cell in np.flatnonzero(counts).tolist()
    ]
    if not parts:  # of fewer than half a person
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
    changed: list[Changed],
) -> CodedTable:
    """So many rows of a cell, of these columns. Raises InputError where none obeys the schema's rules.

    Where the model has nobody in it, they are rows of others with the cell's codes.
    """
    schema, codes = model.strata.schema, controls.codes_of(cell)
    where = {name: [schema[name].keys[code] for code in own] for name, own in codes.items()}
    try:
        found = CodedTable.concatenate(list(model.batches(count, rng, where, changed=changed))).select(names)
        found = found.take(controls.cells_of(found) == cell)  # a rule may have moved some out of it
    except InputError:
        found = model.sample(0, rng).select(names)
    if not len(found):
        others = model.sample(_DONORS, rng).select(names)
        given = others.codes.copy(order="F")
        for name, own in codes.items():
            given[:, others.schema.index(name)] = rng.choice(own, len(others))
        found = CodedTable(given, others.schema)
        found = found.take(obey_rules(found))
    if not len(found):
        raise InputError(
            f"no row with {', '.join(f'{name} in {own}' for name, own in where.items())} obeys the rules of schema "
            f"{schema.name!r}, and the control totals have people there; correct the totals, or the rules"
        )
    again = rng.integers(len(found), size=count - len(found)) if len(found) < count else np.arange(0)
    return found.take(np.concatenate([np.arange(min(count, len(found))), again]))
