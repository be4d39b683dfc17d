"""The steps of a release, free of any orchestrator: each reads and writes a private working folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.data.ahead import ahead
from equistrata.data.schema import Column, Schema
from equistrata.data.snapshot import Snapshot
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable, numbers
from equistrata.eval.scores.scores import score
from equistrata.flows.release.card import card_markdown, release_card
from equistrata.flows.release.inside import SCORES, check_place, keep_scores
from equistrata.flows.release.manifest import write_manifest
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.writer import RowWriter
from equistrata.flows.run.guard import StepFailed, scrubbed
from equistrata.flows.run.landing import land
from equistrata.flows.run.snapshots import keep_snapshot
from equistrata.flows.run.workspace import Workspace
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from equistrata.synth.measurements import Measurement, load_measurements, save_measurements, total_estimate
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.storage import load_model
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.fitting import cut_strata, fit_stratum, measure_stratum
from equistrata.synth.strata.model import StratifiedModel, noisy_weights
from equistrata.synth.strata.weights import combined_weights

# Streams of one noise source, so that a seeded run does not depend on the order of its steps.
SYNTHESIS, MEANS, SAMPLING = 0, 1, 2

SCORED_ROWS = 1_000_000  # distinct rows that are scored exactly, and rows that classifiers see
MOST_STARTS = 4  # of one stratum's fit in one release: workers may be lost, but not without end


def noise_source(plan: Plan) -> NoiseSource:
    """Secure noise, or seeded noise (not private) if the configuration has a seed."""
    return SecureNoise() if plan.config.seed is None else SeededNoise(plan.config.seed)


def _rng(plan: Plan, stream: int) -> np.random.Generator:
    """Randomness for what is not private noise: which rows are held out, and sampling from models."""
    seed = plan.config.seed
    return np.random.default_rng(None if seed is None else [seed, stream])


@scrubbed
def load(plan: Plan, work: Workspace) -> None:
    """Read the rows, code them, hold some out if asked, cut them into strata, and keep all that in the working folder.

    Also, what tells these rows from others, those held out among them. A batch at a time, so memory does not grow with the
    rows. What becomes of a row depends on that row alone, and on a
    coin of its own if some are held out, so neighbouring tables stay neighbours.
    """
    coins = work.coins(_rng(plan, SAMPLING)) if plan.held_out else None
    snapshot = Snapshot(plan.schema)
    for frame in ahead(plan.source.batches(plan.columns)):
        table = CodedTable.encode(frame, plan.schema)
        snapshot.add(table)
        kept = np.ones(len(table), dtype=bool)
        if coins is not None:
            kept = coins.random(len(table)) >= plan.held_out
            work.append_table(work.held_out, table.take(~kept))
            table = table.take(kept)
        for position, part in enumerate(plan.fitted.partition(table).values()):
            work.append_table(work.stratum(position), part)
        if plan.means is None:
            continue
        index = plan.strata.index(table)
        for column in plan.means.columns:
            values, absent = numbers(frame[column.name], column)
            values, present = values[kept], ~absent[kept]
            for position in range(len(plan.strata.keys)):
                work.append(work.outcome(column.name, position), values[present & (index == position)])
    keep_snapshot(work, snapshot)


@scrubbed
def fit_one(
    work: Workspace,
    position: int,
    mechanism: Mechanism,
    schema: Schema,
    budget: Budget,
    count_rho: Rho,
    noise: NoiseSource,
) -> None:
    """Spend one stratum's budget; leave its measurements in the working folder, and its model if it is not ours.

    May be called again for a stratum, also while another call is still at it, as a cluster does that has lost a worker.
    Measurements that lie there already are used, which costs nothing. Of calls that measure, the one that saves first is the
    only one whose measurements anything is made of; the others' are dropped unread.

    Cost: what the budget holds, once, however many calls measured, as long as no call's noise decided which of them saved.
    Proof sketch: call j would measure M_j = M(rows; noise_j), with noise of its own. It hands nothing on, writes no log and
    returns None, until `Workspace.keep_fit` renames a folder that is whole and on the disk; before that its noise is in the
    memory of one process, or in a folder under a random name that nothing opens. So all that is released, or read by any
    later step, is made of M_J, where J is the first call that saved. If J is independent of the noise (somebody pulled a
    plug, a machine was taken away), then given J, M_J has the law of M_1: noise that never left a dead process is no release.
    If noise can decide J (memory that grows with what was selected, and a limit on it), all that can be said is that M_J is
    made of at most MOST_STARTS measurements, at that many times the price. That is why the starts in a run are bounded and
    told on the card, why clusters started by `equistrata.flows.release.runners` kill no worker for its memory, and why a run that died as a whole
    is charged again (`equistrata.flows.release.undertaking`).

    Raises StepFailed if the stratum was begun MOST_STARTS times in this run.
    """
    if work.measurements(position).exists():
        return
    if work.count_start(position) > MOST_STARTS:
        raise StepFailed(
            f"a stratum was begun {MOST_STARTS} times and never finished: its workers were lost; see that they have enough "
            "memory, then start or resume the release"
        )
    table = work.load_table(work.stratum(position), schema)
    if not mechanism.keeps_measurements:
        fitted = fit_stratum(mechanism.working_in(work.root), table, budget, count_rho, noise)
        work.keep_fit(position, fitted.measurements, fitted.model)
    else:
        work.keep_fit(position, measure_stratum(mechanism, table, budget, count_rho, noise))


@scrubbed
def lean(plan: Plan, work: Workspace) -> None:
    """What the strata say of each other, beside their measurements. Post-processing: it costs nothing."""
    measurements = {key: load_measurements(work.measurements(i)) for i, key in enumerate(plan.strata.keys)}
    for i, extra in enumerate(borrow(plan.strata, measurements).values()):
        save_measurements(extra, work.borrowed(i))


@scrubbed
def model_one(work: Workspace, position: int, mechanism: Mechanism, schema: Schema) -> None:
    """Make one stratum's model of its measurements and of what it borrows, unless it is there. It costs nothing."""
    if not work.model(position).exists():
        borrowed = work.borrowed(position)
        extra = load_measurements(borrowed) if borrowed.exists() else []
        measured = load_measurements(work.measurements(position))
        work.keep_model(position, mechanism.model(schema, [*measured, *extra]))


