"""Secure sums by SecAgg+ of Flower, with a server and one process per holder on the loopback interface of this machine.

The server receives masked vectors and the sums, and no other data that depend on rows. The dependencies of Flower
conflict with those of Prefect. Therefore Flower runs in a separate environment (`equistrata setup flower`), as a
program that does not import equistrata (`_flower_worker.py`). The vector of a holder is computed by a command that only
the process of that holder starts. New keys are created for each run. Each holder is identified by its key and the
server by its certificate, so that no other process can take part. The threat model is in docs/federated.md.
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
REFUSAL = "refusal.txt"  # the file with the message of the command of a holder, in the folder of that holder
STAGES = 4  # the number of stages of the protocol; each stage waits for the time-out if a holder has dropped out
STARTING = 120  # the number of seconds that the server and the holders have to start on a busy machine


class FlowerFailed(EquistrataError, RuntimeError):
    """Exception that is raised if the server of Flower did not answer.

    The message says how the server ended. The log of the server is in the folder of the aggregator while that folder
    exists.
    """


@dataclass(frozen=True)
class FlowerAggregator:
    """A running server with its holders, which is created by `flower`.

    Attributes
    ----------
    name : str
        The name and the version of Flower.
    holders, needed : int
        The number of holders, and the number of holders that must stay.
    timeout : float
        The number of seconds that the server waits for a holder in each stage.
    starting : float
        The number of seconds that the server waits for all holders to connect.
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
        """Return the sum of the answers of the holders (see `SecureAggregator.total`).

        Each kind of question can be asked only once, because holders refuse to answer it again.

        Parameters
        ----------
        question : SumQuestion
            The question for all holders.

        Returns
        -------
        Total
            The sum, and the number of holders that stayed.

        Raises
        ------
        FlowerFailed
            If the server did not answer.
        TooFewHolders
            If too many holders dropped out.
        InputError
            If a holder refused the question.
        """
        asked = {"kind": question.kind, "moduli": list(question.moduli), "settings": dict(question.settings)}
        assert self._server.stdin is not None
        with suppress(OSError):  # if the server has ended, there will be no answer
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
        answer = self._answer(self.starting + STAGES * self.timeout + 60)
        refusals = sorted(self._folder.glob(f"holder-*/{REFUSAL}"))
        if refusals:  # the message contains no row; it can be read here because all processes are on this machine
            raise InputError(refusals[0].read_text("utf-8").strip())
        if answer.get("total") is None:
            absent = ", ".join(map(str, answer.get("absent", ())))
            late = f"holder {absent} did not connect within {self.starting:g} seconds" if absent else ""
            raise TooFewHolders(int(answer["stayed"]), self.needed, late)
        return Total(np.array(answer["total"], dtype=np.int64), int(answer["stayed"]))

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Return the next line of the server.

        The server writes one line per question, so no other line is in the buffer.
        """
        assert self._server.stdout is not None
        if not wait([self._server.stdout.fileno()], seconds):
            raise FlowerFailed(f"Flower's server did not answer within {seconds:.0f} seconds")
        line = self._server.stdout.readline()
        if not line:
            raise FlowerFailed(f"Flower's server ended early (exit status {self._server.poll()})")
        return dict(json.loads(line))


@contextmanager
def flower(
    commands: Sequence[Sequence[str]], *, missing: int = 0, timeout: float = 60, folder: Path | None = None
) -> Iterator[FlowerAggregator]:
    """Start a server and one holder for each command, and end all of them when the context ends.

    Parameters
    ----------
    commands : sequence of sequence of str
        For each holder, the program that computes its vector. The program reads a question from standard input (JSON
        with the keys kind, moduli and settings). It prints its numbers as a JSON list, or it prints one sentence to
        standard error and returns the exit status 2.
    missing : int, default=0
        The number of holders that may drop out. It is less than half of the holders, and at least three holders must
        stay.
    timeout : float, default=60
        The number of seconds to wait in each stage of the protocol, and for the numbers of a command. At the start, the
        server waits for at least two minutes.
    folder : Path, optional
        The folder for settings, logs and the keys of this run, which is not removed. If None, a folder of mode 0700 is
        created and removed.

    Yields
    ------
    FlowerAggregator
        The running server.

    Raises
    ------
    InputError
        If the environment is missing, or if the protocol does not support the number of holders.
    FlowerFailed
        If the server did not start.
    """
    holders = len(commands)
    if holders < 3:
        raise InputError(f"Flower's SecAgg+ needs at least three holders, not {holders}")
    most = min((holders - 1) // 2, holders - 3)
    if not 0 <= missing <= most:
        raise InputError(
            f"of {holders} holders, at most {most} may be missing with Flower's SecAgg+, not {missing}, because more "
            "than half of the holders, and at least three, must stay"
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
        raise InputError(
            f"interpreter {python!r} does not have the required version of Flower; run equistrata setup flower"
        ) from None
    return done.stdout.strip()


def _make_keys(python: Path, *arguments: str | Path) -> None:
    command = [str(python), "-I", str(FLOWER_KEYS), *map(str, arguments)]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=STARTING, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError):
        raise FlowerFailed(
            "the keys of the run could not be made; its folder must be new, and its disk must have free space"
        ) from None


def _start(python: Path, role: str, folder: Path, settings: dict[str, Any]) -> subprocess.Popen[str]:
    written = folder / "settings.json"
    key = {"folder": str(folder), "key": str(folder / "key.pem")}
    written.write_text(json.dumps(settings | key), "utf-8")
    with (folder / "log").open("w") as log:
        # The option -I isolates the interpreter, so that PYTHONPATH and the folder of the worker are not searched for
        # modules.
        return subprocess.Popen(
            [str(python), "-I", str(FLOWER_WORKER), role, str(written)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if role == "server" else subprocess.DEVNULL,
            stderr=log,
            text=True,
            cwd=os.getcwd(),
            start_new_session=True,  # the command of a holder then ends with the holder, even if it was killed
        )


def _end(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:  # otherwise another process may have the same number
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
