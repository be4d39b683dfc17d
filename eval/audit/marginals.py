"""Real against synthetic marginals of columns and of pairs, for the internal report: exact, never to be published.

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> real, made = (
...     CodedTable(np.array(rows, dtype=np.uint8), schema) for rows in ([[0, 0, 0], [1, 1, 1]], [[0, 0, 1], [1, 1, 0]])
... )
>>> pair_errors(real, made)[("DIS", "ESR")]
2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.table import CodedTable
from equistrata.eval.scores.tables import Pair

ColumnPair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """One column: the words of each of its k values, and their real and synthetic shares, shape (k,)."""

    words: tuple[str, ...]
    real: Floats
    synthetic: Floats


@dataclass(frozen=True, eq=False)
class MarginalComparison:
    """Marginals of one release next to those of the private rows. EXACT, so internal.

    Attributes:
        columns: column → its shares over all rows.
        group: the stratum that is shown too: the one with the largest error; empty without strata.
        in_group: column that defines no strata → its shares in that stratum.
        pairs: pair → L1 distance of its two marginals, in [0, 2].
        worst: the pair with the largest distance.
        real, synthetic: its shares, shape (values of the first, values of the second).
    """

    columns: dict[str, ColumnShares]
    group: str
    in_group: dict[str, ColumnShares]
    pairs: dict[ColumnPair, float]
    worst: ColumnPair | None
    real: Floats | None
    synthetic: Floats | None

    def to_dict(self) -> dict[str, Any]:
        """For the internal audit's JSON."""
        columns, in_group = (
            {
                name: {"values": list(of.words), "real": of.real.tolist(), "synthetic": of.synthetic.tolist()}
                for name, of in shares.items()
            }
            for shares in (self.columns, self.in_group)
        )
        pairs = {" × ".join(pair): error for pair, error in self.pairs.items()}
        return {"columns": columns, "group": self.group, "in_group": in_group, "pairs": pairs}


def marginals(pair: Pair, group: str) -> MarginalComparison:
    """Marginals of two tables, over all rows and within the stratum of this label (if any)."""
    private, synthetic = pair.real, pair.synthetic
    pairs = pair_errors(private, synthetic)
    worst = max(pairs, key=pairs.__getitem__, default=None)
    real, made = (None if worst is None else _shares(table, worst) for table in (private, synthetic))
    within: dict[str, ColumnShares] = {}
    if group:
        rows = pair.rows[group]
        within = _columns(private.take(rows[0]), synthetic.take(rows[1]), pair.columns)
    columns = _columns(private, synthetic, private.schema.names)
    return MarginalComparison(columns, group, within, pairs, worst, real, made)


def pair_errors(private: CodedTable, synthetic: CodedTable) -> dict[ColumnPair, float]:
    """The L1 distance between the 2-way marginals of two tables, for each pair of columns; in [0, 2]."""
    return {
        pair: float(np.abs(_shares(private, pair) - _shares(synthetic, pair)).sum())
        for pair in combinations(private.schema.names, 2)
    }


def _shares(table: CodedTable, names: tuple[str, ...]) -> Floats:
    return table.marginal(names) / max(len(table), 1)


def _columns(private: CodedTable, synthetic: CodedTable, names: tuple[str, ...]) -> dict[str, ColumnShares]:
    columns = [private.schema[name] for name in names]
    words = [tuple(map(column.words, column.keys)) for column in columns]
    shares = ([_shares(table, (name,)) for name in names] for table in (private, synthetic))
    return dict(zip(names, map(ColumnShares, words, *shares), strict=True))
