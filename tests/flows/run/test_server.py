"""Tests of the temporary server of Prefect, which starts in advance and stops with the block or the process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from equistrata.flows.run.server import server_ahead, temporary_server


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prefect").mkdir()
    return tmp_path


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] != "Z"


def gone(process: int) -> bool:
    end = time.monotonic() + 20
    while alive(process) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(process)


def test_ctrl_c_on_a_terminal_does_not_end_it(plain: Path) -> None:
    """Ctrl-C is sent to the process group of a command.

    If the server stopped as well, the command would not be able to report the end of the flow. It used to try for a
    minute and end in a traceback.
    """
    with temporary_server() as server:
        assert server is not None
        assert server.process is not None
        assert os.getpgid(server.process.pid) != os.getpgid(0)


def test_it_answers_on_loopback_and_ends_with_the_block(plain: Path, empty_database: Path) -> None:
    """The last event is stored, although the server writes events in batches."""
    database = plain / "prefect" / "prefect.db"
    shutil.copyfile(empty_database, database)
    event = {"id": str(uuid4()), "event": "last", "occurred": "2026-11-01T00:00:00Z", "payload": {}}
    event |= {"resource": {"prefect.resource.id": "equistrata.test"}, "related": []}
    with temporary_server() as server:
        assert server is not None
        url = server.ready()
        assert url is not None
        assert url.startswith("http://127.0.0.1:")
        kind, body = {"Content-Type": "application/json"}, json.dumps([event]).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/events", body, kind)) as answer:
            assert answer.status == 204
        assert server.process is not None
        process = server.process.pid
    assert gone(process)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT event FROM events").fetchall() == [("last",)]


def at_rest(process: int) -> bool:
    """Return True if all modules are imported and the process does not use any processor time for half a second."""
    before, end = -1, time.monotonic() + 60
    while time.monotonic() < end:
        now = sum(map(int, Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[11:13]))
        if now == before > 50:  # in units of 1/100 second
            return True
        before = now
        time.sleep(0.5)
    return False


@pytest.mark.slow
def test_one_started_ahead_leaves_no_trace_until_it_is_wanted(plain: Path) -> None:
    home = plain / "prefect"
    changed = home.stat().st_mtime_ns
    with server_ahead() as server:
        assert server is not None
        assert server.process is not None
        assert at_rest(server.process.pid)
        assert server.process.poll() is None
    assert gone(server.process.pid)
    assert list(home.iterdir()) == []
    assert home.stat().st_mtime_ns == changed
    assert list(plain.iterdir()) == [home]


def test_none_is_started_ahead_where_prefect_has_no_home(plain: Path) -> None:
    """This folder is made by Prefect when it is imported."""
    (plain / "prefect").rmdir()
    with server_ahead() as server:
        assert server is None
    assert list(plain.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_a_process_that_is_killed(plain: Path, number: signal.Signals) -> None:
    script = textwrap.dedent(
        """
        import time
        from equistrata.flows.run.server import temporary_server
        with temporary_server() as server:
            print(server.process.pid, flush=True)
            time.sleep(60)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert alive(process)
        parent.send_signal(number)
    assert gone(process)


ENDS_ONCE = """
import http.server, pathlib, sys
if not pathlib.Path("tried").exists():
    pathlib.Path("tried").touch()
    raise SystemExit(3)
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""


def test_where_a_port_was_taken_meanwhile_another_is_tried(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equistrata.flows.run.server._SERVER", ENDS_ONCE)
    with temporary_server() as server:
        assert server is not None
        first = server.port
        assert server.ready() == f"http://127.0.0.1:{server.port}/api"
        assert server.port != first


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("prefect/profiles.toml", '[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"'),
        ("prefect.toml", '[api]\nurl = "http://127.0.0.1:9/api"'),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://127.0.0.1:9/api"'),
        (".env", "PREFECT_API_URL=http://127.0.0.1:9/api"),
    ],
)
def test_where_prefect_is_configured_it_is_left_to_prefect(plain: Path, path: str, text: str) -> None:
    (plain / path).write_text(text)
    with temporary_server() as server:
        assert server is None


def test_where_a_variable_names_a_server_none_is_started(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with temporary_server() as server:
        assert server is None


def test_one_that_cannot_run_is_given_up(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equistrata.flows.run.server._SERVER", "raise SystemExit(1)")
    with temporary_server() as server:
        assert server is not None
        assert server.ready() is None
