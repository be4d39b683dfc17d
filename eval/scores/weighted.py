"""The survey weights of tables that are scored, which are the numbers of people for whom the rows stand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.eval.scores.tables import TableLike


def without_weights(tables: dict[str, TableLike], name: str) -> tuple[Floats, Floats]:
    """Remove the survey weights from data frames, and return the weights of the real and of the synthetic rows.

    Parameters
    ----------
    tables : dict of str to DataFrame
        The tables `real` and `synthetic`, and possibly others. The dictionary is changed in place.
    name : str
        The column of weights. If the synthetic rows do not have this column, their weights are 1.

    Returns
    -------
    tuple of two ndarray
        The weight of each real row and of each synthetic row.

    Raises
    ------
    InputError
        If a table is not a data frame, if the real table has no such column, or if a weight is missing, negative or not
        a number.
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
