"""The release flow: load → partition → charge → fit per stratum → resample → means → evaluate → publish.

Only settings and the path of a private working folder travel through Prefect: it stores flow parameters, logs,
exception texts, artifacts and persisted results, so no task persists, caches or prints anything, and every error that
leaves a task is scrubbed. A retry would draw new noise, so tasks do not retry; a flow run may, and resumes what it paid for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from prefect import flow, get_run_logger, task, unmapped
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.runtime import flow_run
from prefect.states import Completed

from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import steps
from equistrata.flows.release.hooks import tell_failure
from equistrata.flows.release.inside import SCORES, private_folder
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.runners import executor, wait
from equistrata.flows.release.size import warning
from equistrata.flows.release.undertaking import AlreadyMade, Undertaking, under_way, with_release_id
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.progress import tell
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource

F = TypeVar("F", bound=Callable[..., Any])

PUBLISHED = "equistrata.release.published"


def private_task(name: str) -> Callable[[F], Any]:
    """A Prefect task that may touch private rows: nothing of it is cached, persisted, printed or tried again."""
    return task(name=name, cache_policy=NO_CACHE, persist_result=False, log_prints=False, retries=0, task_run_name=None)


load = private_task("load and partition")(steps.load)
lean = private_task("lean on other strata")(steps.lean)
resample = private_task("resample")(steps.resample)
estimate_means = private_task("means")(steps.estimate_means)
evaluate = private_task("evaluate")(steps.evaluate)
publish = private_task("publish")(steps.publish)


@private_task("fit stratum")
@scrubbed
def fit_stratum(
    position: int, plan: Plan, work: Workspace, budgets: list[Budget], noise: NoiseSource, pool: Executor
) -> None:
    """Fit one stratum by a worker of the pool, and wait for it. What is submitted is public but for a seed, if there is one."""
    key = plan.fitted.keys[position]
    job = partial(
        steps.fit_one, work, position, plan.mechanism, plan.fitted.rest(key), budgets[position], plan.price.counts,
        noise.spawn(position),
    )  # fmt: skip
    wait(pool.submit(job))


@private_task("model stratum")
@scrubbed
def model_stratum(position: int, plan: Plan, work: Workspace, pool: Executor) -> None:
    """Model one stratum from its measurements by a worker of the pool, and wait for it."""
    job = partial(steps.model_one, work, position, plan.mechanism, plan.strata.rest(plan.strata.keys[position]))
    wait(pool.submit(job))


@private_task("model all strata")
@scrubbed
def model_joint(plan: Plan, work: Workspace, pool: Executor) -> None:
    """Model all strata from what was measured by one choice for all, by a worker of the pool, and wait for it."""
    assert plan.shared is not None
    wait(pool.submit(partial(steps.model_joint, work, plan.strata, plan.shared.engine, plan.config.shrinkage)))


@flow(
    name="release",
    log_prints=False,
    persist_result=False,
    validate_parameters=True,
    on_failure=[tell_failure],
    on_crashed=[tell_failure],
)
def release(config: ReleaseConfig) -> str | State[Any]:
    """Make one release: synthetic rows, measurements, means, card, and, apart, internal scores.

    A release that a ledger is charged for (`config.dataset`) is resumed if it was begun before, by its id; without one, the
    id is made from the output's name and the flow run's id, so that Prefect's retries of a flow run resume it too. Placeholders in
    the output's name and in the id are filled in from the time that the flow run was scheduled for.

    Args:
        config: public settings only.

    Returns:
        The release folder; or Completed, if the ledger has this release as whole already: then nothing is done or charged.

    Cost: (config.epsilon, config.delta)-DP for everything released, neighbours by adding or removing one row: noisy
    counts and synthesis compose in parallel over strata, and in sequence with the means. All of it is charged before a
    mechanism sees a row. A resumed release may cost more; `equistrata.flows.release.undertaking` says when, and its card how much.
    """
    scheduled = with_release_id(config.at(flow_run.scheduled_start_time), flow_run.id)
    try:
        with under_way(scheduled) as run:
            long = warning(run.plan)
            if long is not None:  # settings and sizes of the schema, so the orchestrator may keep it
                get_run_logger().warning("%s", long)
            folder = Path(run.plan.config.output) if run.published else _make(run)
    except AlreadyMade as error:
        return Completed(message=str(error))
    _show(folder)
    _announce(config, folder)
    return str(folder)


def _make(run: Undertaking) -> Path:
    """Load, charge, draw noise, and lay out the release folder."""
    plan, work = run.plan, run.work
    noise = steps.noise_source(plan)
    budget = Budget(plan.price.total)
    synthesis = plan.price.counts + plan.price.synthesis
    budgets = list(budget.parallel(synthesis, plan.fitted.keys, "synthesis, strata in parallel").values())
    means = budget.part(plan.price.means, "means") if plan.means is not None else Budget(Rho(0))
    tell("load")
    with executor(plan.config, work, len(plan.fitted.keys)) as pool:  # a cluster that is not there is told of first
        run.load(lambda: load(plan, work))
        run.charge()
        _fit_all(plan, work, budgets, noise.spawn(steps.SYNTHESIS), pool)
    tell("resample")
    resample(plan, work, noise, run.statement())
    if plan.means is not None:
        tell("means")
        estimate_means(plan, work, means, noise.spawn(steps.MEANS))
    if run.evaluates:
        tell("evaluate")
        evaluate(plan, work)
    tell("publish")
    folder: Path = publish(plan, work)
    return folder


def _fit_all(plan: Plan, work: Workspace, budgets: list[Budget], noise: NoiseSource, pool: Executor) -> None:
    """One mapped task per stratum to measure, and one to model; threads wait while workers work."""
    count = len(plan.fitted.keys)
    progress = create_progress_artifact(0.0, key="fit-strata", description="strata fitted")
    assert isinstance(progress, UUID)
    positions, everywhere = range(count), (unmapped(plan), unmapped(work))
    _await(
        "measure", fit_stratum.map(positions, *everywhere, unmapped(budgets), unmapped(noise), unmapped(pool)), count
    )
    if plan.shared is not None:
        tell("model")
        model_joint(plan, work, pool)
    elif plan.mechanism.keeps_measurements:
        if plan.config.shrinkage:
            tell("lean")
            lean(plan, work)
        _await("model", model_stratum.map(positions, *everywhere, unmapped(pool)), count)
    update_progress_artifact(progress, 100.0)


def _await(stage: str, runs: Iterable[Any], count: int) -> None:
    tell(stage, 0, count)
    for done, run in enumerate(runs, start=1):
        run.result()
        tell(stage, done, count)


def _show(folder: Path) -> None:
    """Artifacts for people who watch Prefect: the card, and where the internal scores lie (not the scores: they are
    exact, and Prefect's database is not the place for numbers computed from private rows)."""
    if not (folder / "card.md").exists():
        return  # resumed after it was published and moved away
    create_markdown_artifact((folder / "card.md").read_text("utf-8"), key="release-card", description="release card")
    scores = private_folder(folder) / SCORES
    if scores.exists():
        names = [name for name, value in json.loads(scores.read_text("utf-8")).items() if isinstance(value, float)]
        table = [{"score": name, "kind": "exact, internal", "value in": str(scores)} for name in names]
        create_table_artifact(table, key="release-scores", description="internal scores and where they lie")


def _announce(config: ReleaseConfig, folder: Path) -> None:
    """Tell Prefect that a release is there, so that its audit can follow (docs/audit.md). The payload is settings."""
    dataset = config.dataset or ""
    emit_event(
        PUBLISHED,
        resource={"prefect.resource.id": f"equistrata.dataset.{dataset or 'none'}", "equistrata.dataset": dataset},
        payload={"folder": str(folder.absolute())},
    )
