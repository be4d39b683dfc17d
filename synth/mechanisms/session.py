"""Sessions, in which a mechanism is run on a table.

The session selects and measures marginals and charges the budget for each step. MST, AIM and GEM only decide the
candidates and the prices. All selections are made by `Session.choose` (exponential mechanism), and all measurements by
`Session.measure` (Gaussian mechanism). Both are charged to `Session.budget` and recorded in its log.

>>> truth, modelled = np.array([30, 10]), np.array([20.0, 20.0])
>>> marginal_score(truth, modelled), round(marginal_score(truth, modelled, sigma=5.0), 2)
(20.0, 12.02)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite, prod

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.counting import PARTS, in_parts, measure_marginal, parts_counted, parts_of
from equistrata.synth.measurements import (
    Columns,
    FormerEstimate,
    Measurement,
    Merging,
    Where,
    given,
    has_all_codes,
    join_level_columns,
    total_estimate,
    varying,
)
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import FINE_GROUPS, WIDE, Coarsening
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.models.columns.merging import groups_for

GRID = PARTS  # scores are whole multiples of 1/GRID
LARGEST_TERM = 2.0**42  # the largest term of a score, since a float is exact for multiples of 1/GRID up to twice this
ALMOST_ONE = 1 - 2.0**-18  # a larger relative weight is treated as 1 (see `weighed`)
NOTHING = Rho(0)
# The fractions of ρ for the survey weight alone and with each other column. Their sum is a fifth of ρ, so the noise of
# all other measurements increases by 12 % (1/√0.8).
WEIGHT_ALONE, WEIGHT_PAIRS = 0.04, 0.16
# The target noise floor of a wide column, as a fraction of the rows. If it is 0.1, the error of incomes is doubled.
WIDE_NOISE = 0.05


@dataclass(frozen=True)
class Step:
    """The cost and the result of one step of a run.

    The steps are sufficient to add up ρ again. They contain no other information about the rows.

    Parameters
    ----------
    columns : tuple of str
        The measured columns. If empty, the step is a selection of no marginal.
    sigma : float
        The standard deviation of the noise on each cell. It is infinite if nothing was measured.
    measurement : Rho
        The ρ of the measurement.
    selection : Rho
        The ρ of the selection of `columns`. It is 0 if there was no selection.
    where : tuple of (str, int), default=()
        The stratum of the step, as the code of each of its columns. If empty, the step used all rows.
    """

    columns: Columns
    sigma: float
    measurement: Rho
    selection: Rho
    where: Where = ()


def price_of(log: Iterable[Step]) -> Rho:
    """Compute the total cost of some steps.

    Parameters
    ----------
    log : iterable of Step
        The steps.

    Returns
    -------
    Rho
        The total cost of the steps on all rows, plus the largest total cost among the strata (parallel composition).
    """
    spent: dict[Where, Rho] = {(): NOTHING}
    for step in log:
        spent[step.where] = spent.get(step.where, NOTHING) + step.measurement + step.selection
    return spent.pop(()) + max(spent.values(), default=NOTHING)


Measure = Callable[[CodedTable, Rho, NoiseSource, list[Measurement]], tuple[list[Measurement], list[Step]]]


def marginal_score(truth: Counts | Floats, modelled: Floats, sigma: float = 0.0) -> float:
    """Compute how poorly a model explains a marginal.

    The score is ‖true − model‖₁ minus √(2/π)·σ·cells, which is the noise floor of the measurement.

    Parameters
    ----------
    truth : ndarray
        The exact counts, which are private. They are whole multiples of 1/GRID, and their sum is less than 2³³.
    modelled : ndarray
        The counts of the model, with the same shape. They are made from noisy numbers alone.
    sigma : float, default=0.0
        The standard deviation of the noise of the next measurement. If 0, nothing is subtracted.

    Returns
    -------
    float
        The score.

    Privacy
    -------
    The sensitivity of the score is exactly 1, even in floating-point arithmetic. See docs/proofs/shared-selection.md.
    """
    expected = np.clip(modelled, 0.0, LARGEST_TERM)
    expected = np.rint(expected * (GRID * min(1.0, LARGEST_TERM / max(float(expected.sum()), 1.0)))) / GRID
    noise = np.rint(min(NOISE_L1 * sigma * modelled.size, LARGEST_TERM) * GRID) / GRID
    return float(np.abs(truth - expected).sum() - noise)


def weighed(scores: Floats, weights: Floats) -> Floats:
    """Multiply scores by public weights and divide them by the largest weight.

    Parameters
    ----------
    scores : ndarray
        The scores, which are below 2³⁴.
    weights : ndarray
        The positive public weights, one per score.

    Returns
    -------
    ndarray
        The weighted scores.

    Privacy
    -------
    The sensitivity of the result is exactly 1, even in floating-point arithmetic. See docs/proofs/shared-selection.md.
    """
    shares = weights / weights.max()
    return np.where(shares > ALMOST_ONE, 1.0, shares) * scores


class Session:
    """A private table, its budget, and the measurements of one run.

    Parameters
    ----------
    table : CodedTable
        The private rows.
    rho : Rho
        The budget in zCDP.
    noise : NoiseSource
        The source of the noise.
    known : sequence of Measurement, default=()
        Measurements of the same rows that are already paid for.
    distinct : bool, default=False
        If True, marginals are counted on the distinct rows of the table. This is faster if hundreds of marginals are
        scored.

    Attributes
    ----------
    table : CodedTable
        The private rows. Their codes are merged after `coarsen`.
    budget : Budget
        The budget of the run.
    measurements : list of Measurement
        The measurements of `table`. The known measurements are first.
    former : list of Former
        Estimates from former releases of a series. Codes are merged in the same groups as before. Selections do not use
        these estimates.
    coarsening : Coarsening
        The groups of merged codes.
    shared : Rho
        The budget without the cost of wide columns, of a survey weight, and of the sizes of nested strata. Other
        fractions of ρ are relative to this amount.
    log : list of Step
        One step per measurement, and one step per selection of no marginal. The total cost of the steps is the budget
        spent (`price_of`).
    """

    def __init__(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = (), distinct: bool = False
    ) -> None:
        self.table, self.noise, self.distinct = table, noise, distinct
        self.budget = Budget(rho)
        self.former = [each for each in known if isinstance(each, FormerEstimate)]
        self.measurements = [each for each in known if not isinstance(each, FormerEstimate)]
        self.coarsening, self.shared = Coarsening(table.schema, {}), rho
        self._found, self._all_codes = list(self.measurements), table
        self.log: list[Step] = []
        self._counts: dict[Columns, Floats] = {}

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Merging] = ()
    ) -> Measurement:
        """Measure a marginal.

        Parameters
        ----------
        columns : iterable of str
            The columns of the marginal.
        price : Rho
            The privacy cost of the measurement in zCDP.
        selection : Rho, default=0
            The ρ of the selection of these columns. It is already paid, so it is only recorded in the log.
        groups : sequence of tuple of int or None, default=()
            For each column, the group of each code. If None, the codes of the column are not merged.

        Returns
        -------
        Measurement
            The noisy counts.

        Privacy
        -------
        The measurement costs `price` in zCDP. See `measure_marginal`.
        """
        names = tuple(columns)
        noisy = self._noisy(names, price, groups)
        self.measurements.append(noisy)
        self._found.append(self.coarsening.measured(noisy))
        self.log.append(Step(names, noisy.sigma, price, selection))
        return noisy

    def _noisy(self, names: Columns, price: Rho, groups: Sequence[Merging]) -> Measurement:
        """Pay for a measurement and make it."""
        return measure_marginal(self.table, names, price, self.budget, self.noise, groups)

    def measure_each(self, columns: Columns, measure: Measure) -> None:
        """Measure each stratum separately.

        Parameters
        ----------
        columns : tuple of str
            The columns that define the strata.
        measure : callable
            The function that measures the rows of one stratum with the given ρ. It also receives the known measurements
            of the stratum.

        Privacy
        -------
        The cost is all of the remaining budget, and it is charged once because the strata have no row in common
        (parallel composition).
        """
        strata = Strata.over(self.table.schema, columns)
        known = [measurement for measurement in self.measurements if has_all_codes(measurement, columns)]
        budgets = self.budget.parallel(self.budget.remaining, strata.keys, "strata in parallel")
        for place, (key, rows) in enumerate(strata.partition(self.table).items()):
            codes, left = strata.codes_of(key), budgets[key].remaining
            own, where = [given(measurement, codes) for measurement in known], tuple(codes.items())
            former = [replace(each, where=()) for each in self.former if each.where == where]
            price = budgets[key].spend(left, "one stratum")
            found, log = measure(rows, price, self.noise.spawn(place), [*own, *former])
            self._found += [replace(measurement, where=where) for measurement in found[len(own) :]]
            self.log += [replace(step, where=where) for step in log]

    @property
    def found(self) -> list[Measurement]:
        """All measurements of the run, with the cost of the selections.

        They are over the original codes of the table.
        """
        own, waiting = len(self._found) - sum(isfinite(step.sigma) for step in self.log), dict[Where, Rho]()
        found, last = self._found[:own], dict[Where, int]()
        for step in self.log:
            waiting[step.where] = waiting.get(step.where, NOTHING) + step.selection
            if isfinite(step.sigma):
                last[step.where] = len(found)
                found.append(replace(self._found[len(found)], choices=float(waiting.pop(step.where))))
        for where, price in waiting.items():  # selections of no marginal after the last measurement
            if where in last:
                place = last[where]
                found[place] = replace(found[place], choices=found[place].choices + float(price))
        return found

    def remeasure_wide_columns(self, names: Iterable[str], most: Rho) -> None:
        """Measure wide columns again until their noise floors are low.

        A column is wide if it has more than `WIDE` codes. The target is a noise floor of `WIDE_NOISE` of the number of
        rows. The budget is shared by the numbers of codes to the power 2/3, which minimises the total noise. A column
        with fine bins is counted with at most `FINE_GROUPS` codes, because smoothing removes most of its noise.

        Parameters
        ----------
        names : iterable of str
            The columns to consider.
        most : Rho
            The maximum privacy cost in zCDP.

        Privacy
        -------
        The cost is at most `most`.
        """
        rows, schema = max(total_estimate(self._found)[0], 1.0), self.table.schema
        wide = [schema[name] for name in names if schema[name].size > WIDE and not schema[name].weight]
        codes = {column.name: min(column.size, FINE_GROUPS) if column.fine else column.size for column in wide}
        shares = most.split([size ** (2 / 3) for size in codes.values()]) if wide else []
        for (name, size), share in zip(codes.items(), shares, strict=True):
            known = sum(1 / m.sigma**2 for m in self._found if m.columns == (name,) and m.sigma)
            wanted = (NOISE_L1 * size / (WIDE_NOISE * rows)) ** 2  # 1/σ²
            price = min(Rho(max((wanted - known) / 2, 0.0)), share)
            if float(price) > float(share) / 100:
                self.measure_all([((name,), price)])
                self.shared -= price

    def coarsen(self, rho: Rho, kept: Columns = ()) -> None:
        """Merge codes according to the noise floor of pairs.

        Every column must be measured first. The merging is post-processing.

        Parameters
        ----------
        rho : Rho
            The ρ that can be spent on pairs, for example of two trees.
        kept : tuple of str, default=()
            The columns with codes that are not merged.
        """
        pair = rho * Fraction(1, 2 * len(self.table.schema.names))
        rows = total_estimate(self._found)[0]
        most = groups_for(float(pair), rows, len(self.table.schema.names))
        self.coarsening = Coarsening.chosen(self.table.schema, self._found, most, kept)
        if any(any(each.groups) for each in self.former):  # the groups are the same as in former releases
            self.coarsening = self.coarsening.with_former_groups(self.former)
        self.table = self.coarsening.merged(self.table)
        self.measurements = self.coarsening.coarse_all(self._found)

    def measure_all(self, priced: Sequence[tuple[Columns, Rho]]) -> Sequence[tuple[Columns, Rho]]:
        """Measure each set of columns at its price.

        For a column with fine bins, each level of `tree_of` is measured with an equal part of the price.

        Parameters
        ----------
        priced : sequence of (tuple of str, Rho)
            The columns and the price of each marginal.

        Returns
        -------
        sequence of (tuple of str, Rho)
            The argument `priced`.

        Privacy
        -------
        The cost is the sum of the prices.
        """
        for columns, price in priced:
            first = self.table.schema[columns[0]] if len(columns) == 1 else None
            if first is None or not first.fine:
                self.measure(columns, price)
                continue
            tree = tree_of(first)
            for nodes, part in zip(reversed(tree), price.split([1] * len(tree)), strict=True):
                self.measure(columns, part, NOTHING, (nodes,))
        return priced

    def coarsen_with_weight(self, rho: Rho, kept: Columns = ()) -> None:
        """Merge codes (see `coarsen`), and measure the survey weight if there is one.

        The survey weight is measured alone before the codes are merged, and with each other column after that.

        Parameters
        ----------
        rho : Rho
            The ρ that can be spent on pairs.
        kept : tuple of str, default=()
            The columns with codes that are not merged.

        Privacy
        -------
        The survey weight costs `WEIGHT_ALONE` and `WEIGHT_PAIRS` of the budget. The second part is shared among the
        pairs by their numbers of cells to the power 2/3, which minimises the total noise.
        """
        weight = self.table.schema.survey_weight
        if weight is not None:
            price = self.budget.total * WEIGHT_ALONE
            self.measure_all([((weight,), price)])
            self.shared -= price
        self.coarsen(rho, kept)
        schema = self.table.schema
        others = varying(schema, schema.unweighted)
        if weight is None or not others:
            return
        price = self.budget.total * WEIGHT_PAIRS
        cells = [schema[weight].size * schema[name].size for name in others]
        for name, part in zip(others, price.split([count ** (2 / 3) for count in cells]), strict=True):
            self.measure(join_level_columns(schema, (name, weight), ()), part)
        self.shared -= price

    def measure_again(self, first: Sequence[tuple[Columns, Rho]]) -> None:
        """Spend the rest of the budget on the first marginals.

        This is the fallback if no selection is worth its price. The first marginals share the budget in the same
        proportions as before. Codes are no longer merged.

        Parameters
        ----------
        first : sequence of (tuple of str, Rho)
            The columns and the former cost of each of the first marginals.

        Privacy
        -------
        The cost is all of the remaining budget.
        """
        self.coarsening, self.table = Coarsening(self._all_codes.schema, {}), self._all_codes
        self.measurements = list(self._found)
        shares = self.budget.remaining.split([float(price) for _, price in first])
        self.measure_all([(columns, share) for (columns, _), share in zip(first, shares, strict=True)])

    def score(self, columns: Columns, model: Model, sigma: float = 0.0) -> float:
        """Compute the `marginal_score` of some columns of the table.

        The score is EXACT, so it must only be passed to `choose`.
        """
        if columns not in self._counts:
            self._counts[columns] = self._count(columns)
        return marginal_score(self._counts[columns], model.marginal(columns), sigma)

    def scores(self, candidates: Sequence[Columns], model: Model, sigma: float) -> Floats:
        """Compute the `marginal_score` of each candidate. The scores are EXACT."""
        return np.array([self.score(columns, model, sigma) for columns in candidates])

    def choose(self, scores: Callable[[], Sequence[float] | Floats], price: Rho) -> int:
        """Select an item with a high score by the exponential mechanism.

        Parameters
        ----------
        scores : callable
            The function that computes the scores. It is called only after the price is paid. The scores must have
            sensitivity 1.
        price : Rho
            The privacy cost of the selection in zCDP.

        Returns
        -------
        int
            The index of the selected item.

        Privacy
        -------
        The selection costs `price` in zCDP. If units are replaced instead of added or removed, the noise is √2 times as
        large. The cost of a selection is then 2 × `price` for replacement, as for a measurement.
        """
        sensitivity = self.table.schema.unit.choice_sensitivity
        return self.noise.select(lambda: np.asarray(scores()), sensitivity, price, self.budget, "choice of a marginal")

    def record_empty_selection(self, price: Rho) -> None:
        """Record a selection of no marginal, which is already paid for."""
        self.log.append(Step((), inf, NOTHING, price))

    def _count(self, columns: Columns) -> Floats:
        """Count an exact marginal, which is private."""
        rows, times = self._distinct
        parts = parts_of(self.table.schema)  # so that counts are whole multiples of 1/GRID, as scores require
        if len(rows) == len(self.table):
            return np.asarray(parts_counted(self.table, columns) / parts)
        schema, counted = self.table.schema, list(columns)
        if schema.weighed:  # the last axis is the number of rows of the unit
            counted = [*(name for name in columns if name != UNIT_ROWS), UNIT_ROWS]
        shape = [schema.row_sizes[schema.index(name)] for name in counted]
        found = np.bincount(rows.index_of(counted), times, prod(shape)).reshape(shape)
        return np.asarray((in_parts(schema, columns, found) if schema.weighed else found) / parts)

    @cached_property
    def _distinct(self) -> tuple[CodedTable, Counts]:
        return self.table.distinct() if self.distinct else (self.table, np.ones(0, dtype=np.int64))
