"""The public audit's sizes and means of strata: noisy counts, and Coinpress given those counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from typing import Any

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


@dataclass(frozen=True)
class ColumnSums:
    """Noisy sums of a column over a group of rows: Σ(x − c) and its squares about the middle c of the declared range.

    Attributes:
        total, rows: Σ(x − c) and the number of rows, noisy.
        total_variance, rows_variance, joint: of their noise.
        squares: Σ(x − c)², noisy; None for a column of two values, where it is known per row.
    """

    total: float
    rows: float
    total_variance: float
    rows_variance: float
    joint: float
    squares: float | None = None

    def __add__(self, other: ColumnSums) -> ColumnSums:
        """Of two disjoint groups of rows together."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        sums: Iterable[Any] = (None if one is None else one + two for one, two in pairs)
        return ColumnSums(*sums)

    def sampling(self, half: float) -> Spread:
        """What sampling adds to the variance of Σ(x − c) − δN, for a column of range c ± half.

        Two values: (x − c)² = half², so the variance of a row at mean c + δ is half² − δ². More: the second moment less
        the squared mean, held between 0 and its largest value for that mean (Bhatia and Davis 2000), half² − δ².
        """
        n = max(self.rows, 0.0)
        if self.squares is None:
            return Spread(n * half**2, 0.0, -n)
        if not n:
            return Spread(0.0, 0.0, 0.0)
        off_centre = self.total**2 / n
        largest = max(n * half**2 - off_centre, 0.0)
        return Spread(min(max(self.squares - off_centre, 0.0), largest), 0.0, 0.0)

    def mean(self, lower: float, upper: float, level: float) -> NoisyNumber:
        """The mean and its interval (`equistrata.stats.fieller`), within the declared range."""
        centre, half = (lower + upper) / 2, (upper - lower) / 2
        spread = self.sampling(half) + Spread(self.total_variance, self.joint, self.rows_variance)
        least, greatest = ratio_interval(self.total, self.rows, spread, level=level, lower=-half, upper=half)
        value = centre + self.total / self.rows if self.rows > 0 else None
        return clipped(value, (centre + least, centre + greatest), upper - lower)


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
        sums = [
            _column_sums(values[group], declared, count, paying[stratum], source.spawn(stratum))
            for stratum, (group, count) in enumerate(zip(rows.groups, counts, strict=True))
        ]
        ends = float(declared.min()), float(declared.max())
        shown[name] = grouping.labelled([each.mean(*ends, grouping.level) for each in (*sums, reduce(add, sums))])
        drawn[f"mean of {name}"] = grouping.labelled(
            [{"sum about the middle": grouping.drawn(each.total, each.total_variance**0.5)} for each in sums]
        )
    return shown, drawn


def _column_sums(values: Floats, declared: Floats, rows: RowCount, budget: Budget, noise: NoiseSource) -> ColumnSums:
    """The noisy sums of one column over one stratum; costs the budget, on top of what `rows` cost.

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
    assert found.raw is not None  # there always is a noisy count, at least 1
    shift = found.centre - centre
    squares = None
    if not two:
        bought = Purchase(rest, budget, noise.spawn(1), "squares")
        about = noisy_sum((values - centre) ** 2, 0.0, half**2, ADD_REMOVE, bought)
        squares = about + rows.count * half**2 / 2
    return ColumnSums(
        total=(found.raw - found.centre) * found.rows + shift * rows.count,
        rows=rows.count,
        total_variance=found.sum_deviation**2 + (shift * rows.sigma) ** 2,
        rows_variance=rows.sigma**2,
        joint=shift * rows.sigma**2,
        squares=squares,
    )
