"""One fit in a separate process, so that its peak memory can be measured: `python -m benchmarks.child FOLDER`.

The parent calls `measure`, which writes the job to a private folder and reads the cost. The child fits the model, draws
the rows and writes the results.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable

COPY = "~"  # marks the name of a repeated column, such as AGEP~2


@dataclass(frozen=True)
class Job:
    """The settings of `StratifiedSynthesizer` for one fit, and the columns of its rows.

    A copy of AGEP is named AGEP~2. If `rules` is False, the combinations that the schema declares impossible are not
    known to the synthesizer.
    """

    mechanism: str
    strata: tuple[str, ...]
    columns: tuple[str, ...]
    epsilon: float = 1.0
    seed: int = 0
    workers: int = 1
    selection: str | None = None
    rules: bool = True


@dataclass(frozen=True)
class Cost:
    """The cost of a job.

    The processor time hardly depends on other processes of the machine. The processor time and the memory include child
    processes. The peak memory of the process and the largest peak of a child are added, as if they occurred at the same
    time.

    Attributes
    ----------
    seconds : float
        The elapsed time in seconds for fitting and drawing, without imports.
    cpu_seconds : float
        The processor time in seconds for fitting and drawing, without imports.
    mebibytes : float
        The peak memory in MiB.
    """

    seconds: float
    cpu_seconds: float
    mebibytes: float


class JobFailed(RuntimeError):
    """An error of the child process. The message is the last line of its error output."""


def schema_of(columns: Sequence[str]) -> Schema:
    """Return the ACS employment schema for the given columns, including copies.

    >>> schema_of(["SEX", "ESR", "ESR~2"]).sizes
    (2, 2, 2)
    """
    base = Schema.load("acs_employment")
    named = [replace(base[name.split(COPY)[0]], name=name) for name in columns]
    plain = base.select([name for name in columns if COPY not in name])
    return replace(plain, columns=tuple(named), default=tuple(columns))


def measure(job: Job, rows: CodedTable, timeout: float | None = None) -> tuple[Cost, pd.DataFrame]:
    """Run a job in a child process, and return its cost and the synthetic rows. Raises JobFailed."""
    with tempfile.TemporaryDirectory(prefix="equistrata-bench-") as name:
        folder = Path(name)
        np.save(folder / "rows.npy", rows.codes, allow_pickle=False)
        (folder / "job.json").write_text(json.dumps(asdict(job)), "utf-8")
        command = [sys.executable, "-m", "benchmarks.child", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"took longer than {timeout:g} s") from None
        if done.returncode:
            raise JobFailed((done.stderr.strip().splitlines() or ["no message"])[-1])
        cost = Cost(**json.loads((folder / "cost.json").read_text("utf-8")))
        return cost, pd.read_parquet(folder / "synthetic.parquet")


def main(folder: Path) -> None:
    """Run the child's part of the protocol."""
    from equistrata.synth.synthesizer import StratifiedSynthesizer

    job = json.loads((folder / "job.json").read_text("utf-8"))
    schema, rules = schema_of(job.pop("columns")), job.pop("rules", True)
    schema = schema if rules else replace(schema, impossible=())
    table = CodedTable(np.load(folder / "rows.npy", allow_pickle=False), schema)
    start, before = perf_counter(), sum(os.times()[:4])
    synthesizer = StratifiedSynthesizer(job.pop("mechanism"), job.pop("strata"), delta=1e-9, **job).fit(table)
    synthetic = synthesizer.sample()
    seconds = perf_counter() - start
    memory = peak_memory() + peak(resource.RUSAGE_CHILDREN)
    cost = Cost(seconds, sum(os.times()[:4]) - before, memory)
    (folder / "cost.json").write_text(json.dumps(asdict(cost)), "utf-8")
    synthetic.to_parquet(folder / "synthetic.parquet", index=False)


def peak_memory() -> float:
    """Return the peak memory of this program in MiB.

    On Linux, `ru_maxrss` includes the memory of the process before it started this program, which is the memory of its
    parent. VmHWM only includes this program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    return peak(resource.RUSAGE_SELF)


def peak(who: int) -> float:
    """Return the peak memory in MiB that is recorded by the operating system. It is 0 if there were no children."""
    return resource.getrusage(who).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
