"""The release is laid out with its card and schema, and moved to its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np

from equistrata.analysis.cells import CELLS, Solved, kept_relations, noisy_cells
from equistrata.analysis.expected import served
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.noisy_rows import noisy_rows
from equistrata.analysis.uncertainty.weights_apart import weights_apart
from equistrata.data.files.manifest import write_manifest
from equistrata.data.strata import Strata
from equistrata.flows.release.card import card_markdown, release_card
from equistrata.flows.release.inside import SCORES, check_place, keep_scores
from equistrata.flows.release.means_apart import means_apart
from equistrata.flows.release.measuring.finding import found_values
from equistrata.flows.release.measuring.unit_sizes import counted_units
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.series import STATE
from equistrata.flows.release.steps.drawing import Drawn
from equistrata.flows.release.steps.fitting import kept_measurements
from equistrata.flows.release.wide_bins import declares_bins, wide_bins
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.landing import land
from equistrata.flows.run.workspace import SYNTHETIC, Workspace
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.series.panel import PANEL, Panel
from equistrata.synth.strata.heaps import heaps_of


@scrubbed
def describe(
    plan: Plan, work: Workspace, noise: NoiseSource, drawn: Drawn, account: Mapping[str, Any] | None = None
) -> None:
    """Put the measurements, the schema and the card into the release: with what `resample` returned, and the ledger's
    part (`Undertaking.statement`)."""
    folder, keys = work.staging / "measurements", plan.fitted.keys
    folder.mkdir()
    for i, key in enumerate(keys):
        copyfile(work.measurements(i), folder / f"{plan.fitted.file_name(key)}.json")
    work.save_json(work.staging / "schema.json", asdict(plan.schema))
    if work.state.exists():
        copyfile(work.state, work.staging / STATE)
    source = drawn.weights if plan.strata.columns else "none needed (one stratum)"
    starts = [work.starts(i) for i in range(len(keys))]
    again = sum(len(each) - len(set(each)) for each in starts)
    by_key = kept_measurements(plan, work)
    found = [each for measured in by_key.values() for each in measured]
    opened, sizes = found_values(plan, work), counted_units(plan, work)
    card = release_card(plan, noise, drawn.rows, source, account, again, found, opened, sizes)
    if found:
        how = {"shrinkage": card["shrinkage"], "held_out": plan.held_out}  # as a reader knows it
        evidence = Evidence.of(plan.strata, by_key, plan.mechanism, **how)
        solved = Solved.of(evidence)
        noisy_cells(evidence, solved=solved).to_csv(work.staging / CELLS, index=False)
        card["relations"]["expected"] = kept_relations(evidence, solved)
        if set(by_key) == {()}:  # else how groups differ takes many models (`equistrata audit --public`)
            card["served"] = served(evidence)
        card["noisy_rows"] = noisy_rows(evidence) if plan.config.rows is None else None
        if plan.fixed_weights is not None:
            card["weights_apart"] = weights_apart(evidence, plan.fixed_weights)
    card["raked"] = dict(drawn.raked)
    card["rounded"] = {name: asdict(made) for name, made in heaps_of(plan.schema, by_key).items()}
    if plan.panel is not None:
        card["panel"] = Panel.load(work.staging / PANEL).summary() | {"id": plan.panel.id}
    card["wide_bins"] = []
    if declared := [column for column in plan.schema.columns if declares_bins(column)]:  # else no row is read again
        released = work.load_table(work.root / SYNTHETIC, plan.schema)
        counts = {c.name: np.bincount(released.column(c.name), minlength=c.size) for c in declared}
        card["wide_bins"] = wide_bins(plan.schema, counts)
    work.save_json(work.staging / "card.json", card)


@scrubbed
def land_release(plan: Plan, work: Workspace) -> Path:
    """Write the card for people, and move the release to its place in one step; then its exact scores."""
    release, output, scores = work.staging, Path(plan.config.output), work.root / SCORES
    if scores.exists():
        check_place(output)
    card = json.loads((release / "card.json").read_text("utf-8"))
    means_file = release / "means.json"
    means = json.loads(means_file.read_text("utf-8")) if means_file.exists() else None
    if means is not None:
        drawn, rows = work.load_table(work.root / SYNTHETIC, plan.schema), release / "synthetic.parquet"
        strata, public = Strata.over(plan.schema, plan.strata.columns), plan.fixed_weights is not None
        card["means_apart"] = means_apart(plan.schema, strata, drawn, rows, means, public)
        work.save_json(release / "card.json", card)
    (release / "card.md").write_text(card_markdown(card, means), "utf-8")
    write_manifest(release)
    land(work, output)
    if scores.exists():
        keep_scores(output, json.loads(scores.read_text("utf-8")))
    return output
