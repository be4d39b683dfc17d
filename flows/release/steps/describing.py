"""The last step of a release, which adds the card and the schema and moves the release to its output folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np

from equistrata.analysis.cells import CELLS, CellEstimates, kept_relations, noisy_cells, relation_errors
from equistrata.analysis.contents.measured import read_evidence
from equistrata.analysis.contents.models import write_models
from equistrata.analysis.expected import served
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Key, Strata
from equistrata.data.survey.controls import CONTROLS
from equistrata.data.texts.manifest import write_manifest
from equistrata.errors import InputError
from equistrata.flows.release.card.document import RunRecord, release_card
from equistrata.flows.release.card.means_apart import means_apart
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.release.card.wide_bins import declares_bins, wide_bins
from equistrata.flows.release.inside import SCORES, check_place, keep_scores
from equistrata.flows.release.measuring.finding import found_values
from equistrata.flows.release.measuring.unit_sizes import counted_units
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps.drawing import DrawnRows
from equistrata.flows.release.steps.fitting import kept_measurements
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.landing import land
from equistrata.flows.run.workspace import SYNTHETIC, Workspace
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement
from equistrata.synth.series.state import STATE


@scrub_errors
def describe(
    plan: Plan, work: Workspace, noise: NoiseSource, drawn: DrawnRows, account: Mapping[str, Any] | None = None
) -> None:
    """Add the measurements, the schema and the card to the release.

    Parameters
    ----------
    plan : Plan
        The plan.
    work : Workspace
        The working folder.
    noise : NoiseSource
        The source of the noise.
    drawn : Drawn
        The result of `resample`.
    account : mapping or None, default=None
        The part of the card about the ledger (see `ReleaseRun.statement`).
    """
    _lay_out(plan, work)
    by_key = kept_measurements(plan, work)
    card = release_card(plan, noise, _record(plan, work, drawn, by_key), account)
    if any(by_key.values()):
        how = {"shrinkage": card["shrinkage"], "held_out": plan.held_out}  # as stated on the card
        evidence = Evidence.of(plan.strata, by_key, plan.mechanism, **how)
        card["relations"] |= _relations(plan, work, evidence)
        card |= {} if plan.config.expand else _served(evidence)  # `_served` describes rows, but these are people
    card |= {"raked": dict(drawn.raked), "controls": _controls(plan, work, drawn)} | _by_rows(plan, work)
    if plan.schema.ordered:
        card["rules"] = {"in_order": plan.schema.compared} | asdict(drawn.changed)
    work.save_json(work.staging / "card.json", card)


@scrub_errors
def keep_models(plan: Plan, work: Workspace, progress: Callable[[int, int], None]) -> None:
    """Fit the replicates that the release keeps for its readers. Post-processing of the measurements, no cost."""
    card = json.loads((work.staging / "card.json").read_text("utf-8"))
    evidence = read_evidence(work.staging, card, plan.strata)
    write_models(work.staging, evidence, plan.config.replicates, plan.config.workers, progress)


def _record(plan: Plan, work: Workspace, drawn: DrawnRows, by_key: Mapping[Key, Sequence[Measurement]]) -> RunRecord:
    """Return the results of the run."""
    starts = [work.starts(i) for i in range(len(plan.fitted.keys))]
    shares = {plan.strata.label(key): share for key, share in drawn.weights.shares.items()}
    return RunRecord(
        rows=drawn.rows,
        weights=drawn.weights.source if plan.strata.columns else "none needed (one stratum)",
        begun_again=sum(len(each) - len(set(each)) for each in starts),
        measured=[each for measured in by_key.values() for each in measured],
        opened=found_values(plan, work),
        unit_sizes=counted_units(plan, work),
        shares=None if plan.weights is None else shares,
    )


def _lay_out(plan: Plan, work: Workspace) -> None:
    """Add the files that are public or already in the working folder."""
    folder = work.staging / "measurements"
    folder.mkdir()
    for i, key in enumerate(plan.fitted.keys):
        copyfile(work.measurements(i), folder / f"{plan.fitted.file_name(key)}.json")
    work.save_json(work.staging / "schema.json", asdict(plan.schema))
    if work.state.exists():
        copyfile(work.state, work.staging / STATE)


def _relations(plan: Plan, work: Workspace, evidence: Evidence) -> dict[str, Any]:
    """Return the expected errors of pairs of columns and the relations that the rows preserve.

    Write the noisy cells to a file.
    """
    solved = CellEstimates.of(evidence)
    noisy_cells(evidence, solved=solved).to_csv(work.staging / CELLS, index=False)
    expected, released = relation_errors(evidence, solved), work.load_table(work.root / SYNTHETIC, plan.schema)
    return {"expected": expected, "kept": [list(pair) for pair in kept_relations(evidence, released)]}


def _served(evidence: Evidence) -> dict[str, Any]:
    """Return how accurate the release is for groups.

    It is computed from the measurements, so that any reader can compute it.
    """
    # If groups were measured separately, their differences require many models (`equistrata audit --public`).
    return {"served": served(evidence)} if set(evidence.measured) == {()} else {}


def _by_rows(plan: Plan, work: Workspace) -> dict[str, Any]:
    """Return the parts of the card that are computed from the released rows.

    They are wide bins and means that do not agree.
    """
    found: dict[str, Any] = {"wide_bins": []}
    declared = [column for column in plan.schema.columns if declares_bins(column)]
    if not declared and plan.means is None:
        return found  # the rows do not have to be read again
    rows = work.load_table(work.root / SYNTHETIC, plan.schema)
    if declared:
        counts = {c.name: np.bincount(rows.column(c.name), minlength=c.size) for c in declared}
        found["wide_bins"] = wide_bins(plan.schema, counts)
    if (means := _means(work)) is not None:
        strata, public = Strata.over(plan.schema, plan.strata.columns), plan.fixed_weights is not None
        released = work.staging / "synthetic.parquet"
        found["means_apart"] = means_apart(plan.schema, strata, rows, released, means, public)
    return found


def _controls(plan: Plan, work: Workspace, drawn: DrawnRows) -> dict[str, Any] | None:
    """Write the control totals next to the rows and return the part of the card about them."""
    if (controls := plan.controls) is None:
        return None
    frame = controls.frame(plan.schema)
    frame.to_csv(work.staging / CONTROLS, index=False)
    return {
        "source": controls.source,
        "columns": [*frame.columns[:-1]],
        "cells": controls.totals.size,
        "people": controls.people,
        "replaced": drawn.replaced,
    }


def _means(work: Workspace) -> dict[str, Any] | None:
    """Return the private means, or None if there are none."""
    file = work.staging / "means.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


@scrub_errors
def land_release(plan: Plan, work: Workspace) -> Path:
    """Write the page of the card, move the release to its output folder in one step, and write its exact scores."""
    release, output, scores = work.staging, Path(plan.config.output), work.root / SCORES
    if scores.exists():
        check_place(output)
    card = json.loads((release / "card.json").read_text("utf-8"))
    (release / "card.md").write_text(card_markdown(card, _means(work)), "utf-8")
    write_manifest(release)
    land(work, output)
    if scores.exists():
        with suppress(InputError):  # the release is complete, and `print_release` reports the error
            keep_scores(output, json.loads(scores.read_text("utf-8")))
    return output
