"""Where a benchmark's rows come from: the embedded sample, or ACS files; tables drawn from them place by place.

A table for a seed has all rows of PUMAs in a random order until there are enough, and so many of them at random. So
tables differ by more than chance: one is of a town, the next of villages, and no constant was tuned on one of them.
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
    """The options that say where rows come from."""
    parser.add_argument("--root-dir", help="ACS files; without it, the embedded sample")
    parser.add_argument("--state", default="NY")
    parser.add_argument("--year", type=int, default=2024)


def add_source(parser: argparse.ArgumentParser) -> None:
    """The options that say where rows come from, and where results go."""
    add_rows(parser)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"), help="folder for CSV files")


def source_of(arguments: Any) -> Source:
    """The source that those options name."""
    if arguments.root_dir:
        return FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    return SampleSource()


@dataclass(frozen=True, eq=False)
class Population:
    """Rows, and the place of each, a whole number: places are drawn whole. Without them, rows are drawn one by one."""

    table: CodedTable
    places: Counts | None = None

    def draw(self, rows: int, seed: int) -> CodedTable:
        """A table of so many rows, or of all if there are fewer; the same for the same seed."""
        rng = np.random.default_rng([11, seed])
        chosen = np.arange(len(self.table))
        if self.places is not None:
            order = rng.permutation(int(self.places.max()) + 1)
            sizes = np.bincount(self.places, minlength=len(order))[order]
            taken = order[: int(np.searchsorted(np.cumsum(sizes), rows)) + 1]
            chosen = np.flatnonzero(np.isin(self.places, taken))
        return self.table.take(rng.choice(chosen, min(rows, len(chosen)), replace=False))


def population_of(arguments: Any, columns: Sequence[str], schema: Schema) -> Population:
    """Of the states that the options name, joined by commas, by PUMA; of the embedded sample without them."""
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
