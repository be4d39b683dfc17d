"""AIM: rounds of choosing the worst-explained marginal of a workload, measuring it, and estimating again.

McKenna, Mullins, Sheldon and Miklau, "AIM: An Adaptive and Iterative Mechanism for Differentially Private Synthetic
Data" (arXiv:2201.12677), algorithms 2 and 3, with two differences. The size limit counts every cell of the junction
tree, structural zeros included, and is never passed. A table too small for marginals of two columns, as paid-for
numbers say, spends all of ρ on single columns, as our MST does.

With `levels`, marginals may be measured within strata as well as over all rows, and one choice serves all strata; see
`equistrata.synth.mechanisms.levels`.

>>> AIM().weights_of(("A", "B", "C", "D"))[("A",)], AIM().weights_of(("A", "B", "C", "D"))[("A", "B")]
(3.0, 6.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import inf, prod

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import NOISE_L1, Groups, Measurement, pair_noise, pairs_readable, total_estimate
from equistrata.synth.mechanisms.books import NOTHING, Books, Columns, Step, weighed
from equistrata.synth.mechanisms.levels import Levels, at_level, ties
from equistrata.synth.models.estimation import Estimator, MirrorDescent, model_cliques
from equistrata.synth.models.graphical import GraphicalModel
from equistrata.synth.models.junction_tree import CELL_BYTES, Clique, cells_in, tree_cells

ROUNDS = 16  # times the number of columns: the parts of ρ of which each of the first rounds gets one
# The same with levels, and the noise on a pair, in parts of the rows, that first rounds may have at that price.
LEVEL_ROUNDS = ((ROUNDS, 0.004), (4, 0.1), (1, inf))


@dataclass(frozen=True)
class AIM:
    """The AIM synthesizer.

    Attributes:
        degree: the workload is every set of so many columns, each with weight one.
        workload: sets of columns and their weights, instead of that. Columns that a table lacks (those that define
            its stratum) are left out of its sets.
        levels: at which levels of strata marginals may be measured; None for the paper's AIM.
        within: with levels, the weight in the workload of every set of `degree` columns within strata.
        max_model_size: the largest model, in MiB of its junction tree's tables.
        rounds: the first rounds' share of ρ is one part in `rounds` times the number of columns; None for the paper's 16, or,
            with levels, 16, 4 or 1, the fewer the more a pair's noise would be of the rows (LEVEL_ROUNDS).
        measured: the part of a round's ρ that its measurement gets; its choice gets the rest.
        readable: rounds are run only if the noise expected on a pair of columns, if all of ρ went to a tree of pairs
            (mean L1 norm), is at most this fraction of the number of rows, as paid-for numbers estimate it.
        engine: how measurements become the final model.
        round_engine: the same after each round.
    """

    degree: int = 3
    workload: Mapping[Columns, float] | None = None
    levels: Levels | None = None
    within: float = 0.05
    max_model_size: float = 1.0
    rounds: int | None = None
    measured: float = 0.9
    readable: float = 0.2
    engine: Estimator = field(default_factory=lambda: MirrorDescent(tolerance=3e-4))
    round_engine: Estimator = field(default_factory=lambda: MirrorDescent(iterations=100, tolerance=1e-4))

    def __post_init__(self) -> None:
        if (
            self.degree < 1
            or (self.rounds is not None and self.rounds < 1)
            or not self.max_model_size > 0
            or not 0 < self.measured < 1
        ):
            raise ValueError("AIM needs a degree and rounds of at least 1, a positive size, and 0 < measured < 1")
        if any(not weight > 0 for weight in (self.workload or {}).values()):
            raise ValueError("the weights of a workload must be positive")

    @property
    def name(self) -> str:
        """AIM."""
        return "AIM"

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure a table. Costs `rho` in zCDP; neighbours differ by one added or removed row. See `measure_with_log`."""
        return self.measure_with_log(table, rho, noise, known)[0]

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure a table, and say what each step cost. Costs `rho` in zCDP under adding or removing one row.

        Proof sketch: what may be chosen in a round follows from the schema, from former choices and from budgets, so
        it is public. A score is w_r·(‖true − model‖₁ − √(2/π)·σ·cells), over the largest w_r among the candidates; the model
        is made from noisy numbers, and weights are public, so scores have sensitivity 1 (`equistrata.synth.mechanisms.books`), and the exponential
        mechanism at ε = √(8ρ') costs ρ' (scores are not monotone, hence twice the sensitivity). A measurement is Gaussian at
        sensitivity 1. Whether to anneal, whether pairs are readable and what a first round costs is decided from noisy
        numbers. All steps compose adaptively; the budget object raises if they would pass ρ, and the last round spends
        what is left.

        Returns:
            The measurements, `known` first, and one Step for each of the others, whose amounts add up to `rho`.

        Raises:
            InputError: the columns and structural zeros alone need more than `max_model_size`.

        Source: arXiv:2201.12677, algorithms 2 and 3.
        """
        run = _Run(self, table, rho, noise, known)
        if run.cells > self._most_cells:
            raise InputError(
                f"a model of {', '.join(table.schema.names)} needs {run.cells * CELL_BYTES / 2**20:.3g} MiB before "
                f"anything is measured together, but max_model_size is {self.max_model_size:g}; raise it, or use "
                "fewer columns, coarser bins, or fewer impossible combinations that tie columns together"
            )
        names = table.schema.names
        prices = [(rho * Fraction(1, n * len(names)), noise) for n, noise in self._first_rounds]
        if self.levels is not None:
            first = self.levels.measure_first(table.schema, rho, run.measurements, run.measure)
        else:
            first = [((name,), prices[0][0] * self.measured) for name in names]
            for columns, share in first:
                run.measure(columns, share)
        rows = total_estimate(run.measurements)[0]
        if len(names) == 1 or not run.places or not pairs_readable(table.schema, rho, rows, self.readable):
            run.measure_again(first)
            return run.measurements, run.log
        run.begin_rounds()
        part = next(p for p, noise in prices if pair_noise(table.schema, float(p)) <= noise * max(rows, 1.0))
        measure_rho = part * self.measured
        select_rho = part - measure_rho
        model = self.round_engine.estimate(table.schema, run.measurements)
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
            model = self.round_engine.estimate(table.schema, run.measurements, model)
            learned = float(np.abs(model.marginal(columns) - before).sum())
            if learned <= NOISE_L1 * noisy.sigma * noisy.values.size:
                measure_rho, select_rho = measure_rho * 4, select_rho * 4
        return run.measurements, run.log

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> GraphicalModel:
        """See `Mechanism.model`."""
        return self.engine.estimate(schema, measurements)

    def weights_of(self, names: Sequence[str]) -> dict[Columns, float]:
        """The downward closure of the workload on these columns, and the weight w_r = Σ_s c_s·|r ∩ s| of each set r."""
        workload = self.workload or _all_sets(names, self.degree)
        sets: dict[Columns, float] = {}
        for columns, weight in workload.items():
            inside = tuple(name for name in names if name in columns)
            sets[inside] = sets.get(inside, 0.0) + weight
        closure = {part for s in sets for size in range(1, len(s) + 1) for part in combinations(s, size)}
        order = {name: place for place, name in enumerate(names)}
        ranked = sorted(closure, key=lambda part: (len(part), [order[name] for name in part]))
        return {r: float(sum(c * len(set(r).intersection(s)) for s, c in sets.items())) for r in ranked}

    def candidates_of(self, schema: Schema) -> dict[Columns, float]:
        """What may be measured after the first marginals, and the weight of each: `weights_of` without levels.

        With levels, the workload is over all columns, stratum columns among them, and within strata over the others; if
        only marginals within strata may be measured, it is the second alone, and every candidate holds all stratum columns.
        Else no candidate weighs more than those of `degree` columns: scores count over the largest weight, so heavier
        ones within strata would blunt the choice among all (to 0.36 of its price, for two stratum columns).
        """
        if self.levels is None or not self.levels.fine:
            return self.weights_of(schema.names)
        strata, inner = self.levels.strata, self.levels.inner(schema)
        within: dict[Columns, float] = {}
        for columns, weight in (self.workload or _all_sets(inner, self.degree)).items():
            cut = at_level(schema, columns, strata)
            within[cut] = within.get(cut, 0.0) + weight
        if not self.levels.coarse:
            found = replace(self, workload=within).weights_of(schema.names)
            return {columns: weight for columns, weight in found.items() if set(strata) < set(columns)}
        both = dict(self.workload or _all_sets(schema.names, self.degree))
        for columns, weight in within.items():
            both[columns] = both.get(columns, 0.0) + self.within * weight
        found = replace(self, workload=both).weights_of(schema.names)
        heaviest = max(weight for columns, weight in found.items() if len(columns) <= self.degree)
        return {columns: min(weight, heaviest) for columns, weight in found.items()}

    @property
    def _first_rounds(self) -> tuple[tuple[int, float], ...]:
        """What first rounds may cost, as in LEVEL_ROUNDS."""
        if self.levels is not None and self.rounds is None:
            return LEVEL_ROUNDS
        return ((self.rounds or ROUNDS, inf),)

    @property
    def _most_cells(self) -> float:
        return cells_in(self.max_model_size)


def _all_sets(names: Sequence[str], degree: int) -> dict[Columns, float]:
    """Every set of so many of these columns (of all, if there are fewer), with weight one."""
    return dict.fromkeys(combinations(names, min(degree, len(names))), 1.0)


class _Run(Books):
    """One run's books, and which cliques the model has."""

    def __init__(self, aim: AIM, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement]) -> None:
        super().__init__(table, rho, noise, known, distinct=True)
        self.aim = aim
        schema = table.schema
        self.weights = aim.candidates_of(schema)
        self.places: dict[Columns, Clique] = {
            columns: tuple(sorted(schema.index(name) for name in columns)) for columns in self.weights
        }
        self.cliques = set(model_cliques(schema, known))
        if aim.levels is not None:
            self.cliques |= {tuple(map(schema.index, columns)) for columns in ties(schema, aim.levels.strata)}
        self.cells = tree_cells(schema.sizes, self.cliques)
        self.begun = NOTHING

    def begin_rounds(self) -> None:
        """From here on the size limit grows: with levels, much is spent before, and nothing of it on cliques."""
        if self.aim.levels is not None:
            self.begun = self.budget.spent

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Groups] = ()
    ) -> Measurement:
        """See `Books.measure`; and the model grows by it."""
        noisy = super().measure(columns, price, selection, groups)
        self.cliques.update(model_cliques(self.table.schema, [noisy]))
        self.cells = tree_cells(self.table.schema.sizes, self.cliques)
        return noisy

    def pick(self, model: GraphicalModel, measure_rho: Rho, select_rho: Rho) -> Columns:
        """Choose what is worth measuring next, at `select_rho`."""
        used = self.budget.spent + select_rho + measure_rho - self.begun
        candidates = self.candidates(self.aim._most_cells * float(used.exact / (self.budget.total - self.begun).exact))
        return candidates[self.choose(lambda: self.scores(candidates, model, gaussian_sigma(measure_rho)), select_rho)]

    def candidates(self, most_cells: float) -> list[Columns]:
        """The sets of the closure whose model has at most so many cells, or no more than the model has already."""
        sizes, limit = self.table.schema.sizes, max(most_cells, self.cells)
        allowed = []
        for columns, clique in self.places.items():
            if any(set(clique).issubset(other) for other in self.cliques) or (
                prod(sizes[v] for v in clique) <= limit and tree_cells(sizes, [*self.cliques, clique]) <= limit
            ):
                allowed.append(columns)
        return allowed

    def scores(self, candidates: Sequence[Columns], model: GraphicalModel, sigma: float) -> Floats:
        """How badly the model explains each candidate, beyond the noise that measuring it would have, weighed."""
        scores = np.array([self.score(columns, model, sigma) for columns in candidates])
        return weighed(scores, np.array([self.weights[columns] for columns in candidates]))
