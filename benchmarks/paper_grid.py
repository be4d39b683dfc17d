"""Any part of the paper's grid as one command that can be stopped and started again.

    python -m benchmarks.paper_grid --root-dir ACS --state NY --mechanisms mst,aim --strata vanilla,SEX_RAC1P

Every mechanism × strata × form × ε × seed is one line of a CSV file, written as soon as it is known; lines that are
there are not made again. `python -m paper figure` makes the parts that the paper's figures need, from the same
code (`paper.synthesizers`). Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from rich.console import Console

from benchmarks.__main__ import add_rows, source_of
from equistrata.data.schema import Schema
from equistrata.data.sources import Source
from equistrata.data.table import CodedTable
from equistrata.synth.registry import MECHANISMS
from paper.lines import LineFile
from paper.synthesizers import COLUMNS, EPSILONS, STRATA, VANILLA, Cell, Line, grid, measure, variants

FORMS = ("per-stratum", "default")


def main() -> None:
    """Make every place of the grid that the file lacks."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper_grid", description=description)
    add_rows(parser)
    parser.add_argument(
        "--pumas", default="", help="only people whose PUMA begins so: a small population, such as 042 (Bronx)"
    )
    parser.add_argument("--mechanisms", default=",".join(name for name in MECHANISMS if "-" not in name))
    parser.add_argument("--strata", default=",".join(STRATA))
    parser.add_argument("--forms", default=",".join(FORMS), help="per-stratum: the paper's; default: equistrata's")
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-classifiers", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/paper_grid.csv"))
    arguments = parser.parse_args()
    rows = rows_of(source_of(arguments), tuple(filter(None, arguments.pumas.split(","))))
    table = CodedTable.encode(rows, Schema.load("acs_employment").select(COLUMNS))
    file = LineFile(arguments.output, Cell, Line)
    wanted, done = places(arguments), file.read()
    console = Console()
    console.print(f"{len(wanted)} places, {sum(cell in done for cell in wanted)} of them in {arguments.output} already")
    for number, cell in enumerate(wanted, start=1):
        if cell in done:
            continue
        line = measure(cell, table, not arguments.no_classifiers, arguments.workers)
        file.append([line])
        console.print(
            f"[{number}/{len(wanted)}] {cell.name} ε={cell.epsilon:g} seed {cell.seed}: "
            f"{line.seconds:.1f} s, parity {line.parity_means_sex_rac1p:.3f}, workload3 {line.workload3:.3f}",
            highlight=False,
            markup=False,
        )


def rows_of(source: Source, pumas: tuple[str, ...]) -> pd.DataFrame:
    """The rows of a source, or of its PUMAs whose five digits begin with one of these."""
    if not pumas:
        return source.read(COLUMNS)
    frame = source.read([*COLUMNS, "PUMA"])
    inside = frame["PUMA"].astype(int).map("{:05d}".format).str.startswith(pumas)
    return frame[inside].reset_index(drop=True)


def places(arguments: argparse.Namespace) -> list[Cell]:
    """The part of the grid that the options name, seed by seed."""
    strata, forms = arguments.strata.split(","), arguments.forms.split(",")
    paper = [by for by in strata if by == VANILLA or FORMS[0] in forms]
    default = [by for by in strata if by != VANILLA and FORMS[1] in forms]
    of = [cell for name in arguments.mechanisms.split(",") for cell in variants(name, paper, default)]
    return list(grid(of, [float(epsilon) for epsilon in arguments.epsilons.split(",")], arguments.seeds))


if __name__ == "__main__":
    main()
