"""The release flow: partition, charge, measure, model, join, means, resample, evaluate and land.

Prefect stores flow parameters, logs, exception messages, artifacts and persisted results. Therefore, it only receives
settings and the path of a private working folder. Tasks do not persist, cache or print anything, and the message of an
error is scrubbed before it leaves a task. Tasks are not retried, because a retry would draw new noise. A flow run can
be retried, and it then resumes the release from the results that were paid for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import Flow, Task, flow, get_run_logger, task, unmapped
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.events import emit_event
from prefect.logging.loggers import flow_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed

from equistrata.errors import EquistrataError
from equistrata.eval.scores.scores import OF_FOREST, OF_TABLES, OF_WEIGHTS
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.inside import SCORES, private_folder
from equistrata.flows.release.measuring.finding import find_values, found_values, recode
from equistrata.flows.release.measuring.means import estimate_means
from equistrata.flows.release.measuring.unit_sizes import count_units
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.prepared import ReleaseExists, with_release_id
from equistrata.flows.release.price import UNIT_SIZES
from equistrata.flows.release.runners import executor, wait
from equistrata.flows.release.steps import describing, drawing, fitting, reading, scoring, streams
from equistrata.flows.release.undertaking import ReleaseRun, under_way
from equistrata.flows.run.foreground import WHOLE, report_progress
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.workspace import Workspace
from equistrata.printable import printable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, noise_source
from equistrata.synth.series.fitting import former_groupings
from equistrata.synth.series.state import by_strata

Given = ParamSpec("Given")
Made = TypeVar("Made")

PUBLISHED = "equistrata.release.published"


def private_task(name: str) -> Callable[[Callable[Given, Made]], Task[Given, Made]]:
    """Return a decorator for a Prefect task that may read private rows.

    Its results are not cached, persisted, printed or retried.
    """
    return task(name=name, cache_policy=NO_CACHE, persist_result=False, log_prints=False, retries=0, task_run_name=None)


def _run(step: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs) -> Made:
    return private_task(step.__name__.replace("_", " "))(step)(*args, **kwargs)


@private_task("one stratum")
@scrub_errors
def on_worker(job: Callable[[], None], pool: Executor) -> None:
    """Run a job on a worker of the pool and wait for it. The submitted arguments are public, except for a seed."""
    wait(pool.submit(job))


def report_failure(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Log one sentence about a failed flow run and create an artifact.

    Use it for `on_failure` and `on_crashed`, also in the process of a worker.
    """
    sentence = failure_sentence(flow_run, state)
    flow_run_logger(flow_run, flow).error("%s", printable(sentence))
    page = ArtifactCreate(
        key="release-failure",
        type="markdown",
        description="what happened, and what to do",
        data=f"# A release did not end well\n\n{sentence}\n",
        flow_run_id=flow_run.id,  # the worker that runs this function has no flow run context
    )
    with get_client(sync_client=True) as client:
        client.create_artifact(page)


def failure_sentence(flow_run: FlowRun, state: State[Any]) -> str:
    """Describe the release that has failed, the cause, and how the user can continue."""
    try:
        named = ReleaseConfig.model_validate(flow_run.parameters["config"])
        assert flow_run.expected_start_time is not None
        config = with_release_id(named.at(flow_run.expected_start_time), str(flow_run.id))
    except (ValueError, KeyError, TypeError):
        return f"Flow run {flow_run.name} ended as {state.name}: its settings are not those of a release."
    what = f"The release into {config.output!r} ended as {state.name}{_cause(state)}."
    if config.dataset is None:
        return f"{what} No ledger was charged and no files were kept, so run it again."
    if Journal.of(str(config.release_id)) is None:
        return f"{what} No files of release {config.release_id!r} are on this machine; see equistrata budget history."
    return (
        f"{what} The results that were charged to {config.dataset!r} are saved: run equistrata resume "
        f"{config.release_id} to continue, or equistrata resume --discard {config.release_id} to give it up."
    )


