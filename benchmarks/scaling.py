"""Seconds and memory against rows, columns, strata and workers: `python -m benchmarks.scaling`.

One setting changes at a time. The other settings are 100,000 rows, 10 columns, 18 strata of SEX × RAC1P and one worker.
Rows are drawn from the source with replacement. If there are more than ten columns, the additional columns are copies.
Each set of copies is from a separate draw of rows, so that a copy is not a duplicate. The noise is seeded, so the
results are not private. They are written to scaling_<mechanism>.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from benchmarks.child import COPY, Job, JobFailed, measure, schema_of
from benchmarks.rows import COLUMNS, add_source, source_of
from equistrata.data.table import CodedTable, code_dtype

CUTS = {
    2: ("SEX",),
    9: ("RAC1P",),
    18: ("SEX", "RAC1P"),
    90: ("SEX", "RAC1P", "AGEP"),
    180: ("SEX", "RAC1P", "AGEP", "DIS"),
}
AXES = {
    "rows": (10_000, 100_000, 1_000_000, 3_000_000),
    "columns": (8, 10, 12, 16, 20),
    "strata": tuple(CUTS),
    "workers": (1, 2),
}
# These columns are left out if there are only eight columns.
SPARE = ("NATIVITY", "DREM")


@dataclass(frozen=True)
class Setting:
    """One point of an axis."""

    rows: int = 100_000
    columns: int = 10
    strata: int = 18
    workers: int = 1


def settings(axes: list[str], most_rows: int) -> Iterator[tuple[str, Setting]]:
    """Yield all points of the axes, in which one setting changes at a time."""
    for axis in axes:
        for value in AXES[axis]:
            if axis != "rows" or value <= most_rows:
                yield axis, replace(Setting(), **{axis: value})


def names(width: int) -> tuple[str, ...]:
    """Return the columns of a table with the given width, which may include copies.

    >>> names(12)[-2:], len(names(8)), len(names(20))
    (('AGEP~2', 'SCHL~2'), 8, 20)
    """
    if width < len(COLUMNS):
        return tuple(name for name in COLUMNS if name not in SPARE[: len(COLUMNS) - width])
    copies = (f"{name}{COPY}{block}" for block in range(2, width) for name in COLUMNS)
    return (*COLUMNS, *(name for name, _ in zip(copies, range(width - len(COLUMNS)), strict=False)))


def resample(table: CodedTable, setting: Setting, rng: np.random.Generator) -> CodedTable:
    """Draw a table with the given number of rows and columns with replacement.

    Each set of copies is from a separate draw.
    """
    wanted = names(setting.columns)
    schema = schema_of(wanted)
    codes = np.empty((setting.rows, len(wanted)), dtype=code_dtype(schema), order="F")
    draws: dict[str, Any] = {}
    for j, name in enumerate(wanted):
        base, _, block = name.partition(COPY)
        if block not in draws:
            draws[block] = rng.integers(0, len(table), setting.rows)
        codes[:, j] = table.column(base)[draws[block]]
    return CodedTable(codes, schema)


def main() -> None:
    """Measure all points, print the results, and write the CSV file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.splitlines()[0])
    add_source(parser)
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--axes", default=",".join(AXES), help="which of rows,columns,strata,workers")
    parser.add_argument("--most-rows", type=int, default=max(AXES["rows"]))
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--selection", default="per-stratum", choices=("per-stratum", "shared"))
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which a fit is given up")
    arguments: Any = parser.parse_args()
    console = Console()
    table = CodedTable.encode(source_of(arguments).read(COLUMNS), schema_of(COLUMNS))
    arguments.results.mkdir(parents=True, exist_ok=True)
    csv = arguments.results / f"scaling_{arguments.mechanism}.csv"
    found: list[dict[str, Any]] = []
    for axis, setting in settings(arguments.axes.split(","), arguments.most_rows):
        for seed in range(arguments.repetitions):
            rows = resample(table, setting, np.random.default_rng(seed))
            job = Job(
                arguments.mechanism, CUTS[setting.strata], rows.schema.names, seed=seed, workers=setting.workers,
                selection=arguments.selection,
            )  # fmt: skip
            try:
                cost, _ = measure(job, rows, arguments.timeout)
            except JobFailed as error:
                console.print(f"{axis} {setting}: failed, {error}", soft_wrap=True, highlight=False)
                continue
            found.append({"axis": axis} | vars(setting) | vars(cost))
            # Written after each fit, so that an interruption does not lose results.
            pd.DataFrame(found).to_csv(csv, index=False)
            console.print(
                f"{setting.rows:>9,} rows {setting.columns:>3} columns {setting.strata:>4} strata "
                f"{setting.workers} workers {cost.seconds:>8.1f} s {cost.cpu_seconds:>8.1f} processor s "
                f"{cost.mebibytes:>7,.0f} MiB",
                soft_wrap=True, highlight=False
            )  # fmt: skip


if __name__ == "__main__":
    main()
