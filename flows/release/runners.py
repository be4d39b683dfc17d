"""Runners of the fits: threads, processes of this machine, or a Dask or Ray cluster, each as an Executor.

What is submitted has settings, budgets and the path of the private working folder, never a row. Threads of Prefect
tasks wait for the results, so no worker needs Prefect.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from importlib import import_module
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

Answered = TypeVar("Answered")

WAIT_SECONDS = 60  # for a cluster's scheduler to answer, and for its first worker
MOST_LOST = 3  # workers that may be lost over one stratum
PACKAGES = {"dask": "distributed", "ray": "ray"}
MARK = "mark"

Answers = Mapping[str, tuple[str, tuple[bool, ...]]]


def check_runner(config: ReleaseConfig) -> None:
    """Raise InputError if the runner is not installed, or a cluster is named that it does not use."""
    package = PACKAGES.get(config.runner)
    if package is None and config.cluster is not None:
        raise InputError(f"runner {config.runner!r} uses no cluster; choose dask or ray, or leave the cluster out")
    if package is not None and find_spec(package) is None:
        raise InputError(
            f"runner {config.runner!r} is missing; install equistrata[{config.runner}], or choose processes"
        )


def executor(config: ReleaseConfig, work: Workspace, strata: int) -> AbstractContextManager[Executor]:
    """An executor for the fits of so many strata. Raises InputError, before any row is read, for a cluster that does
    not answer, has no workers, runs another version of equistrata, or does not see the private folders.
    """
    workers = min(config.workers, strata)
    if config.runner == "threads" or (config.runner == "processes" and workers == 1):
        return ThreadPoolExecutor(workers)
    if config.runner == "processes":
        return process_pool(workers)
    return (_dask if config.runner == "dask" else _ray)(config.cluster, workers, work)


def wait(future: Future[None]) -> None:
    """Wait for a job. Raises what it raised (steps raise our own errors only), or StepFailed if its worker was lost."""
    try:
        future.result()
    except Exception as error:
        cause = getattr(error, "cause", None) or error  # Ray wraps what a task raised
        if isinstance(cause, InputError | BudgetExceeded | StepFailed):
            raise cause from None
        raise StepFailed(
            f"a stratum's worker was lost ({type(cause).__name__}), perhaps for want of memory; nothing was released"
        ) from None


def see(folders: tuple[Path, ...], mark: str) -> tuple[str, tuple[bool, ...]]:
    """On a worker: the version of equistrata, and which of these folders it can read and write."""
    return version("equistrata"), tuple(_sees(folder, mark) for folder in folders)


def _sees(folder: Path, mark: str) -> bool:
    try:
        return (folder / MARK).read_text("ascii") == mark and os.access(folder, os.W_OK)
    except OSError:
        return False


@contextmanager
def _dask(address: str | None, workers: int, work: Workspace) -> Iterator[Executor]:
    dask, distributed = import_module("dask"), import_module("distributed")
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong comes out of `wait`, in a sentence
    with ExitStack() as stack:
        if address is None:
            # A scheduler runs code for everyone who reaches it, so it uses TLS with a key made for this run, and serves
            # no web page. It kills no worker for its memory: noise must not decide whether it is drawn again
            # (docs/proofs/budget.md).
            pages = (f"distributed.{part}.http.routes" for part in ("scheduler", "worker", "nanny"))
            stack.enter_context(dask.config.set({page: [] for page in pages}))
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", protocol="tls://",
                security=distributed.Security.temporary(),
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"}, memory_limit=0,
                local_directory=str(work.root), silence_logs=logging.CRITICAL,
            )  # fmt: skip
            client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
        else:
            try:
                client = stack.enter_context(distributed.Client(address, timeout=WAIT_SECONDS))
            except (OSError, ValueError, TypeError):  # TypeError: no certificates for tls://
                raise InputError(
                    f"no Dask scheduler answers at {address!r}; correct it (tls:// needs Dask's distributed.comm.tls)"
                ) from None
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError:
            raise InputError(f"the Dask cluster at {address!r} has no workers; start one (dask worker)") from None
        # The scheduler, too: it unpickles what is submitted, but needs no folder.
        _check_workers(lambda *a: client.run(see, *a) | {"scheduler": (client.run_on_scheduler(see, *a)[0], ())}, work)
        yield stack.enter_context(client.get_executor(pure=False, retries=0))


def _check_workers(ask: Callable[..., Answers], work: Workspace) -> None:
    """Raise InputError unless every worker has this version and sees the folders of rows and of results."""
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
            raise InputError(f"the cluster runs equistrata {found}, not {version('equistrata')}; install one version")
        if not all(seen):
            means = f"name one in {STATE_VARIABLE}" if seen[0] else "give one as --scratch"
            raise InputError(
                "a worker of the cluster does not see the folder for "
                f"{'results' if seen[0] else 'private working files'}; {means} that all of its machines share under "
                "one path and one user"
            )


@contextmanager
def _ray(address: str | None, workers: int, work: Workspace) -> Iterator[Executor]:
    # No usage statistics; and, as with Dask, a token keeps others from running code on this cluster.
    environment = {"RAY_USAGE_STATS_ENABLED": "0"}
    if address is None:
        if "ray" in sys.modules and not _ray_token.cache_info().currsize:  # imported before it could get a token
            raise InputError("Ray is in use in this process already; start the release in a process of its own")
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _ray_token()}
    before = {name: os.environ[name] for name in environment if name in os.environ}
    os.environ |= environment
    ray = import_module("ray")
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with ExitStack() as stack:
        stack.callback(os.environ.update, before)
        for name in environment:
            stack.callback(os.environ.pop, name)
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
                f"no Ray cluster answers at {address!r} from this machine; join it (ray start), or correct the address"
            ) from None
        _check_workers(partial(_ask_ray_nodes, ray), work)
        yield stack.enter_context(_RayExecutor(ray))


@cache
def _ray_token() -> str:
    """Ray reads its token once in a process."""
    return os.urandom(32).hex()


def _ask_ray_nodes(ray: Any, *args: Any) -> Answers:
    """`see` on each machine of the cluster."""
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
    """Ray tasks as an Executor. A lost worker's task runs again; one that raised does not."""

    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(max_retries=MOST_LOST, retry_exceptions=False, num_cpus=1)(_call)

    def submit(self, fn: Callable[..., Answered], /, *args: Any, **kwargs: Any) -> Future[Answered]:
        """See `Executor.submit`."""
        outcome: Future[Answered] = self._run.remote(fn, *args, **kwargs).future()
        return outcome


def _call(fn: Callable[..., Answered], *args: Any, **kwargs: Any) -> Answered:
    return fn(*args, **kwargs)
