"""Fixtures that run the command line as a user would, in a separate process with its own Prefect home and temporary
folder.

Most of the time of a short command is spent on imports. The commands are therefore forked from a process in which all
modules are already imported. If a test sets a variable that is read at import, a new interpreter is started instead.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from forked_cli import forked_cli
from made_up_people import PEOPLE_SCHEMA, made_up_people

READ_AT_IMPORT = ("PYTHON", "COLUMNS")
# This runs `prefect server start` in half the time, because it is a single process and its garbage collector skips the
# imported modules.
SERVER = """
import gc, sys
gc.disable()
import uvicorn
from prefect.server.api.server import create_app
app = create_app()
gc.freeze()
gc.enable()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="on")
"""
# These services of a server poll for objects that no test creates: deployments, workers, automations and old runs.
IDLE = (
    "CANCELLATION_CLEANUP", "DB_VACUUM", "FOREMAN", "LATE_RUNS", "PAUSE_EXPIRATIONS", "REPOSSESSOR", "SCHEDULER",
    "TRIGGERS",
)  # fmt: skip


@dataclass(frozen=True)
class CommandLine:
    """Run `equistrata` in a clean home, where `tmp` and `prefect` are the only folders that it may write to.

    Attributes
    ----------
    home : Path
        The folder in which the command is run.
    fork : Callable
        A function that starts a command in a process where all imports are done, see `forked_cli`.
    server : str or None
        The address of the Prefect server in the configuration.
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
        """Run a command until it ends, with the given variables added to its environment."""
        imported = READ_AT_IMPORT + (("PREFECT_",) if self.server else ())
        if not any(name.startswith(imported) for name in environment):
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
        """Start the command and return its process."""
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
    """Set a temporary state folder, so that a test without one does not use the state of the user."""
    os.environ.setdefault("EQUISTRATA_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def light(tmp_path_factory):
    """Return a function that starts commands in which Prefect is not imported yet."""
    with forked_cli(tmp_path_factory.mktemp("light"), {"COLUMNS": "200"}, "light") as start:
        yield start


@pytest.fixture(scope="session")
def loaded(tmp_path_factory, prefect_server):
    """Return a function that starts commands in which Prefect is already imported, for the server of the session."""
    place = tmp_path_factory.mktemp("loaded")
    settings = {"COLUMNS": "200", "PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(place / "prefect")}
    with forked_cli(place, settings) as start:
        yield start


@pytest.fixture
def equistrata(tmp_path, light):
    """Return the command line without a configured server."""
    home = tmp_path / "home"
    home.mkdir()
    return CommandLine(home, light)


@pytest.fixture
def served(equistrata, loaded, prefect_server):
    """Return the command line with a configured and running Prefect server, which is faster than one server for each
    command.
    """
    return CommandLine(equistrata.home, loaded, prefect_server)


@pytest.fixture(scope="session")
def server_home(tmp_path_factory, request):
    """Return the folder for the database and the log of the Prefect server. It is the same for all pytest workers."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if hasattr(request.config, "workerinput") else base) / "prefect-server"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture(scope="session")
def empty_database(request):
    """Return a new Prefect database that can be copied.

    It is stored in the cache of pytest, because Prefect needs eight seconds to create it.
    """
    folder = request.config.cache.mkdir(f"prefect-{version('prefect')}")
    kept, unfinished = folder / "prefect.db", folder / "unfinished.db"
    with _alone(folder), tempfile.TemporaryDirectory() as home:
        if not kept.exists():
            unfinished.unlink(missing_ok=True)
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
            subprocess.run(command, env=environment | {"PREFECT_HOME": home}, check=True, capture_output=True)
            with closing(sqlite3.connect(f"{home}/prefect.db")) as made, closing(sqlite3.connect(unfinished)) as copy:
                made.backup(copy)
            unfinished.rename(kept)
    return kept


@pytest.fixture(scope="session")
def prefect_server(server_home, empty_database):
    """Return the address of the Prefect server that all pytest workers share.

    The first worker starts the server and the last worker stops it.
    """
    with (server_home / "users").open("w") as users:
        with _alone(server_home):
            if _no_other(users):
                _start_server(server_home, empty_database)
            fcntl.flock(users, fcntl.LOCK_SH)
        server = json.loads((server_home / "server.json").read_text())
        try:
            yield server["url"]
        finally:
            with _alone(server_home):
                if _no_other(users):
                    os.killpg(server["process"], signal.SIGKILL)  # none of its data is needed
                fcntl.flock(users, fcntl.LOCK_UN)


@contextmanager
def _alone(home):
    """Allow only one worker at a time to enter the block."""
    with (home / "door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


def _no_other(users):
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start_server(home, empty_database):
    """Start a server for this folder, wait until it answers, and write its process number and address to a file."""
    if not (home / "prefect.db").exists():
        shutil.copyfile(empty_database, home / "prefect.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_UI_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
        "DO_NOT_TRACK": "1",
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in IDLE},
    }
    command = [sys.executable, "-P", "-c", SERVER, str(port)]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    server.returncode = 0  # The last worker stops the server, so this object must not warn that it is running.
    try:
        _wait_for(f"http://127.0.0.1:{port}/api/health")
    except TimeoutError:
        os.killpg(server.pid, signal.SIGKILL)
        raise
    (home / "server.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}/api", "process": server.pid}))


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
    """Return the paths of a small table and of its schema, and the table."""
    schema, frame = tmp_path / "people.yaml", made_up_people(1357)
    schema.write_text(PEOPLE_SCHEMA)
    table = tmp_path / "people.csv"
    frame.to_csv(table, index=False)
    return table, schema, frame


@pytest.fixture(scope="session")
def racers():
    """Return a function that sends orders to `landing_races.py`, where all modules are already imported: `racers(kind,
    folder, …)`.
    """
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
