"""The workload error, which measures the distance between the low-way marginals of a synthetic table and the real ones.

>>> import pandas as pd
>>> real = pd.DataFrame({"A": [0, 0, 1, 1], "B": [0, 1, 0, 1], "C": [0, 0, 1, 1]})
>>> workload_error(Pair.of(real, real)), workload_error(Pair.of(real, real.assign(C=[1, 1, 0, 0])))
(0.0, 2.0)
>>> workload_error(Pair.of(real, real.iloc[[0, 0, 1, 2]]), degree=1)
0.5
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.tables import Pair, Times, in_bins, row_keys

WORST_WORKLOAD = 2.0  # the L1 distance between two marginals that have no cell in common
DENSE_CELLS = 1 << 20  # if a marginal has more cells than this, only the cells that occur are counted

Weighted = tuple[CodedTable, Times | None]  # the rows, and the number of times that each occurs (None means once)


def workload_error(pair: Pair, degree: int = 3) -> float:
    """Compute the workload error, which is the mean distance between real and synthetic marginals.

    The workload error is (1/|W|) · Σ_S ‖M_S(real)/n − M_S(synthetic)/m‖₁, where S runs over all subsets of `degree`
    columns. A value of 0 means that all marginals are equal. A value of 2 means that no two rows of the two tables are
    equal on any subset, because the distance is not divided by 2. Fine bins of numeric columns are merged (see
    `in_bins`).

    Parameters
    ----------
    pair : Pair
        The real and the synthetic table.
    degree : int, default=3
        The number of columns in each marginal. If there are fewer columns, then the only subset is the set of all
        columns.

    Returns
    -------
    float
        The workload error, in [0, 2].

    Raises
    ------
    InputError
        If `degree` is less than 1.

    Privacy
    -------
    Not private. The score is exact, so it is internal.

    References
    ----------
    Stratification paper, Definition 14 (after McKenna et al. 2022), with all weights equal to 1.
    """
    real, synthetic = map(_distinct, in_bins(pair.real, pair.synthetic, pair.times[1]), pair.times)
    return _error(real, synthetic, subsets_of(pair.real.schema.names, degree))


def workload_by_stratum(pair: Pair) -> dict[str, float]:
    """Compute the 3-way workload error of each stratum, over the columns that define no strata.

    The error of a stratum without synthetic rows is 2.

    Parameters
    ----------
    pair : Pair
        The real and the synthetic table, with their strata.

    Returns
    -------
    dict of str to float
        The workload error of each stratum, in [0, 2].

    Raises
    ------
    InputError
        If all columns define strata.

    Privacy
    -------
    Not private. The scores are exact, so they are internal.

    References
    ----------
    Stratification paper, Definition 14 and Figure 9, for each stratum as in the published evaluation.
    """
    subsets, errors, tables = subsets_of(pair.columns, 3), {}, in_bins(pair.real, pair.synthetic, pair.times[1])
    for label, parts in pair.rows.items():
        sides = zip(tables, pair.times, parts, strict=True)
        real, synthetic = (
            _distinct(table.take(rows), None if often is None else often[rows]) for table, often, rows in sides
        )
        errors[label] = _error(real, synthetic, subsets)
    return errors


def subsets_of(columns: Sequence[str], degree: int) -> list[tuple[str, ...]]:
    """Return all subsets of `degree` columns.

    Raise InputError if there is no column or if the degree is less than 1.
    """
    if degree < 1 or not columns:
        raise InputError(f"degree is {degree} with {len(columns)} columns, but a marginal has at least one; correct it")
    return list(combinations(columns, min(degree, len(columns))))


def marginal_gap(real: Weighted, synthetic: Weighted, subset: Sequence[str]) -> float:
    """Compute Σ_x |m·M(real)(x) − n·M(synthetic)(x)| over the cells x of one marginal.

    The result is not private. It is an exact whole number, except if the rows have weights.
    """
    tables = (real[0], synthetic[0])
    sizes = [tables[0].schema[name].size for name in subset]
    cells = math.prod(sizes)
    if cells <= DENSE_CELLS:
        places = [table.index_of(subset) for table in tables]
    else:
        keys, _ = row_keys([np.concatenate([table.column(name) for table in tables]) for name in subset], sizes)
        found, inverse = np.unique(keys, return_inverse=True)
        cells, places = len(found), list(np.split(inverse, [len(tables[0])]))
    weighted = any(often is not None and often.dtype.kind == "f" for _, often in (real, synthetic))
    ours, theirs = (
        np.bincount(place, often, cells).astype(np.float64 if weighted else np.int64)  # the counts are less than 2^53
        for place, (_, often) in zip(places, (real, synthetic), strict=True)
    )
    gap: float = np.abs(ours * theirs.sum() - theirs * ours.sum()).sum().item()
    return gap


def _error(real: Weighted, synthetic: Weighted, subsets: Sequence[Sequence[str]]) -> float:
    n, m = (len(table) if often is None else often.sum().item() for table, often in (real, synthetic))
    if not m:
        return WORST_WORKLOAD
    return float(np.mean([marginal_gap(real, synthetic, subset) / n / m for subset in subsets]))


def _distinct(table: CodedTable, often: Times | None) -> Weighted:
    return table.distinct() if often is None else (table, often)
