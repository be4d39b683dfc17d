"""The flow that makes a figure of the stratification paper again: load → measure what is missing → draw.

As in the release flow, only settings and the path of a private working folder travel through Prefect; scores, which are exact,
go to the output folder and not into Prefect's results, logs or artifacts. Every run is written down as soon as it is known, so a
flow that was stopped goes on where it was.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from threading import Lock

from prefect import flow
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from equistrata.errors import InputError
from equistrata.flows.release.flow import private_task
from equistrata.flows.release.runners import wait
from equistrata.flows.run.claims import claimed
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.progress import tell
from equistrata.flows.run.workspace import Workspace, private_workspace
from equistrata.synth.strata.fitting import process_pool
from paper import steps as experiment_steps
from paper.config import ExperimentConfig
from paper.grid import Unit, runs_of

load = private_task("load rows")(experiment_steps.load)
draw = private_task("draw figure")(experiment_steps.draw)

_writing = Lock()  # tasks are threads of this process; other processes are kept out by a claim on the folder


@private_task("measure")
@scrubbed
def measure(unit: Unit, config: ExperimentConfig, work: Workspace, pool: Executor) -> None:
    """Have a worker make some runs, wait for it, and write them down."""
    future = pool.submit(partial(experiment_steps.measure, unit, work))
    wait(future)
    with _writing:
        experiment_steps.keep(config, unit, future.result())


@flow(name="experiment", log_prints=False, persist_result=False, validate_parameters=True)
def experiment(config: ExperimentConfig) -> str:
    """Make the runs that a figure needs and the output folder lacks, and draw it.

    Args:
        config: public settings only.

    Returns:
        The output folder.

    Cost: not private at all: exact scores and seeded noise, for rows that are public use or simulated. Everything that is written says so.

    Raises InputError if the rows are not there, or the folder is in use or holds runs on other rows.
    """
    experiment_steps.check(config)
    folder = Path(config.output) / "runs"
    with claimed(folder) as free:
        if not free:
            raise InputError(f"another run is writing to {config.output!r}; wait for it, or name another --output")
        _measure_all(config)
        tell("draw")
        draw(config)
    return config.output


def run(config: ExperimentConfig) -> Path:
    """The flow, with as many tasks at a time as there are workers."""
    tuned = experiment.with_options(task_runner=ThreadPoolTaskRunner(max_workers=2 * config.processes))
    return Path(tuned(config))


def _measure_all(config: ExperimentConfig) -> None:
    runs = runs_of(config)
    units = experiment_steps.missing(config, runs)
    if not units:
        return
    with private_workspace() as work:
        if runs.reads_rows:
            tell("load rows")
            load(config, work)
        with _pool(min(config.processes, len(units))) as pool:
            tell("measure", 0, len(units))
            # A few at a time and not all at once: a run that is stopped has no hundreds of tasks to call off.
            waiting: deque[PrefectFuture[None]] = deque()
            for done, unit in enumerate(units):
                if len(waiting) == 2 * config.processes:
                    waiting.popleft().result()
                    tell("measure", done - len(waiting), len(units))
                waiting.append(measure.submit(unit, config, work, pool))
            for left, each in enumerate(waiting, start=1):
                each.result()
                tell("measure", len(units) - len(waiting) + left, len(units))


def _pool(workers: int) -> AbstractContextManager[Executor]:
    return ThreadPoolExecutor(1) if workers == 1 else process_pool(workers)
