"""The AIM mechanism.

In each round, AIM selects the marginal of a workload that the model explains worst, measures it, and estimates the
model again.

The implementation follows algorithms 2 and 3 of McKenna, Mullins, Sheldon and Miklau, "AIM: An Adaptive and Iterative
Mechanism for Differentially Private Synthetic Data" (arXiv:2201.12677). There are three differences from the paper:

- The size limit counts every cell of the junction tree, including structural zeros, and is never exceeded.
- If a table is too small for marginals of two columns, all of ρ is spent on single columns. This decision is based on
  noisy numbers.
- If pairs are noisy, no candidate has a larger weight than a pair.

If there are strata, marginals can be measured within strata as well as over all rows. One selection serves all strata
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
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, join_level_columns, total_estimate, varying
from equistrata.synth.mechanisms.base import Opening, SharingMechanism
from equistrata.synth.mechanisms.candidates import CandidateSession
from equistrata.synth.mechanisms.levels import DEGREE, WIDE_SHARE, Levels, largest_share
from equistrata.synth.mechanisms.session import NOTHING, Session, Step
from equistrata.synth.mechanisms.workload import all_sets
from equistrata.synth.models.estimation import Estimator, MirrorDescent, few, model_cliques
from equistrata.synth.models.junction_tree import CELL_BYTES, cells_in, tree_cells
from equistrata.synth.noise_floors import noise_floor, pair_noise, pairs_readable

ROUNDS = 16  # each of the first rounds gets the fraction 1 / (ROUNDS × number of columns) of ρ
# The same number with strata. Each number is used up to a maximum noise floor of a pair, as a fraction of the rows. The
# noise floor is a harmonic mean, so that a few wide columns do not decide (docs/experiments/selection.md).
STRATA_ROUNDS = ((ROUNDS, 0.0025), (4, 0.065), (1, inf))
NARROW_READABLE = 0.11  # see `AIM.readable`
MODEL_SIZE, STRATA_MODEL_SIZE = 1.0, 8.0  # MiB
# The maximum noise floor of a pair at which larger sets have larger weights, as a fraction of the rows. See
# `AIM.sets_readable`.
SETS_READABLE = 0.02
# The numbers of columns that do not define strata for `Levels.many` and `Levels.most`.
MANY, MOST = 14, 20
# The limits of `AIM.larger_sets`: the number of codes of a narrow column, the number of narrow columns, the number of
# columns of a set, and the noise floor of a set as a fraction of the rows.
NARROW, MOST_NARROW, LARGEST_SET, SET_NOISE = 4, 20, 5, 0.5


@dataclass(frozen=True)
class AIM(SharingMechanism):
    """The AIM synthesizer.

    Parameters
    ----------
    degree : int, default=3
        The number of columns of each set in the default workload. The workload is every set of this size, each with
        weight 1.
    workload : mapping of tuple of str to float or None, default=None
        Sets of columns and their weights, which replace the default workload. Columns that the table does not have,
        such as the columns that define its stratum, are removed from the sets.
    target : str or None, default=None
        The column that is most important. Sets with this column have half of the total weight. It is used only if
        `workload` is None.
    levels : Levels
        The strata, and the levels at which marginals can be measured. Without strata, the mechanism is the AIM of the
        paper.
    within : float, default=0.05
        The weight of every set of `degree` columns within strata, if there are strata.
    max_model_size : float or None, default=None
        The maximum size of the model, in MiB of the tables of its junction tree. If None, it is 1, or 8 if there are
        strata.
    rounds : int or None, default=None
        The price of the first rounds, each of which gets the fraction 1 / (`rounds` × number of columns) of ρ.
        If None, it is 16, as in the paper. If there are strata and not too many columns, it is 16, 4 or 1, and
        decreases with the noise floor of a pair (`STRATA_ROUNDS`).
    measured : float, default=0.9
        The fraction of the ρ of a round that is spent on its measurement. The rest is spent on its selection.
    readable : float, default=0.2
        The maximum noise floor of a pair of columns, as a fraction of the number of rows. Rounds are run only if the
        noise floor is at most this fraction. The noise floor is the mean over pairs of the expected L1 norm of the
        noise if all of ρ were spent on a tree of pairs. Rounds are also run if the harmonic mean is at most
        `NARROW_READABLE` of the rows, so that a few wide columns do not decide.
    engine : Estimator
        The engine that estimates the final model.
    round_engine : Estimator or None, default=None
        The engine that estimates the model after each round. If None, it is mirror descent with at most 50 steps, or
        100 steps if columns were measured within strata, because 50 steps are then less accurate.

    Raises
    ------
    InputError
        If a setting has an invalid value.
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
            raise InputError("AIM needs degree and rounds of at least 1, max_model_size above 0, and 0 < measured < 1")
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
        """See `SharingMechanism.with_levels`.

        A shared selection is also better for large strata, so `each` has no effect (docs/experiments/levels.md).
        """
        alone = self.measured / ROUNDS
        levels = Levels(strata, coarse, fine, largest=largest_share(), many=MANY, most=MOST, alone=alone)
        return replace(self, levels=levels)

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure the first marginals, and then run rounds that select, measure and estimate.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost in zCDP. All of it is spent.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        measurements : list of Measurement
            The known measurements and the new measurements.
        log : list of Step
            The steps of the run, which add up to `rho`.

        Raises
        ------
        InputError
            If the columns and the structural zeros alone need more than `max_model_size`.

        Privacy
        -------
        The new measurements are `rho`-zCDP. Neighbouring tables differ by one added or removed row. See
        docs/proofs/aim.md.

        References
        ----------
        .. [1] McKenna, Mullins, Sheldon and Miklau, arXiv:2201.12677, algorithms 2 and 3.
        """
        run = CandidateSession(table, rho, noise, known, self.model_size)
        bare = tree_cells(
            table.schema.sizes, model_cliques(table.schema, run.measurements, self.levels.tied(table.schema))
        )
        if bare > cells_in(self.model_size):
            needed = f"{bare * CELL_BYTES / 2**20:.3g} MiB even without any measured pair"
            raise InputError(
                f"a model of {few(table.schema.names)} needs {needed}, but max_model_size is {self.model_size:g}; "
                "raise max_model_size, or use fewer columns, coarser bins or fewer impossible combinations"
            )
        opening, schema = self.opening(run), run.table.schema
        if opening.choices:
            aim = replace(self, levels=opening.levels)
            weights, rows = aim.candidates_of(schema, not self.sets_readable(run)), total_estimate(run.measurements)[0]
            run.offer(weights, aim.larger_sets(schema, float(opening.price), rows))
        if not run.places:
            run.measure_again(opening.first)
            return run.found, run.log
        # With strata, much of ρ is spent at this point, but none of it on cliques. The size limit grows from here.
        if self.strata:
            run.begun = run.budget.spent
        measure_rho = opening.price
        select_rho = measure_rho * (1 / Fraction(self.measured) - 1)
        engine = replace(self, levels=opening.levels).round_estimator()
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

    def round_estimator(self) -> Estimator:
        """Return the engine that estimates the model after each round."""
        within = self.strata and self.levels.fine
        return self.round_engine or MirrorDescent(iterations=100 if within else 50, tolerance=1e-4)

    def opening(self, session: Session) -> Opening:
        """See `SharingMechanism.opening`.

        Every column is measured. If pairs can be measured with little noise, the price of the first rounds is then set.
        """
        rho, names = session.budget.total, session.table.schema.names
        rounds: Sequence[tuple[int, float]] = ((self.rounds or ROUNDS, inf),)
        levels = self.levels
        if self.strata:
            first = self.levels.measure_within(session, self.levels.measure_over_all(session))
            levels = self.levels.reached(session.measurements)
            if self.rounds is None and levels.fine and len(levels.inner(session.table.schema)) <= MOST:
                rounds = STRATA_ROUNDS
        else:  # as in the paper, every column is measured
            part = rho * Fraction(1, rounds[0][0] * len(names)) * self.measured
            first = session.measure_all([((name,), part) for name in names])
            session.remeasure_wide_columns(names, min(rho * WIDE_SHARE, session.budget.remaining * Fraction(1, 2)))
            session.coarsen_with_weight(rho)
        schema, rows = session.table.schema, total_estimate(session.measurements)[0]
        if len(names) == 1 or not self._pairs_readable(schema, rho, rows):
            return Opening(first, names, levels, rho, 0, NOTHING)
        prices = [(rho * Fraction(1, n * len(names)), most * max(rows, 1.0)) for n, most in rounds]
        part = next(p for p, most in prices if pair_noise(schema, float(p), harmonic_mean) <= most)
        choices = max(int(session.budget.remaining.exact / part.exact), 1)
        return Opening(first, names, levels, rho, choices, part * self.measured)

    def _pairs_readable(self, schema: Schema, rho: Rho, rows: float) -> bool:
        """Return True if the noise floor of a pair is low enough to run rounds (see `readable`)."""
        bounds = (mean, self.readable), (harmonic_mean, min(self.readable, NARROW_READABLE))
        return any(pairs_readable(schema, rho, rows, most, average) for average, most in bounds)

    def weights_of(self, names: Sequence[str]) -> dict[Columns, float]:
        """Compute the downward closure of the workload and its weights.

        The weight of a set r is w_r = Σ_s c_s·|r ∩ s|, where c_s is the weight of the set s in the workload.

        Parameters
        ----------
        names : sequence of str
            The columns to which the workload is restricted.

        Returns
        -------
        dict of tuple of str to float
            The weight of each set in the closure.
        """
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
        """Check if pairs are measured so precisely that larger sets may have larger weights than pairs.

        The noise floor of a pair must be at most `SETS_READABLE` of the rows at the price of the first rounds of the
        paper. The check is post-processing.

        Parameters
        ----------
        session : Session
            The session, which provides the schema, the budget and the measurements.

        Returns
        -------
        bool
            True if the noise floor is low enough.
        """
        rows = total_estimate(session.measurements)[0]
        return self.sets_readable_at_rho(session.table.schema, float(session.budget.total), rows)

    def sets_readable_at_rho(self, schema: Schema, rho: float, rows: float) -> bool:
        """Perform the check of `sets_readable` for a run that spends `rho` on the given number of rows."""
        part = rho / (ROUNDS * len(schema.names))
        return pair_noise(schema, part, harmonic_mean) <= SETS_READABLE * rows

    def candidates_of(self, schema: Schema, noisy: bool = False) -> dict[Columns, float]:
        """Return the sets of columns that can be measured after the first marginals, with their weights.

        The workload is over all columns. If there are strata, the workload within strata is added, which is over the
        other columns. If marginals can only be measured within strata, only the workload within strata is used. In this
        case, every candidate has all stratum columns. Otherwise, the weight of a candidate is at most the largest
        weight of a set of `degree` columns. The scores are divided by the largest weight, so larger weights within
        strata would make the selection less precise for all other candidates.

        Parameters
        ----------
        schema : Schema
            The schema of the table.
        noisy : bool, default=False
            If True, the weight of a candidate is at most the largest weight of a pair that does not have all stratum
            columns. A set of three columns contains no more information than a pair if only these two columns depend on
            each other. If there are strata and many other columns (`Levels.many`), the weights of sets of three or more
            columns are reduced, because there are many more pairs to measure first.

        Returns
        -------
        dict of tuple of str to float
            The weight of each candidate.
        """
        names = varying(schema, schema.names)
        if not (self.strata and self.levels.fine):
            found = self.weights_of(names)
            return _capped(found, 2) if noisy else found
        strata, inner = self.strata, varying(schema, self.levels.inner(schema))
        within: dict[Columns, float] = {}
        for columns, weight in (self.workload or all_sets(inner, self.degree, self.target)).items():
            cut = join_level_columns(schema, columns, strata)
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
        """Return sets of more than `degree` narrow columns that are offered occasionally.

        The sets have at most `LARGEST_SET` columns. They can contain a dependence that no smaller set shows, such as a
        parity of several columns. The list is empty if more than `MOST_NARROW` columns are narrow. A set is omitted if
        its noise floor is above `SET_NOISE` of the rows.

        Parameters
        ----------
        schema : Schema
            The schema of the table.
        price : float or None, default=None
            The ρ of one set in the first rounds. If None, the noise floor is ignored.
        rows : float, default=0.0
            The number of rows.

        Returns
        -------
        list of tuple of str
            The sets of columns.
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
    """Limit weights to the largest weight of the small sets.

    The small sets have at most `most` columns and do not have all stratum columns.
    """
    few = [columns for columns in weights if len(columns) <= most and not (strata and set(strata) <= set(columns))]
    heaviest = max((weights[columns] for columns in few), default=inf)
    return {columns: min(weight, heaviest) for columns, weight in weights.items()}
