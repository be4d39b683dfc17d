"""A table larger than one would load: `python -m benchmarks.large`, seconds and peak memory of a whole release by rows.

Repeats the source's rows until there are as many as asked (3, 10 and 30 million), streaming them into a Parquet file,
and runs `equistrata release` on it: MST by SEX × RAC1P, as many synthetic rows as there are rows, exact internal
scores. Memory is of all processes of the release together. Says how far the middle lies from the straight line
through the ends. With --units, each file is released with households as units too (new ids in each repetition), and the
ratios are said. Takes some 3 GB of disk in --folder. Linux only. Seeded noise (not private).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.__main__ import COLUMNS, add_source, source_of
from benchmarks.process_tree import TreeCost, measure_tree

ROWS = (3_000_000, 10_000_000, 30_000_000)
UNIT, AT_MOST = "SERIALNO", 4  # of ACS persons: their household


def repeat(frame: pd.DataFrame, rows: int, path: Path) -> None:
    """Write a Parquet file of this many rows: the frame again and again, one row group each time.

    Ids of units are new each time.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pq.ParquetWriter(path, table.schema) as writer:
        for time, done in enumerate(range(0, rows, len(table))):
            part = table.slice(0, min(len(table), rows - done))
            if UNIT in frame:
                ids = pc.binary_join_element_wise(part[UNIT].cast(pa.string()), f"{time:04d}", "")
                place, kind = part.column_names.index(UNIT), table.schema.field(UNIT).type
                part = part.set_column(place, UNIT, ids.cast(kind))
            writer.write_table(part)


def release(rows: Path, folder: Path, runner: str, evaluate: str, unit: bool) -> TreeCost:
    """Run the command on a file, in a process tree and with a Prefect database of its own."""
    place = Path(tempfile.mkdtemp(dir=folder))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(place / "prefect"), "TMPDIR": str(place)}
    command = [
        sys.executable, "-m", "equistrata.flows.cli.main", "release", "--source", "parquet", "--input", str(rows),
        "--schema", "acs_employment", "--columns", ",".join(COLUMNS), "--strata", "SEX,RAC1P", "--synthesizer", "mst",
        "--evaluate", evaluate, "--seed", "0", "--runner", runner, "--output", str(place / "release"),
        *(["--unit", UNIT, "--at-most", str(AT_MOST)] if unit else []),
    ]  # fmt: skip
    return measure_tree(command, environment)


def main() -> None:
    """Make each file, release it, print what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__.splitlines()[0])
    add_source(parser)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="numbers of rows, with commas")
    parser.add_argument("--runner", default="processes", help="threads, processes, dask or ray")
    parser.add_argument("--evaluate", default="quick", help="quick or none")
    parser.add_argument("--folder", help="folder with room for the files (default: the temporary folder)")
    parser.add_argument("--units", action="store_true", help="with households as units too")
    arguments: Any = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    columns = [*COLUMNS, UNIT] if arguments.units else list(COLUMNS)
    frame = source_of(arguments).read(columns)[columns]
    found: list[dict[str, Any]] = []
    for rows in map(int, arguments.rows.replace("_", "").split(",")):
        with tempfile.TemporaryDirectory(prefix="equistrata-large-", dir=arguments.folder) as name:
            path = Path(name) / "rows.parquet"
            repeat(frame, rows, path)
            costs = [
                release(path, Path(name), arguments.runner, arguments.evaluate, unit)
                for unit in ([False, True] if arguments.units else [False])
            ]
        for cost, kind in zip(costs, ("", " with units"), strict=False):
            console.print(
                f"{rows:>11,} rows {cost.seconds:>8.1f} s {cost.cpu_seconds:>8.1f} processor s "
                f"{cost.mebibytes / 1024:>6.2f} GiB (at most {cost.mebibytes_at_most / 1024:.2f}){kind}"
            )
            found.append({"rows": rows, "units": bool(kind)} | vars(cost))
        if arguments.units:
            plain, units = map(vars, costs)
            ratios = (f"{name} {units[name] / plain[name]:.2f}" for name in ("seconds", "cpu_seconds", "mebibytes"))
            console.print(f"units over none: {', '.join(ratios)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(found).to_csv(arguments.results / "large.csv", index=False)
    for line in growth(pd.DataFrame([each for each in found if not each["units"]])):
        console.print(line)


def growth(costs: pd.DataFrame) -> list[str]:
    """How straight the time is in the rows: against the line through the fewest and the most.

    >>> table = pd.DataFrame({"rows": [3e6, 1e7, 3e7], "seconds": [16, 36, 70], "cpu_seconds": [16, 30, 70]})
    >>> growth(table)[0]
    'seconds: 10.0 + 2.00 per million rows, the rest within 20.0 % of that; 10 times the rows take 4.38 times as long'
    """
    if len(costs) < 2:
        return []
    costs = costs.sort_values("rows")
    millions, lines = costs["rows"].to_numpy() / 1e6, []
    for name in ("seconds", "cpu_seconds"):
        taken = costs[name].to_numpy()
        slope = (taken[-1] - taken[0]) / (millions[-1] - millions[0])
        start = taken[0] - slope * millions[0]
        off = abs(taken / (start + slope * millions) - 1).max()
        lines.append(
            f"{name.replace('cpu_', 'processor ')}: {start:.1f} + {slope:.2f} per million rows, "
            f"the rest within {100 * off:.1f} % of that; "
            f"{millions[-1] / millions[0]:g} times the rows take {taken[-1] / taken[0]:.2f} times as long"
        )
    return lines


if __name__ == "__main__":
    main()
