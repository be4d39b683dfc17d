"""A Prefect server, a worker and a checkout on the loopback interface, which are set up by docs/deploy/settings.sh.

It uses free ports and a temporary home folder. All processes are stopped at the end, including those that the worker
has started.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["data", "privacy", "synth", "inference", "eval", "flows", "docs"]
PATIENCE = 600  # the time limit in seconds, for a slow machine with other work
DEAD = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Stack:
    """The services of docs/deploy.md in a folder.

    Attributes
    ----------
    checkout : Path
        A copy of the repository, which contains the flows and the releases of the worker.
    secrets : list of str
        All passwords and keys, which must not be shown by any program.
    worker, steward : dict
        The environments that are defined by the files of settings.sh.
    """

    def __init__(self, folder, postgres=None):
        """Use the databases of a PostgreSQL server if the URL of its superuser is given, and SQLite files otherwise."""
        self.folder, self.checkout = folder, folder / "checkout"
        self.processes = []
        for package in PACKAGES:
            shutil.copytree(ROOT / package, self.checkout / package, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("prefect.yaml", "pyproject.toml"):
            shutil.copy(ROOT / file, self.checkout)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "tmp").mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "EQUISTRATA_", "PG"))}
        self._base = kept | {
            "HOME": str(folder), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(self.checkout), "COLUMNS": "200",
        }  # fmt: skip
        self._settings(httpx.URL(postgres) if postgres else None)
        self.api = httpx.Client(
            base_url=self.worker["PREFECT_API_URL"],
            auth=tuple(self.worker["PREFECT_API_AUTH_STRING"].split(":", 1)),
            timeout=60,
        )

    def _settings(self, postgres):
        wanted = {"STATE": str(self.folder / "state"), "PREFECT_PORT": str(self.port)}
        wanted |= {"PGHOST": postgres.host, "PGPORT": str(postgres.port)} if postgres else {}
        made = self.folder / "settings"
        script = self.checkout / "docs" / "deploy" / "settings.sh"
        subprocess.run(["sh", script, made], env=self._base | wanted, check=True, timeout=60, capture_output=True)
        assert made.stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in made.iterdir())
        server, worker, steward = (
            dict(line.split("=", 1) for line in (made / f"{name}.env").read_text("utf-8").splitlines())
            for name in ("server", "worker", "steward")
        )
        self.secrets = [worker["EQUISTRATA_LEDGER_KEY"], worker["PREFECT_API_AUTH_STRING"].split(":", 1)[1]]
        if postgres:
            urls = [
                server["PREFECT_SERVER_DATABASE_CONNECTION_URL"],
                *(e["EQUISTRATA_LEDGER_URL"] for e in (worker, steward)),
            ]
            self.secrets += [httpx.URL(url).password for url in urls]
            self._make_databases(made / "databases.sql", postgres)
        else:
            del server["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
            server["PREFECT_SERVER_DATABASE_TIMEOUT"] = "60"
            worker["EQUISTRATA_LEDGER_URL"] = steward["EQUISTRATA_LEDGER_URL"] = str(self.folder / "ledger.db")
        assert all(len(secret) >= 32 for secret in self.secrets)
        self.server, self.worker, self.steward = server, worker, steward

    def _make_databases(self, script, postgres):
        psql = shutil.which("psql")
        if psql is None:
            pytest.skip("there is no psql")
        command = [psql, "-q", "-h", postgres.host, "-p", str(postgres.port), "-U", postgres.username, "-d", "postgres"]
        with script.open("rb") as text:
            done = subprocess.run(
                command,
                stdin=text,
                env=self._base | {"PGPASSWORD": postgres.password},
                capture_output=True,
                timeout=120,
            )
        assert done.returncode == 0, done.stderr.decode()

    def __enter__(self):
        try:
            self.start("server", self.server, "prefect", "server", "start")
            self.until(self._answers, "the Prefect server answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        family = [pid for process in self.processes for pid in _descendants(process.pid)]
        for process in reversed(self.processes):  # the worker stops before the server
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=60)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.api.close()

    def start(self, name, settings, *command):
        """Start a program in the checkout, which writes to a log of this name, and return its process."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], env=self._base | settings, cwd=self.checkout,
                stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, settings, *command):
        """Run a program in the checkout without a terminal and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", *command], env=self._base | settings, cwd=self.checkout, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def until(self, condition, what, seconds=PATIENCE, every=0.5):
        """Wait until the condition is true and return its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for process in self.processes:
                assert process.poll() is None, f"a program has ended\n{self.logs()}"
            found = condition()
            if found:
                return found
            time.sleep(every)
        pytest.fail(f"after {seconds} s it is not so that {what}\n{self.logs()}")

    def logs(self):
        """Return the ends of all logs."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def _answers(self):
        try:
            return self.api.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, method, path, body=None):
        """Return the answer of the API.

        The request is repeated while the server returns 503, because its database may be locked.
        """

        def answer():
            try:
                given = self.api.request(method, path, json=body)
            except httpx.TransportError:
                return None
            if given.status_code in (408, 429, 502, 503):
                return None
            return [given.raise_for_status().json() if given.content else None]

        return self.until(answer, f"the server answers {path}")[0]

    def find(self, kind, **body):
        """Return all objects of this kind on the server that match the filter."""
        found, page = [], True
        while page:
            page = self.ask("POST", f"/{kind}/filter", body | {"limit": 200, "offset": len(found)})
            found += page
        return found

    def deployment(self, name):
        (found,) = self.find("deployments", deployments={"name": {"any_": [name]}})
        return found

    def runs(self, name):
        """Return the flow runs of a deployment, sorted by time."""
        found = self.find("flow_runs", deployments={"name": {"any_": [name]}})
        return sorted(found, key=lambda run: run["expected_start_time"])

    def flow_run(self, run):
        return self.ask("GET", f"/flow_runs/{run}")

    def ask_for(self, name):
        """Start a run of a deployment and return the id of the flow run."""
        # A repeated request creates only one run
        body = {"state": {"type": "SCHEDULED"}, "idempotency_key": uuid4().hex}
        return self.ask("POST", f"/deployments/{self.deployment(name)['id']}/create_flow_run", body)["id"]

    def ended(self, run):
        """Wait for the end of a flow run and return the run."""

        def state():
            found = self.flow_run(run)
            return found if found["state_type"] in DEAD else None

        return self.until(state, f"flow run {run} has ended")

    def artifacts(self, run):
        """Return the text of each artifact of a flow run, by key."""
        found = self.find("artifacts", artifacts={"flow_run_id": {"any_": [run]}})
        return {each["key"]: each["data"] for each in found}


def _descendants(pid):
    """Return the ids of all descendants of a process. The list is empty without /proc."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for parent in family:
        family += [child for child, theirs in parents.items() if theirs == parent]
    return family[1:]
