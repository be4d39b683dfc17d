"""One run of a mechanism on one table: here it chooses, measures, and is charged, step by step.

MST, AIM and GEM decide only what to offer and what to pay. `Session.choose` is the only choice (exponential
mechanism), `Session.measure` the only measurement (Gaussian), both paid from `Session.budget` and written to its log.

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
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.counting import PARTS, in_parts, measure_marginal, parts_counted, parts_of
from equistrata.synth.measurements import (
    Columns,
    Former,
    Measurement,
    Merging,
    Where,
    at_level,
    given,
    tells_apart,
    total_estimate,
    varying,
)
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import FINE_GROUPS, WIDE, Coarsening
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.models.columns.merging import groups_for

GRID = PARTS  # scores are whole multiples of 1/GRID
LARGEST_TERM = 2.0**42  # of a score: up to twice this, a float holds every multiple of 1/GRID
ALMOST_ONE = 1 - 2.0**-18  # a weight above it counts as one, see `weighed`
NOTHING = Rho(0)
# Of ρ, for the survey weight by itself and with each other column: together a fifth, so that the noise of all else
# grows by 12 % (1/√0.8).
WEIGHT_ALONE, WEIGHT_PAIRS = 0.04, 0.16
WIDE_NOISE = 0.05  # times the rows: a low enough noise floor of a wide column (docs/experiments/numbers.md)


@dataclass(frozen=True)
class Step:
    """What one step of a run cost and published: enough to add up ρ again, and nothing else of the rows.

    Attributes:
        columns: what was measured; empty where only a choice was made, of nothing.
        sigma: the standard deviation of the noise on each cell; infinite where nothing was measured.
        measurement: ρ of the measurement.
        selection: ρ of the choice of `columns`; zero where there was none.
        where: the stratum that it was about; none for all rows.
    """

    columns: Columns
    sigma: float
    measurement: Rho
    selection: Rho
    where: Where = ()


def price_of(log: Iterable[Step]) -> Rho:
    """What steps cost together: those on all rows add up, and the dearest stratum's to them (parallel composition)."""
    spent: dict[Where, Rho] = {(): NOTHING}
    for step in log:
        spent[step.where] = spent.get(step.where, NOTHING) + step.measurement + step.selection
    return spent.pop(()) + max(spent.values(), default=NOTHING)


Measure = Callable[[CodedTable, Rho, NoiseSource, list[Measurement]], tuple[list[Measurement], list[Step]]]


def marginal_score(truth: Counts | Floats, modelled: Floats, sigma: float = 0.0) -> float:
    """How badly a model explains a marginal: ‖true − model‖₁, less the noise floor of measuring it, √(2/π)·σ·cells.

    Args:
        truth: the exact counts, whole multiples of 1/GRID, which add up to less than 2³³. Private.
        modelled: the model's, made from noisy numbers alone, of the same shape.
        sigma: of the measurement to come; 0 to take nothing off.

    Sensitivity: exactly 1, in floating point too. See docs/proofs/shared-selection.md.
    """
    expected = np.clip(modelled, 0.0, LARGEST_TERM)
    expected = np.rint(expected * (GRID * min(1.0, LARGEST_TERM / max(float(expected.sum()), 1.0)))) / GRID
    noise = np.rint(min(NOISE_L1 * sigma * modelled.size, LARGEST_TERM) * GRID) / GRID
    return float(np.abs(truth - expected).sum() - noise)


def weighed(scores: Floats, weights: Floats) -> Floats:
    """Scores times public weights, over the largest weight. Sensitivity: exactly 1, for scores below 2³⁴.

    See docs/proofs/shared-selection.md.
    """
    shares = weights / weights.max()
    return np.where(shares > ALMOST_ONE, 1.0, shares) * scores


