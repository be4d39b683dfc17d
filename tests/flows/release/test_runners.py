"""Tests of the runners that fit strata.

The measurements must be the same for all runners, and no rows are sent to a cluster.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import cloudpickle
import numpy as np
import pytest
from left_in import left_in

from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import runners
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import fitting, reading, streams
from equistrata.flows.run.guard import StepFailed
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.privacy.noise import noise_source

CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("dask", "ray")]
CANARY = "canary-row-6620"


@pytest.fixture
def plan(people, tmp_path):
    """Return a plan with a seed for the small table."""
    table, schema, _ = people
    return Plan.of(
        ReleaseConfig.build(
            source="csv",
            input=str(table),
            schema=str(schema),
            strata="SEX,GROUP",
            seed=1,
            selection="per-stratum",
            output=str(tmp_path / "out"),
        )
    )


@contextmanager
def loaded(plan, root):
    root.mkdir()
    work = Workspace(root)
    reading.partition(plan, work)
    yield work


def jobs(plan, work, mechanism=None):
    """Generate the jobs that a release submits, one for each stratum."""
    noise = noise_source(plan.config.seed).spawn(streams.SYNTHESIS)
    for i, key in enumerate(plan.strata.keys):
        budget = Budget(plan.price.counts + plan.price.synthesis)
        yield partial(
            fitting.fit_one, work, i, mechanism or plan.mechanism, plan.strata.rest(key), budget, plan.price.counts,
            noise.spawn(i), [],
        )  # fmt: skip


def install(runner):
    # It is not imported here, because Ray must be imported by the runner.
    if find_spec(runners.PACKAGES.get(runner, "loky")) is None:
        pytest.skip(f"the extra {runner!r} is not installed")


def model_jobs(plan, work):
    for i, key in enumerate(plan.strata.keys):
        yield partial(fitting.model_one, work, i, plan.mechanism, plan.strata.rest(key))


def fitted(plan, work, submit):
    """Measure and model each stratum and return the content of the files."""
    for stage in (jobs, model_jobs):
        for future in [submit(job) for job in stage(plan, work)]:
            future.result(timeout=120)
        if stage is jobs:
            fitting.shrink(plan, work)
    return [path.read_bytes() for i in range(6) for path in (work.measurements(i), work.borrowed(i), work.model(i))]


def at_once(job):
    done = Future()
    done.set_result(job())
    return done


@pytest.mark.parametrize("runner", ["threads", "processes", *CLUSTERS])
def test_every_runner_gives_the_same_measurements_and_models(plan, tmp_path, runner):
    install(runner)
    with loaded(plan, tmp_path / "alone") as alone, loaded(plan, tmp_path / "runner") as work:
        config = plan.config.model_copy(update={"runner": runner, "workers": 2})
        with runners.executor(config, work, 6) as pool:
            found = fitted(plan, work, pool.submit)
        assert found == fitted(plan, alone, at_once)


@pytest.mark.parametrize("runner", ["threads", "processes", *CLUSTERS])
def test_every_runner_gives_the_same_models_where_one_choice_serves_all_strata(people, tmp_path, runner):
    install(runner)
    table, schema, _ = people
    plan = Plan.of(
        ReleaseConfig.build(
            source="csv", input=str(table), schema=str(schema), strata="SEX,GROUP", seed=1, output=str(tmp_path / "out")
        )
    )
    found = []
    with loaded(plan, tmp_path / "alone") as alone, loaded(plan, tmp_path / "runner") as work:
        config = plan.config.model_copy(update={"runner": runner, "workers": 2})
        with runners.executor(config, work, 1) as pool:
            for place, submit in ((work, pool.submit), (alone, at_once)):
                budget, noise = (
                    Budget(plan.price.counts + plan.price.synthesis),
                    noise_source(plan.config.seed).spawn(0),
                )
                fit = partial(
                    fitting.fit_one, place, 0, plan.mechanism, plan.fitted.rest(()), budget, plan.price.counts, noise
                )
                submit(fit).result(timeout=120)
                model = partial(fitting.join, place, plan.strata, plan.shared.engine, True)
                submit(model).result(timeout=120)
                made = place.joint.read_bytes()
                submit(model).result(timeout=120)  # A cluster may run a job again after it has lost a worker.
                assert made == place.joint.read_bytes()
                found.append((made, place.measurements(0).read_bytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("runner", ["threads", "processes", *CLUSTERS])
def test_what_a_fit_raises_comes_out_as_it_was_raised(plan, tmp_path, runner):
    install(runner)
    config = plan.config.model_copy(update={"runner": runner, "workers": 2})
    work = Workspace(tmp_path / "work")
    work.root.mkdir()
    with runners.executor(config, work, 6) as pool:
        with pytest.raises(StepFailed, match="fit_one failed with FileNotFoundError"):
            pool.submit(next(jobs(plan, work))).result(timeout=120)
        with pytest.raises(InputError, match="no schema named 'nobody'"):
            pool.submit(Schema.load, "nobody").result(timeout=120)


@pytest.mark.parametrize("runner", CLUSTERS)
def test_what_a_dead_worker_was_at_runs_again(plan, tmp_path, runner, monkeypatch):
    install(runner)
    (tmp_path / "dies.py").write_text(
        "import os, signal\n"
        "def once(mark):\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        "        signal.raise_signal(signal.SIGKILL)\n"
        "    return 'alive'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    from dies import once

    work = Workspace(tmp_path / "work")
    work.root.mkdir()
    with runners.executor(plan.config.model_copy(update={"runner": runner, "workers": 2}), work, 6) as pool:
        assert pool.submit(once, tmp_path / "mark").result(timeout=120) == "alive"
    assert (tmp_path / "mark").exists()


def test_a_killed_process_ends_the_release_with_a_sentence(plan, tmp_path):
    config = plan.config.model_copy(update={"workers": 2})
    with runners.executor(config, Workspace(tmp_path), 6) as pool, pytest.raises(StepFailed, match="worker was lost"):
        runners.wait(pool.submit(signal.raise_signal, signal.SIGKILL))


def test_workers_one_is_one_fit_at_a_time_in_this_process(plan, tmp_path):
    with runners.executor(plan.config.model_copy(update={"workers": 1}), Workspace(tmp_path), 6) as pool:
        assert pool.submit(os.getpid).result() == os.getpid()
        running = []

        def job():
            running.append(1)
            time.sleep(0.02)
            return len(running) - running.pop()

        assert {future.result() for future in [pool.submit(job) for _ in range(5)]} == {0}


# The following tests check the data that is sent to workers.


def spoiled(people):
    """Return the path of a table with the same schema, where the values and the sizes of the strata are different."""
    table, _, frame = people
    frame = frame.iloc[100:].copy()
    frame["AGE"] = 99 - frame["AGE"]
    frame["SEX"] = 3 - frame["SEX"]
    frame.to_csv(table.with_name("other.csv"), index=False)
    return str(table.with_name("other.csv"))


def test_what_is_submitted_does_not_depend_on_the_rows(plan, people, tmp_path):
    """For two tables and the same path of the working folder, a cluster receives identical bytes."""
    sent = []
    for source in (plan.source, FileSource(spoiled(people))):
        other = replace(plan, source=source)
        with loaded(other, tmp_path / "work") as work:
            sent.append([cloudpickle.dumps(job) for job in jobs(other, work)])
            rows = work.load_table(work.stratum(0), plan.strata.rest(plan.strata.keys[0])).codes.tobytes()
            assert not any(rows in job for job in sent[-1])
            # The search finds rows if they are sent
            assert rows in cloudpickle.dumps(partial(len, np.load(work.stratum(0))))
            assert [cloudpickle.loads(job).args[0] for job in sent[-1]] == [work] * 6
        (tmp_path / "work").rename(tmp_path / f"work{len(sent)}")
    assert sent[0] == sent[1]
    assert len(sent[0]) == 6


def test_the_task_submits_that_and_nothing_else(plan, tmp_path):
    from equistrata.flows.release.flow import measuring, on_worker

    class Recorder:
        def __init__(self):
            self.submitted = []

        def submit(self, fn, *args, **kwargs):
            self.submitted.append(cloudpickle.dumps((fn, args, kwargs)))
            return self

        def result(self):
            return None

    pool, work = Recorder(), Workspace(tmp_path)
    noise = noise_source(plan.config.seed).spawn(streams.SYNTHESIS)
    budgets = [Budget(plan.price.counts + plan.price.synthesis)] * 6
    for job in measuring(plan, work, budgets, noise):
        on_worker.fn(job, pool)
    assert pool.submitted == [cloudpickle.dumps((job, (), {})) for job in jobs(plan, work)]


# The following tests check which settings are refused.


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_a_cluster_without_a_runner_for_it_is_refused(tmp_path, runner):
    with pytest.raises(InputError, match="uses no cluster"):
        Plan.of(ReleaseConfig.build(runner=runner, cluster="127.0.0.1:1", output=str(tmp_path / "out")))


@pytest.mark.parametrize("runner", ["dask", "ray"])
def test_a_runner_that_is_not_installed_is_named_at_once(tmp_path, runner, monkeypatch):
    monkeypatch.setitem(runners.PACKAGES, runner, "no_such_package")
    with pytest.raises(InputError, match=rf"install equistrata\[{runner}\]"):
        Plan.of(ReleaseConfig.build(runner=runner, output=str(tmp_path / "out")))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "tls://127.0.0.1:9"])
def test_a_dask_scheduler_that_does_not_answer_is_named(plan, tmp_path, address, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(runners, "WAIT_SECONDS", 1)
    config = plan.config.model_copy(update={"runner": "dask", "cluster": address})
    with pytest.raises(InputError, match="no Dask scheduler answers"), runners.executor(config, Workspace(tmp_path), 6):
        pass


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((runners.version("equistrata"), (False, True)), "private working files; give one as --scratch"),
        ((runners.version("equistrata"), (True, False)), "results; name one in EQUISTRATA_STATE"),
        (("0.0.1", (True, True)), "runs equistrata 0.0.1"),
    ],
)
def test_workers_that_could_not_fit_are_refused(tmp_path, answer, told):
    good = (runners.version("equistrata"), (True, True))
    (tmp_path / "kept").mkdir()
    work = Workspace(tmp_path, tmp_path / "kept", units=("all",))
    runners._check_workers(lambda folders, mark: {"a": runners.see(folders, mark), "b": good}, work)
    with pytest.raises(InputError, match=told):
        runners._check_workers(lambda folders, mark: {"a": good, "b": answer}, work)


def test_workers_without_equistrata_are_refused(tmp_path):
    def ask(folders, mark):
        raise ModuleNotFoundError("No module named 'flows'")

    with pytest.raises(InputError, match="cannot import equistrata"):
        runners._check_workers(ask, Workspace(tmp_path))


def test_another_folder_under_the_same_path_is_not_seen(tmp_path):
    (tmp_path / "mark").write_text("of another machine")
    seen = runners.see((tmp_path, tmp_path / "none"), "ours")
    assert seen == (runners.version("equistrata"), (False, False))


# The following tests use a cluster with a scheduler and two workers on the loopback interface.


class Cluster:
    """A Dask scheduler and its workers, which have no nannies, so that a killed worker is not started again."""

    def __init__(self, folder, repo_root):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.address = folder, f"tcp://127.0.0.1:{port}"
        self.env = os.environ | {"PYTHONPATH": f"{repo_root}{os.pathsep}{folder}"}
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        self.workers = [
            self._start(
                "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory",
                str(folder)
            )
            for _ in range(2)
        ]  # fmt: skip

    def _start(self, kind, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        with (self.folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self.env, cwd=self.folder)

    def stop(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def logs(self):
        return b"".join(path.read_bytes() for path in self.folder.glob("*.log"))


@pytest.fixture
def cluster(tmp_path, repo_root):
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    found = Cluster(tmp_path / "cluster", repo_root)
    yield found
    found.stop()


def begun(folder):
    """Return the number of starts of each stratum, and True if the measurements of the stratum are saved."""
    found = {}
    with suppress(FileNotFoundError):  # the release has just ended
        for path in folder.rglob("started_*"):
            unit = path.name.removeprefix("started_")
            found[unit] = len(path.read_text().split()), path.with_name(f"fit_{unit}").exists()
    return found


def at_work(found):
    """Return the number of strata for which the measurements are not saved yet."""
    return sum(not done for _, done in found.values())


CHARGED = ["--strata", "SEX,DIS", "--synthesizer", "gem", "--selection", "per-stratum", "--evaluate", "none"]
RELEASE = [*CHARGED, "--seed", "3"]


@pytest.mark.slow
def test_a_killed_worker_is_no_loss(served, cluster, tmp_path):
    """One worker is killed while it fits a stratum.

    The noise of this stratum is then drawn again by another worker, and the release is complete.
    """
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 5, 1e-9)
    given = ["--runner", "dask", "--cluster", cluster.address, "--scratch", scratch, "--output", tmp_path / "out"]
    given += ["--ledger", tmp_path / "ledger.db", "--dataset", "people", "--release-id", "monthly"]
    most: dict[str, int] = {}
    with served.start("release", *CHARGED, *given, EQUISTRATA_STATE=str(tmp_path / "state")) as run:
        while run.poll() is None:
            found = begun(tmp_path / "state")
            for name, (starts, _) in found.items():
                most[name] = max(most.get(name, 0), starts)
            if cluster.workers[0].poll() is None and at_work(found) == 2:  # both workers are fitting a stratum
                cluster.workers[0].send_signal(signal.SIGSTOP)  # otherwise the stratum may end before the signal
                still = at_work(begun(tmp_path / "state")) == 2
                cluster.workers[0].send_signal(signal.SIGKILL if still else signal.SIGCONT)
                if still:
                    cluster.workers[0].wait()
            time.sleep(0.005)
        told = run.stderr.read()
        assert (run.returncode, told) == (0, "release monthly of data set people\n")
    assert cluster.workers[0].returncode == -signal.SIGKILL
    assert sorted(most.values()) == [1, 1, 1, 2]
    assert len(list((tmp_path / "out" / "measurements").iterdir())) == 4
    told = (tmp_path / "out" / "card.json").read_text()
    assert "scratch" not in told
    assert "tcp://" not in told
    card = json.loads(told)
    assert card["strata"]["begun_again"] == 1
    (charge,) = ledger.charges("people", "monthly")
    assert (charge.outcome, float(charge.entry.rho)) == ("committed", card["guarantee"]["rho"])
    assert [*scratch.iterdir(), *left_in(tmp_path / "state")] == []


@pytest.mark.slow
def test_a_scheduler_that_is_lost_ends_the_release_with_a_sentence(served, cluster, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    given = ["--runner", "dask", "--cluster", cluster.address, "--scratch", scratch, "--output", tmp_path / "out"]
    with served.start("release", *RELEASE, *given, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="2s") as run:
        while run.poll() is None:
            if begun(scratch):
                cluster.stop()
            time.sleep(0.01)
        told = run.stderr.read()
    assert run.returncode == 1
    assert "worker was lost" in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    assert list(scratch.iterdir()) == []


def assert_same_release(one, two):
    names = sorted(path.name for path in (one / "measurements").iterdir())
    assert len(names) == 4
    for name in names:
        assert (one / "measurements" / name).read_bytes() == (two / "measurements" / name).read_bytes()
    assert (one / "synthetic.csv").read_bytes() == (two / "synthetic.csv").read_bytes()
    card = (two / "card.json").read_text()
    assert "scratch" not in card
    assert "tcp://" not in card


INDISCREET = f"""
from dataclasses import dataclass
from equistrata.synth.mechanisms.mst import MST

