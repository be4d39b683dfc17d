"""Small simulated tables for the synthesizers."""

from __future__ import annotations

import numpy as np

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable

NAMES = "ABCDEF"


def fit(mechanism, *of, **more):
    """Fit a mechanism to a table."""
    return mechanism.fit_table(*of, **more)


def schema_of(*sizes):
    """Return a schema with the columns A, B, … of the given sizes."""
    return Schema("test", tuple(Column(n, values=tuple(range(s))) for n, s in zip(NAMES, sizes, strict=False)))


def table_of(rows, sizes, seed=0):
    """Return a table with uniform and independent columns."""
    codes = np.random.default_rng(seed).integers(0, sizes, (rows, len(sizes))).astype(np.uint8)
    return CodedTable(codes, schema_of(*sizes))


def grown_ups(seed=0):
    """Return a table with 4,000 rows and five ACS columns, which is uniform except for the impossible combinations."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((4000, 5), dtype=np.uint8)
    codes[:, 0] = rng.integers(1, 5, 4000)
    codes[:, 1:] = rng.integers(1, (5, 3, 5, 2), (4000, 4))
    codes[codes[:, 1] == 1, 4] = 0
    return CodedTable(codes, Schema.load("acs_employment").select(["AGEP", "MIL", "DREM", "MAR", "ESR"]))
