"""Comparison of the means of the released rows with the private means.

The rows are raked so that their means agree. If they do not, the card contains a warning. Both are in the release
folder, so that no private data are read. The mean of a stratum with few rows may be outside its interval by chance. The
rows of a foreign synthesizer are not raked (see `equistrata.synth.strata.raking`).

>>> lines = [{"column": "PAY", "stratum": None, "rows": 1250.5, "lower": 900.0, "upper": 1100.0}]
>>> means_apart_notes(lines)[0][:86]
'PAY: the mean of the rows is 1250.5, which is outside the interval of the private mean'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from equistrata.analysis.contents.known_means import has_own_numbers, known_means_of_column
from equistrata.arrays import Floats
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable

FEWEST_ROWS = 200  # the smallest number of rows of a stratum, because smaller strata are mostly noise


def means_apart(
    schema: Schema, strata: Strata, drawn: CodedTable, rows: Path, means: Mapping[str, Any], public: bool = False
) -> list[dict[str, Any]]:
    """Return the columns for which the mean of the rows is outside the interval of the private mean.

    Strata are compared if they have at least FEWEST_ROWS released rows.

    Parameters
    ----------
    schema : Schema
        The schema of the rows.
    strata : Strata
        The strata.
    drawn : CodedTable
        The codes of the released rows.
    rows : Path
        The Parquet file of the rows, in the same order.
    means : mapping
        The content of `means.json`.
    public : bool, default=False
        True if the rows have strata with public weights.

    Returns
    -------
    list of dict
        The entries `column`, `stratum` (None for all rows), `rows` (the mean of the rows), and the ends `lower` and
        `upper` of the interval of the private mean.
    """
    found: list[dict[str, Any]] = []
    index = strata.index(drawn) if strata.columns else np.zeros(len(drawn), dtype=np.intp)
    places = {key: place for place, key in enumerate(strata.keys)}
    for name, estimates in means["outcomes"].items():
        if name not in schema.names or not has_own_numbers(schema[name]):
            continue
        numbers = _numbers(schema[name], drawn.column(name), rows)
        for own in (
            each for estimate in estimates.values() for each in known_means_of_column(name, strata, estimate, public)
        ):
            cells = numbers if own.stratum is None else numbers[index == places[own.stratum]]
            cells = cells[~np.isnan(cells)]
            enough = len(cells) >= (1 if own.stratum is None else FEWEST_ROWS)
            mean = float(cells.mean()) if enough else own.value
            if not own.lower <= mean <= own.upper:
                label = None if own.stratum is None else strata.label(own.stratum)
                ends = {"lower": own.lower, "upper": own.upper}
                found.append({"column": name, "stratum": label, "rows": float(f"{mean:.5g}"), **ends})
    return found


def means_apart_notes(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each column of `means_apart`."""
    columns: dict[str, list[Mapping[str, Any]]] = {}
    for each in found:
        columns.setdefault(each["column"], []).append(each)
    return [_note(name, lines) for name, lines in columns.items()]


def uninformative_notes(means: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence about the columns of `means.json` that have intervals as wide as the declared range.

    If there are no such columns, the list is empty.

    >>> part = {"value": 60.0, "lower": 0.0, "upper": 99.0, "uninformative": True}
    >>> uninformative_notes({"outcomes": {"AGE": {"coinpress": part | {"strata": {"a": part, "b": {}}}}}})[0][:67]
    'means are uninformative in AGE (all rows, 1 of 2 groups), because t'
    """
    found = []
    for name, estimates in (means or {"outcomes": {}})["outcomes"].items():
        for estimate in estimates.values():
            strata = estimate.get("strata", {})
            lost = sum(bool(each.get("uninformative")) for each in strata.values())
            places = ["all rows"] * bool(estimate.get("uninformative"))
            places += [f"{lost} of {len(strata)} groups"] * bool(lost)
            found += [f"{name} ({', '.join(places)})"] * bool(places)
    if not found:
        return []
    return [
        f"means are uninformative in {', '.join(dict.fromkeys(found))}, because their intervals are as wide as the "
        "declared range. Raise epsilon, or declare fewer strata or narrower bounds"
    ]


def _note(name: str, lines: Sequence[Mapping[str, Any]]) -> str:
    whole = next((each for each in lines if each["stratum"] is None), None)
    groups = len({each["stratum"] for each in lines} - {None})
    if whole is None:
        place = (
            f"in {groups} group{'s' * (groups != 1)}, the mean of the rows is outside the interval of the private mean"
        )
    else:
        beside = f". The same is true in {groups} group{'s' * (groups != 1)}" if groups else ""
        place = (
            f"the mean of the rows is {whole['rows']:g}, which is outside the interval of the private mean "
            f"({whole['lower']:.5g} to {whole['upper']:.5g}){beside}"
        )
    return f"{name}: {place}. Use the means in means.json"


def _numbers(column: Column, codes: np.ndarray[Any, Any], rows: Path) -> Floats:
    """Return the released numbers, with NaN for cells that are not a number."""
    cells = pq.read_table(rows, columns=[column.name]).to_pandas()[column.name]
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(codes < column.bins, numbers, np.nan)
