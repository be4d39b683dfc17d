"""What shared selection measures: marginals of the whole table, within strata or over all rows, and the first of them.

A marginal within every stratum is one marginal over its columns and the stratum columns. One row changes one of its
cells, so it costs what a marginal of one stratum costs (parallel composition). Marginals over all rows, or by one
stratum column, are coarser levels of the same; levels compose in sequence. So there is nothing to account for beyond
marginals of one table. Without strata there is one level, all rows.

- what is measured first, and at which part of ρ: `Levels.measure_over_all`, `Levels.measure_within`, here; and where
  strata nest, sizes at every level of places: `Levels.hierarchy`, here;
- whether each stratum is then left to itself: `Levels.large`, here;
- what is chosen, for all strata at once, and measured then: `MST.measure_with_log`, `AIM.measure_with_log`;
- what each step is charged: `equistrata.synth.mechanisms.session`.

See docs/proofs/shared-selection.md.

>>> Levels(("SEX", "RAC1P")).offered
((), ('SEX',), ('RAC1P',), ('SEX', 'RAC1P'))
>>> Levels(("SEX",), coarse=False).offered, Levels(("SEX",), fine=False).offered, Levels().offered
((('SEX',),), ((),), ((),))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, inf, prod
from statistics import mean

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.synth.measurements import Columns, Measurement, Merging, at_level, summed, tells_apart, total_estimate
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.coarsening import WIDE
from equistrata.synth.noise_floors import below_floor, noise_floor, pair_noise, sum_noise

# Tuned on New York and Vermont from ε = 0.01 to 5 (docs/experiments/levels.md).
COARSE_SHARE, SIZES_SHARE = 0.03, 0.02  # of ρ: every column over all rows; the strata's sizes
# Of ρ, where strata nest: their sizes at every level, and other columns by what a nested one lies within
# (docs/experiments/geography.md).
NESTED_SHARE, OUTER_SHARE = 0.4, 0.03
CELLS_POWER = 0.5  # sizes share their part by their cells to this power
WIDE_SHARE = 0.4  # the most that `Session.sharpen` may spend
LOW_NOISE = 10.0  # rows: σ of a cell under which strata of a hundred rows gain from still less noise
# The part of sets of three columns that columns within strata settle (`Levels.settled`) where the parts above were
# tuned: two stratum columns of ten (docs/experiments/levels.md).
DEGREE, USUALLY_SETTLED = 3, 8 / 120
COARSER_NOISE = 2.0  # see `Levels.within_strata`
NOISE_FLOOR = 1.0  # times the rows: columns within strata whose noise floor is higher are not measured


def largest_share(choice: float = 0.1) -> float:
    """The most of ρ that columns within strata may get where a part is for choices: a tenth of the rest is left."""
    return max(0.9 * (1 - COARSE_SHARE - SIZES_SHARE - choice), 0.0)


@dataclass(frozen=True)
class Levels:
    """At which levels marginals may be measured.

    Attributes:
        strata: the columns that define strata; none for one level, all rows.
        coarse: whether marginals over all rows, and by each stratum column alone, may be measured besides.
        fine: whether marginals within strata may be measured.
        columns: the part of ρ for columns within strata, unless their noise floor is too high.
        low_noise: the same where σ of a cell would be less than LOW_NOISE rows.
        largest: where `settled` is more than usual, both grow by it, to at most this part; 0 for not.
        many: of more columns than this both fall as the number's square: the rest must pay for so many more pairs.
        most: of more columns than this none is measured within strata, where there are coarser levels.
        alone: the part of ρ for columns over all rows where none is measured within strata.
        large_noise: strata are `large` where the noise floor of a pair within all of them, if all of ρ went to a tree
            of pairs, is at most this fraction of the number of rows.
        sizes_noise: the strata's sizes are not measured where their noise floor is more than this fraction of the rows.
    """

    strata: Columns = ()
    coarse: bool = True
    fine: bool = True
    columns: float = 0.2
    low_noise: float = 0.4
    largest: float = 0.0
    many: float = inf
    most: float = inf
    alone: float = 0.2
    large_noise: float = 0.0
    sizes_noise: float = inf

    def __post_init__(self) -> None:
        shares = all(share > 0 for share in (self.columns, self.low_noise, self.alone)) and self.first_share < 1
        if not (self.fine or (self.coarse and self.strata)) or not shares:
            raise InputError(
                "levels must be coarse or fine or both, fine without strata, "
                "and give columns parts of ρ above 0 that leave a rest"
            )

    @property
    def coarser(self) -> bool:
        """Whether there is a coarser level than strata."""
        return self.coarse and bool(self.strata)

    @property
    def offered(self) -> tuple[Columns, ...]:
        """The stratum columns that a marginal may be cut by, from coarse to fine."""
        single = [(name,) for name in self.strata] if len(self.strata) > 1 else []
        coarse: list[Columns] = [(), *single] if self.coarser and self.fine else [()] * self.coarser
        return (*coarse, *([self.strata] * self.fine))

    @property
    def first_share(self) -> float:
        """The largest part of ρ that `measure_first` may spend, once wide columns are paid (`Session.sharpen`)."""
        alone = self.alone - COARSE_SHARE if self.coarser else 0.0
        return COARSE_SHARE + SIZES_SHARE + max(self.columns, self.low_noise, self.largest, alone)

    def inner(self, schema: Schema) -> Columns:
        """The columns that neither define strata nor are the survey weight."""
        return tuple(name for name in schema.names if name not in (*self.strata, schema.survey_weight))

    def over_all(self, schema: Schema) -> list[tuple[Columns, float]]:
        """What is measured over all rows before anything else, and its part of ρ: every column."""
        return [((name,), COARSE_SHARE / len(schema.names)) for name in schema.names] if self.coarser else []

    def within_strata(self, schema: Schema, rho: Rho, rows: float) -> list[tuple[Columns, float]]:
        """What is measured next, and its part of ρ: the strata's sizes, and every column within strata.

        Where the noise floor of a column within strata (its expected L1 norm, summed over strata) is more than
        NOISE_FLOOR times the rows, no difference between strata could be seen. Where there are many more strata than
        stratum columns have values, coarser levels tell as much with less noise: the bound is COARSER_NOISE times the
        ratio of the two. Beyond it, and where there are more than `most` columns, they are measured over all rows again
        instead. Sizes have the same bound.

        Args:
            rho: what the whole mechanism may spend.
            rows: their number, as estimated from noisy numbers.
        """
        names, values = self.inner(schema), [schema[name].size for name in self.strata]
        several = self.coarse and len(values) > 1 and not self.nested(schema)
        sizes = [(at_level(schema, (), self.strata), SIZES_SHARE)] if several else []
        sets = [at_level(schema, (name,), self.strata) for name in names]
        sigma, floor = self._column_noise(schema, rho)
        most = min(NOISE_FLOOR, COARSER_NOISE * sum(values) / prod(values))
        if self.coarser and not (self.fine and len(names) <= self.most and floor <= most * rows):
            if noise_floor(float(rho) * SIZES_SHARE, prod(values)) > min(most, self.sizes_noise) * rows:
                sizes = []
            again = max(self.alone - COARSE_SHARE, 0.0) / len(schema.names)
            return [*sizes, *(((name,), again) for name in schema.names if again)]
        wide = [max(schema[name].size / WIDE, 1.0) ** (2 / 3) for name in names]
        share = self._share(schema, self.low_noise if sigma < LOW_NOISE else self.columns)
        return [*sizes, *((columns, share * part / sum(wide)) for columns, part in zip(sets, wide, strict=True))]

    def nested(self, schema: Schema) -> Columns:
        """The stratum columns that lie within others, where there are coarser levels than strata."""
        return tuple(name for name in self.strata if schema[name].within) if self.coarser else ()

    def tied(self, schema: Schema) -> Columns:
        """The stratum columns, if a model must have room for each other column together with all of them."""
        return self.strata if self.fine or not self.nested(schema) else ()

    def hierarchy(self, schema: Schema) -> list[tuple[Columns, tuple[Merging, ...], float]]:
        """What is measured where strata nest: columns, the codes that are merged, and its part of `Session.shared`.

        A row is in one cell of each marginal, so each costs what one of all rows costs. NESTED_SHARE is for sizes: by a
        nested column with some or all of the others, and by each column that it lies within with all of them.
        OUTER_SHARE is for the columns that define no strata, by each column that a nested one lies within.
        """
        marginals: dict[tuple[Columns, tuple[Merging, ...]], float] = {}

        def add(columns: Iterable[str], name: str, merged: Merging) -> None:
            names = at_level(schema, columns, (name,))
            groups = tuple(merged if each == name else None for each in names)
            place = schema[name].size if merged is None else max(merged) + 1
            others = prod(schema[each].size for each in names if each != name)
            marginals[names, groups] = (place * others) ** CELLS_POWER

        def shared_out(part: float, done: int) -> list[tuple[Columns, tuple[Merging, ...], float]]:
            added = list(marginals.items())[done:]
            return [(*marginal, part * weight / sum(each for _, each in added)) for marginal, weight in added]

        for name in self.nested(schema):
            others = [other for other in self.strata if other != name]
            for several in range(min(1, len(others)), len(others) + 1):
                for chosen in combinations(others, several):
                    add(chosen, name, None)
            for outer in schema[name].levels:
                add(others, name, outer)
        sizes = shared_out(NESTED_SHARE, 0)
        for name in self.nested(schema):
            for outer in schema[name].levels:
                for column in self.inner(schema):
                    add((column,), name, outer)
        return [*sizes, *shared_out(OUTER_SHARE, len(sizes))]

    def modelled(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        """What rounds model. Sizes of strata below their noise floor count by each stratum column alone.

        A model has no negative counts, so noise of many empty strata would become rows of theirs. Post-processing.
        """
        if len(self.strata) < 2 or not measurements:
            return list(measurements)
        rows, noise, found = total_estimate(measurements)[0], sum_noise(measurements, self.strata), list[Measurement]()
        for each in measurements:
            noisy = bool(each.sigma) and set(each.columns) == set(self.strata)
            noisy = noisy and below_floor(noise, each.values.shape, rows)
            found += [summed(each, (name,)) for name in self.strata] if noisy else [each]
        return found

    def may_be_large(self, schema: Schema) -> bool:
        """Whether strata may be left to themselves (`large`). Those that nest share their levels instead."""
        return bool(self.large_noise and self.coarser and self.fine) and not self.nested(schema)

    def large(self, session: Session) -> bool:
        """Whether strata are so large that each is better measured by itself: see `large_noise`. Post-processing."""
        schema, rows = session.table.schema, total_estimate(session.measurements)[0]
        inner = schema.select(self.inner(schema))
        if not self.may_be_large(schema) or len(inner.names) < 2:
            return False
        pair = pair_noise(inner, float(session.budget.total) / (len(inner.names) - 1))
        return pair * prod(schema[name].size for name in self.strata) <= self.large_noise * rows

    def settled(self, schema: Schema) -> float:
        """The part of sets of three columns that hold at most one column besides those of strata.

        Columns within strata say all of them. The others wait for what is chosen.
        """
        every, others = len(schema.names), len(self.inner(schema))
        degree = min(DEGREE, every)
        found = sum(comb(others, few) * comb(every - others, degree - few) for few in range(min(degree, 1) + 1))
        return found / comb(every, degree)

    def _share(self, schema: Schema, part: float) -> float:
        """A part of ρ for columns within strata, by how many they are and by what they settle.

        Where they settle a part α of the workload, the logarithms of its error and of theirs together are least at odds
        of (1 + α)/(1 − α): see docs/experiments/levels.md.
        """
        settled = self.settled(schema)
        if settled > USUALLY_SETTLED and part < self.largest:
            usual = (1 + USUALLY_SETTLED) / (1 - USUALLY_SETTLED)
            weight, rest = part * (1 + settled), (1 - part) * (1 - settled) * usual
            part = min(weight / (weight + rest), self.largest)
        return part * min(1.0, self.many / len(self.inner(schema))) ** 2

    def _column_noise(self, schema: Schema, rho: Rho) -> tuple[float, float]:
        """Of a column within strata, at its part of ρ: σ of a cell, and the expected L1 norm, a mean over columns."""
        names, strata = self.inner(schema), prod(schema[name].size for name in self.strata)
        price = float(rho) * self._share(schema, self.columns) / len(names)
        return gaussian_sigma(price), noise_floor(price, mean(schema[name].size for name in names) * strata)

    def reached(self, measurements: Iterable[Measurement]) -> Levels:
        """These levels, without that of strata if no column was measured within them."""
        within = any(len(m.columns) > len(self.strata) and tells_apart(m, self.strata) for m in measurements)
        return self if within or not self.coarser else replace(self, fine=False)

    def measure_over_all(self, session: Session) -> Sequence[tuple[Columns, Rho]]:
        """Measure `over_all`, if there is a coarser level than strata. Cost: what it returns, the price of each."""
        rho = session.budget.total
        return session.measure_all([(columns, rho * share) for columns, share in self.over_all(session.table.schema)])

    def measure_within(
        self, session: Session, over_all: Sequence[tuple[Columns, Rho]]
    ) -> Sequence[tuple[Columns, Rho]]:
        """After `measure_over_all`, measure the rest of what needs no choice: `within_strata`.

        Cost: at most WIDE_SHARE of the budget, and WEIGHT_ALONE and WEIGHT_PAIRS of it for a survey weight, if there is
        one (`Session.coarsen_with_weight`); of what that leaves, where strata nest, NESTED_SHARE and OUTER_SHARE
        (`hierarchy`, in sequence: Σ of the prices); and `first_share` of the rest, all with what is measured already.

        Returns:
            The marginals worth measuring again if no choice can be made, each at what it cost: those over all rows,
            if there are any.
        """
        schema, rho = session.table.schema, session.budget.total
        if over_all:
            session.sharpen(schema.names, rho * WIDE_SHARE)
            session.coarsen_with_weight(rho, self.strata)
            schema = session.table.schema
        places = [(columns, groups, session.shared * share) for columns, groups, share in self.hierarchy(schema)]
        for columns, groups, price in places:
            session.measure(columns, price, groups=groups)
            session.shared -= price
        rows = total_estimate(session.measurements)[0]
        fine = self.within_strata(schema, rho, rows)
        within = [(columns, session.shared * share) for columns, share in fine]
        session.measure_all(within)
        if not over_all and not self.strata:
            session.coarsen_with_weight(rho)
        return over_all or within
