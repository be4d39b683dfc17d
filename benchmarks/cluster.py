"""What a cluster costs over plain processes: `python -m benchmarks.cluster`, 36 strata of SEX × RAC1P × DIS.

Starts a Dask scheduler and two worker processes on loopback, runs `equistrata release` with two processes, with that
cluster and, if asked, with other runners, and prints each one's seconds and the seconds beyond processes. Fails
unless every runner's measurements and synthetic rows are the same bytes. Needs the extra dask. Linux only. Seeded
noise (not private).
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.__main__ import COLUMNS
from benchmarks.process_tree import TreeCost, measure_tree

STRATA = "SEX,RAC1P,DIS"


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """A scheduler and workers on loopback, each a process; the scheduler's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    at = ["--host", "127.0.0.1", "--no-dashboard"]
    own = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
    with ExitStack() as stack:
        for kind, options in (("scheduler", ["--port", str(port)]), *[("worker", [address, *own])] * workers):
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *at, *options]
            process = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
            )
            stack.callback(process.kill)
        yield address


def release(source: list[str], folder: Path, options: list[str]) -> tuple[TreeCost, Path]:
    """Run the command with a Prefect database of its own; what it took, and the release."""
    place = Path(tempfile.mkdtemp(dir=folder))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(place / "prefect"), "TMPDIR": str(place)}
    command = [
        sys.executable, "-m", "equistrata.flows.cli.main", "release", *source, "--columns", ",".join(COLUMNS),
        "--strata", STRATA, "--seed", "0", "--evaluate", "none", "--scratch", str(place),
        "--output", str(place / "release"), *options,
    ]  # fmt: skip
    return measure_tree(command, environment), place / "release"


def content(release: Path) -> dict[str, str]:
    """SHA-256 of the files that the seed decides."""
    digests = {}
    for path in sorted([*release.glob("measurements/*"), release / "synthetic.csv"]):
        with path.open("rb") as file:
            digests[path.name] = file_digest(file, "sha256").hexdigest()
    return digests


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", default="2024")
    parser.add_argument("--synthesizer", default="mst")
    parser.add_argument("--runners", default="processes,cluster", help="which of threads,processes,cluster,dask,ray")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments: Any = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster ends with it
    console = Console(highlight=False, soft_wrap=True)
    source = ["--synthesizer", arguments.synthesizer, "--selection", "per-stratum"]  # so that there are 36 fits
    if arguments.root_dir:
        source += ["--source", "folktables", "--root-dir", arguments.root_dir]
        source += ["--state", arguments.state, "--year", arguments.year]
    seconds: dict[str, list[float]] = {}
    same: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="equistrata-cluster-") as name, dask_cluster(Path(name)) as address:
        for _ in range(arguments.repetitions):
            for runner in arguments.runners.split(","):
                options = ["--runner", "dask", "--cluster", address] if runner == "cluster" else ["--runner", runner]
                cost, made = release(source, Path(name), [*options, "--workers", "2"])
                seconds.setdefault(runner, []).append(cost.seconds)
                console.print(f"{runner:<10} {cost.seconds:>7.1f} s {cost.cpu_seconds:>7.1f} processor s of its own")
                found = content(made)
                same = same or found
                if found != same or len(found) != 37:
                    sys.exit(f"{runner}: other measurements or rows than {arguments.runners.split(',')[0]}")
    base = median(seconds.get("processes") or next(iter(seconds.values())))
    for runner, all_seconds in seconds.items():
        console.print(
            f"{runner:<10} median {median(all_seconds):>6.1f} s, {median(all_seconds) - base:+.1f} s beyond processes"
        )
    console.print("measurements of 36 strata and synthetic rows: the same bytes in every run")


if __name__ == "__main__":
    main()
