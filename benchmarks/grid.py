"""Never worse? The default form of each mechanism against vanilla and each stratum by itself, over a grid of tables.

    python -m benchmarks.grid --root-dir ACS --state NY --mechanisms mst,aim,gem --seeds 3

Strata × numbers of columns × numbers of rows × ε × seeds, every fit a line of a CSV file, written as soon as it is
known; lines that are there are not made again. At the end, each place's error over the better of the two other forms,
with its standard error, as a table and in a Markdown file beside the CSV. A place that is above 1.05 by more than two
standard errors is marked. Without strata the default is vanilla, so there is nothing to compare. Seeded noise (not
private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import COLUMNS, add_rows, source_of
from equistrata.api import read_table
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import score
from equistrata.synth.synthesizer import StratifiedSynthesizer
from paper.lines import LineFile
from paper.synthesizers import DELTA, FORMS

STRATA = ("SEX", "SEX+RAC1P", "SEX+RAC1P+DIS", "SEX+RAC1P+AGEP+DIS")  # 2, 18, 36 and 180
BOUND = 1.05
SCORES = ("parity", "workload3", "workload3_by_stratum")


@dataclass(frozen=True)
class Place:
    """One fit: the strata are columns joined by "+"; the first `columns` of the table, theirs included, are kept."""

    mechanism: str
    strata: str
    columns: int
    rows: int
    epsilon: float
    form: str
    seed: int


@dataclass(frozen=True)
class Line(Place):
    """A fit's scores on all rows it was fitted to, and its processor seconds."""

    parity: float
    workload3: float
    workload3_by_stratum: float
    seconds: float


def places(arguments: argparse.Namespace, table: CodedTable) -> Iterator[Place]:
    """The grid that the options name, seed by seed; a number beyond what the table has means all, once."""

    def numbers(text: str, most: int) -> list[int]:
        return list(dict.fromkeys(min(int(number), most) for number in text.split(",")))

    grid = product(
        range(arguments.seeds),
        arguments.strata.split(","),
        numbers(arguments.columns, len(table.schema.names)),
        numbers(arguments.rows, len(table)),
        [float(epsilon) for epsilon in arguments.epsilons.split(",")],
        arguments.mechanisms.split(","),
        FORMS,
    )
    for seed, strata, columns, rows, epsilon, mechanism, form in grid:
        yield Place(mechanism, strata, columns, rows, epsilon, form, seed)


def part_of(table: CodedTable, place: Place) -> CodedTable:
    """The rows and columns of a place: the same rows for all seeds, the strata's columns and then the first others."""
    strata = place.strata.split("+")
    others = [name for name in table.schema.names if name not in strata]
    wanted = {*strata, *others[: max(place.columns - len(strata), 0)]}
    chosen = np.sort(np.random.default_rng(0).permutation(len(table))[: place.rows])
    return table.take(chosen).select([name for name in table.schema.names if name in wanted])


def measure(place: Place, table: CodedTable) -> Line:
    """Fit, draw as many rows as the model stands for, and score."""
    strata, rows = place.strata.split("+"), part_of(table, place)
    by = [] if place.form == "vanilla" else strata
    start = process_time()
    synthesizer = StratifiedSynthesizer(
        place.mechanism, by, epsilon=place.epsilon, delta=DELTA, seed=place.seed, **FORMS[place.form]
    ).fit(rows)
    seconds = process_time() - start
    synthetic = synthesizer.model_.sample(None, np.random.default_rng(place.seed))
    scores = score(synthetic, rows, strata, classifiers=())
    return Line(
        **asdict(place),
        parity=scores.parity_error,
        workload3=scores.workload3,
        workload3_by_stratum=scores.workload3_by_stratum,
        seconds=round(seconds, 2),
    )


