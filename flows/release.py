"""The release flow: load → partition → fit per stratum → resample → means → evaluate → publish.

Only settings and the path of a private working folder travel through Prefect: it stores flow parameters, logs,
exception texts, artifacts and persisted results, so no task persists, caches or prints anything, and every error that
leaves a task is scrubbed. A retry would draw new noise, so tasks do not retry.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from prefect import flow, task, unmapped
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE

from flows import steps
from flows.config import ReleaseConfig
from flows.guard import scrubbed
from flows.plan import Plan
from flows.progress import tell
from flows.runners import executor, wait
from flows.workspace import Workspace, private_workspace
from privacy.budget import Budget, Rho
from privacy.noise import NoiseSource

F = TypeVar("F", bound=Callable[..., Any])

INTERNAL_SCORES = "internal/scores.json"


def private_task(name: str) -> Callable[[F], Any]:
    """A Prefect task that may touch private rows: nothing of it is cached, persisted, printed or tried again."""
    return task(name=name, cache_policy=NO_CACHE, persist_result=False, log_prints=False, retries=0, task_run_name=None)


load = private_task("load and partition")(steps.load)
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
    key = plan.strata.keys[position]
    job = partial(
        steps.fit_one, work, position, plan.mechanism, plan.strata.rest(key), budgets[position], plan.price.counts,
        noise.spawn(position),
    )  # fmt: skip
    wait(pool.submit(job))


@flow(name="release", log_prints=False, persist_result=False, validate_parameters=True)
def release(config: ReleaseConfig) -> str:
    """Make one release: synthetic rows, measurements, means, card, and, apart, internal scores.

    Args:
        config: public settings only.

    Returns:
        The release folder.

    Cost: (config.epsilon, config.delta)-DP for everything released, neighbours by adding or removing one row: noisy
    counts and synthesis compose in parallel over strata, and in sequence with the means. All of it is charged before a
    mechanism sees a row.
    """
    plan = Plan.of(config)
    noise = steps.noise_source(plan)
    budget = Budget(plan.price.total)
    synthesis = plan.price.counts + plan.price.synthesis
    budgets = list(budget.parallel(synthesis, plan.strata.keys, "synthesis, strata in parallel").values())
    means = Budget(budget.spend(plan.price.means, "means")) if plan.means is not None else Budget(Rho(0))
    with private_workspace(config.scratch) as work:
        with executor(config, work, len(plan.strata.keys)) as pool:  # a cluster that is not there is told of first
            tell("load")
            load(plan, work)
            _fit_all(plan, work, budgets, noise.spawn(steps.SYNTHESIS), pool)
        tell("resample")
        resample(plan, work, noise)
        if plan.means is not None:
            tell("means")
            estimate_means(plan, work, means, noise.spawn(steps.MEANS))
        if config.evaluate != "none":
            tell("evaluate")
            evaluate(plan, work)
        tell("publish")
        folder = publish(plan, work)
    _show(folder)
    return str(folder)


def _fit_all(plan: Plan, work: Workspace, budgets: list[Budget], noise: NoiseSource, pool: Executor) -> None:
    """One mapped task per stratum; threads wait while workers fit."""
    count = len(plan.strata.keys)
    progress = create_progress_artifact(0.0, key="fit-strata", description="strata fitted")
    assert isinstance(progress, UUID)
    tell("fit strata", 0, count)
    runs = fit_stratum.map(
        range(count), unmapped(plan), unmapped(work), unmapped(budgets), unmapped(noise), unmapped(pool)
    )
    for done, run in enumerate(runs, start=1):
        run.result()
        tell("fit strata", done, count)
    update_progress_artifact(progress, 100.0)


def _show(folder: Path) -> None:
    """Artifacts for people who watch Prefect: the card, and where the internal scores lie (not the scores: they are
    exact, and Prefect's database is not the place for numbers computed from private rows)."""
    create_markdown_artifact((folder / "card.md").read_text("utf-8"), key="release-card", description="release card")
    scores = folder / INTERNAL_SCORES
    if scores.exists():
        names = [name for name, value in json.loads(scores.read_text("utf-8")).items() if isinstance(value, float)]
        table = [{"score": name, "kind": "exact, internal", "value in": INTERNAL_SCORES} for name in names]
        create_table_artifact(table, key="release-scores", description="internal scores and where they lie")
