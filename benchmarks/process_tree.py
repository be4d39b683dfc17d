"""The cost of a command with all processes it starts: clock and processor seconds, and peak memory (Linux)."""

from __future__ import annotations

import resource
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

PROC = Path("/proc")


@dataclass(frozen=True)
class TreeCost:
    """What a command took.

    Attributes:
        seconds: of clock.
        cpu_seconds: of processors, of all processes that ended; depends little on what else the machine does.
        mebibytes: the largest sum over the processes of their memory at one sampled moment, shared pages counted
            once (PSS).
        mebibytes_at_most: the sum of each process's own peak (RSS, with mapped files): at least the peak of all.
    """

    seconds: float
    cpu_seconds: float
    mebibytes: float
    mebibytes_at_most: float


class CommandFailed(RuntimeError):
    """The command failed; the last line of its error says why."""


def measure_tree(command: Sequence[str], env: Mapping[str, str] | None = None, look_every: float = 0.2) -> TreeCost:
    """Run a command to its end and watch it. Raises CommandFailed."""
    before, start = _cpu_seconds(), perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        watch = _Watch(process.pid, look_every)
        watch.start()
        assert process.stderr is not None
        told = process.stderr.read().strip().splitlines()
        code = process.wait()
        seconds = perf_counter() - start
        watch.end()
    if code:
        raise CommandFailed((told or ["no message"])[-1])
    return TreeCost(seconds, _cpu_seconds() - before, watch.peak / 2**10, sum(watch.peaks.values()) / 2**10)


class _Watch(threading.Thread):
    """Looks at a process and its descendants until it is told to end. Memory in KiB."""

    def __init__(self, root: int, look_every: float) -> None:
        super().__init__(daemon=True)
        self._root, self._every, self._ended = root, look_every, threading.Event()
        self.peak, self.peaks = 0, dict[int, int]()

    def run(self) -> None:
        while not self._ended.is_set():
            together = 0
            for pid in descendants(self._root):
                self.peaks[pid] = max(self.peaks.get(pid, 0), _kibibytes(pid, "status", "VmHWM:"))
                together += _kibibytes(pid, "smaps_rollup", "Pss:")
            self.peak = max(self.peak, together)
            self._ended.wait(self._every)

    def end(self) -> None:
        self._ended.set()
        self.join()


def descendants(root: int) -> list[int]:
    """A process and all that it started, directly or not, as far as their parents live."""
    children: dict[int, list[int]] = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _kibibytes(pid: int, file: str, name: str) -> int:
    try:
        for line in (PROC / str(pid) / file).read_text("utf-8").splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:  # it has ended
        pass
    return 0


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
