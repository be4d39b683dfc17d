"""How an audit lays out its numbers: by stratum label, every declared stratum, and `all`. Nothing private is kept here.

>>> from equistrata.data.schema import Schema
>>> layout = Layout(Strata.over(Schema.load("acs_employment").select(["SEX", "ESR"]), ["SEX"]), 0.95)
>>> layout.labelled([1.5, 2.5])
{'SEX=1': 1.5, 'SEX=2': 2.5}
>>> [rows.tolist() for rows in layout.groups(np.array([1, 0, 1]))]
[[1], [0, 2]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.audit.noisy_number import NoisyNumber
from equistrata.eval.scores.coding import Index

ByStratum = Mapping[str, NoisyNumber]
Measured = Mapping[str, ByStratum]  # stratum → name → noisy sum
V = TypeVar("V")


@dataclass(frozen=True)
class Layout:
    """The strata of an audit, and the level of its intervals."""

    strata: Strata
    level: float

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The strata's labels, in the order of `strata.keys`."""
        return tuple(self.strata.label(key) for key in self.strata.keys)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that define no strata."""
        return tuple(name for name in self.strata.schema.names if name not in self.strata.columns)

    def labelled(self, values: Sequence[V]) -> dict[str, V]:
        """One value per stratum, by label."""
        return dict(zip(self.labels, values, strict=True))

    def index(self, table: CodedTable) -> Index:
        """For each row, the place of its stratum among the labels. Raises InputError on a row in an impossible stratum."""
        index = self.strata.index(table)
        if (index < 0).any():
            raise InputError("the table holds rows in a stratum that the schema declares impossible; clean those rows")
        return index

    def groups(self, index: Index) -> list[npt.NDArray[np.intp]]:
        """The rows of each stratum."""
        order = np.argsort(index, kind="stable")
        return np.split(order, np.searchsorted(index[order], np.arange(1, len(self.labels))))
