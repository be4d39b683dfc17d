"""The parity error, which measures how evenly a synthetic table serves the strata.

It is computed from the relative errors of the means of the strata.

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
    """A parity error and the errors from which it was computed.

    Attributes
    ----------
    components : tuple of str
        The d components of the statistic. For means, these are the columns that define no strata.
    strata : tuple of str
        The labels of the k strata that are covered. Empty if no column defines strata.
    omega : float
        The weight of the population.
    population : ndarray of shape (d,)
        The errors over all rows.
    errors : ndarray of shape (k, d)
        The errors in each stratum that is covered.
    """

    components: tuple[str, ...]
    strata: tuple[str, ...]
    omega: float
    population: Floats
    errors: Floats

    @cached_property
    def value(self) -> float:
        """Return the parity error, which is ω · population + Σ strata, averaged over the components.

        The best value is 0, and there is no upper bound.
        """
        return float(np.mean(list(self.by_column.values())))

    @cached_property
    def maximum(self) -> float:
        """Return the largest single error over the strata and the components.

        If there are no strata, it is the largest error over the components.
        """
        return float(self.errors.max() if self.strata else self.population.max())

    @cached_property
    def by_column(self) -> dict[str, float]:
        """Return the parity error of each component. The mean of these errors is `value`."""
        errors = self.omega * self.population + self.errors.sum(axis=0)
        return dict(zip(self.components, errors.tolist(), strict=True))

    @cached_property
    def by_stratum(self) -> dict[str, float]:
        """Return the error of each stratum, averaged over the components.

        The sum of these errors plus ω times the error of the population is `value`.
        """
        return dict(zip(self.strata, self.errors.mean(axis=1).tolist(), strict=True))


def parity_error(pair: Pair, *, omega: float | None = None, statistic: Statistic = "means") -> ParityError:
    """Compute the parity error, which adds the relative errors of the population and of all strata.

    The parity error is ω·|f(X) − f(X̂)|/|f(X)| + Σ_i |f(G_i) − f(Ĝ_i)|/|f(G_i)|, averaged over the components of the
    statistic f. A value of 0 means that the statistic is the same in the population and in every stratum that is
    covered. There is no upper bound, and the sum increases with the number k of strata. The statistic is computed for
    the columns that define no strata. A column that defines strata is constant in each stratum, so it would only make
    the score smaller.

    If a stratum has no synthetic rows, its error is 1 in every component. The other errors are computed by
    `relative_error`. If there are no strata, the whole table is the population, and ω is 1 by default.

    Parameters
    ----------
    pair : Pair
        The tables and the strata that are covered.
    omega : float, optional
        The weight of the population, at least 0. By default, it is 1/k as in the paper.
    statistic : {"means", "workload3"}, default="means"
        If "means", the statistic is the mean of each column without missing cells. If "workload3", the 3-way workload
        error is used, which is already an error: ω·err(X) + Σ_i err(G_i). In this case err(X) is over all columns, and
        the error of a stratum without synthetic rows is 2.

    Returns
    -------
    ParityError
        The parity error and its components.

    Raises
    ------
    InputError
        If a setting is out of its range, or if all columns define strata.

    Privacy
    -------
    Not private. The score is exact, so it is internal.

    References
    ----------
    Stratification paper, Definition 11 (equation 7).
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
    """Compute |truth − estimate| / |truth|, element by element.

    If the truth is 0 or NaN, the error is 0 if the estimate is the same, and 1 otherwise.

    Parameters
    ----------
    truth, estimate : array-like
        The numbers to compare. NaN stands for a mean of no rows.

    Returns
    -------
    ndarray
        The relative errors, which are 1 if the estimate is NaN and the truth is not.

    Examples
    --------
    >>> relative_error([2, 0, 0, float("nan")], [3, 0, 0.1, float("nan")]).tolist()
    [0.5, 0.0, 1.0, 0.0]
    """
    truth, estimate = np.asarray(truth, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    same = (truth == estimate) | (np.isnan(truth) & np.isnan(estimate))
    usable = (truth != 0) & ~np.isnan(truth) & ~np.isnan(estimate)
    error = np.abs(truth - estimate) / np.abs(np.where(usable, truth, 1.0))
    return np.where(same, 0.0, np.where(usable, error, LOST_ERROR))


def _means(pair: Pair) -> tuple[Floats, Floats]:
    """Return the relative errors of the means over all rows, shape (d,), and in each stratum, shape (k, d)."""
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
    """Return the mean of all values and the mean of each of the k groups, as an array of shape (1 + k,).

    The mean is NaN if there are no values.
    """
    times = np.ones(len(values), dtype=np.int64) if times is None else times
    present = ~np.isnan(values)
    if not present.all():
        values, group, times = values[present], group[present], times[present]
    # Rows in group -1 are in strata that are left out. They are counted only in the population.
    sums = np.bincount(group + 1, weights=values * times, minlength=1 + k)
    counts = np.bincount(group + 1, weights=times, minlength=1 + k)
    sums[0], counts[0] = sums.sum(), counts.sum()
    means: Floats = np.divide(sums, counts, out=np.full(1 + k, np.nan), where=counts > 0)
    return means
