"""How far the low-way marginals of a synthetic table are from the real ones, over all rows and within each stratum.

An EXACT score is a query on private rows at no privacy cost: it is internal, and must not be published.

>>> real = pd.DataFrame({"A": [0, 0, 1, 1], "B": [0, 1, 0, 1], "C": [0, 0, 1, 1]})
>>> workload_error(real, real)
0.0
>>> workload_error(real, real.assign(C=[1, 1, 0, 0]))
2.0
>>> workload_error(real, real.iloc[[0, 0, 1, 2]], degree=1)
0.5
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.errors import InputError
from equistrata.eval.scores.coding import (
    Index,
    KeptStrata,
    Times,
    check_tables,
    check_times,
    columns_beside,
    combine,
    joint_codes,
)

LARGEST = 2.0
_DENSE_CELLS = 1 << 20

Weights = Mapping[tuple[str, ...], float]


@dataclass(frozen=True)
class StratumWorkload:
    """Workload error within strata: `value` is the plain mean of `by_stratum` (label → error), each in [0, 2]."""

    value: float
    by_stratum: Mapping[str, float]

    def __float__(self) -> float:
        return self.value


def workload_error(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    degree: int = 3,
    columns: Sequence[str] | None = None,
    weights: Weights | None = None,
    times: Times = None,
) -> float:
    """Workload error: (1/|W|) · Σ_S c_S · ‖M_S(real)/n − M_S(synthetic)/m‖₁ over all column subsets S of one size.

    0 means that every such marginal agrees; with all c_S = 1 the greatest value is 2 (not halved), no two rows of the
    two tables agreeing on any subset. Each marginal is divided by its own table's number of rows, so the tables'
    sizes do not matter. Values are those found in either table; an absent cell is a value of its own.

    Args:
        real: n released (coded) rows.
        synthetic: m released rows, with the same columns in any order.
        degree: the size of the subsets, at least 1. With fewer columns than that, the one subset is all of them.
        columns: which columns to draw subsets from; all by default.
        weights: c_S ≥ 0 for the subsets named, in any order of their columns; 1 for the others.
        times: how often each real and each synthetic row occurs, shapes (n,) and (m,), where the tables hold distinct
            rows only.

    Returns:
        The error, exact up to rounding.

    Raises:
        InputError: the tables cannot be compared (see `equistrata.eval.scores.coding`), `degree` is under 1, no column is left, or a
            weight is negative or names something that is not such a subset.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definition 14 (after McKenna et al. 2022).
    """
    check_tables({"real": real, "synthetic": synthetic}, columns or ())
    names = list(real.columns) if columns is None else list(columns)
    check_times(times, real, synthetic)
    rows = _DistinctRows.of(real, synthetic, names, times=times)
    return rows.error(_subsets(names, degree), _weights(names, degree, weights))


def workload_error_by_stratum(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    strata_columns: Sequence[str],
    min_share: float = 0.001,
    *,
    degree: int = 3,
    times: Times = None,
) -> StratumWorkload:
    """The plain mean over kept strata of each stratum's own workload error, over the columns that define no strata.

    0 means that within every kept stratum all marginals agree; 2 that none shares any mass. A kept stratum that is
    absent from the synthetic table counts 2. A stratum is kept if it has at least `min_share` of the real rows;
    strata are matched by key. Without strata columns, it is the workload error of the whole table.

    Args:
        real, synthetic, degree, times: as `workload_error`.
        strata_columns: the columns that define strata; at least one column must be left beside them.
        min_share: in [0, 1).

    Raises:
        InputError: as `workload_error`; the strata use up every column; or no stratum reaches `min_share`.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definition 14 and Figure 9, per stratum as in its published evaluation.
    """
    check_tables({"real": real, "synthetic": synthetic}, strata_columns)
    names = columns_beside(strata_columns, list(real.columns))
    subsets = _subsets(names, degree)
    check_times(times, real, synthetic)
    strata = KeptStrata.of(real, synthetic, strata_columns, min_share, times)
    rows = _DistinctRows.of(real, synthetic, names, strata, times)
    errors = {label: rows.within(i).error(subsets) for i, label in enumerate(strata.labels)}
    return StratumWorkload(float(np.mean(list(errors.values()))), errors)


@dataclass(frozen=True, eq=False)
class _DistinctRows:
    """The distinct rows of both tables with their counts: all that a workload error needs."""

    codes: Index  # (u, d)
    sizes: tuple[int, ...]
    stratum: Index  # (u,)
    real: Index  # (u,) counts
    synthetic: Index

    @classmethod
    def of(
        cls,
        real: pd.DataFrame,
        synthetic: pd.DataFrame,
        names: Sequence[str],
        strata: KeptStrata | None = None,
        times: Times = None,
    ) -> _DistinctRows:
        if not names:
            raise InputError("no column is left to compare; name at least one")
        tables = {"real": real, "synthetic": synthetic}
        columns, sizes = [], []
        if strata is not None:  # the left out (-1) come to 0
            columns.append(np.concatenate([strata.real, strata.synthetic]) + 1)
            sizes.append(len(strata.labels) + 1)
        for name in names:
            parts, levels = joint_codes(tables, name)
            columns.append(np.concatenate(parts))
            sizes.append(len(levels) + 1)
        place, distinct = pd.factorize(combine(columns, sizes)[0])
        first = np.empty(len(distinct), dtype=np.int64)
        first[place[::-1]] = np.arange(len(place))[::-1]
        codes = np.stack([column[first] for column in columns], axis=1)
        skip = int(strata is not None)
        return cls(
            codes[:, skip:],
            tuple(sizes[skip:]),
            codes[:, 0] - 1 if skip else np.zeros(len(first), dtype=np.int64),
            _occurrences(place[: len(real)], None if times is None else times[0], len(first)),
            _occurrences(place[len(real) :], None if times is None else times[1], len(first)),
        )

    def within(self, stratum: int) -> _DistinctRows:
        rows = self.stratum == stratum
        return _DistinctRows(self.codes[rows], self.sizes, self.stratum[rows], self.real[rows], self.synthetic[rows])

    def error(self, subsets: Sequence[tuple[int, ...]], weights: npt.NDArray[np.float64] | float = 1.0) -> float:
        n, m = int(self.real.sum()), int(self.synthetic.sum())
        if not m:
            return float(np.mean(np.broadcast_to(weights, len(subsets)) * LARGEST))
        # Whole numbers up to n·m, exact in a double, so that equal marginals give 0 and not 1e-17.
        difference = self.real * float(m) - self.synthetic * float(n)
        distances = [np.abs(self._sum(subset, difference)).sum() / n / m for subset in subsets]
        return float(np.mean(np.asarray(distances) * weights))

    def _sum(self, subset: Iterable[int], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        key, cells = combine([self.codes[:, j] for j in subset], [self.sizes[j] for j in subset])
        if cells > _DENSE_CELLS:
            key = pd.factorize(key)[0]
        return np.bincount(key, weights=values)


def _occurrences(place: Index, times: Index | None, count: int) -> Index:
    return np.bincount(place, times, count).astype(np.int64)  # whole numbers far below 2^53: exact


def _subsets(names: Sequence[str], degree: int) -> list[tuple[int, ...]]:
    if degree < 1:
        raise InputError(f"degree is {degree}, but a marginal has at least one column; correct it")
    return list(combinations(range(len(names)), min(degree, len(names))))


def _weights(names: Sequence[str], degree: int, weights: Weights | None) -> npt.NDArray[np.float64]:
    subsets = [frozenset(names[j] for j in subset) for subset in _subsets(names, degree)]
    given = {frozenset(subset): weight for subset, weight in (weights or {}).items()}
    for subset, weight in given.items():
        if subset not in subsets:
            raise InputError(
                f"a weight is given for {', '.join(sorted(subset))}, which is not a subset in this workload"
            )
        if not 0 <= weight < np.inf:
            raise InputError(f"the weight of {', '.join(sorted(subset))} is {weight}; it must be 0 or more, and finite")
    return np.array([given.get(subset, 1.0) for subset in subsets])