class Session:
    """A private table, the budget for it, and what was measured and logged so far.

    Attributes:
        table: private; with merged codes once they are (`coarsen`).
        budget: what the run may spend.
        measurements: of `table`: `known` first, then the run's own.
        former: what a series knows already: codes are merged as they were there. Choices know nothing of it.
        coarsening: which codes are merged.
        within: which merged codes are merged further where a column is measured within strata.
        shared: the budget but for what sharpened wide columns and for sizes of strata that nest: what parts of ρ are
            parts of.
        log: a `Step` for each of these, and for each choice of nothing. They cost what was spent (`price_of`).

    With `distinct`, marginals are counted on the table's distinct rows: worth it where hundreds are scored.
    """

    def __init__(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = (), distinct: bool = False
    ) -> None:
        self.table, self.noise, self.distinct = table, noise, distinct
        self.budget = Budget(rho)
        self.former = [each for each in known if isinstance(each, Former)]
        self.measurements = [each for each in known if not isinstance(each, Former)]
        self.coarsening, self.shared = Coarsening(table.schema, {}), rho
        self._found, self._all_codes = list(self.measurements), table
        self.log: list[Step] = []
        self._counts: dict[Columns, Floats] = {}

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Merging] = ()
    ) -> Measurement:
        """Measure columns. Cost: `price`; `selection` was paid before, for choosing them, and is only logged."""
        names = tuple(columns)
        noisy = self._noisy(names, price, groups)
        self.measurements.append(noisy)
        self._found.append(self.coarsening.measured(noisy))
        self.log.append(Step(names, noisy.sigma, price, selection))
        return noisy

    def _noisy(self, names: Columns, price: Rho, groups: Sequence[Merging]) -> Measurement:
        """What `measure` pays for, and yields."""
        return measure_marginal(self.table, names, price, self.budget, self.noise, groups)

    def measure_each(self, columns: Columns, measure: Measure) -> None:
        """Measure each stratum by itself. Cost: all that is left, once (parallel composition): strata share no row.

        Args:
            columns: which define the strata.
            measure: spends its ρ on a stratum's rows; it is given what is known of the stratum.
        """
        strata = Strata.over(self.table.schema, columns)
        known = [measurement for measurement in self.measurements if tells_apart(measurement, columns)]
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
        """All measurements, of the table with all codes, with what choices cost: what the run yields."""
        own, waiting = len(self._found) - sum(isfinite(step.sigma) for step in self.log), dict[Where, Rho]()
        found, last = self._found[:own], dict[Where, int]()
        for step in self.log:
            waiting[step.where] = waiting.get(step.where, NOTHING) + step.selection
            if isfinite(step.sigma):
                last[step.where] = len(found)
                found.append(replace(self._found[len(found)], choices=float(waiting.pop(step.where))))
        for where, price in waiting.items():  # choices of nothing, after the last measurement
            if where in last:
                place = last[where]
                found[place] = replace(found[place], choices=found[place].choices + float(price))
        return found

    def sharpen(self, names: Iterable[str], most: Rho) -> None:
        """Measure columns of more than WIDE codes again, until their noise floors are WIDE_NOISE of the rows.

        Cost: at most `most`, shared by the codes to the power 2/3, which minimises the noise of all together. Of a
        column with fine bins at most FINE_GROUPS count: it is smoothed, so most of the noise goes.
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
        """Merge codes, once every column was measured, by the noise floor of pairs. Post-processing.

        Args:
            rho: what buys pairs, of two trees say.
            kept: columns whose codes stay apart.
        """
        pair = rho * Fraction(1, 2 * len(self.table.schema.names))
        rows = total_estimate(self._found)[0]
        most = groups_for(float(pair), rows, len(self.table.schema.names))
        self.coarsening = Coarsening.chosen(self.table.schema, self._found, most, kept)
        if any(any(each.groups) for each in self.former):  # what was measured before is measured in the same groups
            self.coarsening = self.coarsening.as_before(self.former)
        self.table = self.coarsening.merged(self.table)
        self.measurements = self.coarsening.coarse_all(self._found)

    def measure_all(self, priced: Sequence[tuple[Columns, Rho]]) -> Sequence[tuple[Columns, Rho]]:
        """Measure each set of columns at its price; of a column with fine bins, each level of `tree_of` it gets a part.

        Returns what it was given.
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
        """See `coarsen`; and measure a survey weight, if there is one: by itself before, with each other column after.

        Cost: WEIGHT_ALONE of ρ, and WEIGHT_PAIRS of it, shared by cells to the power 2/3, which minimises the noise of
        all together.
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
            self.measure(at_level(schema, (name, weight), ()), part)
        self.shared -= price

    def measure_again(self, first: Sequence[tuple[Columns, Rho]]) -> None:
        """The fallback where no choice is worth its price: spend the rest on the first marginals, as they shared.

        Codes are told apart again.
        """
        self.coarsening, self.table = Coarsening(self._all_codes.schema, {}), self._all_codes
        self.measurements = list(self._found)
        shares = self.budget.remaining.split([float(price) for _, price in first])
        self.measure_all([(columns, share) for (columns, _), share in zip(first, shares, strict=True)])

    def score(self, columns: Columns, model: Model, sigma: float = 0.0) -> float:
        """`marginal_score` of these columns of the table. Not private: only `choose` may see it."""
        if columns not in self._counts:
            self._counts[columns] = self._count(columns)
        return marginal_score(self._counts[columns], model.marginal(columns), sigma)

    def scores(self, candidates: Sequence[Columns], model: Model, sigma: float) -> Floats:
        """`marginal_score` of each. Not private."""
        return np.array([self.score(columns, model, sigma) for columns in candidates])

    def choose(self, scores: Callable[[], Sequence[float] | Floats], price: Rho) -> int:
        """The place of a high score, by the exponential mechanism. Cost: `price`; the scores have sensitivity 1.

        `scores` are worked out only once the price is paid. Where units are replaced, the noise is √2 times as much, so
        that a choice costs 2 × `price` for it, as a measurement does.
        """
        sensitivity = self.table.schema.unit.choice_sensitivity
        return self.noise.select(lambda: np.asarray(scores()), sensitivity, price, self.budget, "choice of a marginal")

    def chose_nothing(self, price: Rho) -> None:
        """Log a choice, paid for, of nothing."""
        self.log.append(Step((), inf, NOTHING, price))

    def _count(self, columns: Columns) -> Floats:
        """An exact marginal, private."""
        rows, times = self._distinct
        parts = parts_of(self.table.schema)  # whole multiples of 1/GRID, as scores have to be
        if len(rows) == len(self.table):
            return np.asarray(parts_counted(self.table, columns) / parts)
        schema, counted = self.table.schema, list(columns)
        if schema.weighed:  # the last axis is how many rows the units have
            counted = [*(name for name in columns if name != UNIT_ROWS), UNIT_ROWS]
        shape = [schema.row_sizes[schema.index(name)] for name in counted]
        found = np.bincount(rows.index_of(counted), times, prod(shape)).reshape(shape)
        return np.asarray((in_parts(schema, columns, found) if schema.weighed else found) / parts)

    @cached_property
    def _distinct(self) -> tuple[CodedTable, Counts]:
        return self.table.distinct() if self.distinct else (self.table, np.ones(0, dtype=np.int64))
