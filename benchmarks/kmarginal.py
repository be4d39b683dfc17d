"""The k-marginal score of SDNist, from its definition: total variation of pairs of features, whole and by group.

A pair's total variation distance TV is half the sum of absolute differences of the two tables' shares of its cells. The
score is 1000 · (1 − mean TV over all pairs): 1000 is the same table, 0 has nothing in common. With PUMA among the
features SDNist compares pairs within PUMAs: cells of three columns, as shares of all rows.

Numbers of a range wider than BINS are compared in quantile bins of the target's, at most BINS of them with the code for
an absent number; population density in fourteen public bins. Exact scores of private rows: for measuring only.

Source: usnistgov/SDNist 2.5, sdnist/metrics/kmarginal.py and sdnist/report/dataset/binning.py (read, not copied).

>>> real = pd.DataFrame({"A": ["x", "x", "y", "y"], "B": ["u", "v", "u", "v"]})
>>> round(score(real, real.assign(B=["u", "u", "u", "v"])))
750
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import log10
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats

BINS = 20  # of a number, the code for an absent one included
ABSENT = "N"  # what SDNist's excerpts write for an absent cell
DENSITY = "DENSITY"
BEYOND = 500  # above the dictionary's largest density: where the last bin ends
LOWEST = 150.0  # inhabitants per square mile: all below are one bin

Dictionary = Mapping[str, Mapping[str, Any]]
Codes = npt.NDArray[np.intp]


def score(target: pd.DataFrame, released: pd.DataFrame, by: str | None = None) -> float:
    """The score over all pairs of columns of two binned tables, each within the values of `by` if it is given."""
    return float(1000 * (1 - np.mean([pair.total for pair in _pairs(target, released, by)])))


def scores_by(target: pd.DataFrame, released: pd.DataFrame, by: str) -> dict[str, float]:
    """The score of each group of the target, as SDNist has it for PUMAs: 1000 · (1 − mean of min(1, D)).

    D is the sum of absolute differences of the group's cells, as shares of all rows, over the group's share of the
    target's: not halved, and a wrong size of the group counts.
    """
    found = [pair.within for pair in _pairs(target, released, by)]
    groups = sorted(target[by].unique())
    means = 1000 * (1 - np.minimum(np.array(found), 1.0).mean(axis=0))
    return dict(zip(map(str, groups), means.tolist(), strict=True))


def scores_within(target: pd.DataFrame, released: pd.DataFrame, by: str) -> dict[str, float]:
    """The score of each group's rows by themselves over the other columns, as `score`; 0 for a group that was lost."""
    found = {}
    for group in sorted(target[by].unique()):
        own, theirs = (rows[rows[by] == group].drop(columns=by) for rows in (target, released))
        found[str(group)] = score(own, theirs) if len(theirs) else 0.0
    return found


@dataclass(frozen=True)
class _Pair:
    """Of one pair: TV over all rows, and of each group the sum of absolute differences over its share, shape (g,)."""

    total: float
    within: Floats


def _pairs(target: pd.DataFrame, released: pd.DataFrame, by: str | None) -> list[_Pair]:
    names = [name for name in target.columns if name != by]
    codes = {name: _coded(target[name], released[name]) for name in target.columns}
    rows = len(target)
    nothing = np.zeros(rows + len(released), dtype=np.intp)
    groups = codes[by] if by else nothing
    shares = np.bincount(groups[:rows]) / rows
    found = []
    for one, other in list(combinations(names, 2)) or [(names[0], names[0])]:
        pair = codes[one] * (int(codes[other].max()) + 1) + codes[other]
        width = int(pair.max()) + 1
        cells = groups * width + pair
        size = (int(groups.max()) + 1) * width
        theirs = np.bincount(cells[rows:], minlength=size) / max(len(released), 1)
        apart = np.abs(np.bincount(cells[:rows], minlength=size) / rows - theirs).reshape(-1, width).sum(axis=1)
        found.append(_Pair(float(apart.sum() / 2), apart[: len(shares)] / shares))
    return found


def _coded(target: pd.Series[Any], released: pd.Series[Any]) -> Codes:
    """Both columns' values as one run of codes: the target's in their order first, then those it lacks."""
    own = np.unique(target.to_numpy().astype(str))
    every = np.concatenate([target.to_numpy().astype(str), released.to_numpy().astype(str)])
    order = np.concatenate([own, np.setdiff1d(every, own)])
    place = {value: code for code, value in enumerate(order.tolist())}
    return np.array([place[value] for value in every.tolist()], dtype=np.intp)


def binned(target: pd.DataFrame, released: pd.DataFrame, dictionary: Dictionary) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables as they are compared: texts, and numbers in bins of the target's.

    Args:
        target: raw values, as in SDNist's excerpts.
        released: the same columns.
        dictionary: column → its entry of data_dictionary.json; "min" and "max" among its values make it a number.
    """
    own, theirs = {}, {}
    for name in target.columns:
        values = dictionary.get(name, {}).get("values", {})
        texts = [column.astype(str).str.strip() for column in (target[name], released[name])]
        if name == DENSITY:
            edges = density_edges(float(values["max"]))
            own[name], theirs[name] = (_in_bins(text, edges) for text in texts)
        elif "min" in values and "max" in values and float(values["max"]) - float(values["min"]) > BINS:
            numbers = [pd.to_numeric(text, errors="coerce") for text in texts]
            edges = quantile_edges(*(each.dropna().to_numpy(dtype=np.float64) for each in numbers), ABSENT in values)
            own[name], theirs[name] = (_in_bins(text, edges) for text in texts)
        else:
            own[name], theirs[name] = (text.str.removesuffix(".0") for text in texts)
    return pd.DataFrame(own), pd.DataFrame(theirs)


def quantile_edges(target: Floats, released: Floats, absent: bool) -> Floats:
    """Edges of the bins of a number: quantiles of the target's, each the next value that occurs, and its largest.

    What was released beyond the target's ends has a bin of its own there, in place of one of the others.

    >>> quantile_edges(np.arange(40.0), np.array([3.0, 50.0]), absent=True)[[0, 1, 2, -2, -1]].tolist()
    [0.0, 3.0, 5.0, 39.0, 50.0]
    """
    low, high = float(target.min()), float(target.max())
    beyond = [float(end) for end in (released.min(initial=low), released.max(initial=high)) if not low <= end <= high]
    bins = BINS - absent - len(beyond)
    inner = np.percentile(target, np.arange(bins) * 100 / bins, method="higher")
    return np.unique([*inner, high, *beyond])


def density_edges(largest: float) -> Floats:
    """Edges of SDNist's bins of population density: logarithmic, but below the ninth of them two."""
    every = np.logspace(1, log10(largest + BEYOND), 21)
    return np.concatenate([[0.0, LOWEST], every[8:]])


def _in_bins(texts: pd.Series[Any], edges: Floats) -> list[str]:
    """The bin of each number, closed on the right, the first also on the left; other texts as they are."""
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)
    places = np.clip(np.searchsorted(edges, numbers, side="left"), 1, len(edges) - 1)
    return [
        text if np.isnan(number) else f"bin {place}" for text, number, place in zip(texts, numbers, places, strict=True)
    ]
