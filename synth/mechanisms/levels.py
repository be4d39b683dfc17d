"""Levels of detail, and one choice for all strata: marginals of the whole table that are cut by stratum columns where it pays.

A marginal that is measured within every stratum is one marginal over its columns and the stratum columns. Strata hold
different rows, so one row changes one cell of it, and it costs what a marginal of one stratum costs (parallel
composition). Whatever may be measured over all rows, or by one stratum column, is a coarser level of the same thing;
levels compose in sequence. So shared selection and levels need no accounting of their own: they are a choice of
which marginals of one table are measured.

**Shared selection.** A mechanism that chooses among such marginals makes one choice for all strata. Its score for a
marginal within strata, ‖true − model‖₁ over all cells, is the sum over strata of each stratum's score; one row changes
one stratum's term, by at most one, so the sensitivity is that of one stratum, and the choice is paid for once.

>>> Levels(("SEX", "RAC1P")).offered
((), ('SEX',), ('RAC1P',), ('SEX', 'RAC1P'))
>>> Levels(("SEX",), coarse=False).offered, Levels(("SEX",), fine=False).offered
((('SEX',),), ((),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import mean

from equistrata.data.schema import Schema
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.synth.measurements import NOISE_L1, Measurement, total_estimate

Columns = tuple[str, ...]

COARSE_SHARE, SIZES_SHARE = 0.03, 0.02  # of ρ: every column over all rows, and the strata's sizes
CLEAR = 10.0  # rows: with less noise on a cell within strata, strata of a hundred people gain from still less
DROWNED = 1.0  # times the rows: more expected noise on a column within strata, and it is not measured


@dataclass(frozen=True)
class Levels:
    """At which levels marginals may be measured.

    Attributes:
        strata: the columns that define strata.
        coarse: over all rows, and by each stratum column alone.
        fine: within strata.
        columns: the part of ρ that columns within strata get, where noise does not drown them.
        clear: the same where noise on a cell is small: less than CLEAR rows, if they had `columns`.
    """

    strata: Columns
    coarse: bool = True
    fine: bool = True
    columns: float = 0.2
    clear: float = 0.4

    def __post_init__(self) -> None:
        parts = self.columns > 0 and self.clear > 0 and self.first_share < 1
        if not (self.coarse or self.fine) or not self.strata or not parts:
            raise ValueError(
                "levels need stratum columns, must be coarse or fine or both, and parts for columns above 0 that leave a rest"
            )

    @property
    def offered(self) -> tuple[Columns, ...]:
        """The stratum columns that a marginal may be cut by, from coarse to fine."""
        single = [(name,) for name in self.strata] if len(self.strata) > 1 else []
        coarse = [(), *single] if self.coarse and self.fine else [()] * self.coarse
        return (*coarse, *([self.strata] * self.fine))

    @property
    def first_share(self) -> float:
        """The largest part of ρ that `measure_first` may spend."""
        return COARSE_SHARE + SIZES_SHARE + max(self.columns, self.clear)

    def inner(self, schema: Schema) -> Columns:
        """The columns that do not define strata."""
        return tuple(name for name in schema.names if name not in self.strata)

    def over_all(self, schema: Schema) -> list[tuple[Columns, float]]:
        """What is measured over all rows before anything else, and its part of ρ: every column."""
        return [((name,), COARSE_SHARE / len(schema.names)) for name in schema.names] if self.coarse else []

    def within_strata(self, schema: Schema, rho: Rho, rows: float) -> list[tuple[Columns, float]]:
        """What is measured next, and its part of ρ: strata's sizes and every column within strata, if noise does not drown them.

        It drowns columns if the noise expected on one, added up over all strata (L1 norm), is more than DROWNED times the
        number of rows: then no difference between strata can be seen. What a stratum's own share cannot tell, it borrows
        (`equistrata.synth.strata.borrowing`). The parts of ρ were measured on New York and Vermont from ε = 0.01 to 5 (docs/decisions.md).

        Args:
            rho: what the whole mechanism may spend.
            rows: their number, as noisy numbers tell it.
        """
        sizes = [(at_level(schema, (), self.strata), SIZES_SHARE)] if self.coarse and len(self.strata) > 1 else []
        if not self.fine:
            return sizes
        sets = [at_level(schema, (name,), self.strata) for name in self.inner(schema)]
        cells = mean(prod(schema[name].size for name in columns) for columns in sets)
        sigma = gaussian_sigma(float(rho) * self.columns / len(sets))
        if self.coarse and NOISE_L1 * sigma * cells > DROWNED * rows:
            return sizes
        share = self.clear if sigma < CLEAR else self.columns
        return [*sizes, *((columns, share / len(sets)) for columns in sets)]

    def measure_first(
        self, schema: Schema, rho: Rho, measurements: Sequence[Measurement], measure: Callable[[Columns, Rho], object]
    ) -> list[tuple[Columns, Rho]]:
        """Measure what nothing has to be chosen for: `over_all`, then `within_strata`.

        Args:
            rho: what the whole mechanism may spend.
            measurements: what is known; `measure` adds to it.
            measure: measures columns at a price, and charges it.

        Returns:
            What is worth measuring again, each at what it cost, where nothing can be chosen: over all rows, if it may be.
        """
        over_all = [(columns, rho * share) for columns, share in self.over_all(schema)]
        for columns, price in over_all:
            measure(columns, price)
        rows = total_estimate(measurements)[0]
        within = [(columns, rho * share) for columns, share in self.within_strata(schema, rho, rows)]
        for columns, price in within:
            measure(columns, price)
        return over_all or within


def ties(schema: Schema, strata: Columns) -> list[Columns]:
    """Each other column with the stratum columns: what every model of all rows must hold in one clique, so that it falls apart
    into a model of each stratum.
    """
    return [at_level(schema, (name,), strata) for name in schema.names if name not in strata]


def at_level(schema: Schema, columns: Iterable[str], level: Columns) -> Columns:
    """Columns and a level's, in the schema's order."""
    wanted = {*columns, *level}
    return tuple(name for name in schema.names if name in wanted)
