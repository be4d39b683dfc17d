"""The stratification paper's scores of means, computed as its published code computes them, by column.

They read codes counted from 0, and sum the errors of all columns. `equistrata.eval.scores.parity` reads released values
(a marital status of 1 to 5, say), and averages. Each stratum's number of rows and sums of codes are all that the scores
need; they are kept with every run, so a run can be scored in another way without a new fit.

Source: `generate_results_from_synth_data.py` and `plots_for_synths.ipynb` of github.com/lurosenb/stratify_dp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import MIN_SHARE, Strata
from equistrata.data.table import CodedTable


def sums_of(table: CodedTable, strata: Strata, names: Sequence[str]) -> Counts:
    """Each declared stratum's number of rows, then the sum of the codes of each of d columns. Shape (k, 1 + d)."""
    index = strata.index(table)
    ones = np.ones(len(table), dtype=np.int64)
    columns = [ones, *(table.column(name).astype(np.int64) for name in names)]
    sums = np.zeros((len(strata.keys), len(columns)), dtype=np.int64)
    for place, values in enumerate(columns):
        np.add.at(sums[:, place], index, values)
    return sums


def column_errors(real: Counts, synthetic: Counts) -> Floats:
    """Each column's parity error of the means (Definition 11, ω = 1/k), shape (d,). The paper plots their sum.

    Strata with at least 0.1 % of the real rows are covered. The real population is the rows of these strata, and the
    synthetic one is all synthetic rows; the latter's mean also answers for a stratum without synthetic rows. Where the
    real mean is 0 the code divides by 0, and such an error is left out here (of New York 2018 there is none but in
    columns that define strata).

    >>> real = np.array([[2, 4], [2, 2]])  # two strata of two rows; means 2 and 1, and 1.5 of all rows
    >>> synthetic = np.array([[1, 1], [3, 3]])  # means 1 and 1, and 1 of all rows
    >>> column_errors(real, synthetic).round(4).tolist()  # 1/2 · |1.5 − 1| / 1.5 + |2 − 1| / 2 + 0
    [0.6667]
    """
    population, strata = _errors(real, synthetic)
    summed: Floats = population / len(strata) + np.nansum(strata, axis=0)
    return summed


def maximum_disparity(real: Counts, synthetic: Counts) -> float:
    """The largest relative error of a column's mean in a covered stratum that has synthetic rows: Figure 7 (a).

    >>> maximum_disparity(np.array([[2, 4], [2, 2]]), np.array([[1, 1], [0, 0]]))
    0.5
    """
    _, strata = _errors(real, synthetic)
    return float(np.nanmax(strata[synthetic[_covered(real), 0] > 0], initial=0.0))


def _covered(real: Counts) -> Counts:
    return np.flatnonzero(real[:, 0] >= max(MIN_SHARE * real[:, 0].sum(), 1))


def _errors(real: Counts, synthetic: Counts) -> tuple[Floats, Floats]:
    """Relative errors of the means of all rows, shape (d,), and of the k covered strata, shape (k, d), NaN where the
    real mean is 0."""
    covered = _covered(real)
    truth, found, everybody = real[covered], synthetic[covered], synthetic.sum(axis=0)
    found = np.where(found[:, :1] > 0, found, everybody)
    truth, found = np.vstack([truth.sum(axis=0), truth]), np.vstack([everybody, found])
    means, estimates = truth[:, 1:] / truth[:, :1], found[:, 1:] / found[:, :1]
    errors = np.divide(np.abs(means - estimates), means, out=np.full(means.shape, np.nan), where=means > 0)
    return errors[0], errors[1:]
