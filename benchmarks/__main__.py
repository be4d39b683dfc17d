"""Our engine against mbi's, and stratified against vanilla, on the same rows in the same run.

    python -m benchmarks                      # the embedded sample
    python -m benchmarks --root-dir ACS --state NY --year 2024 --figure docs/figures/parity_by_stratum.png

Seeded noise (not private): for measuring only. Seconds are medians over repetitions; every repetition draws its own
80 % of the rows and its own noise, the same for all contestants.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from data.schema import Schema
from data.sources import FolktablesSource, SampleSource, Source
from data.table import CodedTable
from eval.scores import Scores, score_tables
from synth.stratified import StratifiedSynthesizer

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR")
STRATA = ("SEX", "RAC1P")
TRAINING_SHARE = 0.8


@dataclass(frozen=True)
class Contestant:
    """One way of making a release."""

    name: str
    strata: tuple[str, ...]
    engine: str


@dataclass(frozen=True)
class Run:
    """One repetition: seconds to fit and draw, and the scores."""

    seconds: float
    scores: Scores


CONTESTANTS = (
    Contestant("MST_SEX_RAC1P, numpy", STRATA, "numpy"),
    Contestant("MST_SEX_RAC1P, mbi", STRATA, "mbi"),
    Contestant("MST_vanilla, numpy", (), "numpy"),
    Contestant("MST_vanilla, mbi", (), "mbi"),
)


def run(contestant: Contestant, table: CodedTable, seed: int, epsilon: float, classifiers: bool) -> Run:
    """Fit on a random 80 % and score."""
    rng = np.random.default_rng(seed)
    training = rng.random(len(table)) < TRAINING_SHARE
    rows = table.take(training)
    start = perf_counter()
    synthesizer = StratifiedSynthesizer(
        "mst", contestant.strata, epsilon=epsilon, delta=1e-9, engine=contestant.engine, seed=seed
    ).fit(rows)
    synthetic = synthesizer.sample()
    seconds = perf_counter() - start
    real, test = rows.decode(rng), table.take(~training).decode(rng)
    models = ("random_forest",) if classifiers else ()
    scores = score_tables(real, test, synthetic, STRATA, "ESR", classifiers=models, baseline=False)
    return Run(seconds, scores)


def show(results: dict[str, list[Run]], title: str) -> Table:
    """One row per contestant: median seconds and mean scores."""
    grid = Table(title=title, title_justify="left")
    for heading in ("", "seconds", "parity error", "workload3", "by stratum", "accuracy"):
        grid.add_column(heading, justify="right" if heading else "left")
    for name, runs in results.items():
        scores = [run.scores for run in runs]
        accuracy = [s.accuracy for s in scores if s.accuracy is not None]
        grid.add_row(
            name,
            f"{median(run.seconds for run in runs):.2f}",
            f"{mean(s.parity_error for s in scores):.3f}",
            f"{mean(s.workload3 for s in scores):.3f}",
            f"{mean(s.workload3_by_stratum for s in scores):.3f}",
            f"{mean(accuracy):.3f}" if accuracy else "—",
        )
    return grid


def draw(results: dict[str, list[Run]], path: Path) -> None:
    """Error of the means in each stratum, stratified against vanilla."""
    from matplotlib import pyplot

    pairs = (("MST_vanilla, numpy", "one synthesizer", "#b5541c"), ("MST_SEX_RAC1P, numpy", "per stratum", "#1f6f8b"))
    figure, axes = pyplot.subplots(figsize=(8, 4.6), layout="constrained")
    strata = list(results[pairs[0][0]][0].scores.parity_by_stratum)
    strata.sort(key=lambda key: mean(r.scores.parity_by_stratum[key] for r in results[pairs[0][0]]))
    for name, label, colour in pairs:
        errors = [mean(100 * run.scores.parity_by_stratum[key] for run in results[name]) for key in strata]
        axes.scatter(errors, strata, label=label, color=colour, s=60, zorder=3)
    axes.set_xscale("log")
    axes.set_xlabel("error of the means in the stratum, per cent (mean over columns and runs; log scale)")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="MST at ε = 1", frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run all contestants and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", type=int, default=2024)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--no-classifiers", action="store_true")
    parser.add_argument("--no-mbi", action="store_true", help="leave the reference engine out")
    parser.add_argument("--figure", type=Path, help="also draw the error per stratum (needs matplotlib)")
    arguments: Any = parser.parse_args()
    source: Source = SampleSource()
    if arguments.root_dir:
        source = FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    schema = Schema.load("acs_employment").select(COLUMNS)
    table = CodedTable.encode(source.read(COLUMNS), schema)
    console = Console()
    results: dict[str, list[Run]] = {}
    for seed in range(arguments.repetitions):
        for contestant in CONTESTANTS:
            if contestant.engine == "mbi" and arguments.no_mbi:
                continue
            with console.status(f"run {seed + 1} of {arguments.repetitions}: {contestant.name}"):
                result = run(contestant, table, seed, arguments.epsilon, not arguments.no_classifiers)
            results.setdefault(contestant.name, []).append(result)
    title = f"{source.describe()}: {len(table):,} rows, 80 % for fitting, ε = {arguments.epsilon:g}"
    console.print(show(results, title))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory of the whole comparison: {peak:,.0f} MiB")
    if arguments.figure:
        draw(results, arguments.figure)
        console.print(f"drawn: {arguments.figure}")


if __name__ == "__main__":
    main()
