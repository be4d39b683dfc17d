"""Our synthesizers against their peers, and stratified against vanilla, on the same rows in the same run.

    python -m benchmarks                      # the embedded sample
    python -m benchmarks --quick              # 20,000 of its rows, 6 columns, two strata: under 5 minutes
    python -m benchmarks --root-dir ACS --state NY --year 2024 --figure docs/figures/parity_by_stratum.png
    python -m benchmarks nist --data FOLDER   # NIST's board instead (benchmarks.nist)

Seeded noise (not private): for measuring only. Every repetition draws its own 80 % of the rows, the same for all
contestants; each fit runs in a process of its own. Seconds are of fitting and drawing, without our own imports; a peer
that runs in an environment of its own starts it once per stratum, and that counts. Needs `make smartnoise` for
smartnoise-synth, which is left out otherwise. Its AIM takes minutes per stratum: ask for it by --peers.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.child import JobFailed
from benchmarks.contest import SCORED_STRATA, Contestant, Run, contestants, draw_peers, draw_strata, frame, run, show
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource, SampleSource, Source
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.registry import mechanism

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR")
QUICK_COLUMNS, QUICK_ROWS, QUICK_STRATA = ("AGEP", "MAR", "DIS", "SEX", "RAC1P", "ESR"), 20_000, ("SEX",)
PEERS = ("smartnoise-mst",)
NO_FIGURE = "no figure: matplotlib is not installed (extra bench)"


def add_rows(parser: argparse.ArgumentParser) -> None:
    """The options that say where rows come from."""
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", type=int, default=2024)


def add_source(parser: argparse.ArgumentParser) -> None:
    """The options that say where rows come from, and where results go."""
    add_rows(parser)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"), help="folder for CSV and figures")


def source_of(arguments: Any) -> Source:
    """The source that those options name."""
    if arguments.root_dir:
        return FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    return SampleSource()


def available(names: list[str], console: Console) -> list[str]:
    """The peers that are installed; a sentence about each that is not."""
    found = []
    for name in names:
        try:
            mechanism(name)
            found.append(name)
        except InputError as error:
            console.print(f"{name} is left out: {error}", soft_wrap=True, highlight=False)
    return found


def repeat(
    field: list[Contestant], table: CodedTable, arguments: Any, csv: Path, console: Console
) -> dict[str, list[Run]]:
    """All repetitions of all contestants, in turns, so that a slow spell of the machine hits all of them.

    Every run is written at once: what was measured stays if a later one is interrupted.
    """
    results: dict[str, list[Run]] = {}
    failed: set[str] = set()
    for seed in range(arguments.repetitions):
        for contestant in field:
            name = contestant.name
            if name in failed:
                continue
            with console.status(f"run {seed + 1} of {arguments.repetitions}: {name}"):
                try:
                    result = run(
                        contestant, table, seed, arguments.epsilon, arguments.workers, not arguments.no_classifiers
                    )
                except JobFailed as error:
                    failed.add(name)
                    console.print(f"{name} is left out, it failed: {error}", soft_wrap=True, highlight=False)
                    continue
            results.setdefault(name, []).append(result)
            frame(results).to_csv(csv, index=False)
    return results


def main() -> None:
    """Run all contestants, print the table, write every run and the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    add_source(parser)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rows, columns, strata and repetitions; no reference engine"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, help="3 if not given; 2 with --quick")
    parser.add_argument("--workers", type=int, default=1, help="processes that fit strata")
    parser.add_argument("--peers", default=",".join(PEERS), help="of smartnoise-mst,smartnoise-aim; '' for none")
    parser.add_argument("--no-classifiers", action="store_true")
    parser.add_argument("--no-mbi", action="store_true", help="leave the reference engine out")
    parser.add_argument("--figure", type=Path, help="also draw the error per stratum (needs matplotlib)")
    arguments: Any = parser.parse_args()
    arguments.repetitions = arguments.repetitions or (2 if arguments.quick else 3)
    source, console = source_of(arguments), Console()
    columns, strata = (QUICK_COLUMNS, QUICK_STRATA) if arguments.quick else (COLUMNS, SCORED_STRATA)
    table = CodedTable.encode(source.read(columns), Schema.load("acs_employment").select(columns))
    if arguments.quick and len(table) > QUICK_ROWS:
        table = table.take(np.random.default_rng(0).permutation(len(table))[:QUICK_ROWS])
    peers = available([name for name in arguments.peers.split(",") if name], console)
    mbi = not (arguments.no_mbi or arguments.quick) and find_spec("mbi") is not None
    stem = "peers_quick" if arguments.quick else "peers"
    arguments.results.mkdir(parents=True, exist_ok=True)
    csv = arguments.results / f"{stem}.csv"
    results = repeat(contestants(strata, peers, mbi), table, arguments, csv, console)
    title = f"{source.describe()}: {len(table):,} rows × {len(columns)} columns, ε = {arguments.epsilon:g}"
    # 100 columns where the terminal does not say: in a log, say.
    printer = console if console.is_terminal else Console(width=100)
    printer.print(show(results, f"{title}\nmedian ± half the range of {arguments.repetitions} runs; MiB: largest"))
    console.print(f"every run: {csv}")
    if find_spec("matplotlib") is None:
        console.print(NO_FIGURE)
        return
    draw_peers(results, title, csv.with_suffix(".png"))
    console.print(f"drawn: {csv.with_suffix('.png')}")
    if arguments.figure:
        cut = tuple(strata)
        labels = {
            Contestant("mst", ()).name: "one for all rows (vanilla)",
            Contestant("mst", cut, selection="shared").name: "one choice for all strata",
            Contestant("mst", cut).name: "the default",
        }
        keys = Strata.over(table.schema, cut)
        words = {keys.label(key): keys.words(key) for key in keys.keys}
        draw_strata(results, labels, words, f"MST at ε = {arguments.epsilon:g}", arguments.figure)
        console.print(f"drawn: {arguments.figure}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["nist"]:
        from benchmarks import nist  # it needs nothing of this page, and this page nothing of it

        raise SystemExit(nist.main(sys.argv[2:]))
    main()