def _cause(state: State[Any]) -> str:
    """Return the message of an error of equistrata.

    The message of any other error is not used, because it might quote a row.
    """
    error = getattr(state.data, "result", state.data)  # Prefect stores the error of a flow in a record in memory
    return f" ({str(error).strip().rstrip('.')})" if isinstance(error, EquistrataError) else ""


@flow(
    name="release",
    log_prints=False,
    persist_result=False,
    validate_parameters=True,
    on_failure=[report_failure],
    on_crashed=[report_failure],
)
def release(config: ReleaseConfig) -> str | State[Any]:
    """Make a release with synthetic rows, measurements, means, a card and separate internal scores.

    A charged release is resumed if it was started before with the same id. If no id is given, the id is created from
    the name of the output and the id of the flow run, so that a retry by Prefect also resumes the release. Placeholders
    in the output and the id are replaced by the scheduled time of the flow run.

    Parameters
    ----------
    config : ReleaseConfig
        The settings. The release is charged if `config.dataset` is given.

    Returns
    -------
    str or State
        The folder of the release. If the release is already complete in the ledger, the state is Completed, and nothing
        is done or charged.

    Privacy
    -------
    The cost of all published results is (`config.epsilon`, `config.delta`)-DP under adding or removing one unit. The
    unit is one row if no unit is declared (see `Plan.unit`). Strata compose in parallel, and they compose sequentially
    with the means. The whole cost is charged before a mechanism reads any row. The cost of a resumed release may be
    higher. The proofs are given in docs/proofs/budget.md and docs/proofs/units.md.
    """
    scheduled = with_release_id(config.at(flow_run.scheduled_start_time), flow_run.id)
    try:
        with under_way(scheduled) as run:
            for (
                warning
            ) in run.plan.warnings:  # only contains settings, names and sizes, so the orchestrator may store it
                get_run_logger().warning("%s", printable(warning))
            folder = Path(run.plan.config.output) if run.published else _make(run)
    except ReleaseExists as error:
        return Completed(message=str(error))
    report_progress(WHOLE)
    try:
        _show(folder)
        _announce(config, folder)
    except Exception as error:  # the server failed, but the release is complete and paid for
        get_run_logger().warning(
            "the release is complete, but its summary could not be sent to the server: %s", type(error).__name__
        )
    return str(folder)


def _make(run: ReleaseRun) -> Path:
    plan, work = run.plan, run.work
    noise = noise_source(plan.config.seed)
    price = plan.drawn
    budget = Budget(price.total)
    synthesis = price.counts + price.synthesis
    budgets = list(budget.parallel(synthesis, plan.fitted.keys, "synthesis, strata in parallel").values())
    means = budget.part(price.means, "means") if plan.means is not None else Budget(Rho(0))
    finding = budget.part(price.finding, "values of open columns") if plan.openings else Budget(Rho(0))
    report_progress("load")
    with executor(
        plan.config, work, len(plan.fitted.keys)
    ) as pool:  # started before rows are read, because the cluster may be missing
        run.load(lambda: _run(reading.partition, plan, work))
        run.charge()
        if plan.openings:
            _run(find_values, plan, work, finding, noise.spawn(streams.FINDING))
            plan = plan.opened({each["column"]: each["values"] for each in found_values(plan, work)})
            _run(recode, plan, work)
        if price.sizes:
            _run(count_units, plan, work, budget.part(price.sizes, UNIT_SIZES), noise.spawn(streams.SIZES))
        _fit_all(plan, work, budgets, noise.spawn(streams.SYNTHESIS), pool)
    if plan.means is not None:
        report_progress("means")
        _run(estimate_means, plan, work, means, noise.spawn(streams.MEANS))
    report_progress("resample")
    drawn = _run(drawing.resample, plan, work)
    _run(describing.describe, plan, work, noise, drawn, run.statement())
    if plan.config.replicates:
        _run(describing.keep_models, plan, work, partial(report_progress, "replicates"))
    if run.evaluates:
        report_progress("evaluate")
        _run(scoring.evaluate, plan, work)
    report_progress("publish")
    return _run(describing.land_release, plan, work)


