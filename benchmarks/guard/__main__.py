"""Compare two checkouts on the same tables and seeds: errors, coverage, seconds and size, as ratios HEAD / BASE.

    python -m benchmarks.guard BASE HEAD                      # folders or revisions; hours on two cores
    python -m benchmarks.guard BASE HEAD --quick --tables "nist|package"
    python -m benchmarks.guard BASE HEAD --acs psam_p13.csv --acs psam_p48.csv

For each release, the two checkouts run one after the other, so that a busy machine slows both of them. Each finished
job is stored in the results file, and a later run continues with the other jobs. The noise is seeded, so the results
are not private. A ratio above 1 means that HEAD has the larger error. Standard errors are computed over tables and
seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from rich.progress import track

from benchmarks.guard.scores import intervals_of, scores_of
from benchmarks.guard.tables import Table, all_tables

CHILD = Path(__file__).with_name("child.py")
SIDES = ("base", "head")
HELD_OUT = 0.2  # the share of the rows that are held out for the classifier
CORE = ("data", "privacy", "stats", "synth", "inference", "eval", "analysis", "flows", "equistrata")
CONSTANT = re.compile(r"^_?[A-Z][A-Z0-9_]*( *:[^=]*)? *= *-?[0-9.(]", re.M)


@dataclass(frozen=True)
class Job:
    """One release that both checkouts make."""

    table: Table
    mechanism: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.table.name}|{self.mechanism}|{self.epsilon:g}|{self.seed}"


class Checkout:
    """The process of a checkout, which makes one release at a time."""

    def __init__(self, folder: Path) -> None:
        given = os.environ | {"PYTHONPATH": str(folder)}
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=given,
        )

    def make(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the result of `child.work_off`. Raises RuntimeError if the process of the checkout fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the checkout's process ended with code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def checked_out(place: str) -> Iterator[Path]:
    """Yield the folder of a checkout. A revision is checked out to a temporary folder."""
    if Path(place).is_dir():
        yield Path(place).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(made), place], check=True)
        try:
            yield made
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(made)], check=True)


def run(job: Job, sides: dict[str, Checkout], place: Path) -> list[dict[str, Any]]:
    """Make one release in both checkouts, and return one line for each score and for each kind of interval."""
    order = np.random.default_rng([job.seed, len(job.table.rows)]).permutation(len(job.table.rows))
    cut = int(HELD_OUT * len(order))
    test, real = (job.table.rows.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    real.to_csv(place / "rows.csv", index=False)
    (place / "schema.yaml").write_text(yaml.safe_dump(job.table.schema), "utf-8")
    lines = []
    for side, checkout in sides.items():
        done = checkout.make({
            "rows": str(place / "rows.csv"), "schema": str(place / "schema.yaml"), "strata": job.table.strata,
            "mechanism": job.mechanism, "epsilon": job.epsilon, "seed": job.seed, "questions": job.table.questions,
            "output": str(place / "made.parquet"),
        })  # fmt: skip
        made = pd.read_parquet(place / "made.parquet")
        scores = scores_of(job.table, real, test, made)
        scores |= {"processor s": done["seconds"], "slowest question s": done["first"]}
        lines += [_line(job, side, name, value, 1) for name, value in scores.items()]
        asked = zip(job.table.questions, done["answers"], strict=True)
        seen = pd.DataFrame(
            [each for question, answer in asked for each in intervals_of(job.table, real, question, answer)]
        )
        for (kind, basis, rows), part in seen.groupby(["kind", "basis", "rows"]):
            name = f"{kind}, {basis}, {rows} 200 rows"
            lines.append(_line(job, side, f"coverage: {name}", float(part["inside"].mean()), len(part)))
            lines.append(_line(job, side, f"width: {name}", float(part["width"].mean()), len(part)))
    return lines


def _line(job: Job, side: str, score: str, value: float, count: int) -> dict[str, Any]:
    return {
        "job": job.name, "table": job.table.name, "mechanism": job.mechanism, "epsilon": job.epsilon, "side": side,
        "score": score, "value": value, "count": count,
    }  # fmt: skip


def ratios(results: pd.DataFrame) -> pd.DataFrame:
    """Compute the geometric mean ratio HEAD / BASE of each score with its standard error.

    The ratio of the table with the largest mean ratio is returned as well.
    """
    errors = results[~results["score"].str.contains(":")]
    wide = errors.pivot_table(index=["score", "table", "mechanism", "job"], columns="side", values="value")
    wide = wide[(wide > 0).all(axis=1)]
    logs = np.log(wide["head"] / wide["base"]).rename("log").reset_index()
    found = []
    for (score, mechanism), part in logs.groupby(["score", "mechanism"], sort=False):
        tables = part.groupby("table")["log"].agg(["mean", "sem"])
        worst = tables["mean"].idxmax()
        found.append({
            "score": score, "mechanism": mechanism, "releases": len(part), "ratio": np.exp(part["log"].mean()),
            "±": part["log"].sem() * np.exp(part["log"].mean()), "worst table": worst,
            "its ratio": np.exp(tables.loc[worst, "mean"]), "its ±": tables.loc[worst, "sem"],
        })  # fmt: skip
    return pd.DataFrame(found)


def coverage(results: pd.DataFrame) -> pd.DataFrame:
    """Compute the coverage of each kind of interval in both checkouts, and the ratio of the widths."""
    found = []
    for name in sorted({score.partition(": ")[2] for score in results["score"] if ":" in score}):
        line: dict[str, Any] = {"intervals": name}
        widths = {}
        for side in SIDES:
            own = results[results["side"] == side]
            held, wide = (own[own["score"] == f"{what}: {name}"] for what in ("coverage", "width"))
            line[f"{side} n"] = int(held["count"].sum())
            line[f"{side} coverage"] = np.average(held["value"], weights=held["count"]) if len(held) else np.nan
            widths[side] = np.average(wide["value"], weights=wide["count"]) if len(wide) else np.nan
        found.append(line | {"base width": widths["base"], "width ratio": widths["head"] / widths["base"]})
    return pd.DataFrame(found)


def size(folder: Path) -> dict[str, int]:
    """Count the lines of the core, tests, paper and benchmarks, the numeric constants, and the words of Markdown."""

    def texts(*places: str, ending: str = ".py") -> list[str]:
        found = subprocess.run(
            ["git", "ls-files", "-z", "--", *places], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.split("\0")
        return [(folder / name).read_text("utf-8") for name in found if name.endswith(ending)]

    core = texts(*CORE)
    return {
        "core lines": sum(text.count("\n") for text in core),
        "test lines": sum(text.count("\n") for text in texts("tests")),
        "paper and benchmark lines": sum(text.count("\n") for text in texts("paper", "benchmarks")),
        "constants": sum(len(CONSTANT.findall(text)) for text in core),
        "words of Markdown": sum(len(text.split()) for text in texts(".", ending=".md")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with acs/ and nist/")
    parser.add_argument(
        "--acs", action="append", default=[], help="an ACS person file, instead of the tables in --shared"
    )
    parser.add_argument("--tables", default="", help="a pattern of the tables' names")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--epsilons", default="0.3,1,5")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="draws of 8,000 rows alone")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/guard.csv"))
    arguments = parser.parse_args()
    tables = [
        each
        for each in all_tables(arguments.shared, arguments.acs, arguments.quick)
        if re.search(arguments.tables, each.name)
    ]
    jobs = [
        Job(table, name, float(epsilon), seed)
        for seed in range(arguments.first, arguments.first + arguments.seeds)
        for table in tables
        for name in arguments.mechanisms.split(",")
        for epsilon in arguments.epsilons.split(",")
    ]
    file = arguments.results
    file.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folders = [stack.enter_context(checked_out(place)) for place in (arguments.base, arguments.head)]
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        there = set(pd.read_csv(file)["job"]) if file.exists() else set()
        if left := [job for job in jobs if job.name not in there]:
            sides = dict(zip(SIDES, map(Checkout, folders), strict=True))
            for side in sides.values():
                stack.callback(side.close)
            for job in track(left, "releases"):
                made = pd.DataFrame(run(job, sides, place))
                made.to_csv(file, mode="a", header=not file.exists(), index=False)
        results = pd.read_csv(file)
        results = results[results["job"].isin([job.name for job in jobs])]
        sizes = pd.DataFrame([size(folder) for folder in folders], index=SIDES).T.reset_index(names="size")
    for title, frame in (
        ("Errors and seconds, HEAD / BASE", ratios(results)),
        ("95 % intervals of readers", coverage(results)),
        ("Size", sizes),
    ):
        print(f"\n{title}\n{frame.to_string(index=False, float_format='{:.3f}'.format)}")


if __name__ == "__main__":
    main()
