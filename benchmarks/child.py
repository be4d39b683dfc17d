"""One fit in a process of its own, so that its peak memory is its own: `python -m benchmarks.child FOLDER`.

Parent: `measure` lays a job out in a private folder and reads back what it cost. Child: fits, draws, writes.
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

COPY = "~"  # in a repeated column's name, as AGEP~2


@dataclass(frozen=True)
class Job:
    """What to fit: settings of `StratifiedSynthesizer`, and the columns of the rows (a copy of AGEP is AGEP~2).

    Without `rules` it does not know which combinations the schema declares impossible.
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
    """What it took: seconds to fit and draw (no imports), of clock and of processors, and the peak memory in MiB.

    Processor seconds hardly depend on what else the machine does. Both they and memory count children in. The two peaks
    are added as if they fell together, and of several children the largest counts.
    """

    seconds: float
    cpu_seconds: float
    mebibytes: float


class JobFailed(RuntimeError):
    """The child failed; the last line of its error says why."""


def schema_of(columns: Sequence[str]) -> Schema:
    """The ACS employment schema over these columns, copies included.

    >>> schema_of(["SEX", "ESR", "ESR~2"]).sizes
    (2, 2, 2)
    """
    base = Schema.load("acs_employment")
    named = [replace(base[name.split(COPY)[0]], name=name) for name in columns]
    plain = base.select([name for name in columns if COPY not in name])
    return replace(plain, columns=tuple(named), default=tuple(columns))


def measure(job: Job, rows: CodedTable, timeout: float | None = None) -> tuple[Cost, pd.DataFrame]:
    """Run a job in a child process; what it cost, and the synthetic rows. Raises JobFailed."""
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
    """The child's part."""
    from equistrata.synth.synthesizer import StratifiedSynthesizer

    job = json.loads((folder / "job.json").read_text("utf-8"))
    schema, rules = schema_of(job.pop("columns")), job.pop("rules", True)
    schema = schema if rules else replace(schema, impossible=())
    table = CodedTable(np.load(folder / "rows.npy", allow_pickle=False), schema)
    start, before = perf_counter(), sum(os.times()[:4])
    synthesizer = StratifiedSynthesizer(job.pop("mechanism"), job.pop("strata"), delta=1e-9, **job).fit(table)
    synthetic = synthesizer.sample()
    seconds = perf_counter() - start
    memory = own_peak() + peak(resource.RUSAGE_CHILDREN)
    cost = Cost(seconds, sum(os.times()[:4]) - before, memory)
    (folder / "cost.json").write_text(json.dumps(asdict(cost)), "utf-8")
    synthetic.to_parquet(folder / "synthetic.parquet", index=False)


def own_peak() -> float:
    """This program's peak memory in MiB.

    Linux counts into `ru_maxrss` what the process held before it became this program: its parent's memory. VmHWM starts
    anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    return peak(resource.RUSAGE_SELF)


def peak(who: int) -> float:
    """The peak memory that the operating system has on record, in MiB (0 for children where there were none)."""
    return resource.getrusage(who).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
