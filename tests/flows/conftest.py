"""Running the command line as a user would: a process of its own, with its own Prefect home and temporary folder."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people


@dataclass(frozen=True)
class CommandLine:
    """Runs `equistrata` in a clean home; `tmp` and `prefect` are the only places it may leave traces in."""

    home: Path
    server: str | None = None

    @property
    def prefect(self):
        return self.home / "prefect"

    @property
    def tmp(self):
        return self.home / "tmp"

    def __call__(self, *arguments, **environment):
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
        return [sys.executable, "-m", "flows.cli", *map(str, arguments)]

    def _place(self, environment):
        self.tmp.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        env |= {"PREFECT_API_URL": self.server} if self.server else {}
        env |= {"PREFECT_HOME": str(self.prefect), "TMPDIR": str(self.tmp), "COLUMNS": "200"} | environment
        return {"env": env, "cwd": self.home}


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory):
    """Tests that name no state folder have one of their own, not the user's."""
    os.environ.setdefault("EQUISTRATA_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def equistrata(tmp_path):
    """The command line with no server configured."""
    home = tmp_path / "home"
    home.mkdir()
    return CommandLine(home)


@pytest.fixture
def served(equistrata, prefect_server):
    """The command line with a running Prefect server configured: quicker than one server for each command."""
    return CommandLine(equistrata.home, prefect_server)


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """One local Prefect server for the session; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path_factory.mktemp("prefect-server")
    env = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "log").open("wb") as log:
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
