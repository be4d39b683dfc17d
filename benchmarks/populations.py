"""Tables as parts of states have them: rows of the ACS by PUMA, places of 100,000 people and more.

A table for a seed: all rows of PUMAs in an order of its own until there are enough, and so many of them at random. So
tables differ in more than chance: one is of a town, the next of villages, and none is what a constant was tuned on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource, SampleSource
from equistrata.data.table import CodedTable

PLACE = "PUMA"


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
