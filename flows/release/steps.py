"""The steps of a release, free of any orchestrator: each reads and writes a private working folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.analysis.cells import CELLS, Solved, kept_relations, noisy_cells
from equistrata.analysis.contents.known_means import known_means
from equistrata.analysis.expected import served
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.noisy_rows import noisy_rows
from equistrata.analysis.uncertainty.weights_apart import weights_apart
from equistrata.arrays import Floats
from equistrata.data.columns.cells import numbers
from equistrata.data.files.manifest import write_manifest
from equistrata.data.schema import Column, Schema
from equistrata.data.snapshot import Snapshot
from equistrata.data.sources import ahead
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.bounding import Bounding, contents, share_of_units, text_hashes, unit_ids
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.data.vocabulary import Vocabulary, encode_open
from equistrata.data.weights import PublicWeights
from equistrata.eval.scores.scores import score, with_utility
from equistrata.flows.release.card import card_markdown, release_card
from equistrata.flows.release.inside import SCORES, check_place, keep_scores
from equistrata.flows.release.means_apart import means_apart
from equistrata.flows.release.measuring.finding import found_values
from equistrata.flows.release.measuring.links import Links, with_ids
from equistrata.flows.release.measuring.unit_sizes import counted_units
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.series import STATE
from equistrata.flows.release.wide_bins import declares_bins, wide_bins
from equistrata.flows.release.writer import row_files
from equistrata.flows.run.guard import StepFailed, scrubbed
from equistrata.flows.run.landing import land
from equistrata.flows.run.workspace import HELD_OUT, SNAPSHOT, SYNTHETIC, Workspace
from equistrata.flows.run.workspace import UNIT_SIZES as UNIT_SIZES_FILE
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement, load_measurements, save_measurements, total_estimate
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.storage import load_model
from equistrata.synth.series.fitting import after
from equistrata.synth.series.panel import PANEL, Panel
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.fitting import cut_strata, fit_stratum, measure_stratum
from equistrata.synth.strata.heaps import heaps_of, rounded_shares
from equistrata.synth.strata.model import StratifiedModel, noisy_weights, rows_of_units
from equistrata.synth.strata.raking import raked
from equistrata.synth.strata.weights import combined_weights

# Streams of one noise source, so that a seeded run does not depend on the order of its steps.
SYNTHESIS, MEANS, SAMPLING, FINDING, SIZES, LINKS = 0, 1, 2, 3, 4, 5

Mask = npt.NDArray[np.bool_]
Outcome = tuple[Floats, Mask]  # values, and which cells have none

SCORED_ROWS = 1_000_000  # distinct rows that are scored exactly, and rows that classifiers see
FAR_OUT = 0.05  # of the rows of a group beyond the usual clip: σ is declared too small
MOST_STARTS = 4  # of one stratum's fit in a run: lost workers are replaced, but not without end


def _rng(plan: Plan, stream: int) -> np.random.Generator:
    """Randomness for what is not private noise: which rows are held out, and sampling from models."""
    seed = plan.config.seed
    return np.random.default_rng(None if seed is None else [seed, stream])


@scrubbed
def partition(plan: Plan, work: Workspace) -> None:
    """Read the rows, code them, hold some out if asked, and keep each stratum's rows and outcomes.

    Cells of open columns get codes of a vocabulary, which is kept too (`equistrata.flows.release.measuring.finding`).

    A batch at a time, so memory does not grow with the rows. Of each unit, at most `at_most` rows are kept
    (`equistrata.data.units.bounding`). What becomes of a row depends on the rows of its unit alone (and on a coin of
    the unit's own, if rows are held out), so neighbouring tables stay neighbours. The snapshot covers all rows.
    """
    raw, snapshot = plan.raw, Snapshot(plan.raw)
    known = {name: Vocabulary() for name in raw.open}
    for name in known:
        snapshot.extend(name, ["\0unwritable", "\0missing"])  # no text that is kept

    read, links = _by_row if plan.unit.column is None else _by_unit, Links(plan, work)
    for table, held_out, outcomes in read(plan, work, _coded(plan, known, snapshot, links)):
        kept = ~held_out
        if plan.held_out:
            work.append(work.root / HELD_OUT, table.take(held_out).codes)
            table = table.take(kept)
        strata, fitted = (replace(each, schema=table.schema) if known else each for each in (plan.strata, plan.fitted))
        for position, part in enumerate(fitted.partition(table).values()):
            work.append(work.stratum(position), part.codes)
        if plan.means is None:
            continue
        index = strata.index(table)
        for column, (values, absent) in zip(plan.means.columns, outcomes, strict=True):
            values, present = values[kept], ~absent[kept]
            for position in range(len(plan.strata.keys)):
                work.append(work.outcome(column.name, position), values[present & (index == position)])
    links.close()
    work.save_json(work.root / SNAPSHOT, snapshot.digests())
    for name, each in known.items():
        work.save_json(work.vocabulary(name), each.texts)


class _Batch(NamedTuple):
    frame: pd.DataFrame  # raw
    table: CodedTable
    outcomes: list[Outcome]  # of the columns that have means


_Kept = tuple[CodedTable, Mask, list[Outcome]]  # the second says which rows are held out


def _coded(plan: Plan, known: Mapping[str, Vocabulary], snapshot: Snapshot, links: Links) -> Iterator[_Batch]:
    """All rows, a batch at a time; vocabularies, snapshot and links grow."""
    for frame in ahead(plan.source.batches(plan.columns)):
        before = {name: len(each.texts) for name, each in known.items()}
        table = encode_open(frame, plan.raw, known)
        for name, each in known.items():
            snapshot.extend(name, each.texts[before[name] :])
        snapshot.add(table)
        links.add(frame, table)
        yield _Batch(frame, table, [numbers(frame[c.name], c) for c in plan.means.columns] if plan.means else [])


def _by_row(plan: Plan, work: Workspace, batches: Iterator[_Batch]) -> Iterator[_Kept]:
    """All rows, each of them a unit."""
    coins = work.coins(_rng(plan, SAMPLING)) if plan.held_out else None
    for _, table, outcomes in batches:
        held_out = np.zeros(len(table), dtype=bool) if coins is None else coins.random(len(table)) < plan.held_out
        yield table, held_out, outcomes


def _by_unit(plan: Plan, work: Workspace, batches: Iterator[_Batch]) -> Iterator[_Kept]:
    """The rows of each unit that are used, in other batches; whole units are held out."""
    name, key, schema = str(plan.unit.column), work.unit_key(_rng(plan, SAMPLING + 3)), plan.schema
    bounding, closed = (
        Bounding(work.root, plan.unit, key),
        [n for n in plan.raw.names if n not in plan.raw.open],
    )
    for frame, table, outcomes in ahead(batches):
        schema = table.schema  # the last one has every text of open columns
        values = [array for both in outcomes for array in both]
        # The code of a text follows from the rows before it, so of open columns the texts themselves count.
        texts = [text_hashes(frame[each], key) for each in plan.raw.open]
        ids, content = unit_ids(frame[name], name, key), contents([*map(table.column, closed), *texts, *values], key)
        bounding.add(ids, content, [table.codes, share_of_units(ids, plan.held_out, key), *values])
    for used, codes, held_out, *arrays in ahead(bounding.bounded()):
        table = CodedTable(codes, schema)
        if plan.modelled is not plan.schema:
            sizes = (used - 1)[:, None].astype(code_dtype(plan.modelled))
            table = CodedTable(np.concatenate([codes.astype(sizes.dtype), sizes], axis=1), plan.modelled)
        yield table, held_out, list(zip(arrays[::2], arrays[1::2], strict=True))
    if plan.price.sizes:
        work.save_json(work.root / UNIT_SIZES_FILE, bounding.sizes.tolist())


@scrubbed
def fit_one(
    work: Workspace,
    position: int,
    mechanism: Mechanism,
    schema: Schema,
    budget: Budget,
    count_rho: Rho,
    noise: NoiseSource,
    former: Sequence[Measurement] = (),
) -> None:
    """Measure one stratum with its whole budget, and save the measurements (and a foreign mechanism's model).

    It may run again for a stratum, also at the same time, where a cluster has lost a worker: saved measurements are
    used again, and of runs that measure, the first to save wins.

    Args:
        former: what a series knows of it already.

    Cost: the budget, once, add/remove, if no run's noise decides which of them saves first; else at most MOST_STARTS
    times. See docs/proofs/budget.md, "A worker that was lost".

    Raises StepFailed if the stratum was begun MOST_STARTS times in this run.
    """
    if work.measurements(position).exists():
        return
    if work.count_start(position) > MOST_STARTS:
        raise StepFailed(
            f"a stratum was begun {MOST_STARTS} times and never finished: its workers were lost; see that they have "
            "enough memory, then start or resume the release"
        )
    table = work.load_table(work.stratum(position), schema)
    if not mechanism.keeps_measurements:
        fitted = fit_stratum(mechanism.working_in(work.root), table, budget, count_rho, noise)
        work.keep_fit(position, fitted.measurements, fitted.model)
    else:
        work.keep_fit(position, measure_stratum(mechanism, table, budget, count_rho, noise, former))


@scrubbed
def learn(plan: Plan, work: Workspace) -> None:
    """Join what was measured with what its series knew, and keep the series' state after it. Post-processing, no cost.

    What is learned enters the model, and never the measurements that are published and priced.
    """
    if plan.month is None or not plan.mechanism.keeps_measurements:
        return
    measured = {key: load_measurements(work.measurements(i)) for i, key in enumerate(plan.fitted.keys)}
    joined, state = after(plan.strata, plan.month.known(plan.strata), plan.month.number, measured)
    for i, found in enumerate(joined.values()):
        save_measurements(found, work.learned(i))
    state.save(work.state)


@scrubbed
def shrink(plan: Plan, work: Workspace) -> None:
    """Predict each stratum's marginals from the other strata's measurements. Post-processing, no cost."""
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(plan.strata.keys)}
    for i, extra in enumerate(borrow(plan.strata, measurements).values()):
        save_measurements(extra, work.borrowed(i))


@scrubbed
def model_one(work: Workspace, position: int, mechanism: Mechanism, schema: Schema) -> None:
    """Model one stratum from its measurements and what it borrows, unless the model exists. No cost."""
    if not work.model(position).exists():
        borrowed = work.borrowed(position)
        extra = load_measurements(borrowed) if borrowed.exists() else []
        measured = load_measurements(work.evidence(position))
        work.keep_model(position, mechanism.model(schema, [*measured, *extra]))


@scrubbed
def join(
    work: Workspace,
    strata: Strata,
    engine: Estimator | None,
    shrinkage: bool,
    public: PublicWeights | None = None,
    combine: bool = False,
) -> None:
    """Save the model of all strata, joined by their weights, unless it exists. Post-processing, no cost.

    The engine models all strata from the measurements of shared selection; without one each stratum has its own model.
    """
    if work.joint.exists():
        return
    keys = strata.keys if engine is None else ((),)
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(keys)}
    if engine is not None:
        model = cut_strata(strata, measurements[()], engine, shrinkage)
    else:
        models = {key: load_model(work.model(i), strata.rest(key)) for i, key in enumerate(keys)}
        total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measurements.values())
        model = StratifiedModel(strata, models, noisy_weights(strata, measurements), total)
    if public is not None:
        model = replace(model, weights=combined_weights(strata, dict(measurements), public) if combine else public)
    work.keep_joint(model)


class Drawn(NamedTuple):
    """Released rows: how many, where their strata's weights are from, and columns → how many strata were raked."""

    rows: int
    weights: str
    raked: Mapping[str, int]


@scrubbed
def resample(plan: Plan, work: Workspace) -> Drawn:
    """Draw the rows from the joint model, raked to the private means, as codes, CSV and Parquet. No cost."""
    model = rows_of_units(StratifiedModel.load(work.joint, plan.modelled), plan.fixed_weights)
    model = replace(model, total=model.total / (1 - plan.held_out))
    moved: set[tuple[str, Key]] = set()
    if plan.means is not None and plan.mechanism.keeps_measurements:
        means = json.loads((work.staging / "means.json").read_text("utf-8"))
        model, moved = raked(model, known_means(plan.schema, model.strata, means, plan.fixed_weights is not None))
    rng, rows = _rng(plan, SAMPLING + 1), 0
    work.staging.mkdir(exist_ok=True)
    drawn = (table.select(plan.schema.names) for table in model.batches(plan.config.rows, rng))
    rounded = rounded_shares(plan.schema, heaps_of(plan.schema, _kept_measurements(plan, work)))
    released: Iterator[tuple[CodedTable, pd.DataFrame]] = ((table, table.decode(rng, rounded)) for table in drawn)
    if plan.panel is not None:
        released = with_ids(plan, work, drawn, model.total, rng, rounded)
    with row_files(work.staging) as write:
        for table, frame in ahead(released):
            work.append(work.root / SYNTHETIC, table.codes)
            write(frame)
            rows += len(table)
    strata_moved = Counter(name for name, _ in moved)
    return Drawn(
        rows, model.weights.source, {name: strata_moved[name] for name in plan.schema.names if name in strata_moved}
    )


def _kept_measurements(plan: Plan, work: Workspace) -> dict[Key, list[Measurement]]:
    """What the release holds of each fit; nothing of a mechanism that keeps no measurements."""
    keys = plan.fitted.keys if plan.mechanism.keeps_measurements else ()
    return {key: load_measurements(work.measurements(i)) for i, key in enumerate(keys)}


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
    by_key = _kept_measurements(plan, work)
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
def estimate_means(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Private means of the outcome columns over the rows where they are present, into `means.json`.

    Cost: the whole of `budget`, add/remove; outcomes and estimators share it equally.
    """
    assert plan.means is not None
    outcomes: dict[str, dict[str, Any]] = {}
    shares = list(plan.parts.items())[1 : 1 + len(plan.estimates)]
    for (column, kind), (name, share) in zip(plan.estimates, shares, strict=True):
        part = budget.part(share * Fraction(1, plan.unit.sum_cost), name)
        if not work.mean(name).exists():
            work.count_start(name)
            source = noise.spawn(2 * plan.means.columns.index(column) + (kind == "vanilla"))
            work.keep_mean(name, _mean(plan, work, column, kind, part, source))
        outcomes.setdefault(column.name, {}).update(json.loads(work.mean(name).read_text("utf-8")))
    document = {
        "over": "people who have a value in the column"
        + "; of all strata together by their weights, whichever part of each has one"
        * (plan.fixed_weights is not None),
        "weights": plan.fixed_weights.source
        if plan.fixed_weights
        else "noisy counts of the people who have a value (charged)",
        "rho": float(plan.price.means),
        "relation": plan.relation,
        "target": plan.config.means_target,
        "outcomes": outcomes,
    }
    if codes := {column.name: list(column.codes) for column in plan.means.columns if column.codes}:
        document["codes"] = codes  # raw cells that are no number: an audit leaves the same rows out
    work.staging.mkdir(exist_ok=True)
    work.save_json(work.staging / "means.json", document)


def _mean(plan: Plan, work: Workspace, column: Column, kind: str, budget: Budget, noise: NoiseSource) -> dict[str, Any]:
    """One estimate of one column's mean, for all of the budget, under the estimator's name."""
    assert column.sigma is not None
    cost = plan.unit.sum_cost
    groups: dict[Hashable, Floats] = {
        key: work.load(work.outcome(column.name, i)) for i, key in enumerate(plan.strata.keys)
    }
    lower, upper = column.mean_bounds
    about, alike = plan.config.means_target, plan.unit.at_most
    coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds, target=about, alike=alike)
    if kind == "vanilla" or not plan.strata.columns:
        whole = coinpress.mean(np.concatenate(list(groups.values())), budget, noise)
        return {"coinpress": _entry(whole, coinpress, cost) | _tail(whole, coinpress)}
    estimator = coinpress.hierarchical if plan.config.shrinkage else coinpress.by_strata
    stratified = estimator(groups, plan.fixed_weights, budget, noise)
    strata = {
        plan.strata.label(key): _entry(
            estimate, coinpress, cost, plan.config.shrinkage and estimate.value != estimate.raw
        )
        | {"share": stratified.weights[key]}
        for key, estimate in ((key, stratified.strata[key]) for key in plan.strata.keys)
    }
    name = "pub_strat_coinpress" if plan.fixed_weights else "strat_coinpress"
    return {name: _entry(stratified, coinpress, cost) | _tail(stratified, coinpress) | {"strata": strata}}


@scrubbed
def evaluate(plan: Plan, work: Workspace) -> None:
    """Exact scores against the real rows: internal, never published.

    Marginals are scored on distinct rows, so scores are exact. Where these are more than SCORED_ROWS, and for
    classifiers, a random sample of a large table is used, and the file says so.
    """
    rng = _rng(plan, SAMPLING + 2)
    parts = [work.load_table(work.stratum(i), plan.fitted.rest(key)) for i, key in enumerate(plan.fitted.keys)]
    parts = [part.select([name for name in part.schema.names if name != UNIT_ROWS]) for part in parts]
    drawn = work.load_table(work.root / SYNTHETIC, plan.schema)
    if not len(drawn):  # a tiny table's noisy size may be 0
        work.save_json(work.root / SCORES, {"warning": "not scored: the release has no rows"})
        return
    if not any(map(len, parts)):  # the units of a small table are few
        work.save_json(work.root / SCORES, {"warning": "not scored: all rows were held out"})
        return
    strata = Strata.over(plan.schema, plan.strata.columns)
    distinct, times = zip(*(table.distinct() for table in (*parts, drawn)), strict=True)
    document: dict[str, Any] = {
        "warning": "exact: computed from private rows at no cost; internal, not to be published"
    }
    sampled = f"a random {SCORED_ROWS:,} of each table's rows where it has more"
    if sum(map(len, distinct)) <= SCORED_ROWS:
        often = np.concatenate(times[:-1]), times[-1]
        scores = score(distinct[-1], _together(plan, distinct[:-1]), strata, times=often)
    else:
        document["scored"] = sampled
        real, (made,) = _together(plan, _some(parts, rng)), _some([drawn], rng)
        scores = score(made, real, strata)
    target, test = plan.schema.target, None
    if plan.config.evaluate == "full" and target is not None:
        test = work.load_table(work.root / HELD_OUT, plan.modelled).select(plan.schema.names)
    if test is not None and not len(test):
        document["classified"] = "no classifier: no row was held out"
    elif test is not None and target is not None:
        if max(sum(map(len, parts)), len(drawn), len(test)) > SCORED_ROWS:
            document["classified"] = sampled
        real, (held_out,), (made,) = _together(plan, _some(parts, rng)), _some([test], rng), _some([drawn], rng)
        scores = with_utility(scores, {"synthetic": made, "real": real, "test": held_out}, target, plan.strata.columns)
    work.save_json(work.root / SCORES, document | scores.to_dict())


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


def _entry(
    estimate: Estimate | StratifiedEstimate, settings: Coinpress, unit_cost: int, shrunk: bool = False
) -> dict[str, Any]:
    """A mean as it is released; `rho` is that of a unit, so many times a row's.

    Its interval covers the rows' own mean, or that of the population they were drawn from (`target`), at `level`. A
    `shrunk` value was moved towards the other strata's; the interval is that of its own measurement. An `uninformative`
    one is as wide as the declared interval of means.
    """
    entry: dict[str, Any] = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
    entry |= {
        "rho": float(estimate.rho * unit_cost),
        "level": 1 - settings.beta,
        "target": settings.target,
        "shrunk": shrunk,
        "uninformative": estimate.uninformative(settings.lower, settings.upper),
    }
    return entry | {"rows": estimate.rows} if isinstance(estimate, Estimate) else entry


def _tail(estimate: Estimate | StratifiedEstimate, settings: Coinpress) -> dict[str, Any]:
    """σ as declared; the largest share of a group's rows that histograms show beyond what it allows; whether that is
    too much."""
    beyond = estimate.clip.beyond
    return {"sigma": {"declared": settings.sigma, "rows_far_out": beyond, "too_small": beyond > FAR_OUT}}


def _some(tables: Sequence[CodedTable], rng: np.random.Generator) -> list[CodedTable]:
    """The tables themselves, or about SCORED_ROWS of all their rows, each kept by a coin of its own."""
    share = SCORED_ROWS / max(sum(map(len, tables)), 1)
    return list(tables) if share >= 1 else [table.take(rng.random(len(table)) < share) for table in tables]


def _together(plan: Plan, parts: Sequence[CodedTable]) -> CodedTable:
    fitted = Strata.over(plan.schema, plan.fitted.columns)  # without UNIT_ROWS
    return fitted.assemble(dict(zip(fitted.keys, parts, strict=True)))
