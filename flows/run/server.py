"""Prefect's temporary server, started while a command still imports and plans.

Prefect starts one too where no server is configured, but only once a flow begins, and imports all of the server into
the command's own process to do it. This one is the same application with the same settings, on loopback alone. Until
`serve` it only imports: no database is opened. It ends with the block, and with this process: when the pipe to it
closes.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from equistrata.flows.config.places import prefect_home, set_prefect

# Garbage is collected only once all is imported: nothing of it is garbage, and looking took 0.5 to 0.9 of 2.7 to 3.1 s.
_SERVER = """
import gc, os, signal, sys, threading, time
gc.disable()
wanted = threading.Event()
def follow_parent():
    if sys.stdin.buffer.read(1):
        wanted.set()
        sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
    os._exit(1)
threading.Thread(target=follow_parent, daemon=True).start()
import uvicorn
from prefect.server.api.server import create_app
app = create_app()
wanted.wait()
gc.freeze()
gc.enable()
uvicorn.run(
    app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", lifespan="on", timeout_graceful_shutdown=2
)
"""
_OF_THE_SERVER = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
_MENTIONED = re.compile(r"prefect_|\[tool\.prefect|\[api\]|\[server", re.I)
_TRIES, _PAUSE, _PATIENCE = 3, 0.05, 90.0  # seconds
_LAST_WORDS = 30.0  # seconds: on a machine with other work, writing down the last events took more than five


@dataclass
class TemporaryServer:
    """A server that was started, and perhaps answers already."""

    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    url: str | None = None
    wanted: bool = False

    def start(self) -> None:
        """Start it on a free port, again if it ended."""
        self.stop()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # -P: nothing is imported from the working folder. A group of its own: Ctrl-C on a terminal is sent to the whole
        # group of the command, which still has to tell the server how its flow ended.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER, str(self.port)],
            env=os.environ | _OF_THE_SERVER,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        if self.wanted:
            self.serve()

    def serve(self) -> None:
        """Let it open its database, and answer as soon as it has imported all."""
        self.wanted = True
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):  # it ended: `ready` starts it again
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def ready(self) -> str | None:
        """The address of its API, as soon as it answers; None if it does not, so that Prefect may start its own."""
        if not self.wanted:
            self.serve()
        tries, end = _TRIES, time.monotonic() + _PATIENCE
        while self.url is None and self.process is not None and time.monotonic() < end:
            if self.process.poll() is not None:  # another took the port meanwhile, or it cannot run here
                tries -= 1
                if not tries:
                    return None
                self.start()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=5) as answer:
                    if answer.status == 200:
                        self.url = f"http://127.0.0.1:{self.port}/api"
            except (urllib.error.URLError, OSError):
                time.sleep(_PAUSE)
        return self.url

    def stop(self) -> None:
        """End it, by force if it takes too long."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.terminate()  # it writes down what it was sent, and ends
        try:
            self.process.wait(_LAST_WORDS)
        except BaseException as error:  # a second Ctrl-C, too
            self.process.kill()
            self.process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise


@contextmanager
def server_ahead(verbose: bool = False) -> Iterator[TemporaryServer | None]:
    """A server that imports what it needs, for the block, in which `foreground` may take it.

    A command that is refused in the block leaves no trace of it. None where Prefect may be configured otherwise, and
    where it has no home yet, which it makes when it is imported.
    """
    set_prefect(verbose)
    if not prefect_home().is_dir():
        yield None
        return
    with temporary_server() as server:
        yield server


@contextmanager
def temporary_server() -> Iterator[TemporaryServer | None]:
    """A server that is being started, for the block; None where Prefect may be configured otherwise.

    `set_prefect` must have been called: the server reads its settings from the environment.
    """
    if _configured():
        yield None
        return
    server = TemporaryServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _configured() -> bool:
    """Whether a variable or a file that Prefect reads may say which server is meant, or how one is run."""
    variables = ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH", "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE")
    if any(os.environ.get(name) for name in (*variables, "PREFECT_SERVER_EPHEMERAL_ENABLED")):
        return True
    for path in (prefect_home() / "profiles.toml", *map(Path, ("prefect.toml", "pyproject.toml", ".env"))):
        try:
            if _MENTIONED.search(path.read_text("utf-8", errors="replace")):
                return True
        except OSError:
            continue
    return False
