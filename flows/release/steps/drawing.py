"""Rows are drawn from the joint model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from equistrata.analysis.contents.known_means import known_means
from equistrata.data.sources import ahead
from equistrata.data.strata import Key
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import streams
from equistrata.flows.release.writer import row_files
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import SYNTHETIC, Workspace
from equistrata.synth.strata.exchange import Changed
from equistrata.synth.strata.model import StratifiedModel, rows_of_units
from equistrata.synth.strata.raking import raked


class Drawn(NamedTuple):
    """Released rows: how many, their strata's weights, columns → how many strata were raked, and how many rows were
    changed so that they obey comparisons of columns."""

    rows: int
    weights: PublicWeights
    raked: Mapping[str, int]
    changed: Changed


@scrubbed
def resample(plan: Plan, work: Workspace) -> Drawn:
    """Draw the rows from the joint model, raked to the private means, as codes, CSV and Parquet. No cost."""
    model = rows_of_units(StratifiedModel.load(work.joint, plan.modelled), plan.fixed_weights)
    model = replace(model, total=model.total / (1 - plan.held_out))
    moved: set[tuple[str, Key]] = set()
    if plan.means is not None and plan.mechanism.keeps_measurements:
        means = json.loads((work.staging / "means.json").read_text("utf-8"))
        model, moved = raked(model, known_means(plan.schema, model.strata, means, plan.fixed_weights is not None))
    rng, rows = streams.generator(plan, streams.DRAWING), 0
    work.staging.mkdir(exist_ok=True)
    changed: list[Changed] = []
    drawn = (table.select(plan.schema.names) for table in model.batches(plan.config.rows, rng, changed=changed))
    released = ((table, table.decode(rng)) for table in drawn)
    with row_files(work.staging) as write:
        for table, frame in ahead(released):
            work.append(work.root / SYNTHETIC, table.codes)
            write(frame)
            rows += len(table)
    strata_moved = Counter(name for name, _ in moved)
    counts = {name: strata_moved[name] for name in plan.schema.names if name in strata_moved}
    return Drawn(rows, model.weights, counts, sum(changed, Changed()))
