"""The paper's grid as one command that can be stopped and started again.

    python -m benchmarks.grid --root-dir ACS --state NY --year 2024

Every mechanism × strata × ε × seed is one line of a CSV file, written as soon as it is known; lines that are there are
not made again. Seeded noise (not private): for measuring only. Each seed has its own 80 % of the rows, the same for all
mechanisms, strata and ε.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

from data.schema import Schema
from data.sources import FolktablesSource, SampleSource, Source
from data.table import CodedTable
from eval.parity import parity_error
from eval.scores import score_tables
from synth.mechanism import MECHANISMS
from synth.stratified import StratifiedSynthesizer

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR")
STRATA = ("vanilla", "SEX", "RAC1P", "SEX_RAC1P")
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
DELTA = 1e-9
TRAINING_SHARE = 0.8


@dataclass(frozen=True)
class Cell:
    """One place in the grid."""

    mechanism: str
    strata: str
    epsilon: float
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that define its strata."""
        return () if self.strata == "vanilla" else tuple(self.strata.split("_"))


@dataclass(frozen=True)
class Line(Cell):
    """A place in the grid and what was measured there."""

    seconds: float
    accuracy: float
    demographic_parity_ratio: float
    fnr_difference: float
    parity_sex: float
    parity_rac1p: float
    parity_sex_rac1p: float
    workload3: float
    workload3_by_stratum: float


def cells(mechanisms: list[str], strata: list[str], epsilons: list[float], seeds: int) -> Iterator[Cell]:
    """The grid, seed by seed, so that a grid that is stopped early is whole for its first seeds."""
    for seed, mechanism, by, epsilon in product(range(seeds), mechanisms, strata, epsilons):
        yield Cell(mechanism, by, epsilon, seed)


def finished(path: Path) -> set[Cell]:
    """The places that a file has already."""
    if not path.exists():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Cell(row["mechanism"], row["strata"], float(row["epsilon"]), int(row["seed"]))
            for row in csv.DictReader(file)
            if row["workload3_by_stratum"]  # a line that was cut off is made again
        }


def append(path: Path, line: Line) -> None:
    """Write one line at the end, with a header if the file is new."""
    new = not path.exists()
    cut_off = not new and not path.read_bytes().endswith(b"\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        if cut_off:
            file.write("\n")
        writer = csv.DictWriter(file, [field.name for field in fields(Line)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(line))


def measure(cell: Cell, table: CodedTable, workers: int) -> Line:
    """Fit, draw and score one place of the grid."""
    rng = np.random.default_rng(cell.seed)
    training = rng.random(len(table)) < TRAINING_SHARE
    rows = table.take(training)
    start = perf_counter()
    synthesizer = StratifiedSynthesizer(
        cell.mechanism, cell.columns, epsilon=cell.epsilon, delta=DELTA, seed=cell.seed, workers=workers
    )
    synthetic = synthesizer.fit(rows).sample()
    seconds = perf_counter() - start
    real, test = rows.decode(rng), table.take(~training).decode(rng)
    scores = score_tables(
        real, test, synthetic, ["SEX", "RAC1P"], "ESR", classifiers=("random_forest",), baseline=False
    )
    assert scores.accuracy is not None
    assert scores.dpr is not None
    assert scores.fnr_diff is not None
    return Line(
        **asdict(cell),
        seconds=round(seconds, 3),
        accuracy=scores.accuracy,
        demographic_parity_ratio=scores.dpr,
        fnr_difference=scores.fnr_diff,
        parity_sex=parity_error(real, synthetic, ["SEX"]).value,
        parity_rac1p=parity_error(real, synthetic, ["RAC1P"]).value,
        parity_sex_rac1p=scores.parity_error,
        workload3=scores.workload3,
        workload3_by_stratum=scores.workload3_by_stratum,
    )


def main() -> None:
    """Make every place of the grid that the file lacks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", type=int, default=2024)
    parser.add_argument("--mechanisms", default=",".join(name for name in MECHANISMS if "-" not in name))
    parser.add_argument("--strata", default=",".join(STRATA))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/grid.csv"))
    arguments = parser.parse_args()
    source: Source = SampleSource()
    if arguments.root_dir:
        source = FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    table = CodedTable.encode(source.read(COLUMNS), Schema.load("acs_employment").select(COLUMNS))
    epsilons = [float(epsilon) for epsilon in arguments.epsilons.split(",")]
    grid = list(cells(arguments.mechanisms.split(","), arguments.strata.split(","), epsilons, arguments.seeds))
    done = finished(arguments.output)
    console = Console()
    console.print(f"{len(grid)} places, {sum(cell in done for cell in grid)} of them in {arguments.output} already")
    for number, cell in enumerate(grid, start=1):
        if cell in done:
            continue
        line = measure(cell, table, arguments.workers)
        append(arguments.output, line)
        console.print(
            f"[{number}/{len(grid)}] {cell.mechanism.upper()}_{cell.strata} ε={cell.epsilon:g} seed {cell.seed}: "
            f"{line.seconds:.1f} s, parity {line.parity_sex_rac1p:.3f}, workload3 {line.workload3:.3f}",
            highlight=False,
        )


if __name__ == "__main__":
    main()
