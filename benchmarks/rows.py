"""Rows for benchmarks: the embedded sample or ACS files, and tables that are drawn from them by place.

The table for a seed consists of PUMAs in random order, until there are enough rows, and a random sample of these rows.
As a result, tables differ by more than sampling. For example, one table is from a town and the next one from villages.
No constant was tuned on such a table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource, SampleSource, Source
from equistrata.data.table import CodedTable

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR")
STRATA = ("SEX", "RAC1P")
PLACE = "PUMA"


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the options for the source of the rows."""
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", type=int, default=2024)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options for the source of the rows and for the folder of the results."""
    add_rows(parser)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"), help="folder for CSV files")


def source_of(arguments: Any) -> Source:
    """Return the source that is given by the options."""
    if arguments.root_dir:
        return FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    return SampleSource()


@dataclass(frozen=True, eq=False)
class Population:
    """Rows, and the place of each row as a whole number.

    Complete places are drawn. If there are no places, rows are drawn individually.
    """

    table: CodedTable
    places: Counts | None = None

    def draw(self, rows: int, seed: int) -> CodedTable:
        """Draw a table with the given number of rows, or with all rows if there are fewer.

        The result is always the same for the same seed.
        """
        rng = np.random.default_rng([11, seed])
        chosen = np.arange(len(self.table))
        if self.places is not None:
            order = rng.permutation(int(self.places.max()) + 1)
            sizes = np.bincount(self.places, minlength=len(order))[order]
            taken = order[: int(np.searchsorted(np.cumsum(sizes), rows)) + 1]
            chosen = np.flatnonzero(np.isin(self.places, taken))
        return self.table.take(rng.choice(chosen, min(rows, len(chosen)), replace=False))


def population_of(arguments: Any, columns: Sequence[str], schema: Schema) -> Population:
    """Return the population of the states in the options, with PUMAs as places.

    Several states are joined by commas. Without `--root-dir`, the embedded sample is used.
    """
    if not arguments.root_dir:
        return Population(CodedTable.encode(SampleSource().read(list(columns)), schema))
    tables, places, first = [], [], 0
    for state in arguments.state.split(","):
        frame = FolktablesSource((state,), arguments.year, root_dir=arguments.root_dir).read([*columns, PLACE])
        own = np.unique(frame[PLACE].to_numpy(), return_inverse=True)[1]
        tables.append(CodedTable.encode(frame[list(columns)], schema).codes)
        places.append(own + first)
        first += int(own.max()) + 1
    return Population(CodedTable(np.concatenate(tables), schema), np.concatenate(places))
