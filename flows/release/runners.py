"""Executors for the fits: threads, processes of this machine, or a Dask or Ray cluster.

The submitted jobs contain settings, budgets and the path of the private working folder, but never a row. The threads of
Prefect tasks wait for the results, so that workers do not need Prefect.
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

WAIT_SECONDS = 60  # the time to wait for the scheduler of a cluster, and for its first worker
MOST_LOST = 3  # the number of workers that may be lost in fitting one stratum
PACKAGES = {"dask": "distributed", "ray": "ray"}
MARK = "mark"

Answers = Mapping[str, tuple[str, tuple[bool, ...]]]


def check_runner(config: ReleaseConfig) -> None:
    """Raise an InputError if the runner is not installed, or if it does not use a cluster although one is named."""
    package = PACKAGES.get(config.runner)
    if package is None and config.cluster is not None:
        raise InputError(f"runner {config.runner!r} uses no cluster; choose dask or ray, or leave the cluster out")
    if package is not None and find_spec(package) is None:
        raise InputError(
            f"runner {config.runner!r} is missing; install equistrata[{config.runner}], or choose processes"
        )


def executor(config: ReleaseConfig, work: Workspace, strata: int) -> AbstractContextManager[Executor]:
    """Return an executor for the fits of the strata.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    work : Workspace
        The working folder.
    strata : int
        The number of fits.

    Returns
    -------
    context manager of Executor
        The executor.

    Raises
    ------
    InputError
        If a cluster does not answer, has no workers, uses another version of equistrata, or cannot access the private
        folders. This is raised before any row is read.
    """
    workers = min(config.workers, strata)
    if config.runner == "threads" or (config.runner == "processes" and workers == 1):
        return ThreadPoolExecutor(workers)
    if config.runner == "processes":
        return process_pool(workers)
    return (_dask if config.runner == "dask" else _ray)(config.cluster, workers, work)


def wait(future: Future[None]) -> None:
    """Wait for a job.

    If the job fails, its error is raised, because steps only raise errors of equistrata. If its worker was lost, a
    StepFailed error is raised.
    """
    try:
        future.result()
    except Exception as error:
        cause = getattr(error, "cause", None) or error  # Ray wraps the error of a task
        if isinstance(cause, InputError | BudgetExceeded | StepFailed):
            raise cause from None
        raise StepFailed(
            f"a stratum's worker was lost ({type(cause).__name__}), perhaps because it ran out of memory; "
            "nothing was released"
        ) from None


def see(folders: tuple[Path, ...], mark: str) -> tuple[str, tuple[bool, ...]]:
    """Return the version of equistrata on a worker, and for each folder whether the worker can read and write it."""
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
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are reported by `wait` in one sentence
    with ExitStack() as stack:
        if address is None:
            # A scheduler runs code for everyone who can connect, so it uses TLS with a key for this run and does not
            # serve a web page. It does not kill workers because of their memory, since the noise could then determine
            # whether it is drawn again (docs/proofs/budget.md).
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
            except (OSError, ValueError, TypeError):  # TypeError is raised if certificates for tls:// are missing
                raise InputError(
                    f"no Dask scheduler answers at {address!r}; correct it (tls:// needs Dask's distributed.comm.tls)"
                ) from None
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError:
            raise InputError(f"the Dask cluster at {address!r} has no workers; start one (dask worker)") from None
        # The scheduler is checked as well, because it unpickles the submitted jobs. It does not need the folders.
        _check_workers(lambda *a: client.run(see, *a) | {"scheduler": (client.run_on_scheduler(see, *a)[0], ())}, work)
        yield stack.enter_context(client.get_executor(pure=False, retries=0))


def _check_workers(ask: Callable[..., Answers], work: Workspace) -> None:
    """Raise an InputError unless all workers have this version and can access the private folders."""
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
                f"the cluster runs equistrata {found}, not {version('equistrata')}; install the same version on "
                "all machines"
            )
        if not all(seen):
            means = f"name one in {STATE_VARIABLE}" if seen[0] else "give one as --scratch"
            raise InputError(
                "a worker of the cluster does not see the folder for "
                f"{'results' if seen[0] else 'private working files'}; {means} that all of its machines share under "
                "one path and one user"
            )


@contextmanager
def _ray(address: str | None, workers: int, work: Workspace) -> Iterator[Executor]:
    # Usage statistics are disabled. As with Dask, other users must not run code on this cluster, so it needs a token.
    environment = {"RAY_USAGE_STATS_ENABLED": "0"}
    if address is None:
        if "ray" in sys.modules and not _ray_token.cache_info().currsize:  # Ray was imported before the token was set
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
            # The path of a socket can have 107 characters, and 60 of them are used by Ray.
            short = "/tmp" if os.path.isdir("/tmp") else None  # nosec B108
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
    """Return a random token. It is the same for the whole process, because Ray reads it only once."""
    return os.urandom(32).hex()


def _ask_ray_nodes(ray: Any, *args: Any) -> Answers:
    """Call `see` on each machine of the cluster."""
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
    """Executor that runs Ray tasks.

    If a worker is lost, its task is run again. If a task raises an error, it is not run again.
    """

    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(max_retries=MOST_LOST, retry_exceptions=False, num_cpus=1)(_call)

    def submit(self, fn: Callable[..., Answered], /, *args: Any, **kwargs: Any) -> Future[Answered]:
        """Submit a job (see `Executor.submit`)."""
        outcome: Future[Answered] = self._run.remote(fn, *args, **kwargs).future()
        return outcome


def _call(fn: Callable[..., Answered], *args: Any, **kwargs: Any) -> Answered:
    return fn(*args, **kwargs)
