"""The step that draws rows from the joint model and adjusts them to public totals of the population."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from equistrata.analysis.contents.known_means import known_means
from equistrata.data.columns.cells import encoded
from equistrata.data.sources import ahead
from equistrata.data.strata import Key
from equistrata.data.survey.controls import Controls
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import streams
from equistrata.flows.release.writer import row_files
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import SYNTHETIC, Workspace
from equistrata.synth.strata.exchange import RuleChanges
from equistrata.synth.strata.model import SAMPLE_BATCH, StratifiedModel, people_of_rows, rows_of_units
from equistrata.synth.strata.poststratified import people, poststratified, with_all_cells
from equistrata.synth.strata.raking import raked


class DrawnRows(NamedTuple):
    """Results of drawing the released rows.

    Attributes
    ----------
    rows : int
        The number of rows.
    weights : PublicWeights
        The weights of the strata.
    raked : mapping of str to int
        The number of strata that were raked, by column.
    changed : Changed
        The numbers of rows that were changed so that they satisfy the comparisons of columns.
    replaced : int
        The number of rows that were replaced so that each cell of the control totals has a row.
    """

    rows: int
    weights: PublicWeights
    raked: Mapping[str, int]
    changed: RuleChanges
    replaced: int = 0


@scrub_errors
def resample(plan: Plan, work: Workspace) -> DrawnRows:
    """Draw rows from the joint model, rake them to the private means, and write them as codes, CSV and Parquet.

    The rows are drawn in batches. If there are control totals, all rows are in memory. There is no privacy cost.
    """
    model = rows_of_units(StratifiedModel.load(work.joint, plan.modelled), plan.fixed_weights)
    model = people_of_rows(replace(model, total=model.total / (1 - plan.held_out)))
    moved: set[tuple[str, Key]] = set()
    if plan.means is not None and plan.mechanism.keeps_measurements:
        means = json.loads((work.staging / "means.json").read_text("utf-8"))
        model, moved = raked(model, known_means(plan.schema, model.strata, means, plan.fixed_weights is not None))
    rng, rows, replaced = streams.generator(plan, streams.DRAWING), 0, 0
    work.staging.mkdir(exist_ok=True)
    changed: list[RuleChanges] = []
    released: Iterator[tuple[CodedTable, pd.DataFrame]]
    if plan.controls is None:
        drawn = (table.select(plan.schema.names) for table in model.batches(plan.config.rows, rng, changed=changed))
        released = ((table, table.decode(rng)) for table in drawn)
    elif plan.config.expand:
        whole = people(model, plan.controls, plan.config.rows, plan.schema.names, rng, changed)
        starts = range(0, max(len(whole), 1), SAMPLE_BATCH)
        parts = (whole.take(slice(start, start + SAMPLE_BATCH)) for start in starts)
        released = ((part, part.decode(rng)) for part in parts)
    else:
        whole, replaced = _rows_in_cells(plan, plan.controls, model, rng, changed)
        released = iter([_adjust_to_controls(plan.controls, whole, whole.decode(rng))])
    with row_files(work.staging) as write:
        for table, frame in ahead(released):
            work.append(work.root / SYNTHETIC, table.codes)
            write(frame)
            rows += len(table)
    strata_moved = Counter(name for name, _ in moved)
    counts = {name: strata_moved[name] for name in plan.schema.names if name in strata_moved}
    return DrawnRows(rows, model.weights, counts, sum(changed, RuleChanges()), replaced)


def _rows_in_cells(
    plan: Plan, controls: Controls, model: StratifiedModel, rng: np.random.Generator, changed: list[RuleChanges]
) -> tuple[CodedTable, int]:
    """Return rows with at least one row in each cell that has people, and the number of rows that were replaced."""
    rows = round(model.total) if plan.config.rows is None else plan.config.rows
    rows = max(rows, int((controls.totals > 0).sum()))
    table = CodedTable.concatenate(list(model.batches(rows, rng, changed=changed))).select(plan.schema.names)
    return with_all_cells(table, model, controls, rng, changed)


def _adjust_to_controls(controls: Controls, table: CodedTable, frame: pd.DataFrame) -> tuple[CodedTable, pd.DataFrame]:
    """Return the rows with weights that match the totals, as codes and as released cells."""
    name = str(table.schema.survey_weight)
    drawn = frame[name].to_numpy(dtype=np.float64)
    weights = pd.Series(poststratified(drawn, controls.cells_of(table), controls.totals.ravel()))
    codes = table.codes.copy(order="F")
    codes[:, table.schema.index(name)] = encoded(weights, table.schema[name])[0]
    return CodedTable(codes, table.schema), frame.assign(**{name: weights})
