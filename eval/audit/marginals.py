"""Real against synthetic marginals of columns and of pairs, for the internal report: exact, never to be published.

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> real, made = (CodedTable(np.array(rows, dtype=np.uint8), schema) for rows in ([[0, 0, 0], [1, 1, 1]], [[0, 0, 1], [1, 1, 0]]))
>>> pair_errors(real, made)[("DIS", "ESR")]
2.0
>>> shares(real, "SEX").tolist()
[0.5, 0.5]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.layout import Layout

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Marginals:
    """Marginals of one release beside those of the private rows. EXACT, so internal.

    Attributes:
        columns: column → (words of each value, real shares, synthetic shares), over all rows.
        group: the stratum that is shown beside: the one served worst; empty without strata.
        in_group: the same within it.
        pairs: pair → L1 distance of its two marginals, in [0, 2].
        worst: the pair with the largest distance.
        real, synthetic: its shares, shape (values of the first, values of the second).
    """

    columns: dict[str, tuple[tuple[str, ...], Floats, Floats]]
    group: str
    in_group: dict[str, tuple[tuple[str, ...], Floats, Floats]]
    pairs: dict[Pair, float]
    worst: Pair | None
    real: Floats | None
    synthetic: Floats | None

    def to_dict(self) -> dict[str, Any]:
        """For the internal audit's JSON."""

        def plain(columns: dict[str, tuple[tuple[str, ...], Floats, Floats]]) -> dict[str, Any]:
            return {
                name: {"values": list(words), "real": real.tolist(), "synthetic": synthetic.tolist()}
                for name, (words, real, synthetic) in columns.items()
            }

        return {
            "columns": plain(self.columns),
            "group": self.group,
            "in_group": plain(self.in_group),
            "pairs": {" × ".join(pair): error for pair, error in self.pairs.items()},
        }


def marginals(private: CodedTable, synthetic: CodedTable, strata: Strata, group: str) -> Marginals:
    """Marginals of two tables of one schema, over all rows and within the stratum of this label (none if it is empty)."""
    pairs = pair_errors(private, synthetic)
    worst = max(pairs, key=lambda pair: pairs[pair]) if pairs else None
    tables = [None if worst is None else _shares(table, worst) for table in (private, synthetic)]
    within: dict[str, tuple[tuple[str, ...], Floats, Floats]] = {}
    if group:
        layout = Layout(strata, 0.95)
        place = layout.labels.index(group)
        parts = [table.take(np.flatnonzero(layout.index(table) == place)) for table in (private, synthetic)]
        within = _columns(parts[0], parts[1], layout.columns)
    return Marginals(
        _columns(private, synthetic, private.schema.names), group, within, pairs, worst, tables[0], tables[1]
    )


def pair_errors(private: CodedTable, synthetic: CodedTable) -> dict[Pair, float]:
    """The L1 distance between the 2-way marginals of two tables, for each pair of columns; in [0, 2]."""
    return {
        (one, other): float(np.abs(_shares(private, (one, other)) - _shares(synthetic, (one, other))).sum())
        for one, other in combinations(private.schema.names, 2)
    }


def shares(table: CodedTable, name: str) -> Floats:
    """The share of each code of a column; zeros for an empty table."""
    return _shares(table, (name,))


def _shares(table: CodedTable, names: tuple[str, ...]) -> Floats:
    return table.marginal(names) / max(len(table), 1)


def _columns(
    private: CodedTable, synthetic: CodedTable, names: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], Floats, Floats]]:
    return {
        name: (
            tuple(private.schema[name].words(key) for key in private.schema[name].keys),
            shares(private, name),
            shares(synthetic, name),
        )
        for name in names
    }