def ratios(lines: pd.DataFrame) -> pd.DataFrame:
    """Each place's mean error over the better mean of the other two forms, and its standard error (delta method).

    >>> place = {"mechanism": "mst", "strata": "SEX", "columns": 10, "rows": 100, "epsilon": 1.0}
    >>> errors = [("vanilla", 0, 2.0), ("vanilla", 1, 4.0), ("per-stratum", 0, 9.0), ("per-stratum", 1, 9.0),
    ...           ("default", 0, 1.0), ("default", 1, 2.0)]
    >>> lines = [place | {"form": f, "seed": s, "parity": e, "workload3": e, "workload3_by_stratum": e}
    ...          for f, s, e in errors]
    >>> found = ratios(pd.DataFrame(lines)).iloc[0]
    >>> float(found["parity"]), round(float(found["parity ±"]), 3), bool(found["worse"])
    (0.5, 0.236, False)
    """
    keys = ["mechanism", "strata", "columns", "rows", "epsilon"]
    found = []
    for key, part in lines.groupby(keys, sort=False):
        by_form = part.groupby("form")[list(SCORES)]
        if not set(FORMS) <= set(by_form.groups):
            continue
        mean, error = by_form.mean(), by_form.sem() / by_form.mean()
        line: dict[str, Any] = dict(zip(keys, key, strict=True)) | {"worse": False}
        for name in SCORES:
            better = str(mean[name].drop("default").idxmin())
            ratio = mean[name]["default"] / mean[name][better]
            spread = ratio * float(np.hypot(error[name]["default"], error[name][better]))
            line |= {name: ratio, f"{name} ±": spread}
            line["worse"] |= bool(ratio - 2 * spread > BOUND)
        found.append(line)
    return pd.DataFrame(found)


def in_words(found: pd.DataFrame) -> list[list[str]]:
    """The ratios as texts, a line each; what is above the bound beyond two standard errors is marked with an arrow."""

    def text(line: Any, name: str) -> str:
        ratio, spread = line[name], line[f"{name} ±"]
        return f"{ratio:.2f} ± {spread:.2f}" + (" ←" if ratio - 2 * spread > BOUND else "")

    return [
        [line["mechanism"], line["strata"], str(line["columns"]), f"{line['rows']:,}", f"{line['epsilon']:g}"]
        + [text(line, name) for name in SCORES]
        for _, line in found.iterrows()
    ]


def main() -> None:
    """Make every place of the grid that the file lacks, and say where the default is worse."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid", description=(__doc__ or "").splitlines()[0])
    add_rows(parser)
    parser.add_argument("--input", type=Path, help="a CSV or Parquet file instead, with --schema")
    parser.add_argument("--schema", help="its schema: a file, or a built-in name")
    parser.add_argument("--mechanisms", default="mst,aim,gem")
    parser.add_argument("--strata", default=",".join(STRATA), help="columns joined by +, with commas between")
    parser.add_argument("--columns", default="10,16,24", help="numbers of columns, strata included")
    parser.add_argument("--rows", default="7000,70000,1000000000", help="numbers of rows")
    parser.add_argument("--epsilons", default="0.01,0.1,0.5,1,5")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/grid.csv"))
    arguments = parser.parse_args()
    if arguments.input:
        table = read_table(arguments.input, arguments.schema or parser.error("--input needs --schema"))
    else:
        table = CodedTable.encode(source_of(arguments).read(COLUMNS), Schema.load("acs_employment").select(COLUMNS))
    file, console = LineFile(arguments.output, Place, Line), Console(highlight=False)
    wanted, done = list(places(arguments, table)), file.read()
    console.print(f"{len(wanted)} fits, {sum(place in done for place in wanted)} of them in {arguments.output} already")
    for number, place in enumerate(wanted, start=1):
        if place not in done:
            done[place] = measure(place, table)
            file.append([done[place]])
            of = f"{place.mechanism} {place.strata} {place.form}, {place.columns} columns, {place.rows:,} rows"
            said = f"[{number}/{len(wanted)}] {of}, ε={place.epsilon:g}, seed {place.seed}: {done[place].seconds:.1f} s"
            console.print(said, markup=False)
    found = ratios(pd.DataFrame([asdict(done[place]) for place in wanted]))
    heads = ["mechanism", "strata", "columns", "rows", "ε", "parity", "workload3", "by stratum"]
    lines = in_words(found)
    shown = Table(*heads, title=f"default over the better of vanilla and per stratum; {arguments.seeds} seeds")
    for line in lines:
        shown.add_row(*line)
    console.print(shown)
    console.print(f"{int(found['worse'].sum())} of {len(found)} places above {BOUND} by two standard errors")
    page = [heads, ["---"] * len(heads), *lines]
    arguments.output.with_suffix(".md").write_text("".join(f"| {' | '.join(line)} |\n" for line in page), "utf-8")


if __name__ == "__main__":
    main()
