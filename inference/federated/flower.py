"""Secure sums by Flower's SecAgg+: a server and one process for each holder, on this machine's loopback.

The server receives masked vectors and the sums, and nothing else that depends on rows. Flower conflicts with Prefect's
pins, so it runs in an environment of its own (`equistrata setup flower`), as a program without equistrata
(`_flower_worker.py`). A holder's vector comes from a command that only its own process starts. Each run has new keys: a
holder is known by its own, the server by its certificate, and no one else can take part. Threat model:
docs/federated.md.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.environments import FLOWER
from equistrata.errors import EquistrataError, InputError
from equistrata.inference.federated.aggregation import SumQuestion, TooFewHolders, Total

FLOWER_WORKER = Path(__file__).with_name("_flower_worker.py")
FLOWER_KEYS = Path(__file__).with_name("_flower_keys.py")
HOST = "127.0.0.1"
REFUSAL = "refusal.txt"  # the message of a holder's command, in the holder's own folder
STAGES = 4  # of the protocol; each waits for the time-out if a holder is gone
STARTING = 120  # seconds for the server and the holders to start on a busy machine


class FlowerFailed(EquistrataError, RuntimeError):
    """Flower's server did not answer. Says how it ended; its log is in the aggregator's folder while that is kept."""


@dataclass(frozen=True)
class FlowerAggregator:
    """A running server with its holders; made by `flower`.

    Attributes:
        name: Flower and its version.
        holders, needed: how many take part, and how many must stay.
        timeout: seconds that the server waits for a holder in each stage.
        starting: seconds that it waits for all holders to come.
    """

    name: str
    holders: int
    needed: int
    timeout: float
    starting: float = field(repr=False)
    _server: subprocess.Popen[str] = field(repr=False)
    _folder: Path = field(repr=False)

    simulated = False

    def total(self, question: SumQuestion) -> Total:
        """See `SecureAggregator.total`. Each kind of question once; holders refuse the second.

        Raises:
            FlowerFailed: the server did not answer.
            TooFewHolders, InputError: as the protocol says.
        """
        asked = {"kind": question.kind, "moduli": list(question.moduli), "settings": dict(question.settings)}
        assert self._server.stdin is not None
        with suppress(OSError):  # a server that has ended gives no answer either
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
        answer = self._answer(self.starting + STAGES * self.timeout + 60)
        refusals = sorted(self._folder.glob(f"holder-*/{REFUSAL}"))
        if refusals:  # a holder's own sentence, which quotes no row; only on loopback can it be read here
            raise InputError(refusals[0].read_text("utf-8").strip())
        if answer.get("total") is None:
            absent = ", ".join(map(str, answer.get("absent", ())))
            late = f"holder {absent} did not come within {self.starting:g} seconds" if absent else ""
            raise TooFewHolders(int(answer["stayed"]), self.needed, late)
        return Total(np.array(answer["total"], dtype=np.int64), int(answer["stayed"]))

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The server's next line; it writes one for each question, so none waits in a buffer."""
        assert self._server.stdout is not None
        if not wait([self._server.stdout.fileno()], seconds):
            raise FlowerFailed(f"Flower's server gave no answer in {seconds:.0f} seconds")
        line = self._server.stdout.readline()
        if not line:
            raise FlowerFailed(f"Flower's server ended early (exit status {self._server.poll()})")
        return dict(json.loads(line))


@contextmanager
def flower(
    commands: Sequence[Sequence[str]], *, missing: int = 0, timeout: float = 60, folder: Path | None = None
) -> Iterator[FlowerAggregator]:
    """Start a server and one holder for each command, and end them all afterwards.

    Args:
        commands: for each holder, the program that computes its vector: it reads a question (JSON: kind, moduli,
            settings) on standard input and prints its numbers as a JSON list, or one sentence on standard error with
            exit status 2.
        missing: how many may drop out, fewer than half; at least three must stay.
        timeout: seconds to wait in each stage of the protocol, and for a command's numbers; at the start two minutes at
            least.
        folder: for settings, logs and this run's keys, kept afterwards; None for a folder of mode 0700 that is removed.

    Raises:
        InputError: the environment is missing, or a number of holders that the protocol cannot serve.
        FlowerFailed: the server did not start.
    """
    holders = len(commands)
    if holders < 3:
        raise InputError(f"Flower's SecAgg+ needs at least three holders, not {holders}")
    most = min((holders - 1) // 2, holders - 3)
    if not 0 <= missing <= most:
        raise InputError(
            f"of {holders} holders, Flower's SecAgg+ can do without at most {most}, not {missing}: "
            "more than half must stay, and three at least"
        )
    if not (math.isfinite(timeout) and timeout > 0):
        raise InputError(f"the time-out must be a positive number of seconds, not {timeout}")
    python = FLOWER.interpreter()
    name = f"Flower {_version(str(python))} SecAgg+"
    place = Path(tempfile.mkdtemp(prefix="equistrata-flower-")) if folder is None else folder
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    server_folder, folders = place / "server", [place / f"holder-{number}" for number in range(holders)]
    starting = max(timeout, STARTING)
    common = {
        "address": f"{HOST}:{port}",
        "certificate": str(server_folder / "certificate.pem"),
        "holders": holders,
        "needed": holders - missing,
        "starting": starting,
        "timeout": timeout,
    }
    running: list[subprocess.Popen[str]] = []
    try:
        _make_keys(python, "server", HOST, server_folder)
        _make_keys(python, "holder", *folders)
        known = {"public_keys": [str(each / "public.pem") for each in folders]}
        server = _start(python, "server", server_folder, common | known)
        running.append(server)
        aggregator = FlowerAggregator(name, holders, holders - missing, timeout, starting, server, place)
        aggregator._answer(STARTING)
        for each, command in zip(folders, commands, strict=True):
            running.append(_start(python, "holder", each, common | {"command": list(command)}))
        yield aggregator
    finally:
        for process in running:
            _end(process)
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def _version(python: str) -> str:
    try:
        command = [python, "-I", str(FLOWER_WORKER), "--check"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError):
        raise InputError(f"interpreter {python!r} has no Flower that fits; run equistrata setup flower") from None
    return done.stdout.strip()


def _make_keys(python: Path, *arguments: str | Path) -> None:
    command = [str(python), "-I", str(FLOWER_KEYS), *map(str, arguments)]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=STARTING, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError):
        raise FlowerFailed("the run's keys could not be made; its folder must be new, and its disk have room") from None


def _start(python: Path, role: str, folder: Path, settings: dict[str, Any]) -> subprocess.Popen[str]:
    written = folder / "settings.json"
    key = {"folder": str(folder), "key": str(folder / "key.pem")}
    written.write_text(json.dumps(settings | key), "utf-8")
    with (folder / "log").open("w") as log:
        # Isolated (-I): neither PYTHONPATH nor the worker's own folder may put our modules before Flower's.
        return subprocess.Popen(
            [str(python), "-I", str(FLOWER_WORKER), role, str(written)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if role == "server" else subprocess.DEVNULL,
            stderr=log,
            text=True,
            cwd=os.getcwd(),
            start_new_session=True,  # so that a holder's command ends with it, even if the holder was killed
        )


def _end(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:  # else another process may have its number by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
