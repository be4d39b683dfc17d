"""Parity error: how evenly a synthetic table serves the strata, by the relative errors of their means.

>>> import pandas as pd
>>> real = pd.DataFrame({"G": [1, 1, 2, 2], "Y": [1, 3, 4, 4]})
>>> synthetic = pd.DataFrame({"G": [2, 2, 1, 1], "Y": [4, 4, 1, 1]})
>>> parity = parity_error(Pair.of(real, synthetic, ["G"]))
>>> round(parity.by_column["Y"], 4)  # population: mean 3 against 2.5, times 1/2; stratum G=1: mean 2 against 1
0.5833
>>> round(parity.value, 4), parity.by_stratum, parity.maximum  # G defines strata, so it is not averaged in
(0.5833, {'G=1': 0.5, 'G=2': 0.0}, 0.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.eval.scores.tables import Pair, Times, numbers_of
from equistrata.eval.scores.workload import workload_by_stratum, workload_error

Statistic = Literal["means", "workload3"]

LOST_ERROR = 1.0  # the relative error of a mean that the synthetic table does not have


@dataclass(frozen=True, eq=False)
class ParityError:
    """A parity error and what it is made of.

    Attributes:
        components: the d components of the statistic: for means, the columns that define no strata.
        strata: labels of the k strata covered; none if no column defines strata.
        omega: the weight of the population.
        population: the errors over all rows, shape (d,).
        errors: the errors within each covered stratum, shape (k, d).
    """

    components: tuple[str, ...]
    strata: tuple[str, ...]
    omega: float
    population: Floats
    errors: Floats

    @cached_property
    def value(self) -> float:
        """The parity error: ω · population + Σ strata, averaged over the components. 0 is best; no upper bound."""
        return float(np.mean(list(self.by_column.values())))

    @cached_property
    def maximum(self) -> float:
        """The largest single error over covered strata and components (over the components alone without strata)."""
        return float(self.errors.max() if self.strata else self.population.max())

    @cached_property
    def by_column(self) -> dict[str, float]:
        """Component → its parity error; `value` is their plain mean."""
        errors = self.omega * self.population + self.errors.sum(axis=0)
        return dict(zip(self.components, errors.tolist(), strict=True))

    @cached_property
    def by_stratum(self) -> dict[str, float]:
        """Stratum → its error averaged over the components; `value` is their sum plus ω times the population's."""
        return dict(zip(self.strata, self.errors.mean(axis=1).tolist(), strict=True))


def parity_error(pair: Pair, *, omega: float | None = None, statistic: Statistic = "means") -> ParityError:
    """Parity error: ω·|f(X) − f(X̂)|/|f(X)| + Σ_i |f(G_i) − f(Ĝ_i)|/|f(G_i)| over strata, averaged over f's parts.

    0 means that the statistic agrees in the population and in every stratum covered; there is no upper bound, and the
    sum grows with the number k of strata. f is of the columns that define no strata: one that does is constant in a
    stratum, so averaging it in would only make the score smaller.

    A stratum without synthetic rows has error 1 in every component; others are `relative_error`s. Without strata the
    whole table is the population, and ω is 1 by default.

    Args:
        pair: the tables and the strata covered.
        omega: the population's weight, at least 0; 1/k by default, as in the paper.
        statistic: "means" of the columns (absent cells skipped); or "workload3", the 3-way workload error, an error
            already: ω·err(X) + Σ_i err(G_i), with err(X) over all columns and 2 for a stratum without synthetic rows.

    Raises InputError if a setting is out of its range, or the strata use up every column.
    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Definition 11 (equation 7).
    """
    if omega is not None and not 0 <= omega < np.inf:
        raise InputError(f"omega is {omega}, but the population's weight is 0 or more, and finite; correct it")
    components = pair.columns
    if statistic == "means":
        population, errors = _means(pair)
    elif statistic == "workload3":
        components = ("workload3",)
        population = np.array([workload_error(pair)])
        errors = np.array([[error] for error in workload_by_stratum(pair).values()])
    else:
        raise InputError(f"statistic is {statistic!r}; give 'means' or 'workload3'")
    if not pair.strata:
        return ParityError(components, (), 1.0 if omega is None else omega, population, errors[:0])
    weight = 1 / len(pair.labels) if omega is None else omega
    return ParityError(components, pair.labels, weight, population, errors)


def relative_error(truth: npt.ArrayLike, estimate: npt.ArrayLike) -> Floats:
    """|truth − estimate| / |truth|, element by element; where truth is 0 or NaN, 0 if the estimate is so too, else 1.

    >>> relative_error([2, 0, 0, float("nan")], [3, 0, 0.1, float("nan")]).tolist()
    [0.5, 0.0, 1.0, 0.0]
    """
    truth, estimate = np.asarray(truth, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    same = (truth == estimate) | (np.isnan(truth) & np.isnan(estimate))
    usable = (truth != 0) & ~np.isnan(truth) & ~np.isnan(estimate)
    error = np.abs(truth - estimate) / np.abs(np.where(usable, truth, 1.0))
    return np.where(same, 0.0, np.where(usable, error, LOST_ERROR))


def _means(pair: Pair) -> tuple[Floats, Floats]:
    """Relative errors of the means over all rows, shape (d,), and in each stratum, shape (k, d)."""
    k, population, errors = len(pair.labels), [], []
    for name in pair.columns:
        worth = numbers_of(pair.real.schema[name])
        truth = _group_means(worth[pair.real.column(name)], pair.real_place, k, pair.times[0])
        estimate = _group_means(worth[pair.synthetic.column(name)], pair.synthetic_place, k, pair.times[1])
        found = relative_error(truth, estimate)
        population.append(found[0])
        errors.append(found[1:])
    table = np.stack(errors, axis=1)
    covered = pair.synthetic_place[pair.synthetic_place >= 0]
    table[np.bincount(covered, minlength=k) == 0] = LOST_ERROR
    return np.array(population), table


def _group_means(values: Floats, group: Counts, k: int, times: Times | None = None) -> Floats:
    """The mean of all values, then of each of k groups; NaN where there is none. Shape (1 + k,)."""
    times = np.ones(len(values), dtype=np.int64) if times is None else times
    present = ~np.isnan(values)
    if not present.all():
        values, group, times = values[present], group[present], times[present]
    # Group -1, the rows left out, counts in the population only.
    sums = np.bincount(group + 1, weights=values * times, minlength=1 + k)
    counts = np.bincount(group + 1, weights=times, minlength=1 + k)
    sums[0], counts[0] = sums.sum(), counts.sum()
    means: Floats = np.divide(sums, counts, out=np.full(1 + k, np.nan), where=counts > 0)
    return means
