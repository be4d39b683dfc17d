"""The command line: `python -m paper`, with the name of a paper and the numbers of its figures or tables."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
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
    "proportions": ("tests of a proportion: all tables as", (1,), proportions.compare_tables),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Bad input ends with one sentence and exit code 2."""
    given = _parser().parse_args(arguments)
    _, known, compare = PAPERS[given.paper]
    try:
        for name in ("runs", "workers"):
            if getattr(given, name) is not None and getattr(given, name) < 1:
                raise InputError(f"--{name} is {getattr(given, name)}; give at least 1")
        for number in given.numbers:
            if number not in known:
                raise InputError(f"{given.paper} has no number {number}; choose {known[0]} to {known[-1]}")
        source: Source = SampleSource()
        if given.source == "folktables":
            source = FolktablesSource((given.state,), given.year, root_dir=given.root_dir, download=given.download)
        settings = Settings(source, Path(given.output), given.runs, given.workers, given.quick, given.esp)
        for number in given.numbers or known:
            for comparison in compare(number, settings):
                Console().print(comparison.table())
                for path in comparison.write(settings.output):
                    print(f"made {path}")
    except EquistrataError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


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
    add("--state", default="NY", help="postal code, for source folktables")
    add("--year", type=int, default=2024, help="survey year, for source folktables")
    add("--esp", action="store_true", help="synthesize ESP as the paper does, and not NATIVITY (files of 2018)")
    add("--root-dir", default="acs", help="folder with <year>/1-Year/psam_p36.csv, for source folktables")
    add("--download", action="store_true", help="let folktables download what is not there")
    return parser


if __name__ == "__main__":
    main()
