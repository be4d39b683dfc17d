"""The steps of an audit, which do not depend on an orchestrator.

The rows are stored in a private working folder, and only the report is copied to another place.
"""

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
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.landing import check_output, claimed_output, land
from equistrata.flows.run.signals import finish_before_stopping
from equistrata.flows.run.workspace import SNAPSHOT, Workspace
from equistrata.privacy.budget import relation_of
from equistrata.privacy.noise import noise_source

ROWS, WEIGHTS = "rows.npy", "weights.npy"


@scrub_errors
def load_rows(plan: AuditPlan, work: Workspace) -> None:
    """Code the private rows with the schema of the releases, and store the rows and the outcomes in the working folder.

    A public audit uses as many rows of each unit as the releases, but it selects them independently.
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


@scrub_errors
def examine(plan: AuditPlan, work: Workspace) -> None:
    """Compare the releases with the rows in the working folder, and write the report to the working folder.

    Results that were paid for are saved before the command can be stopped. If they were saved by a previous run, they
    are used again.

    Privacy
    -------
    A public audit costs the price of the plan, which must be charged before. An internal report is exact and has no
    cost.
    """
    if plan.journal is not None and plan.journal.saved is not None:
        shutil.copytree(plan.journal.saved, work.staging)
        return
    expected = tuple(_expected(release.folder, plan) for release in plan.releases) if plan.public else ()
    if plan.journal is None:
        _examine(plan, work, expected)
        return
    with finish_before_stopping():
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
    """Return the errors in each group that the free audit estimates.

    If they cannot be estimated, the result is empty.
    """
    try:
        release = Release.open(folder)
        if release.strata.columns != plan.strata.columns:
            return {}
        found = expected_distances(release.answers, replicated=False)
    except InputError:  # the release does not contain measurements
        return {}
    labels = [release.strata.label(key) for key in release.strata.keys]
    return {
        str(name): dict(zip(labels, map(float, part["total_variation"]), strict=True))
        for name, part in found.groupby("column", sort=False)
    }


@scrub_errors
def deliver(plan: AuditPlan, work: Workspace) -> Path:
    """Move the report to its output folder in one step.

    An internal report is only readable by its owner. If the report is added to a release, its price is added to the
    card.
    """
    if plan.host is not None:
        content = (work.staging / "audit.json").read_bytes()
        made, report = json.loads(content)["made"], hashlib.sha256(content).hexdigest()
        wanted = default_name(plan.config) if plan.config.output is None else plan.output.name
        place = plan.host.folder
        known = next((audit for audit in audits_of(read_card(place)) if audit["report"] == report), None)
        if known is not None:  # the previous run was killed after it had added the audit
            return place / str(known["folder"])
        return add(place, wanted, work.staging, lambda card, name: with_audit(card, plan.added(name, made, report)))
    return land(work, plan.output, mode=0o755 if plan.public else 0o700, parent_mode=_parent_mode(plan))


@contextmanager
def place(plan: AuditPlan) -> Iterator[Path | None]:
    """Reserve the output folder while the block runs. It is None if the audit is added to a release.

    Raises
    ------
    InputError
        If the folder exists or is reserved by another run.
    """
    if plan.host is not None:
        yield None
        return
    with claimed_output(plan.output, _parent_mode(plan)) as landing:
        check_output(plan.output)  # another audit may have created it before this one has reserved it
        yield landing


def _parent_mode(plan: AuditPlan) -> int:
    # The private folder of a release may be created, and it must only be readable by its owner.
    inside = plan.output.parent == private_folder(plan.releases[0].folder)
    return 0o700 if inside and not plan.public else 0o777
