"""Compare our synthesizers with the synthesizers of other projects on the same rows, for several values of ε.

    make bench                                            # the embedded sample, about an hour on two cores
    make bench ARGS=--quick                               # 5,000 rows, 6 columns, ε = 1
    python -m benchmarks.field --root-dir ACS --state VT --year 2024 --systems mst,aim,opendp-aim

Each peer runs in a separate environment under .venv-peers, which is created in the first run. A peer is left out with a
message if its environment cannot be created or if it fails. In each repetition, all systems get the same 80 % of the
rows, the same columns and codes, and the same ε and δ for adding or removing one row. Each fit is written to a CSV file
as soon as it is finished, and it is not measured again in a later run. Slow peers are only included if they are named.
Our noise is seeded and the scores are exact, so the results are not private.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.field.calling import PeerFailed, PeerTimeout
from benchmarks.field.environments import PeerUnavailable, interpreter
from benchmarks.field.measuring import Line, Place, measured
from benchmarks.field.showing import HEADS, standing, table_at, terminal
from benchmarks.field.standing import cells, epsilons
from benchmarks.field.systems import SYSTEMS, Ours, System, named
from benchmarks.rows import COLUMNS, add_source, source_of
from equistrata.data.schema import Schema
from equistrata.data.sources import SampleSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from paper.lines import LineFile

EPSILONS = (0.1, 1.0, 5.0, 10.0)
QUICK_COLUMNS, QUICK_ROWS = ("AGEP", "MAR", "DIS", "SEX", "RAC1P", "ESR"), 5_000
SIMULATED = (
    "These rows were drawn from a model of ours (data/sample/card.md), which favours us: for a fair field, name real "
    "rows by --root-dir."
)


def places(
    systems: Sequence[System], rows: str, at: Sequence[float], repetitions: int
) -> Iterator[tuple[System, Place]]:
    """Yield all fits in order of repetition and ε."""
    for seed, epsilon, system in product(range(repetitions), at, systems):
        yield system, Place(rows, system.name, epsilon, seed)


@dataclass
class Field:
    """A run of the benchmark, with its results and the systems that are left out."""

    table: CodedTable
    file: LineFile[Place, Line]
    console: Console
    limit: float
    pythons: dict[str, Path]
    lines: dict[Place, Line] = field(default_factory=dict)
    out: set[tuple[str, float | None]] = field(default_factory=set)

    def run(self, plan: Sequence[tuple[System, Place]]) -> None:
        """Measure all fits that are missing in the file, and report the systems that are left out with the reason."""
        self.lines = {place: line for place, line in self.file.read().items() if place in {p for _, p in plan}}
        for number, (system, place) in enumerate(plan, start=1):
            if place not in self.lines and not self.out & {(system.name, None), (system.name, place.epsilon)}:
                with self.console.status(f"{number} of {len(plan)}: {system.shown}, {_at(place)}"):
                    self._measure(system, place)

    def _measure(self, system: System, place: Place) -> None:
        try:
            line = measured(system, self.table, place, self.pythons.get(system.name), self.limit)
        except PeerFailed as error:
            slow = isinstance(error, PeerTimeout)
            self.out.add((system.name, None if slow else place.epsilon))
            print_sentence(self.console, f"{system.shown} is left out{' from here on' * slow}, {_at(place)}: {error}")
        else:
            self.file.append([line])
            self.lines[place] = line


def print_sentence(console: Console, text: str) -> None:
    """Print a sentence on a separate line."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def _at(place: Place) -> str:
    return f"ε = {place.epsilon:g}, repetition {place.seed + 1}"


def pythons_of(systems: Sequence[System], console: Console, install: bool) -> dict[str, Path]:
    """Return the interpreter of each peer, and print a message for each peer that does not have one."""
    found, refused = dict[str, Path](), dict[str, str]()
    for system in systems:
        if isinstance(system, Ours):
            continue
        name = system.environment.name
        if name not in refused:
            with console.status(f"environment of {name}"):
                try:
                    found[system.name] = interpreter(system.environment, system.path, install=install)
                except PeerUnavailable as error:
                    refused[name] = str(error)
        if name in refused:
            print_sentence(console, f"{system.shown} is left out: {refused[name]}")
    return found


