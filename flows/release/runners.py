"""Who fits the strata: threads, processes of this machine, or workers of a Dask or Ray cluster. All are one Executor.

What is submitted holds settings, budgets and the path of the private working folder, never a row. Threads of Prefect
tasks wait for the results, so no worker needs Prefect, or starts a server of its own.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.run.guard import StepFailed
from equistrata.flows.run.journal import STATE_VARIABLE
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import BudgetExceeded
from equistrata.synth.strata.fitting import process_pool

R = TypeVar("R")

WAIT_SECONDS = 60  # for a cluster's scheduler to answer, and for its first worker
LOST = 3  # workers that may be lost over one stratum
PACKAGES = {"dask": "distributed", "ray": "ray"}
MARK = "mark"

Answers = Mapping[str, tuple[str, tuple[bool, ...]]]


def check(config: ReleaseConfig) -> None:
    """Raise InputError if the runner is not installed, or a cluster is named that it does not use."""
    package = PACKAGES.get(config.runner)
    if package is None and config.cluster is not None:
        raise InputError(
            f"runner {config.runner!r} uses no cluster; choose runner dask or ray, or leave the cluster out"
        )
    if package is not None and find_spec(package) is None:
        raise InputError(
            f"runner {config.runner!r} is not installed; install equistrata[{config.runner}], or choose processes"
        )


@contextmanager
def executor(config: ReleaseConfig, work: Workspace, strata: int) -> Iterator[Executor]:
    """Something to submit the fits of so many strata to, while the block runs.

    Raises:
        InputError: a cluster that does not answer, has no workers, runs another version of equistrata, or does not see
            the private folders. Said before any row is read.
    """
    workers = min(config.workers, strata)
    with ExitStack() as stack:
        if config.runner == "threads" or (config.runner == "processes" and workers == 1):
            pool: Executor = stack.enter_context(ThreadPoolExecutor(workers))
        elif config.runner == "processes":
            pool = stack.enter_context(process_pool(workers))
        elif config.runner == "dask":
            pool = stack.enter_context(_dask(config.cluster, workers, work))
        else:
            pool = stack.enter_context(_ray(config.cluster, workers, work))
        yield pool


def wait(future: Future[None]) -> None:
    """Wait for a fit. Raises what it raised (`steps.fit_one` lets nothing else out), or StepFailed if its worker was lost."""
    try:
        future.result()
    except (InputError, BudgetExceeded, StepFailed):
        raise
    except Exception as error:
        raise StepFailed(
            f"a stratum's worker was lost ({type(error).__name__}): its process or the cluster ended, perhaps for want of "
            "memory; nothing was released"
        ) from None


def see(folders: tuple[Path, ...], mark: str) -> tuple[str, tuple[bool, ...]]:
    """On a worker: the version of equistrata, and which of these folders are there, readable and writable."""
    return version("equistrata"), tuple(_sees(folder, mark) for folder in folders)


def _sees(folder: Path, mark: str) -> bool:
    try:
        return (folder / MARK).read_text("ascii") == mark and os.access(folder, os.W_OK)
    except OSError:
        return False


@contextmanager
def _dask(address: str | None, workers: int, work: Workspace) -> Iterator[Executor]:
    from distributed import Client

    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong comes out of `wait`, in a sentence
    with ExitStack() as stack:
        if address is None:
            client = stack.enter_context(Client(stack.enter_context(_local_cluster(workers, work))))
        else:
            try:
                client = stack.enter_context(Client(address, timeout=WAIT_SECONDS))
            except (OSError, ValueError, TypeError):  # TypeError: no certificates for tls://
                raise InputError(
                    f"no Dask scheduler answers at {address!r}; start one, or correct the address (tls:// needs Dask's "
                    "settings distributed.comm.tls)"
                ) from None
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError:
            raise InputError(
                f"the Dask cluster at {address!r} has no workers; start some (dask worker ADDRESS)"
            ) from None
        _check_workers(partial(_ask_dask, client), work)
        yield stack.enter_context(client.get_executor(pure=False, retries=0))


def _ask_dask(client: Any, *args: Any) -> Answers:
    """What `see` answers on each worker, and on the scheduler, which unpacks what is submitted but needs no folder."""
    return {**client.run(see, *args), "scheduler": (client.run_on_scheduler(see, *args)[0], ())}


@contextmanager
def _local_cluster(workers: int, work: Workspace) -> Iterator[Any]:
    """A Dask cluster of this machine that nobody else can use or look at.

    Whoever reaches a scheduler can run code as its owner, so it talks TLS with a key made for this run, and serves no web
    page. It kills no worker for the memory it takes, for then the noise that a fit drew might decide whether it is drawn
    again.
    """
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    quiet = {f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker", "nanny")}
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", protocol="tls://", security=Security.temporary(),
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"}, memory_limit=0,
            local_directory=str(work.root), silence_logs=logging.CRITICAL,
        ) as cluster,
    ):  # fmt: skip
        yield cluster


def _check_workers(ask: Callable[..., Answers], work: Workspace) -> None:
    """Raise InputError unless every worker has this version of equistrata and sees the folders of rows and of results."""
    mark, folders = os.urandom(16).hex(), (work.root, work.paid)
    for folder in folders:
        (folder / MARK).write_text(mark, "ascii")
    try:
        answers = ask(folders, mark)
    except ImportError:
        raise InputError(
            "the cluster's scheduler or one of its workers cannot import equistrata; install the same version on all"
        ) from None
    for found, seen in answers.values():
        if found != version("equistrata"):
            raise InputError(
                f"the cluster runs equistrata {found}, not {version('equistrata')}; install the same version everywhere"
            )
        if not all(seen):
            means = f"name one in {STATE_VARIABLE}" if seen[0] else "give one as --scratch"
            raise InputError(
                f"a worker of the cluster does not see the folder for {'results' if seen[0] else 'private working files'}; "
                f"{means} that all of its machines share under one path and one user"
            )


@contextmanager
def _ray(address: str | None, workers: int, work: Workspace) -> Iterator[Executor]:
    # Nobody is told of its use; and, as with Dask, whoever reaches a cluster can run code, so nobody else reaches this one.
    environment = {"RAY_USAGE_STATS_ENABLED": "0"}
    if address is None:
        if "ray" in sys.modules and not _ray_token.cache_info().currsize:  # imported before it could get a token
            raise InputError("Ray is in use in this process already; start the release in a process of its own")
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _ray_token()}
    before = {name: os.environ.get(name) for name in environment}
    os.environ |= environment
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with ExitStack() as stack:
        stack.callback(_restore, before)
        if address is None:
            # A socket's path may have 107 characters, and Ray's own part of it takes 60.
            short = "/tmp" if os.path.isdir("/tmp") else None
            folder = stack.enter_context(TemporaryDirectory(prefix="ray-", dir=short, ignore_cleanup_errors=True))
            settings |= {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
        stack.callback(ray.shutdown)
        try:
            ray.init(address or "local", **settings)
        except (ConnectionError, ValueError, RuntimeError):
            raise InputError(
                f"no Ray cluster answers at {address!r} from this machine; join it (ray start --address=…), or correct "
                "the address"
            ) from None
        _check_workers(partial(_ask_ray_nodes, ray), work)
        yield stack.enter_context(_RayExecutor(ray))


@cache
def _ray_token() -> str:
    """Ray reads its token once in the life of a process."""
    return os.urandom(32).hex()


def _restore(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


def _ask_ray_nodes(ray: Any, *args: Any) -> Answers:
    """What `see` answers on each machine of the cluster."""
    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[node["NodeID"]] = ray.remote(see).options(scheduling_strategy=place, num_cpus=0).remote(*args)
    try:
        return {node: ray.get(answer) for node, answer in asked.items()}
    except ray.exceptions.RayTaskError as error:
        raise ImportError(type(error).__name__) from None


class _RayExecutor(Executor):
    """Ray tasks as an Executor. A lost worker's task runs again elsewhere; one that raised does not."""

    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(max_retries=LOST, retry_exceptions=False, num_cpus=1)(_call)

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """See `Executor.submit`."""
        outcome: Future[R] = Future()
        outcome.set_running_or_notify_cancel()
        self._run.remote(fn, *args, **kwargs).future().add_done_callback(partial(_pass_on, outcome))
        return outcome


def _call(fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    return fn(*args, **kwargs)


def _pass_on(outcome: Future[R], done: Future[R]) -> None:
    """Ray wraps what a task raised; it comes out as it was raised."""
    error = done.exception()
    if error is None:
        outcome.set_result(done.result())
    else:
        outcome.set_exception(getattr(error, "cause", None) or error)
