"""The levels of shared selection, and the marginals that are measured first.

A level is a set of stratum columns. A marginal within all strata is a single marginal of its columns and the stratum
columns. One row changes one of its cells, so it has the same cost as a marginal of one stratum (parallel composition).
The coarser levels are all rows and the strata of a single stratum column. Measurements at different levels compose
sequentially. Therefore, the accounting is that of marginals of one table. If there are no strata, the only level is all
rows.

The steps of a run are in these functions:

- `Levels.measure_over_all` and `Levels.measure_within` measure the first marginals and set their fractions of ρ.
- `Levels.hierarchy` lists the sizes at every level of nested strata.
- `Levels.large` decides if each stratum is measured separately.
- `MST.measure_with_log` and `AIM.measure_with_log` select marginals for all strata and measure them.
- `equistrata.synth.mechanisms.session` charges each step.

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
from equistrata.synth.measurements import (
    Columns,
    Measurement,
    Merging,
    has_all_codes,
    join_level_columns,
    summed,
    total_estimate,
)
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.coarsening import WIDE
from equistrata.synth.noise_floors import below_floor, noise_floor, pair_noise, sum_noise

# Tuned on New York and Vermont from ε = 0.01 to 5.
COARSE_SHARE, SIZES_SHARE = 0.03, 0.02  # the fractions of ρ for every column over all rows, and for the sizes of strata
# The fractions of ρ if the strata are nested. The first is for the sizes at every level. The second is for the other
# columns, by each column that contains a nested column. A larger first fraction is better for the sizes of the strata,
# but worse for the other columns.
NESTED_SHARE, OUTER_SHARE = 0.4, 0.03
CELLS_POWER = 0.5  # the sizes share their fraction by their cells to this power
WIDE_SHARE = 0.4  # the maximum fraction of ρ for `Session.remeasure_wide_columns`
LOW_NOISE = 10.0  # the σ of a cell, in rows, below which less noise still improves strata of a hundred rows
# The fraction of sets of three columns that columns within strata determine (`Levels.settled`). The fractions above
# were tuned for this value, which is the value for two stratum columns out of ten.
DEGREE, USUALLY_SETTLED = 3, 8 / 120
COARSER_NOISE = 2.0  # see `Levels.within_strata`
NOISE_FLOOR = 1.0  # the maximum noise floor of measured columns within strata, as a fraction of the rows


def largest_share(choice: float = 0.1) -> float:
    """Return the maximum fraction of ρ for columns within strata.

    The fixed fractions and the fraction for selections are subtracted from ρ. The result is nine tenths of the rest.

    Parameters
    ----------
    choice : float, default=0.1
        The fraction of ρ for selections.
    """
    return max(0.9 * (1 - COARSE_SHARE - SIZES_SHARE - choice), 0.0)


@dataclass(frozen=True)
class Levels:
    """The levels at which marginals can be measured.

    Parameters
    ----------
    strata : tuple of str, default=()
        The columns that define the strata. If empty, the only level is all rows.
    coarse : bool, default=True
        If True, marginals can be measured over all rows and within the strata of each single stratum column.
    fine : bool, default=True
        If True, marginals can be measured within strata.
    columns : float, default=0.2
        The fraction of ρ for columns within strata. It is used unless their noise floor is too high.
    low_noise : float, default=0.4
        The fraction of ρ for columns within strata if the standard deviation of a cell is less than `LOW_NOISE` rows.
    largest : float, default=0.0
        The maximum fraction of ρ for columns within strata. If `settled` is larger than usual, `columns` and
        `low_noise` are increased up to this fraction. If 0, they are not increased.
    many : float, default=inf
        The number of columns above which `columns` and `low_noise` are reduced. The reduction is quadratic in the
        number of columns, because the remaining ρ must be sufficient for many more pairs.
    most : float, default=inf
        The maximum number of columns that are measured within strata. If there are more columns, they are measured only
        at coarser levels, if such levels exist.
    alone : float, default=0.2
        The fraction of ρ for columns over all rows if no column is measured within strata.
    large_noise : float, default=0.0
        The maximum noise floor of a pair within all strata at which the strata are `large`, as a fraction of the number
        of rows. The noise floor is computed as if all of ρ were spent on a tree of pairs.
    sizes_noise : float, default=inf
        The maximum noise floor of the sizes of the strata, as a fraction of the number of rows. If it is higher, the
        sizes are not measured.

    Raises
    ------
    InputError
        If the levels are not valid, or if the fractions of ρ are not valid.
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
                "levels must be coarse, fine or both (only fine without strata), and the parts of ρ for the columns "
                "must be above 0 and leave a rest"
            )

    @property
    def coarser(self) -> bool:
        """Return True if there is a coarser level than the strata."""
        return self.coarse and bool(self.strata)

    @property
    def offered(self) -> tuple[Columns, ...]:
        """The levels from coarse to fine, each as a tuple of stratum columns."""
        single = [(name,) for name in self.strata] if len(self.strata) > 1 else []
        coarse: list[Columns] = [(), *single] if self.coarser and self.fine else [()] * self.coarser
        return (*coarse, *([self.strata] * self.fine))

    @property
    def first_share(self) -> float:
        """The maximum fraction of ρ for the first marginals, which excludes the cost of wide columns
        (`Session.remeasure_wide_columns`).
        """
        alone = self.alone - COARSE_SHARE if self.coarser else 0.0
        return COARSE_SHARE + SIZES_SHARE + max(self.columns, self.low_noise, self.largest, alone)

    def inner(self, schema: Schema) -> Columns:
        """Return the columns that neither define strata nor contain the survey weight."""
        return tuple(name for name in schema.names if name not in (*self.strata, schema.survey_weight))

    def over_all(self, schema: Schema) -> list[tuple[Columns, float]]:
        """Return the columns that are measured over all rows, with their fractions of ρ."""
        return [((name,), COARSE_SHARE / len(schema.names)) for name in schema.names] if self.coarser else []

    def within_strata(self, schema: Schema, rho: Rho, rows: float) -> list[tuple[Columns, float]]:
        """Return the next marginals to measure, with their fractions of ρ.

        These are the sizes of the strata, and every column within strata. The noise floor of a column within strata is
        the expected L1 norm of its noise, summed over strata. There are two limits on this noise floor:

        - `NOISE_FLOOR` times the number of rows. Above this limit, no difference between strata would be visible.
        - `COARSER_NOISE` times the number of rows, multiplied by the number of values of the stratum columns and
          divided by the number of strata. Above this limit, the coarser levels contain the same information with less
          noise.

        If a limit is exceeded, or if there are more than `most` columns, the columns are measured again over all rows.
        The same limits are used for the sizes of the strata.

        Parameters
        ----------
        schema : Schema
            The schema of the table.
        rho : Rho
            The total ρ of the mechanism.
        rows : float
            The number of rows, which is estimated from noisy numbers.

        Returns
        -------
        list of (tuple of str, float)
            The columns of each marginal, and its fraction of ρ.
        """
        names, values = self.inner(schema), [schema[name].size for name in self.strata]
        several = self.coarse and len(values) > 1 and not self.nested(schema)
        sizes = [(join_level_columns(schema, (), self.strata), SIZES_SHARE)] if several else []
        sets = [join_level_columns(schema, (name,), self.strata) for name in names]
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
        """Return the stratum columns that are nested within other columns.

        The tuple is empty if there is no coarser level than the strata.
        """
        return tuple(name for name in self.strata if schema[name].within) if self.coarser else ()

    def tied(self, schema: Schema) -> Columns:
        """Return the stratum columns if the model must allow cliques of all of them with each other column."""
        return self.strata if self.fine or not self.nested(schema) else ()

    def hierarchy(self, schema: Schema) -> list[tuple[Columns, tuple[Merging, ...], float]]:
        """Return the marginals that are measured if the strata are nested.

        Each row is in one cell of each marginal, so the cost of a marginal is the same as over all rows. The fraction
        `NESTED_SHARE` is for the sizes of strata. Each nested column is counted with some or all of the other stratum
        columns. Each column that contains the nested column is counted with all of the other stratum columns. The
        fraction `OUTER_SHARE` is for the columns that do not define strata, which are counted with each column that
        contains the nested column.

        Parameters
        ----------
        schema : Schema
            The schema of the table.

        Returns
        -------
        list of (tuple of str, tuple of tuple of int or None, float)
            For each marginal, its columns, the groups of merged codes, and its fraction of `Session.shared`.
        """
        marginals: dict[tuple[Columns, tuple[Merging, ...]], float] = {}

        def add(columns: Iterable[str], name: str, merged: Merging) -> None:
            names = join_level_columns(schema, columns, (name,))
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
        """Return the measurements that are used to estimate the models between rounds.

        If the sizes of the strata are below their noise floor, they are replaced by the sizes for each single stratum
        column. A model has no negative counts, so the noise of many empty strata would become rows in these strata. The
        replacement is post-processing.
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
        """Return True if each stratum can be measured separately (see `large`).

        The result is always False for nested strata, because they share their levels.
        """
        return bool(self.large_noise and self.coarser and self.fine) and not self.nested(schema)

    def large(self, session: Session) -> bool:
        """Return True if the strata are so large that separate measurements are better (see `large_noise`).

        The decision is post-processing.
        """
        schema, rows = session.table.schema, total_estimate(session.measurements)[0]
        inner = schema.select(self.inner(schema))
        if not self.may_be_large(schema) or len(inner.names) < 2:
            return False
        pair = pair_noise(inner, float(session.budget.total) / (len(inner.names) - 1))
        return pair * prod(schema[name].size for name in self.strata) <= self.large_noise * rows

    def settled(self, schema: Schema) -> float:
        """Compute the fraction of sets of three columns with at most one column that does not define strata.

        The marginals of columns within strata contain all information about these sets. The other sets depend on the
        selected marginals.
        """
        every, others = len(schema.names), len(self.inner(schema))
        degree = min(DEGREE, every)
        found = sum(comb(others, few) * comb(every - others, degree - few) for few in range(min(degree, 1) + 1))
        return found / comb(every, degree)

    def _share(self, schema: Schema, part: float) -> float:
        """Return the fraction of ρ that is spent on columns within strata.

        The fraction depends on the number of columns. It also depends on the fraction α of the workload that these
        columns determine (`settled`). The sum of the logarithms of two errors, of the workload and of these columns, is
        smallest at odds of (1 + α)/(1 − α).
        """
        settled = self.settled(schema)
        if settled > USUALLY_SETTLED and part < self.largest:
            usual = (1 + USUALLY_SETTLED) / (1 - USUALLY_SETTLED)
            weight, rest = part * (1 + settled), (1 - part) * (1 - settled) * usual
            part = min(weight / (weight + rest), self.largest)
        return part * min(1.0, self.many / len(self.inner(schema))) ** 2

    def _column_noise(self, schema: Schema, rho: Rho) -> tuple[float, float]:
        """Return the noise on a column within strata: the standard deviation of a cell, and the mean of the expected L1
        norm.
        """
        names, strata = self.inner(schema), prod(schema[name].size for name in self.strata)
        price = float(rho) * self._share(schema, self.columns) / len(names)
        return gaussian_sigma(price), noise_floor(price, mean(schema[name].size for name in names) * strata)

    def reached(self, measurements: Iterable[Measurement]) -> Levels:
        """Return the levels at which columns were measured.

        If no column was measured within strata, the level of the strata is removed.

        Parameters
        ----------
        measurements : iterable of Measurement
            The measurements.

        Returns
        -------
        Levels
            These levels, or a copy that is not `fine`.
        """
        within = any(len(m.columns) > len(self.strata) and has_all_codes(m, self.strata) for m in measurements)
        return self if within or not self.coarser else replace(self, fine=False)

    def measure_over_all(self, session: Session) -> Sequence[tuple[Columns, Rho]]:
        """Measure every column over all rows, if there is a coarser level than the strata.

        Parameters
        ----------
        session : Session
            The session, which is charged for the measurements.

        Returns
        -------
        sequence of (tuple of str, Rho)
            The columns of each marginal, and its cost.

        Privacy
        -------
        The cost is the sum of the returned costs.
        """
        rho = session.budget.total
        return session.measure_all([(columns, rho * share) for columns, share in self.over_all(session.table.schema)])

    def measure_within(
        self, session: Session, over_all: Sequence[tuple[Columns, Rho]]
    ) -> Sequence[tuple[Columns, Rho]]:
        """Measure the other marginals that need no selection (see `within_strata`).

        Parameters
        ----------
        session : Session
            The session, which is charged for the measurements.
        over_all : sequence of (tuple of str, Rho)
            The result of `measure_over_all`.

        Returns
        -------
        sequence of (tuple of str, Rho)
            The marginals that should be measured again if no selection can be made, and the cost of each. These are the
            marginals over all rows, if there are any.

        Privacy
        -------
        Wide columns cost at most `WIDE_SHARE` of the budget. A survey weight costs `WEIGHT_ALONE` and `WEIGHT_PAIRS` of
        the budget (`Session.coarsen_with_weight`). If the strata are nested, `NESTED_SHARE` and `OUTER_SHARE` of the
        remaining budget are spent next (`hierarchy`). These measurements compose sequentially, so their costs add up.
        Finally, at most `first_share` of the rest is spent, which includes the marginals that are already measured.
        """
        schema, rho = session.table.schema, session.budget.total
        if over_all:
            session.remeasure_wide_columns(schema.names, rho * WIDE_SHARE)
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