def table_of(arguments: Any) -> tuple[CodedTable, str]:
    """Return the coded rows that are given by the options, and their name in lines and titles."""
    source, columns = source_of(arguments), QUICK_COLUMNS if arguments.quick else COLUMNS
    table = CodedTable.encode(source.read(columns), Schema.load("acs_employment").select(columns))
    most = min(arguments.rows or (QUICK_ROWS if arguments.quick else len(table)), len(table))
    if most < len(table):
        table = table.take(np.random.default_rng(0).permutation(len(table))[:most])
    return table, f"{source.describe()}: {len(table):,} rows × {len(columns)} columns"


def options() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.field", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_source(parser)
    every = ",".join(system.name for system in SYSTEMS)
    parser.add_argument("--systems", help=f"of {every}; without it, all but the slow ones (the peers' AIMs)")
    parser.add_argument("--epsilons", help="0.1,1,5,10 if not given; 1 with --quick")
    parser.add_argument("--repetitions", type=int, help="2 if not given; 1 with --quick")
    parser.add_argument("--rows", type=int, help="so many rows, drawn at random; all if not given")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a fit")
    parser.add_argument("--no-install", action="store_true", help="only with the environments that are there")
    parser.add_argument("--quick", action="store_true", help="fewer rows, columns and ε")
    return parser


def systems_of(arguments: Any) -> list[System]:
    """Return the systems that are given by the options. Raises InputError if a name is unknown."""
    if not arguments.systems:
        return [system for system in SYSTEMS if not system.slow]
    try:
        return named(arguments.systems.split(","))
    except KeyError as error:
        raise InputError(f"--systems: {error.args[0]!r} is none of the field's; --help lists them") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all systems, print the tables, and write the result of every fit."""
    arguments: Any = options().parse_args(argv)
    console, at = Console(), (1.0,) if arguments.quick else EPSILONS
    try:
        systems = systems_of(arguments)
        at = tuple(float(text) for text in arguments.epsilons.split(",")) if arguments.epsilons else at
        table, title = table_of(arguments)
        pythons = pythons_of(systems, console, not arguments.no_install)
        systems = [system for system in systems if isinstance(system, Ours) or system.name in pythons]
        csv = arguments.results / ("field_quick.csv" if arguments.quick else "field.csv")
        run = Field(table, LineFile(csv, Place, Line), console, arguments.limit, pythons)
        run.run(list(places(systems, title, at, arguments.repetitions or (1 if arguments.quick else 2))))
    except (InputError, ValueError) as error:
        print_sentence(console, str(error))
        return 2
    report(list(run.lines.values()), systems, title, csv, console)
    return 0


def report(lines: Sequence[Line], systems: Sequence[System], title: str, csv: Path, console: Console) -> None:
    """Print the tables."""
    printer = console if console.is_terminal else Console(width=120)
    for epsilon in epsilons(lines):
        said = f"{title}, ε = {epsilon:g}; errors, means; * least of a column"
        printer.print(terminal(table_at(lines, systems, epsilon), HEADS, said))
    heads = ("", *(f"ε = {epsilon:g}" for epsilon in epsilons(lines)))
    printer.print(terminal(standing(lines, systems), heads, "the best of ours over the best peer; ← above 1.02"))
    if title.startswith(SampleSource().describe()):
        print_sentence(console, SIMULATED)
    every = cells(lines, systems)
    print_sentence(console, f"ours best or within 2 % in {sum(cell.held for cell in every)} of {len(every)} cells")
    print_sentence(console, f"every fit: {csv}")


if __name__ == "__main__":
    raise SystemExit(main())
