"""The command line `python -m paper`, with the name of a paper and the numbers of its figures or tables."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from rich.console import Console

from equistrata.data.sources import FolktablesSource, SampleSource, Source
from equistrata.errors import EquistrataError, InputError
from paper import federated, proportions, ratio, stratification
from paper.comparison import Settings

DESCRIPTION = """The numbers of four papers beside ours, as a table here and as CSV and a plot in the output folder.
Scores are exact and noise is seeded, so nothing that comes out is private; ACS rows are public use."""
PAPERS = {
    "stratification": ("Rosenblatt et al.: figures", stratification.FIGURES, stratification.compare_figure),
    "ratio": ("Miao and Li (2023), ratios of two means: tables", tuple(ratio.TABLES), ratio.compare_table),
    "federated": ("Chen et al. (2024), two arms: tables", tuple(federated.TABLES), federated.compare_table),
    "proportions": ("the talk's proportions, tables, errors and power:", (1, 2, 3), proportions.compare_number),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. If the input is invalid, print one sentence and exit with code 2."""
    given = _parser().parse_args(arguments)
    _, known, compare = PAPERS[given.paper]
    try:
        for name in ("runs", "workers"):
            if getattr(given, name) is not None and getattr(given, name) < 1:
                raise InputError(f"--{name} is {getattr(given, name)}; give at least 1")
        for number in given.numbers:
            if number not in known:
                raise InputError(f"{given.paper} has no number {number}; choose {known[0]} to {known[-1]}")
        places = [""] if given.source == "sample" else given.rows
        made: set[str] = set()  # comparisons that do not need rows are made only once
        for number, (source, rows) in product(given.numbers or known, [_source(each, given) for each in places]):
            settings = Settings(source, Path(given.output), given.runs, given.workers, given.quick, rows)
            for comparison in compare(number, settings):
                if comparison.name not in made:
                    made.add(comparison.name)
                    Console().print(comparison.table())
                    for path in comparison.write(settings.output):
                        print(f"made {path}")
    except EquistrataError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _source(rows: str, given: Namespace) -> tuple[Source, str]:
    """Return the source of the rows that an option names, and its name."""
    named = re.fullmatch(r"([A-Z]{2})-(\d{4})(-ESP)?", rows)
    if not rows:
        return SampleSource(), rows
    if not named:
        raise InputError(f"--rows has {rows!r}; give a state and a survey year, as NY-2024, and -ESP after it for ESP")
    year = int(named[2])
    return FolktablesSource((named[1],), year, root_dir=given.root_dir, download=given.download), rows


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m paper", description=DESCRIPTION)
    papers = "; ".join(f"{name}: {told} {known[0]} to {known[-1]}" for name, (told, known, _) in PAPERS.items())
    add = parser.add_argument
    add("paper", choices=PAPERS, help=papers)
    add("numbers", nargs="*", type=int, help="which figures or tables (all)")
    add("--quick", action="store_true", help="fewer runs and places: minutes, not hours")
    add("--runs", type=int, help="how many seeds (5), repetitions (1000) or rounds (10000)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes; they change no number")
    add("--output", default="experiments", help="folder for tables and plots, and runs that a later call continues")
    add(
        "--source",
        choices=("folktables", "sample"),
        default="folktables",
        help="rows of figures",
    )
    add("--rows", nargs="+", default=["NY-2024"], help="state and survey year, for source folktables; NM-2018-ESP has "
        "the paper's column ESP, which files of 2018 have, in place of NATIVITY")  # fmt: skip
    add("--root-dir", default="acs", help="folder with <year>/1-Year/psam_p<state>.csv, for source folktables")
    add("--download", action="store_true", help="let folktables download what is not there")
    return parser


if __name__ == "__main__":
    main()
