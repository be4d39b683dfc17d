"""Survey weights of tables that are scored: how many people each row stands for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.eval.scores.tables import TableLike


def without_weights(tables: dict[str, TableLike], name: str) -> tuple[Floats, Floats]:
    """Take the survey weight out of data frames, and return it for each row of the real and of the synthetic one.

    Parameters
    ----------
    tables
        `real`, `synthetic` and maybe others; changed.
    name
        The column of weights. Synthetic rows without it count 1 each.

    Raises
    ------
    InputError
        If a table is no data frame, the real one has no such column, or a weight is missing, negative or no number.
    """
    found = []
    for kind, table in tables.items():
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"survey weights are read from data frames, and the {kind} table is coded; give its rows")
        if name not in table.columns:
            if kind == "real":
                raise InputError(f"the real table has no column {name!r}; correct the name of the survey weight")
            found.append(np.ones(len(table)))
            continue
        weights = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError(
                f"the survey weight {name!r} of the {kind} table must be a number of 0 or more in each row"
            )
        tables[kind] = table.drop(columns=name)
        found.append(weights)
    real, synthetic, *_ = found
    return real, synthetic