@dataclass(frozen=True)
class Indiscreet(MST):
    def measure(self, table, rho, noise, known=()):
        raise ValueError(f"{CANARY} {{table.codes[0]}}")

def quote():
    raise ValueError("{CANARY}")
"""


@pytest.mark.slow
def test_a_failing_fit_leaves_no_row_in_the_scheduler_the_workers_or_their_logs(plan, cluster, tmp_path, monkeypatch):
    from distributed import Client

    (cluster.folder / "indiscreet.py").write_text(INDISCREET)
    monkeypatch.syspath_prepend(cluster.folder)
    from indiscreet import Indiscreet, quote

    config = plan.config.model_copy(update={"runner": "dask", "cluster": cluster.address})

    def everything(client):
        client.dump_cluster_state(str(tmp_path / "state"), format="yaml")
        logs = str(client.get_scheduler_logs()) + str(client.get_worker_logs()) + str(client.get_events())
        return (tmp_path / "state.yaml").read_text() + logs + cluster.logs().decode()

    with loaded(plan, tmp_path / "work") as work, Client(cluster.address) as client:  # noqa: SIM117
        with runners.executor(config, work, 6) as pool:
            for future in [pool.submit(job) for job in jobs(plan, work, Indiscreet())]:
                with pytest.raises(StepFailed, match="withheld"):
                    future.result(timeout=60)
            seen = everything(client)
            assert "fit_one failed with ValueError" in seen
            assert CANARY not in seen
            with pytest.raises(ValueError, match=CANARY):
                pool.submit(quote).result(timeout=60)
            assert CANARY in everything(client)  # the search finds an error message that is not hidden
