"""How evenly a synthetic table serves the groups in it: the relative error of a statistic, stratum by stratum.

An EXACT score is a query on private rows at no privacy cost: it is internal, and must not be published.

>>> real = pd.DataFrame({"G": [1, 1, 2, 2], "Y": [1, 3, 4, 4]})
>>> synthetic = pd.DataFrame({"G": [2, 2, 1, 1], "Y": [4, 4, 1, 1]})
>>> parity = parity_error(real, synthetic, ["G"])
>>> round(parity.by_column["Y"], 4)  # population: mean 3 against 2.5, times 1/2; stratum G=1: mean 2 against 1
0.5833
>>> round(parity.value, 4), parity.by_stratum  # G defines strata: it agrees with itself in each, and is not averaged in
(0.5833, {'G=1': 0.5, 'G=2': 0.0})
>>> maximum_disparity(real, synthetic, ["G"])
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.eval.scores.coding import (
    Index,
    KeptStrata,
    Times,
    check_tables,
    check_times,
    columns_beside,
    joint_numbers,
)
from equistrata.eval.scores.workload import workload_error, workload_error_by_stratum

Statistic = Literal["means", "workload3"] | Callable[[pd.DataFrame], Any]

WORKLOAD3 = "workload3"
ABSENT = 1.0


@dataclass(frozen=True, eq=False)
class ParityError:
    """A parity error and what it is made of.

    Attributes:
        components: the d components of the statistic: for means, the columns that define no strata.
        strata: labels of the k kept strata, sorted by key; none if no column defines strata.
        omega: the weight of the population.
        population: the errors over all rows, shape (d,).
        errors: the errors within each kept stratum, shape (k, d).
    """

    components: tuple[str, ...]
    strata: tuple[str, ...]
    omega: float
    population: Floats
    errors: Floats

    @cached_property
    def value(self) -> float:
        """The parity error: ω · population + Σ strata, averaged over the components. 0 is best; no upper bound."""
        return float(np.mean(self.omega * self.population + self.errors.sum(axis=0)))

    @cached_property
    def maximum(self) -> float:
        """The largest single error over kept strata and components (over the components alone without strata)."""
        return float(self.errors.max() if self.strata else self.population.max())

    @cached_property
    def by_column(self) -> dict[str, float]:
        """Component → its parity error; `value` is their plain mean."""
        return dict(
            zip(self.components, (self.omega * self.population + self.errors.sum(axis=0)).tolist(), strict=True)
        )

    @cached_property
    def by_stratum(self) -> dict[str, float]:
        """Stratum → its error averaged over the components; `value` is their sum plus ω times the population's."""
        return dict(zip(self.strata, self.errors.mean(axis=1).tolist(), strict=True))

    def __float__(self) -> float:
        return self.value


def parity_error(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    strata_columns: Sequence[str],
    *,
    omega: float | None = None,
    min_share: float = 0.001,
    statistic: Statistic = "means",
    times: Times = None,
) -> ParityError:
    """Parity error: ω·|f(X) − f(X̂)|/|f(X)| + Σ_i |f(G_i) − f(Ĝ_i)|/|f(G_i)| over kept strata, averaged over f's parts.

    f is of the columns that define no strata. One that does is the same everywhere in a stratum, so its error there is 0
    whatever was released: averaged in, it would only make the score smaller, the more columns define strata.

    0 means that the statistic agrees in the population and in every kept stratum. An error of 1 in one stratum is
    an answer off by its whole size (or a stratum lost); errors are not cut off there, so the sum has no upper bound
    and grows with k. Strata are matched by key, never by position.

    Conventions: strata under `min_share` of the real rows are left out, and k counts those kept; a kept stratum that
    is absent from the synthetic table has error 1 in every component; where the real value is 0 (or there is none,
    all cells being absent) the error is 0 if the synthetic one is so too, else 1. Without strata columns the whole
    table is the one population: the sum over strata is empty, and ω is 1 by default.

    Args:
        real: n released (coded) rows.
        synthetic: m released rows, with the same columns in any order.
        strata_columns: the columns that define strata; at least one column must be left beside them.
        omega: the population's weight, at least 0; 1/k by default, as in the paper.
        min_share: in [0, 1).
        statistic: "means", the mean of each column that defines no strata (absent cells skipped; text counts by
            `equistrata.eval.scores.coding.joint_numbers`); or a function from a table, of those columns, to a number, a vector or a
            labelled vector of one length and labelling for every table; or "workload3", the 3-way workload error, which
            is an error already, so the parity error is ω·err(X) + Σ_i err(G_i), with err(X) over all columns, err(G_i)
            over those that define no strata, and 2 for an absent stratum, the largest L1 distance.
        times: how often each real and each synthetic row occurs, shapes (n,) and (m,), where the tables hold distinct
            rows only; not with a function as statistic.

    Returns:
        The parity error with its parts; `float()` of it is the score.

    Raises:
        InputError: the tables cannot be compared (see `equistrata.eval.scores.coding`), a setting is out of its range, the strata use up
            every column, no stratum reaches `min_share`, or a statistic changes its shape or labels between tables.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definition 11 (equation 7).
    """
    check_tables({"real": real, "synthetic": synthetic}, strata_columns)
    names = columns_beside(strata_columns, list(real.columns))
    if omega is not None and not 0 <= omega < np.inf:
        raise InputError(f"omega is {omega}, but the population's weight is 0 or more, and finite; correct it")
    if isinstance(statistic, str) and statistic not in ("means", WORKLOAD3):
        raise InputError(f"statistic is {statistic!r}; give 'means', {WORKLOAD3!r} or a function from a table")
    check_times(times, real, synthetic)
    if times is not None and callable(statistic):
        raise InputError("a function as statistic needs whole tables, not their distinct rows; leave out 'times'")
    strata = KeptStrata.of(real, synthetic, strata_columns, min_share, times)
    if statistic == "means":
        components, population, errors = _means(real[names], synthetic[names], strata, times)
    elif statistic == WORKLOAD3:
        by_stratum = workload_error_by_stratum(real, synthetic, strata_columns, min_share, times=times).by_stratum
        components = (WORKLOAD3,)
        population = np.array([workload_error(real, synthetic, times=times)])
        errors = np.array([[by_stratum[label]] for label in strata.labels])
    else:
        components, population, errors = _any(real[names], synthetic[names], strata, statistic)
    if not strata_columns:
        return ParityError(components, (), 1.0 if omega is None else omega, population, errors[:0])
    return ParityError(
        components, strata.labels, 1 / len(strata.labels) if omega is None else omega, population, errors
    )


