"""The sizes and the means of the strata in a public audit.

The sizes are noisy counts. The means are estimated by Coinpress, given those counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.table import CodedTable
from equistrata.eval.audit.noisy_number import (
    ByStratum,
    Grouping,
    Measured,
    NoisyNumber,
    PrivateRows,
    SectionNumbers,
    clipped,
)
from equistrata.eval.scores.tables import ALL_ROWS, numbers_of
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.interval import NoisySums
from equistrata.inference.means.lattice import GaussianCharge, noisy_sum
from equistrata.inference.means.refinement import RowCount
from equistrata.privacy.budget import ADD_REMOVE, Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.fieller import Spread, ratio_interval

SQUARES_SHARE = 0.1  # the share of a column's ρ that the second moment gets, if the column has more than two values


def measured_rows(table: CodedTable, grouping: Grouping, budget: Budget, noise: NoiseSource) -> PrivateRows:
    """Measure the number of rows in each stratum.

    The function spends the whole budget. Each row is counted in one stratum only, so the sensitivity is 1.
    """
    index = grouping.strata.index(table)

    def sizes() -> Counts:
        return np.bincount(index, minlength=len(grouping.labels)).astype(np.int64)

    counts, sigma = noise.gaussian(sizes, 1.0, budget.remaining, budget, "sizes")
    return PrivateRows(table, grouping, index, counts.astype(np.float64), sigma)


def sizes_section(rows: PrivateRows) -> SectionNumbers:
    """Return the sizes of the strata, with negative counts set to 0, and the noisy counts. This is post-processing."""
    grouping, sigma = rows.grouping, rows.sigma
    drawn = grouping.labelled([grouping.drawn(count, sigma) for count in rows.sizes.tolist()])
    whole = grouping.drawn(float(rows.sizes.sum()), sigma * len(rows.sizes) ** 0.5)
    shown = {
        label: clipped(number.value, (max(number.lower, 0.0), max(number.upper, sigma)))
        for label, number in (drawn | {ALL_ROWS: whole}).items()
    }
    return {"sizes": shown}, {"sizes": {label: {"rows": number} for label, number in drawn.items()}}


def means_section(rows: PrivateRows, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Estimate the mean of each column that defines no strata, in each stratum.

    The function returns the means and the noisy sums from which they were computed. It spends the whole budget for all
    columns and strata, in addition to the cost of the sizes. The columns share the budget equally by composition. The
    strata are disjoint, so each of them gets the full share of a column.
    """
    grouping = rows.grouping
    worth = {name: numbers_of(rows.table.schema[name]) for name in grouping.columns}
    names = [name for name in grouping.columns if np.ptp(worth[name]) > 0]  # the mean of a constant column is public
    shares = budget.remaining.split([1] * len(names)) if names else []
    counts = [RowCount(count, rows.sigma) for count in rows.sizes.tolist()]
    shown: dict[str, ByStratum] = {}
    drawn: dict[str, Measured] = {}
    for stream, (name, part) in enumerate(zip(names, shares, strict=True)):
        values, declared, source = worth[name][rows.table.column(name)], worth[name], noise.spawn(stream)
        paying = budget.parallel(part, range(len(counts)), f"strata's means of {name}")
        measured = [
            _column_sums(values[group], declared, count, paying[stratum], source.spawn(stratum))
            for stratum, (group, count) in enumerate(zip(rows.groups, counts, strict=True))
        ]
        squares = [found for _, found in measured if found is not None]
        whole = reduce(add, (sums for sums, _ in measured)), sum(squares) if squares else None
        half = float(np.ptp(declared)) / 2
        shown[name] = grouping.labelled([_column_mean(*each, half, grouping) for each in (*measured, whole)])
        drawn[f"mean of {name}"] = grouping.labelled(
            [{"sum about the middle": grouping.drawn(sums.total, sums.spread.of_x**0.5)} for sums, _ in measured]
        )
    return shown, drawn


def _column_mean(sums: NoisySums, squares: float | None, half: float, grouping: Grouping) -> NoisyNumber:
    """Compute the mean of a column with range c ± half, and its interval (see `equistrata.stats.fieller`).

    The interval stays within the range of the column. Sampling adds to the variance of Σ(x − c) − δN. If the column has
    two values, then `squares` is None and (x − c)² = half², so the variance of one row at the mean c + δ is half² − δ².
    If the column has more values, the variance is the second moment minus the squared mean. It is clipped to the range
    from 0 to half² − δ², which is the largest variance for that mean (Bhatia and Davis 2000). The rows of one unit are
    sampled together and may be equal.
    """
    n = max(sums.rows, 0.0)
    if squares is None:
        sampling = Spread(n * half**2, 0.0, -n)
    else:
        off_centre = sums.total**2 / n if n else 0.0
        largest = max(n * half**2 - off_centre, 0.0)
        sampling = Spread(min(max(squares - off_centre, 0.0), largest), 0.0, 0.0)
    spread = sampling.times(grouping.alike) + sums.spread
    least, greatest = ratio_interval(sums.total, sums.rows, spread, level=grouping.level, lower=-half, upper=half)
    value = sums.centre + sums.total / sums.rows if sums.rows > 0 else None
    return clipped(value, (sums.centre + least, sums.centre + greatest), 2 * half)


def _column_sums(
    values: Floats, declared: Floats, rows: RowCount, budget: Budget, noise: NoiseSource
) -> tuple[NoisySums, float | None]:
    """Measure Σ(x − c) and Σ(x − c)² of a column in a stratum, about the midpoint c of its range.

    The function spends the budget, in addition to the cost of `rows`. The second moment is not measured if the column
    has two values, because it is then the same for every row. The mean is measured by Coinpress. The declared range
    gives the bounds, and half of it gives σ, because no column in that range has a larger standard deviation. The sum
    Σ(x − c) is recovered from the mean. The second moment is a sum of numbers in [0, half²], which is measured about
    half²/2.
    """
    lower, upper = float(declared.min()), float(declared.max())
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    two = len(np.unique(declared)) == 2
    rho = budget.remaining
    price, rest = (rho, Rho(0)) if two else rho.split([1 - SQUARES_SHARE, SQUARES_SHARE])
    coinpress = Coinpress(lower, upper, sigma=half, sizes="noisy", bounds=(lower, upper))
    found = coinpress.mean(values, budget.part(price, "mean"), noise.spawn(0), rows=rows)
    first = replace(found.sums, rows=rows.count).about(centre)
    if two:
        return first, None
    bought = GaussianCharge(rest, budget, noise.spawn(1), "squares")
    about = noisy_sum((values - centre) ** 2, 0.0, half**2, ADD_REMOVE, bought)
    return first, about + rows.count * half**2 / 2