@scrubbed
def model_joint(work: Workspace, strata: Strata, engine: Estimator, shrinkage: bool) -> None:
    """Make the models of all strata from what was measured by one choice for all, unless they are there. It costs nothing."""
    if not work.joint.exists():
        work.keep_joint(cut_strata(strata, load_measurements(work.measurements(0)), engine, shrinkage))


@scrubbed
def resample(plan: Plan, work: Workspace, noise: NoiseSource, account: Mapping[str, Any] | None = None) -> None:
    """Join the strata's models by their weights, draw the synthetic rows, and lay out the release with its card.

    `account` is what the card says of the ledger that was charged.
    """
    keys = plan.fitted.keys
    measurements = {key: load_measurements(work.measurements(i)) for i, key in enumerate(keys)}
    if plan.shared is not None:
        model = StratifiedModel.load(work.joint, plan.schema)
    else:
        models = {key: load_model(work.model(i), plan.strata.rest(key)) for i, key in enumerate(keys)}
        model = StratifiedModel(plan.strata, models, noisy_weights(plan.strata, measurements), _total(measurements))
    weights = plan.fixed_weights or model.weights
    if plan.weights and plan.config.combine_weights:
        weights = combined_weights(plan.strata, dict(measurements), plan.weights)
    model = replace(model, weights=weights, total=model.total / (1 - plan.held_out))
    rng = _rng(plan, SAMPLING + 1)
    release = work.staging
    (release / "measurements").mkdir(parents=True)
    rows = 0
    with RowWriter(release) as writer:
        for table, frame in ahead((table, table.decode(rng)) for table in model.batches(plan.config.rows, rng)):
            work.append_table(work.synthetic, table)
            writer.write(frame)
            rows += len(table)
    for key, noisy in measurements.items():
        save_measurements(noisy, release / "measurements" / f"{plan.fitted.file_name(key)}.json")
    work.save_json(release / "schema.json", asdict(plan.schema))
    source = weights.source if plan.strata.columns else "none needed (one stratum)"
    again = sum(work.started_again(i) for i in range(len(keys)))
    work.save_json(release / "card.json", release_card(plan, noise, rows, source, account, again))


