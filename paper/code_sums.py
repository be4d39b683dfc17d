"""Scores of means from the stratification paper, computed by column in the same way as in its published code.

The published code reads codes counted from 0, and sums the errors of all columns. In contrast,
`equistrata.eval.scores.parity` reads released values, such as a marital status of 1 to 5, and averages the errors. The
scores only depend on the number of rows and the sums of codes in each stratum. These are stored with every run, so a
run can be scored in another way without fitting again.

References
----------
.. [1] `generate_results_from_synth_data.py` and `plots_for_synths.ipynb` in github.com/lurosenb/stratify_dp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import MIN_SHARE, Strata
from equistrata.data.table import CodedTable


def sums_of(table: CodedTable, strata: Strata, names: Sequence[str]) -> Counts:
    """Return the number of rows and the sums of codes of each declared stratum.

    Parameters
    ----------
    table : CodedTable
        The rows.
    strata : Strata
        The k declared strata.
    names : sequence of str
        The d columns.

    Returns
    -------
    ndarray of shape (k, 1 + d)
        The number of rows, followed by the sum of the codes of each column.
    """
    index = strata.index(table)
    ones = np.ones(len(table), dtype=np.int64)
    columns = [ones, *(table.column(name).astype(np.int64) for name in names)]
    sums = np.zeros((len(strata.keys), len(columns)), dtype=np.int64)
    for place, values in enumerate(columns):
        np.add.at(sums[:, place], index, values)
    return sums


def column_errors(real: Counts, synthetic: Counts) -> Floats:
    """Compute the parity error of the means for each column (Definition 11 with ω = 1/k). The paper plots their sum.

    A stratum is covered if it has at least 0.1 % of the real rows. The real population consists of the rows of the
    covered strata, and the synthetic population consists of all synthetic rows. The mean of the synthetic population is
    also used for a stratum without synthetic rows. If the real mean is 0, the published code divides by 0. This error
    is left out here. In New York 2018, this only occurs for columns that define strata.

    Parameters
    ----------
    real, synthetic : ndarray of shape (k, 1 + d)
        The sums of the real rows and of the synthetic rows. See `sums_of`.

    Returns
    -------
    ndarray of shape (d,)
        The parity error of each column.

    Examples
    --------
    >>> real = np.array([[2, 4], [2, 2]])  # two strata of two rows; means 2 and 1, and 1.5 of all rows
    >>> synthetic = np.array([[1, 1], [3, 3]])  # means 1 and 1, and 1 of all rows
    >>> column_errors(real, synthetic).round(4).tolist()  # 1/2 · |1.5 − 1| / 1.5 + |2 − 1| / 2 + 0
    [0.6667]
    """
    population, strata = _errors(real, synthetic)
    summed: Floats = population / len(strata) + np.nansum(strata, axis=0)
    return summed


def maximum_disparity(real: Counts, synthetic: Counts) -> float:
    """Return the largest relative error of a column's mean over the strata, as in Figure 7 (a).

    Only covered strata with synthetic rows are used.

    >>> maximum_disparity(np.array([[2, 4], [2, 2]]), np.array([[1, 1], [0, 0]]))
    0.5
    """
    _, strata = _errors(real, synthetic)
    return float(np.nanmax(strata[synthetic[_covered(real), 0] > 0], initial=0.0))


def _covered(real: Counts) -> Counts:
    return np.flatnonzero(real[:, 0] >= max(MIN_SHARE * real[:, 0].sum(), 1))


def _errors(real: Counts, synthetic: Counts) -> tuple[Floats, Floats]:
    """Return the relative errors of the means, which are NaN if the real mean is 0.

    The first array has shape (d,) and contains the errors over all rows. The second one has shape (k, d) and contains
    the errors of the k covered strata.
    """
    covered = _covered(real)
    truth, found, everybody = real[covered], synthetic[covered], synthetic.sum(axis=0)
    found = np.where(found[:, :1] > 0, found, everybody)
    truth, found = np.vstack([truth.sum(axis=0), truth]), np.vstack([everybody, found])
    means, estimates = truth[:, 1:] / truth[:, :1], found[:, 1:] / found[:, :1]
    errors = np.divide(np.abs(means - estimates), means, out=np.full(means.shape, np.nan), where=means > 0)
    return errors[0], errors[1:]
