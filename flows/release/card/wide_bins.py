"""Declared bins that are so wide that the positions of their values are unknown.

Values within a declared bin are drawn from a uniform distribution.

>>> from equistrata.data.schema import Schema
>>> bmi = {"lower": 10, "upper": 100, "edges": [10, 20, 25, 30, 100]}
>>> schema = Schema.from_dict({"columns": {"BMI": bmi}}, "people")
>>> wide_bins(schema, {"BMI": [100, 300, 400, 200]})
[{'column': 'BMI', 'bin': 'over 30 to 100', 'share': 0.2, 'mean_off': 7.0, 'deviations': 0.37}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.data.schema import Column, Schema
from equistrata.eval.report.words import percent

_TOLD = 0.2  # the standard deviations by which a bin may change the mean before it is listed


def declares_bins(column: Column) -> bool:
    """Return True if `wide_bins` may list bins of this column."""
    return column.numeric and not column.fine and not column.open


def wide_bins(schema: Schema, counts: Mapping[str, Sequence[int] | Counts]) -> list[dict[str, Any]]:
    """Return the bins with declared edges that may change the mean of the released numbers considerably.

    If all values in a bin were at one of its ends, the mean would change by the share of the bin times half of its
    width. A bin is listed if this is more than _TOLD standard deviations. Columns that only have bounds are not listed,
    because a release measures the positions of their values.

    Parameters
    ----------
    schema : Schema
        The schema of the rows.
    counts : mapping of str to sequence of int
        The count of each code in the released rows, by numeric column (see `declares_bins`). Other columns are not
        needed.

    Returns
    -------
    list of dict
        The bins. The one with the largest effect is first.
    """
    found = []
    for column in schema.columns:
        if not declares_bins(column) or column.name not in counts:
            continue
        rows = np.asarray(counts[column.name], dtype=np.float64)[: column.bins]
        edges = np.clip(column.cuts, *column.bounds)
        widths, middles, shares = np.diff(edges), (edges[1:] + edges[:-1]) / 2, rows / max(rows.sum(), 1.0)
        mean = float(shares @ middles)
        deviation = float(shares @ ((middles - mean) ** 2 + widths**2 / 12)) ** 0.5
        off = shares * widths / 2
        for place in np.flatnonzero(off > _TOLD * max(deviation, 1e-300)).tolist():
            found.append(
                {
                    "column": column.name,
                    "bin": column.words(place),
                    "share": round(float(shares[place]), 4),
                    "mean_off": float(f"{off[place]:.3g}"),
                    "deviations": round(float(off[place]) / deviation, 2),
                }
            )
    return sorted(found, key=lambda each: -each["deviations"])


def wide_bin_notes(bins: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each column of `wide_bins` about its widest bin.

    >>> found = {"column": "BMI", "bin": "over 30 to 100", "share": 0.2, "mean_off": 7.0, "deviations": 0.4}
    >>> wide_bin_notes([found])[0][:54]
    'BMI: values within a declared bin are drawn from a uni'
    """
    first: dict[str, Mapping[str, Any]] = {}
    for each in bins:
        first.setdefault(each["column"], each)
    return [
        f"{name}: values within a declared bin are drawn from a uniform distribution, and {percent(each['share'])} of "
        f"the values are in the bin {each['bin']}. Therefore, the mean may be off by up to {each['mean_off']:g} "
        f"({each['deviations']:g} standard deviations). To measure the positions in a bin, declare no edges"
        for name, each in first.items()
    ]
