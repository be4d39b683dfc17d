"""AIM: rounds of choosing the worst-explained marginal of a workload, measuring it, and estimating again.

McKenna, Mullins, Sheldon and Miklau, "AIM: An Adaptive and Iterative Mechanism for Differentially Private Synthetic
Data" (arXiv:2201.12677), algorithms 2 and 3, with three differences. The size limit counts every cell of the junction
tree, structural zeros included, and is never passed. A table too small for marginals of two columns, judged by noisy
numbers, spends all of ρ on single columns. Where pairs are noisy, no candidate weighs more than a pair.

With strata, marginals may be measured within strata as well as over all rows, and one choice serves all strata
(`equistrata.synth.mechanisms.levels`).

>>> AIM().weights_of(("A", "B", "C", "D"))[("A",)], AIM().weights_of(("A", "B", "C", "D"))[("A", "B")]
(3.0, 6.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import inf, prod
from statistics import harmonic_mean, mean
from typing import Self

import numpy as np

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, at_level, total_estimate, varying
from equistrata.synth.mechanisms.base import Opening, SharingMechanism
from equistrata.synth.mechanisms.candidates import CandidateSession
from equistrata.synth.mechanisms.levels import DEGREE, WIDE_SHARE, Levels, largest_share
from equistrata.synth.mechanisms.session import NOTHING, Session, Step
from equistrata.synth.mechanisms.workload import all_sets
from equistrata.synth.models.estimation import Estimator, MirrorDescent, few, model_cliques
from equistrata.synth.models.junction_tree import CELL_BYTES, cells_in, tree_cells
from equistrata.synth.noise_floors import noise_floor, pair_noise, pairs_readable

ROUNDS = 16  # times the number of columns: the parts of ρ of which each of the first rounds gets one
# The same with strata, and the highest noise floor of a pair (harmonic mean: a few wide columns should not decide), as
# a part of the rows, at which first rounds may have that price (docs/experiments/selection.md).
STRATA_ROUNDS = ((ROUNDS, 0.0025), (4, 0.065), (1, inf))
NARROW_READABLE = 0.11  # see `AIM.readable` (docs/experiments/selection.md)
MODEL_SIZE, STRATA_MODEL_SIZE = 1.0, 8.0  # MiB
# The highest noise floor of a pair, as a part of the rows, at which larger sets weigh more: `AIM.sets_readable`.
SETS_READABLE = 0.02
# Columns besides those of strata: `Levels.many` and `Levels.most` (docs/experiments/levels.md).
MANY, MOST = 14, 20
# `AIM.larger_sets`: the codes of a narrow column, how many such columns at most, the columns of a set at most, and the
# highest noise floor of a set, as a part of the rows.
NARROW, MOST_NARROW, LARGEST_SET, SET_NOISE = 4, 20, 5, 0.5


@dataclass(frozen=True)
class AIM(SharingMechanism):
    """The AIM synthesizer.

    Attributes:
        degree: the workload is every set of so many columns, each with weight one.
        workload: sets of columns and their weights, instead of that. Columns that a table lacks (those that define
            its stratum) are left out of its sets.
        target: without `workload`, sets with this column weigh half of all together.
        levels: the strata, and at which levels marginals may be measured. Without strata it is the paper's AIM.
        within: with strata, the weight in the workload of every set of `degree` columns within strata.
        max_model_size: the largest model, in MiB of its junction tree's tables; None for 1, or 8 with strata.
        rounds: the first rounds' share of ρ is one part in `rounds` times the number of columns; None for the paper's
            16, or, with strata and not very many columns, 16, 4 or 1, falling with the noise floor of a pair
            (STRATA_ROUNDS).
        measured: the part of a round's ρ that its measurement gets; its choice gets the rest.
        readable: rounds are run only if the noise floor of a pair of columns (expected L1 norm, mean over pairs), if
            all of ρ went to a tree of pairs, is at most this fraction of the number of rows; or where the harmonic mean
            is at most NARROW_READABLE of it, since a few wide columns should not decide.
        engine: how measurements become the final model.
        round_engine: the same after each round; None for mirror descent of at most 50 steps, or 100 where columns were
            measured within strata (docs/experiments/selection.md).
    """

    degree: int = 3
    workload: Mapping[Columns, float] | None = None
    target: str | None = None
    levels: Levels = field(default_factory=Levels)
    within: float = 0.05
    max_model_size: float | None = None
    rounds: int | None = None
    measured: float = 0.9
    readable: float = 0.2
    engine: Estimator = field(default_factory=MirrorDescent)
    round_engine: Estimator | None = None

    name = "AIM"

    def __post_init__(self) -> None:
        if (
            self.degree < 1
            or (self.rounds is not None and self.rounds < 1)
            or not self.model_size > 0
            or not 0 < self.measured < 1
        ):
            raise InputError("AIM needs a degree and rounds of at least 1, a positive size, and 0 < measured < 1")
        if any(not weight > 0 for weight in (self.workload or {}).values()):
            raise InputError("the weights of a workload must be positive")

    @property
    def model_size(self) -> float:
        """See `SharingMechanism.model_size`."""
        if self.max_model_size is not None:
            return self.max_model_size
        return STRATA_MODEL_SIZE if self.strata else MODEL_SIZE

    @property
    def choice_part(self) -> float:
        """See `Mechanism.choice_part`."""
        return 1 / self.measured - 1

    def with_levels(self, strata: Columns, coarse: bool, fine: bool, each: bool = True) -> Self:
        """See `SharingMechanism.with_levels`. Large strata gain from one choice too (docs/experiments/levels.md)."""
        alone = self.measured / ROUNDS
        levels = Levels(strata, coarse, fine, largest=largest_share(), many=MANY, most=MOST, alone=alone)
        return replace(self, levels=levels)

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure first marginals, then run rounds: choose (`CandidateSession.pick`), measure, estimate.

        Cost: all of `rho` in zCDP; neighbours differ by one added or removed row. See docs/proofs/aim.md.

        Raises:
            InputError: the columns and structural zeros alone need more than `max_model_size`.

        Source: arXiv:2201.12677, algorithms 2 and 3.
        """
        run = CandidateSession(table, rho, noise, known, self.model_size)
        bare = tree_cells(
            table.schema.sizes, model_cliques(table.schema, run.measurements, self.levels.tied(table.schema))
        )
        if bare > cells_in(self.model_size):
            needed = f"{bare * CELL_BYTES / 2**20:.3g} MiB before anything is measured together"
            raise InputError(
                f"a model of {few(table.schema.names)} needs {needed}, but max_model_size is {self.model_size:g}; "
                "raise it, or use fewer columns or coarser bins, or fewer impossible combinations"
            )
        opening, schema = self.opening(run), run.table.schema
        if opening.choices:
            aim = replace(self, levels=opening.levels)
            weights, rows = aim.candidates_of(schema, not self.sets_readable(run)), total_estimate(run.measurements)[0]
            run.offer(weights, aim.larger_sets(schema, float(opening.price), rows))
        if not run.places:
            run.measure_again(opening.first)
            return run.found, run.log
        if self.strata:  # much is spent by now, and nothing of it on cliques: the size limit grows from here on
            run.begun = run.budget.spent
        measure_rho = opening.price
        select_rho = measure_rho * (1 / Fraction(self.measured) - 1)
        engine = replace(self, levels=opening.levels).between_rounds()
        model = engine.estimate(schema, self.levels.modelled(run.measurements))
        last = False
        while not last:
            left = run.budget.remaining
            if left < (measure_rho + select_rho) * 2:
                last, measure_rho = True, left * self.measured
                select_rho = left - measure_rho
            columns = run.pick(model, measure_rho, select_rho)
            before = model.marginal(columns)
            noisy = run.measure(columns, measure_rho, select_rho)
            if last:
                break
            model = engine.estimate(schema, self.levels.modelled(run.measurements), model)
            learned = float(np.abs(model.marginal(columns) - before).sum())
            if learned <= NOISE_L1 * noisy.sigma * noisy.values.size:
                measure_rho, select_rho = measure_rho * 4, select_rho * 4
        return run.found, run.log

    def between_rounds(self) -> Estimator:
        """What estimates the model after each round."""
        within = self.strata and self.levels.fine
        return self.round_engine or MirrorDescent(iterations=100 if within else 50, tolerance=1e-4)

    def opening(self, session: Session) -> Opening:
        """See `SharingMechanism.opening`: every column, then the price of the first rounds, if pairs can be read."""
        rho, names = session.budget.total, session.table.schema.names
        rounds: Sequence[tuple[int, float]] = ((self.rounds or ROUNDS, inf),)
        levels = self.levels
        if self.strata:
            first = self.levels.measure_within(session, self.levels.measure_over_all(session))
            levels = self.levels.reached(session.measurements)
            if self.rounds is None and levels.fine and len(levels.inner(session.table.schema)) <= MOST:
                rounds = STRATA_ROUNDS
        else:  # the paper's: every column
            part = rho * Fraction(1, rounds[0][0] * len(names)) * self.measured
            first = session.measure_all([((name,), part) for name in names])
            session.sharpen(names, min(rho * WIDE_SHARE, session.budget.remaining * Fraction(1, 2)))
            session.coarsen_with_weight(rho)
        schema, rows = session.table.schema, total_estimate(session.measurements)[0]
        if len(names) == 1 or not self._pairs_readable(schema, rho, rows):
            return Opening(first, names, levels, rho, 0, NOTHING)
        prices = [(rho * Fraction(1, n * len(names)), most * max(rows, 1.0)) for n, most in rounds]
        part = next(p for p, most in prices if pair_noise(schema, float(p), harmonic_mean) <= most)
        choices = max(int(session.budget.remaining.exact / part.exact), 1)
        return Opening(first, names, levels, rho, choices, part * self.measured)

    def _pairs_readable(self, schema: Schema, rho: Rho, rows: float) -> bool:
        """See `readable`. Post-processing."""
        bounds = (mean, self.readable), (harmonic_mean, min(self.readable, NARROW_READABLE))
        return any(pairs_readable(schema, rho, rows, most, average) for average, most in bounds)

    def weights_of(self, names: Sequence[str]) -> dict[Columns, float]:
        """The downward closure of the workload on these columns, and the weight w_r = Σ_s c_s·|r ∩ s| of each set r."""
        workload = self.workload or all_sets(names, self.degree, self.target)
        sets: dict[Columns, float] = {}
        for columns, weight in workload.items():
            inside = tuple(name for name in names if name in columns)
            sets[inside] = sets.get(inside, 0.0) + weight
        closure = {part for s in sets for size in range(1, len(s) + 1) for part in combinations(s, size)}
        order = {name: place for place, name in enumerate(names)}
        ranked = sorted(closure, key=lambda part: (len(part), [order[name] for name in part]))
        return {r: float(sum(c * len(set(r).intersection(s)) for s, c in sets.items())) for r in ranked}

    def sets_readable(self, session: Session) -> bool:
        """Whether a pair is so clear that a set of more columns may weigh more (docs/experiments/selection.md).

        Its noise floor is to be at most SETS_READABLE of the rows at the price of the paper's first rounds.
        Post-processing.
        """
        rows = total_estimate(session.measurements)[0]
        return self.sets_clear(session.table.schema, float(session.budget.total), rows)

    def sets_clear(self, schema: Schema, rho: float, rows: float) -> bool:
        """The same of a run that spends `rho` on so many rows."""
        part = rho / (ROUNDS * len(schema.names))
        return pair_noise(schema, part, harmonic_mean) <= SETS_READABLE * rows

    def candidates_of(self, schema: Schema, noisy: bool = False) -> dict[Columns, float]:
        """What may be measured after the first marginals, and the weight of each.

        The workload is over all columns and, within strata, over the others. If only marginals within strata may be
        measured, it is the second alone, and every candidate holds all stratum columns. Otherwise no candidate weighs
        more than those of `degree` columns: scores count over the largest weight, so heavier ones within strata would
        blunt the choice among all.

        Args:
            noisy: whether no candidate may weigh more than a pair that does not hold all stratum columns. A set of
                three columns, two of which depend on each other, says no more than these two. With strata and many
                other columns (`Levels.many`) it weighs less: there are so many more pairs to buy first.
        """
        names = varying(schema, schema.names)
        if not (self.strata and self.levels.fine):
            found = self.weights_of(names)
            return _capped(found, 2) if noisy else found
        strata, inner = self.strata, varying(schema, self.levels.inner(schema))
        within: dict[Columns, float] = {}
        for columns, weight in (self.workload or all_sets(inner, self.degree, self.target)).items():
            cut = at_level(schema, columns, strata)
            within[cut] = within.get(cut, 0.0) + weight
        if not self.levels.coarse:
            found = replace(self, workload=within).weights_of(schema.names)
            found = {columns: weight for columns, weight in found.items() if set(strata) < set(columns)}
            return _capped(found, len(strata) + 2) if noisy else found
        both = dict(self.workload or all_sets(names, self.degree, self.target))
        for columns, weight in within.items():
            both[columns] = both.get(columns, 0.0) + self.within * weight
        found = replace(self, workload=both).weights_of(schema.names)
        if not noisy:
            return _capped(found, self.degree)
        less = min(self.levels.many / max(len(inner), 1), 1.0)
        return {c: weight * (less if len(c) > 2 else 1.0) for c, weight in _capped(found, 2, strata).items()}

    def larger_sets(self, schema: Schema, price: float | None = None, rows: float = 0.0) -> list[Columns]:
        """Sets of more than `degree` narrow columns, up to LARGEST_SET, that are offered now and then besides.

        Of a parity of several columns smaller sets show nothing. There are none where more than MOST_NARROW columns are
        narrow, and none with a noise floor above SET_NOISE of the rows.

        Args:
            price: ρ of one, that of the first rounds; None to leave noise out.
        """
        names = [name for name in varying(schema, schema.names) if schema[name].size <= NARROW]
        if self.workload or self.degree < DEGREE or len(names) > MOST_NARROW or not self.levels.coarse:
            return []
        sets = (s for size in range(self.degree + 1, LARGEST_SET + 1) for s in combinations(names, size))
        if price is None:
            return list(sets)
        most = SET_NOISE * rows / noise_floor(price, 1)
        return [s for s in sets if prod(schema[name].size for name in s) <= most]


def _capped(weights: Mapping[Columns, float], most: int, strata: Columns = ()) -> dict[Columns, float]:
    """No weight above those of sets of at most so many columns that do not hold all of these."""
    few = [columns for columns in weights if len(columns) <= most and not (strata and set(strata) <= set(columns))]
    heaviest = max((weights[columns] for columns in few), default=inf)
    return {columns: min(weight, heaviest) for columns, weight in weights.items()}