@scrubbed
def estimate_means(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Private means of the outcome columns over the rows where they are present, into `means.json`.

    Cost: the whole of `budget`, add/remove; outcomes and estimators share it equally.
    """
    assert plan.means is not None
    outcomes: dict[str, dict[str, Any]] = {}
    for (column, kind), (name, share) in zip(plan.estimates, list(plan.parts.items())[1:], strict=True):
        part = budget.part(share, name)
        if not work.mean(name).exists():
            work.count_start(name)
            source = noise.spawn(2 * plan.means.columns.index(column) + (kind == "vanilla"))
            work.keep_mean(name, _mean(plan, work, column, kind, part, source))
        outcomes.setdefault(column.name, {}).update(json.loads(work.mean(name).read_text("utf-8")))
    document = {
        "over": "people who have a value in the column",
        "weights": plan.fixed_weights.source
        if plan.fixed_weights
        else "noisy counts of the people who have a value (charged)",
        "rho": float(plan.price.means),
        "relation": "add-remove",
        "outcomes": outcomes,
    }
    work.save_json(work.staging / "means.json", document)


def _mean(plan: Plan, work: Workspace, column: Column, kind: str, budget: Budget, noise: NoiseSource) -> dict[str, Any]:
    """One estimate of one column's mean, for all of the budget, under the estimator's name.

    By strata it is measured over all rows as well, and small strata lean on the others, unless `--no-shrinkage` is given.
    """
    assert column.sigma is not None
    groups = {key: work.load(work.outcome(column.name, i)) for i, key in enumerate(plan.strata.keys)}
    lower, upper = column.mean_bounds
    coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds)
    if kind == "vanilla" or not plan.strata.columns:
        return {"coinpress": _estimate_entry(coinpress.mean(np.concatenate(list(groups.values())), budget, noise))}
    estimator = coinpress.hierarchical if plan.config.shrinkage else coinpress.by_strata
    stratified = estimator(groups, plan.fixed_weights, budget, noise)
    return {"pub_strat_coinpress" if plan.fixed_weights else "strat_coinpress": _stratified_entry(stratified, plan)}


@scrubbed
def evaluate(plan: Plan, work: Workspace) -> None:
    """Exact scores against the real rows: never to be published, so they rest in the working folder until `publish`.

    Scores of marginals are made from the tables' distinct rows, so they are exact whatever the number of rows. Where even
    these are many, and for classifiers, a random part of the rows stands for a large table, and the file says so.
    """
    rng = _rng(plan, SAMPLING + 2)
    parts = [work.load_table(work.stratum(i), plan.fitted.rest(key)) for i, key in enumerate(plan.fitted.keys)]
    drawn = work.load_table(work.synthetic, plan.schema)
    distinct, times = zip(*(table.distinct() for table in (*parts, drawn)), strict=True)
    document: dict[str, Any] = {
        "warning": "exact: computed from private rows at no cost; internal, not to be published"
    }
    sampled = f"a random {SCORED_ROWS:,} of each table's rows where it has more"
    if sum(map(len, distinct)) <= SCORED_ROWS:
        often = np.concatenate(times[:-1]), times[-1]
        scores = score(distinct[-1], _together(plan, distinct[:-1]), plan.strata, times=often)
    else:
        document["scored"] = sampled
        real = _together(plan, _some(parts, rng))
        scores = score(*_some([drawn], rng), real, plan.strata)
    if plan.config.evaluate == "full":
        test = work.load_table(work.held_out, plan.schema)
        if max(sum(map(len, parts)), len(drawn), len(test)) > SCORED_ROWS:
            document["classified"] = sampled
        real, (held_out,), (made,) = _together(plan, _some(parts, rng)), _some([test], rng), _some([drawn], rng)
        trained = score(made, real, plan.strata, held_out=held_out, target=plan.schema.target)
        scores = replace(
            scores, accuracy=trained.accuracy, dpr=trained.dpr, fnr_diff=trained.fnr_diff,
            classifiers=trained.classifiers, baseline=trained.baseline,
        )  # fmt: skip
    work.save_json(work.root / SCORES, document | scores.to_dict())


@scrubbed
def publish(plan: Plan, work: Workspace) -> Path:
    """Write the card for people and move the finished release to its place in one step; then its exact scores to theirs."""
    release, output, scores = work.staging, Path(plan.config.output), work.root / SCORES
    if scores.exists():
        check_place(output)
    card = json.loads((release / "card.json").read_text("utf-8"))
    means_file = release / "means.json"
    means = json.loads(means_file.read_text("utf-8")) if means_file.exists() else None
    (release / "card.md").write_text(card_markdown(card, means), "utf-8")
    write_manifest(release)
    land(work, output)
    if scores.exists():
        keep_scores(output, json.loads(scores.read_text("utf-8")))
    return output


def _estimate_entry(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "rho": float(estimate.rho),
        "rows": estimate.rows,
    }


def _stratified_entry(estimate: StratifiedEstimate, plan: Plan) -> dict[str, Any]:
    strata = {
        plan.strata.label(key): _estimate_entry(estimate.strata[key]) | {"share": estimate.weights[key]}
        for key in plan.strata.keys
    }
    head = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper, "rho": float(estimate.rho)}
    return head | {"strata": strata}


def _total(measurements: Mapping[Key, list[Measurement]]) -> float:
    """The number of rows as the measurements tell it: noisy, paid for."""
    return sum(max(total_estimate(noisy)[0], 0.0) for noisy in measurements.values())


def _some(tables: Sequence[CodedTable], rng: np.random.Generator) -> list[CodedTable]:
    """The tables themselves, or about SCORED_ROWS of all their rows, each kept by a coin of its own."""
    share = SCORED_ROWS / max(sum(map(len, tables)), 1)
    return list(tables) if share >= 1 else [table.take(rng.random(len(table)) < share) for table in tables]


def _together(plan: Plan, parts: Sequence[CodedTable]) -> CodedTable:
    return plan.fitted.assemble(dict(zip(plan.fitted.keys, parts, strict=True)))