def maximum_disparity(
    real: pd.DataFrame, synthetic: pd.DataFrame, strata_columns: Sequence[str], *, min_share: float = 0.001
) -> float:
    """The largest disparity of means: max over kept strata i and columns c of |mean_i,c − mean^_i,c| / |mean_i,c|.

    0 means that every column's mean agrees in every kept stratum; 1 that the worst is off by its whole size, or that
    a stratum is lost. Conventions, columns, arguments and errors are those of `parity_error`; without strata columns
    the maximum runs over the columns of the whole table.

    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Figure 7 (a).
    """
    return parity_error(real, synthetic, strata_columns, min_share=min_share).maximum


def relative_error(truth: npt.ArrayLike, estimate: npt.ArrayLike) -> Floats:
    """|truth − estimate| / |truth|, element by element; where truth is 0 or NaN, 0 if the estimate is so too, else 1.

    >>> relative_error([2, 0, 0, float("nan")], [3, 0, 0.1, float("nan")]).tolist()
    [0.5, 0.0, 1.0, 0.0]
    """
    truth, estimate = np.asarray(truth, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    same = (truth == estimate) | (np.isnan(truth) & np.isnan(estimate))
    usable = (truth != 0) & ~np.isnan(truth) & ~np.isnan(estimate)
    error = np.abs(truth - estimate) / np.abs(np.where(usable, truth, 1.0))
    return np.where(same, 0.0, np.where(usable, error, ABSENT))


def _means(
    real: pd.DataFrame, synthetic: pd.DataFrame, strata: KeptStrata, times: Times
) -> tuple[tuple[str, ...], Floats, Floats]:
    k = len(strata.labels)
    real_times, synthetic_times = times or (None, None)
    population, errors = [], []
    for column in real.columns:
        truth, estimate = joint_numbers({"real": real, "synthetic": synthetic}, column)
        of_real = _group_means(truth, strata.real, k, real_times)
        of_synthetic = _group_means(estimate, strata.synthetic, k, synthetic_times)
        population.append(relative_error(of_real[0], of_synthetic[0]))
        errors.append(relative_error(of_real[1:], of_synthetic[1:]))
    table = np.stack(errors, axis=1)
    table[_absent(strata)] = ABSENT
    return tuple(real.columns), np.array(population), table


def _group_means(values: Floats, group: Index, k: int, times: Index | None = None) -> Floats:
    """The mean of all values, then of each of k groups; NaN where there is none. Shape (1 + k,)."""
    times = np.ones(len(values), dtype=np.int64) if times is None else times
    present = ~np.isnan(values)
    if not present.all():
        values, group, times = values[present], group[present], times[present]
    # Group -1, the rows left out, counts in the population only.
    sums = np.bincount(group + 1, weights=values * times, minlength=1 + k)
    counts = np.bincount(group + 1, weights=times, minlength=1 + k)
    sums[0], counts[0] = sums.sum(), counts.sum()
    return np.divide(sums, counts, out=np.full(1 + k, np.nan), where=counts > 0)


def _absent(strata: KeptStrata) -> npt.NDArray[np.bool_]:
    kept = strata.synthetic[strata.synthetic >= 0]
    return np.bincount(kept, minlength=len(strata.labels)) == 0


def _any(
    real: pd.DataFrame, synthetic: pd.DataFrame, strata: KeptStrata, statistic: Callable[[pd.DataFrame], Any]
) -> tuple[tuple[str, ...], Floats, Floats]:
    whole = _vector(statistic(real))

    def error(truth: pd.DataFrame, estimate: pd.DataFrame) -> Floats:
        pair = [_vector(statistic(table)) for table in (truth, estimate)]
        if any(set(vector.index) != set(whole.index) for vector in pair):
            raise InputError("the statistic has other components in one table than in another; give it a fixed shape")
        return relative_error(*(vector.reindex(whole.index).to_numpy() for vector in pair))

    absent = _absent(strata)
    errors = [
        np.full(len(whole), ABSENT) if absent[i] else error(real[strata.real == i], synthetic[strata.synthetic == i])
        for i in range(len(strata.labels))
    ]
    return tuple(str(label) for label in whole.index), error(real, synthetic), np.stack(errors)


def _vector(answer: Any) -> pd.Series:
    vector = pd.Series(dict(answer)) if isinstance(answer, Mapping) else answer
    if not isinstance(vector, pd.Series):
        vector = pd.Series(np.asarray(answer, dtype=np.float64).ravel())
    if not vector.index.is_unique:
        raise InputError("the statistic labels two components alike; label each once")
    return vector.astype(np.float64)
