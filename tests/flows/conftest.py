"""Running the command line as a user would: a process of its own, with its own Prefect home and temporary folder.

Most of the time of a short command goes into imports. So commands are forked from a process that has done them, unless
a test
sets what is read at import: then it is an interpreter of its own that starts.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from forked_cli import forked_cli
from made_up_people import PEOPLE_SCHEMA, made_up_people

READ_AT_IMPORT = ("PREFECT_", "PYTHON", "COLUMNS")


@dataclass(frozen=True)
class CommandLine:
    """Runs `equistrata` in a clean home; `tmp` and `prefect` are the only places it may leave traces in.

    Attributes:
        home: where it runs.
        fork: starts a command with all imports done, see `forked_cli`.
        server: the address of a Prefect server that is configured.
    """

    home: Path
    fork: Callable
    server: str | None = None

    @property
    def prefect(self):
        return self.home / "prefect"

    @property
    def tmp(self):
        return self.home / "tmp"

    def __call__(self, *arguments, **environment):
        """Run a command to its end; these variables are added to its environment."""
        if not any(name.startswith(READ_AT_IMPORT) for name in environment):
            place = self._place(environment)
            run = self.fork(*arguments, folder=place["cwd"], environment=place["env"])
            return CompletedProcess(arguments, run.wait(), *run.told)
        return subprocess.run(
            self._command(arguments),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **self._place(environment),
        )

    def start(self, *arguments, **environment):
        """The command as a process under way."""
        return subprocess.Popen(
            self._command(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **self._place(environment),
        )

    def _command(self, arguments):
        return [sys.executable, "-m", "equistrata.flows.cli.main", *map(str, arguments)]

    def _place(self, environment):
        self.tmp.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "EQUISTRATA_"))}
        env |= {"PREFECT_API_URL": self.server} if self.server else {}
        env |= {"PREFECT_HOME": str(self.prefect), "TMPDIR": str(self.tmp), "COLUMNS": "200"}
        env |= {"EQUISTRATA_STATE": str(self.home.with_name("state"))} | environment
        return {"env": env, "cwd": self.home}


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory):
    """Tests that name no state folder have one of their own, not the user's."""
    os.environ.setdefault("EQUISTRATA_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def light(tmp_path_factory):
    """Starts commands that import Prefect themselves, if they come so far."""
    with forked_cli(tmp_path_factory.mktemp("light"), {"COLUMNS": "200"}, "light") as start:
        yield start


@pytest.fixture(scope="session")
def loaded(tmp_path_factory, prefect_server):
    """Starts commands with Prefect imported, for the session's server."""
    place = tmp_path_factory.mktemp("loaded")
    settings = {"COLUMNS": "200", "PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(place / "prefect")}
    with forked_cli(place, settings) as start:
        yield start


@pytest.fixture
def equistrata(tmp_path, light):
    """The command line with no server configured."""
    home = tmp_path / "home"
    home.mkdir()
    return CommandLine(home, light)


@pytest.fixture
def served(equistrata, loaded, prefect_server):
    """The command line with a running Prefect server configured: quicker than one server for each command."""
    return CommandLine(equistrata.home, loaded, prefect_server)


@pytest.fixture(scope="session")
def server_home(tmp_path_factory):
    """Where the session's Prefect server keeps its database and its log."""
    return tmp_path_factory.mktemp("prefect-server")


@pytest.fixture(scope="session")
def prefect_server(server_home):
    """One local Prefect server for the session; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {
        "PREFECT_HOME": str(server_home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (server_home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api/health")
        yield f"http://127.0.0.1:{port}/api"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def _wait_for(address, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError("the Prefect server did not start")


@pytest.fixture
def people(tmp_path):
    """The files of a small made-up table and of its schema, and the table."""
    schema, frame = tmp_path / "people.yaml", made_up_people(1357)
    schema.write_text(PEOPLE_SCHEMA)
    table = tmp_path / "people.csv"
    frame.to_csv(table, index=False)
    return table, schema, frame


@pytest.fixture(scope="session")
def racers():
    """Asks `landing_races.py`, which has imported everything once: `racers(kind, folder, …)`."""
    script = Path(__file__).parents[1] / "landing_races.py"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], cwd=script.parents[1], text=True, **pipes) as process:

        def ask(kind, folder, **order):
            environment = {"EQUISTRATA_STATE": os.environ["EQUISTRATA_STATE"]}
            order |= {"kind": kind, "folder": str(folder), "environment": environment}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                pytest.fail(process.stderr.read())
            return json.loads(answer)

        yield ask