def _fit_all(plan: Plan, work: Workspace, budgets: Sequence[Budget], noise: NoiseSource, pool: Executor) -> None:
    progress = create_progress_artifact(0.0, key="fit-strata", description="strata fitted")
    assert isinstance(progress, UUID)
    _work_off("measure", measuring(plan, work, budgets, noise), pool)
    if plan.month is not None:
        report_progress("learn")
        _run(fitting.learn, plan, work)
    if plan.shared is None and plan.mechanism.keeps_measurements:
        if plan.config.shrinkage:
            report_progress("shrink")
            _run(fitting.shrink, plan, work)
        rest = enumerate(map(plan.strata.rest, plan.strata.keys))
        _work_off("model", [partial(fitting.model_one, work, i, plan.mechanism, schema) for i, schema in rest], pool)
    _work_off("join", [join_job(plan, work)], pool)
    update_progress_artifact(progress, 100.0)


def measuring(plan: Plan, work: Workspace, budgets: Sequence[Budget], noise: NoiseSource) -> list[Callable[[], None]]:
    """Return the jobs that measure, one for each part that is fitted separately."""
    count_rho, rest = plan.drawn.counts, enumerate(map(plan.fitted.rest, plan.fitted.keys))
    known = (
        [] if plan.month is None else former_groupings(plan.strata, plan.month.known(plan.strata), plan.month.number)
    )
    former = list(by_strata(plan.strata, known, plan.fitted.keys).values())
    return [
        partial(fitting.fit_one, work, i, plan.mechanism, schema, budgets[i], count_rho, noise.spawn(i), former[i])
        for i, schema in rest
    ]


def join_job(plan: Plan, work: Workspace) -> Callable[[], None]:
    """Return the job that joins the models of the strata."""
    engine, config = None if plan.shared is None else plan.shared.engine, plan.config
    return partial(fitting.join, work, plan.strata, engine, config.shrinkage, plan.weights, config.combine_weights)


def _work_off(stage: str, jobs: Sequence[Callable[[], None]], pool: Executor) -> None:
    """Run one mapped task for each job. The threads of the tasks wait while the workers compute."""
    report_progress(stage, 0, len(jobs))
    for done, run in enumerate(on_worker.map(jobs, unmapped(pool)), start=1):
        run.result()
        report_progress(stage, done, len(jobs))


def _show(folder: Path) -> None:
    """Create artifacts for the card and for the path of the internal scores.

    Exact numbers are not stored in Prefect's database.
    """
    if not (folder / "card.md").exists():
        return  # the release was moved away after it was complete, and then resumed
    create_markdown_artifact((folder / "card.md").read_text("utf-8"), key="release-card", description="release card")
    scores = private_folder(folder) / SCORES
    if scores.exists():
        # The names of the scores must be determined by the settings, because the scores in the file depend on the rows.
        card = json.loads((folder / "card.json").read_text("utf-8"))
        forest = card["config"]["evaluate"] == "full" and card["schema"]["target"] is not None
        plain = () if card["config"].get("expand") else OF_TABLES
        names = [*plain, *(OF_FOREST if forest else ()), *(OF_WEIGHTS if card.get("survey_weight") is not None else ())]
        table = [{"score": name, "kind": "exact, internal", "value in": str(scores)} for name in names]
        create_table_artifact(table, key="release-scores", description="internal scores and where they are")


def _announce(config: ReleaseConfig, folder: Path) -> None:
    """Emit an event that a release is complete, so that its audit can start (see docs/deploy.md).

    The event only contains settings.
    """
    dataset = config.dataset or ""
    emit_event(
        PUBLISHED,
        resource={"prefect.resource.id": f"equistrata.dataset.{dataset or 'none'}", "equistrata.dataset": dataset},
        payload={"folder": str(folder.absolute())},
    )
