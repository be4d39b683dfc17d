"""The public audit's sizes and means of strata: noisy counts, and Coinpress given those counts."""

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
from equistrata.inference.means.lattice import Purchase, noisy_sum
from equistrata.inference.means.refinement import RowCount
from equistrata.privacy.budget import ADD_REMOVE, Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.fieller import Spread, ratio_interval

SQUARES_SHARE = 0.1  # of a column's ρ, for the second moment where a column has more than two values


def measured_rows(table: CodedTable, grouping: Grouping, budget: Budget, noise: NoiseSource) -> PrivateRows:
    """The rows and the noisy numbers of them. Costs the budget: a row counts in one stratum, sensitivity 1."""
    index = grouping.strata.index(table)

    def sizes() -> Counts:
        return np.bincount(index, minlength=len(grouping.labels)).astype(np.int64)

    counts, sigma = noise.gaussian(sizes, 1.0, budget.remaining, budget, "sizes")
    return PrivateRows(table, grouping, index, counts.astype(np.float64), sigma)


def sizes_section(rows: PrivateRows) -> SectionNumbers:
    """Numbers of rows, which are not negative; and the counts as they were drawn. Post-processing."""
    grouping, sigma = rows.grouping, rows.sigma
    drawn = grouping.labelled([grouping.drawn(count, sigma) for count in rows.sizes.tolist()])
    whole = grouping.drawn(float(rows.sizes.sum()), sigma * len(rows.sizes) ** 0.5)
    shown = {
        label: clipped(number.value, (max(number.lower, 0.0), max(number.upper, sigma)))
        for label, number in (drawn | {ALL_ROWS: whole}).items()
    }
    return {"sizes": shown}, {"sizes": {label: {"rows": number} for label, number in drawn.items()}}


def means_section(rows: PrivateRows, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Means of the columns that define no strata, column → stratum → mean, and the noisy sums, as they were drawn.

    Cost: the budget for all columns and strata, given the sizes. Columns share it equally (composition), strata are
    disjoint.
    """
    grouping = rows.grouping
    worth = {name: numbers_of(rows.table.schema[name]) for name in grouping.columns}
    names = [name for name in grouping.columns if np.ptp(worth[name]) > 0]  # a column of one value is known
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
    """The mean of a column of range c ± half, and its interval (`equistrata.stats.fieller`) within that range.

    Sampling adds to the variance of Σ(x − c) − δN. Two values (`squares` is None): (x − c)² = half², so the variance of
    a row at mean c + δ is half² − δ². More: the second moment less the squared mean, held between 0 and its largest
    value for that mean (Bhatia and Davis 2000), half² − δ². Rows of a unit are sampled together, and may be alike.
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
    """Noisy Σ(x − c) and Σ(x − c)² of a column over a stratum, about the middle c of its range; costs the budget, on
    top of what `rows` cost. No second moment for two values, where it is known per row.

    The mean is Coinpress's with the declared range as bounds and half of it as σ (no column has more): Σ(x − c) is got
    back from it. The second moment is a sum of numbers in [0, half²], measured about half²/2.
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
    bought = Purchase(rest, budget, noise.spawn(1), "squares")
    about = noisy_sum((values - centre) ** 2, 0.0, half**2, ADD_REMOVE, bought)
    return first, about + rows.count * half**2 / 2
