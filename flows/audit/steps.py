"""The steps of an audit, free of any orchestrator: rows rest in a private working folder, and only the report leaves
it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from equistrata.analysis.contents.card import read_card
from equistrata.analysis.expected import expected_distances
from equistrata.analysis.release import Release
from equistrata.data.columns.cells import bounded_numbers, numbers
from equistrata.data.schema import Column
from equistrata.data.snapshot import Snapshot
from equistrata.data.sources import ahead
from equistrata.data.table import CodedTable
from equistrata.data.units.bounding import UsedRows
from equistrata.data.units.unit import ROW
from equistrata.errors import InputError
from equistrata.eval.audit.internal import internal_audit
from equistrata.eval.audit.public import public_audits
from equistrata.eval.report.group_errors import Expected
from equistrata.eval.report.page import write_report
from equistrata.eval.report.report import About, AuditPrice, InternalReport, PublicReport
from equistrata.flows.audit.plan import AuditPlan, default_name
from equistrata.flows.publication.addition import add
from equistrata.flows.publication.audited_card import audits_of, with_audit
from equistrata.flows.release.inside import private_folder
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.landing import check_output, claimed_output, land
from equistrata.flows.run.signals import finished_first
from equistrata.flows.run.workspace import SNAPSHOT, Workspace
from equistrata.privacy.budget import relation_of
from equistrata.privacy.noise import noise_source

ROWS, WEIGHTS = "rows.npy", "weights.npy"


@scrubbed
def load_rows(plan: AuditPlan, work: Workspace) -> None:
    """Code the private rows by the releases' schema; keep them, and outcome columns, in the working folder.

    A public audit keeps as many rows of each unit as the releases did at most, chosen anew.
    """
    snapshot, unit = Snapshot(plan.schema), plan.unit if plan.public else ROW
    key = b"" if unit.column is None else work.unit_key(np.random.default_rng(plan.config.seed))
    rows = UsedRows(partial(plan.source.batches, plan.columns), unit, key, work.root)
    for frame, _ in ahead(rows.batches()):
        table = CodedTable.encode(frame, plan.schema)
        snapshot.add(table)
        work.append(work.root / ROWS, table.codes)
        if (weight := plan.schema.survey_weight) is not None:
            work.append(work.root / WEIGHTS, bounded_numbers(frame[weight], plan.schema[weight])[0])
        index = plan.strata.index(table)
        for name in plan.outcomes:
            values, absent = numbers(frame[name], Column(name, codes=plan.codes.get(name, ())))
            for position in range(len(plan.strata.keys)):
                work.append(work.outcome(name, position), values[~absent & (index == position)])
    work.save_json(work.root / SNAPSHOT, snapshot.digests())


@scrubbed
def examine(plan: AuditPlan, work: Workspace) -> None:
    """Audit the releases against the rows in the working folder, and write the report into it.

    What was paid for is saved before anything can end the command, and taken from there if it was saved before.

    Cost: the plan's price for a public audit, which must have been charged; an internal report is exact, at no cost.
    """
    if plan.journal is not None and plan.journal.saved is not None:
        shutil.copytree(plan.journal.saved, work.staging)
        return
    expected = tuple(_expected(release.folder, plan) for release in plan.releases) if plan.public else ()
    if plan.journal is None:
        _examine(plan, work, expected)
        return
    with finished_first():
        plan.journal.begin()
        _examine(plan, work, expected)
        plan.journal.save(work.staging)


def _examine(plan: AuditPlan, work: Workspace, expected: tuple[Expected, ...]) -> None:
    about = About(
        plan.strata,
        schema=plan.schema.digest,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        software=f"equistrata {version('equistrata')}",
        rows=plan.source.describe(),
        called={name: words for release in plan.releases for name, words in release.card.get("called", {}).items()},
        **plan.texts,
    )
    history = plan.account.history() if plan.account else None
    private = work.load_table(work.root / ROWS, plan.schema)
    if plan.schema.survey_weight is not None:
        private = private.select(plan.strata.schema.names)
    tables = {facts.name: release.table() for facts, release in zip(plan.facts, plan.releases, strict=True)}
    report: PublicReport | InternalReport
    if plan.public:
        noise, target, unit = noise_source(plan.config.seed), plan.config.target, plan.unit
        price, relation = plan.price * Fraction(1, unit.sum_cost), relation_of(unit.column, unit.relation)
        noisy = public_audits(
            private, tables, plan.strata, budget=price, noise=noise, target=target, alike=unit.at_most
        )
        epsilon, delta = plan.config.price
        report = PublicReport(
            about=about,
            releases=plan.facts,
            audits=tuple(each.of_unit(unit.sum_cost, relation) for each in noisy.values()),
            price=AuditPrice(epsilon, delta, float(plan.price), plan.account.release if plan.account else ""),
            together=plan.together.epsilon(delta),
            earlier=len({audit["report"] for release in plan.releases for audit in audits_of(release.card)}),
            history=history,
            expected=expected,
        )
    else:
        labels = [plan.strata.label(key) for key in plan.strata.keys]
        outcomes = {
            name: {label: work.load(work.outcome(name, i)) for i, label in enumerate(labels)} for name in plan.outcomes
        }
        exact = [
            internal_audit(
                private,
                table,
                plan.strata,
                target=plan.config.target,
                published=means,
                outcomes={name: outcomes[name.rpartition(" (")[0]] for name in means},
                weights=None if release.weights is None else (work.load(work.root / WEIGHTS), release.weights),
            )
            for release, table, means in zip(plan.releases, tables.values(), plan.published, strict=True)
        ]
        report = InternalReport(about=about, releases=plan.facts, audits=tuple(exact), history=history)
    work.staging.mkdir()
    write_report(report, work.staging)


def _expected(folder: Path, plan: AuditPlan) -> Expected:
    """How far the free audit expects a release to be off in its groups; empty where its folder does not say that."""
    try:
        release = Release.open(folder)
        if release.strata.columns != plan.strata.columns:
            return {}
        found = expected_distances(release.answers, replicated=False)
    except InputError:  # it published no measurements
        return {}
    labels = [release.strata.label(key) for key in release.strata.keys]
    return {
        str(name): dict(zip(labels, map(float, part["total_variation"]), strict=True))
        for name, part in found.groupby("column", sort=False)
    }


@scrubbed
def deliver(plan: AuditPlan, work: Workspace) -> Path:
    """Move the report to its place in one step: its owner's alone if internal; in a release, added with its price."""
    if plan.host is not None:
        content = (work.staging / "audit.json").read_bytes()
        made, report = json.loads(content)["made"], hashlib.sha256(content).hexdigest()
        wanted = default_name(plan.config) if plan.config.output is None else plan.output.name
        place = plan.host.folder
        known = next((audit for audit in audits_of(read_card(place)) if audit["report"] == report), None)
        if known is not None:  # it was killed right after it was added
            return place / str(known["folder"])
        return add(place, wanted, work.staging, lambda card, name: with_audit(card, plan.added(name, made, report)))
    return land(work, plan.output, mode=0o755 if plan.public else 0o700, parent_mode=_parent_mode(plan))


@contextmanager
def place(plan: AuditPlan) -> Iterator[Path | None]:
    """Hold the report's place in the block; None in a release, to which all may add. Raises InputError if taken."""
    if plan.host is not None:
        yield None
        return
    with claimed_output(plan.output, _parent_mode(plan)) as landing:
        check_output(plan.output)  # another audit may have made it before this one got its place
        yield landing


def _parent_mode(plan: AuditPlan) -> int:
    # If the report's folder is made too: a release's private folder is its owner's alone.
    inside = plan.output.parent == private_folder(plan.releases[0].folder)
    return 0o700 if inside and not plan.public else 0o777
