"""A temporary Prefect server that starts while a command imports its modules.

If a server is not configured, Prefect starts its own server when a flow begins. This would import the whole server into
the process of the command. The temporary server is the same application with the same settings. It listens on the
loopback interface only. Before `serve` is called, it imports modules but does not open a database. The server is
stopped at the end of the block. If this process ends first, the server stops because its pipe is closed.
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

# Imported modules are not garbage. Collecting garbage during the imports took 0.5 to 0.9 of 2.7 to 3.1 seconds.
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
_LAST_WORDS = 30.0  # seconds, because on a busy machine the last events took more than five seconds to write


@dataclass
class TemporaryServer:
    """A server that may not be ready yet."""

    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    url: str | None = None
    wanted: bool = False

    def start(self) -> None:
        """Start the server on a free port. If it is running or has ended, it is started again."""
        self.stop()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # The option -P prevents imports from the working folder. The server has its own process group because Ctrl-C is
        # sent to the whole group of the command, and the command must still report to the server how its flow ended.
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
        """Let the server open its database. It will answer when all modules are imported."""
        self.wanted = True
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):  # if the server has ended, `ready` starts it again
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def ready(self) -> str | None:
        """Wait until the server answers and return the address of its API. If it does not answer, return None.

        In this case, Prefect can start its own server.
        """
        if not self.wanted:
            self.serve()
        tries, end = _TRIES, time.monotonic() + _PATIENCE
        while self.url is None and self.process is not None and time.monotonic() < end:
            if self.process.poll() is not None:  # the port is in use by now, or the server cannot run here
                tries -= 1
                if not tries:
                    return None
                self.start()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=5) as answer:  # nosec B310
                    if answer.status == 200:
                        self.url = f"http://127.0.0.1:{self.port}/api"
            except (urllib.error.URLError, OSError):
                time.sleep(_PAUSE)
        return self.url

    def stop(self) -> None:
        """Stop the server. If it takes too long, it is killed."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.terminate()  # the server stores all events that it has received before it ends
        try:
            self.process.wait(_LAST_WORDS)
        except BaseException as error:  # for example a second Ctrl-C
            self.process.kill()
            self.process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise


@contextmanager
def server_ahead(verbose: bool = False) -> Iterator[TemporaryServer | None]:
    """Start a server that imports its modules while the block runs. The server can be passed to `foreground`.

    If the command is refused in the block, the server does not leave any files. The server is None if Prefect may have
    its own configuration. It is also None if the home folder of Prefect does not exist, because Prefect creates this
    folder when it is imported.
    """
    set_prefect(verbose)
    if not prefect_home().is_dir():
        yield None
        return
    with temporary_server() as server:
        yield server


@contextmanager
def temporary_server() -> Iterator[TemporaryServer | None]:
    """Start a server for the block. It is None if Prefect may have its own configuration.

    The function `set_prefect` must be called first, because the server reads its settings from the environment.
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
    """Return True if an environment variable or a file of Prefect may define a server."""
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
