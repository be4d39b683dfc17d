"""A run that chooses among sets of columns with weights, as far as the model that they make stays small enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import Columns, Measurement, Merging
from equistrata.synth.mechanisms.session import NOTHING, Session, weighed
from equistrata.synth.models.base import Model
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import Clique, cells_in, tree_cells


class CandidateSession(Session):
    """A session that knows its candidates and which cliques the model has.

    Args:
        size: of the largest model, in MiB of its junction tree's tables. The part of it that a round may fill is that
            of ρ which is spent by then, from `begun` on.
    """

    def __init__(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement], size: float
    ) -> None:
        super().__init__(table, rho, noise, known, distinct=True)
        self.size, self.picks, self.again, self.seldom = size, 0, False, frozenset[Columns]()
        self.offer({})
        self.cliques = set(model_cliques(table.schema, self.measurements))
        self.cells = tree_cells(table.schema.sizes, self.cliques)
        self.begun = NOTHING

    def offer(self, weights: Mapping[Columns, float], seldom: Sequence[Columns] = ()) -> None:
        """Say what may be chosen, and the weight of each.

        Args:
            seldom: what may be chosen at the 1st, 2nd, 4th, 8th … choice alone, and after one of them was chosen: they
                are many, and take time. What was chosen stays on offer. Each has the largest weight.
        """
        index, self.seldom = self.table.schema.index, frozenset(seldom) - weights.keys()
        most = max(weights.values(), default=1.0)
        weights = {**weights, **dict.fromkeys((each for each in seldom if each in self.seldom), most)}
        self.weights = weights
        self.places: dict[Columns, Clique] = {columns: tuple(sorted(map(index, columns))) for columns in weights}

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Merging] = ()
    ) -> Measurement:
        """See `Session.measure`; and the model grows by it."""
        noisy = super().measure(columns, price, selection, groups)
        self.cliques.update(model_cliques(self.table.schema, [noisy]))
        self.cells = tree_cells(self.table.schema.sizes, self.cliques)
        return noisy

    def coarsen(self, rho: Rho, kept: Columns = ()) -> None:
        """See `Session.coarsen`; and the model shrinks."""
        super().coarsen(rho, kept)
        self.cells = tree_cells(self.table.schema.sizes, self.cliques)

    def pick(self, model: Model, measure_rho: Rho, select_rho: Rho) -> Columns:
        """Choose what to measure next among what keeps the model in bounds. Cost: `select_rho`."""
        used = self.budget.spent + select_rho + measure_rho - self.begun
        most_cells = cells_in(self.size) * float(used.exact / (self.budget.total - self.begun).exact)
        candidates = self.candidates(most_cells)
        scores = partial(self.scores, candidates, model, gaussian_sigma(measure_rho))
        picked = candidates[self.choose(scores, select_rho)]
        self.picks, self.again = self.picks + 1, picked in self.seldom
        self.seldom -= {picked}  # what it shows is clearer at a higher price
        return picked

    def candidates(self, most_cells: float) -> list[Columns]:
        """The sets on offer whose model has at most so many cells, or no more than the model has already."""
        sizes, limit = self.table.schema.sizes, max(most_cells, self.cells)
        every = not (self.picks + 1) & self.picks or self.again

        def fits(clique: Clique) -> bool:
            if any(set(clique).issubset(other) for other in self.cliques):
                return True
            return prod(sizes[v] for v in clique) <= limit and tree_cells(sizes, [*self.cliques, clique]) <= limit

        offered = self.places.items() if every else ((c, v) for c, v in self.places.items() if c not in self.seldom)
        return [columns for columns, clique in offered if fits(clique)]

    def scores(self, candidates: Sequence[Columns], model: Model, sigma: float) -> Floats:
        """See `Session.scores`; times the candidates' weights."""
        return weighed(super().scores(candidates, model, sigma), np.array([self.weights[each] for each in candidates]))
