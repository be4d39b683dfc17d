"""A session that selects among weighted sets of columns and limits the size of the model."""

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
    """A session with a list of candidates that keeps track of the cliques of the model.

    Parameters
    ----------
    table : CodedTable
        The private rows.
    rho : Rho
        The budget in zCDP.
    noise : NoiseSource
        The source of the noise.
    known : sequence of Measurement
        Measurements of the same rows that are already paid for.
    size : float
        The maximum size of the model, in MiB of the tables of its junction tree. A round can use only a fraction of
        this size. It is the fraction of ρ that is spent at the end of the round, where both parts are counted from
        `begun`.
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
        """Set the candidates and their weights.

        Parameters
        ----------
        weights : mapping of tuple of str to float
            The weight of each candidate.
        seldom : sequence of tuple of str, default=()
            Further candidates, which have the largest weight. Their number is large and each of them takes time to
            score. Therefore, they are only offered at the 1st, 2nd, 4th, 8th, … selection, and directly after the
            selection of such a candidate. A candidate that was selected is always offered afterwards.
        """
        index, self.seldom = self.table.schema.index, frozenset(seldom) - weights.keys()
        most = max(weights.values(), default=1.0)
        weights = {**weights, **dict.fromkeys((each for each in seldom if each in self.seldom), most)}
        self.weights = weights
        self.places: dict[Columns, Clique] = {columns: tuple(sorted(map(index, columns))) for columns in weights}

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Merging] = ()
    ) -> Measurement:
        """See `Session.measure`. The cliques of the model are also updated."""
        noisy = super().measure(columns, price, selection, groups)
        self.cliques.update(model_cliques(self.table.schema, [noisy]))
        self.cells = tree_cells(self.table.schema.sizes, self.cliques)
        return noisy

    def coarsen(self, rho: Rho, kept: Columns = ()) -> None:
        """See `Session.coarsen`. The number of cells of the model is also updated."""
        super().coarsen(rho, kept)
        self.cells = tree_cells(self.table.schema.sizes, self.cliques)

    def pick(self, model: Model, measure_rho: Rho, select_rho: Rho) -> Columns:
        """Select the next marginal to measure among the candidates that keep the model small enough.

        Parameters
        ----------
        model : Model
            The current model.
        measure_rho : Rho
            The ρ of the next measurement.
        select_rho : Rho
            The ρ of the selection.

        Returns
        -------
        tuple of str
            The columns of the selected marginal.

        Privacy
        -------
        The selection costs `select_rho` in zCDP.
        """
        used = self.budget.spent + select_rho + measure_rho - self.begun
        most_cells = cells_in(self.size) * float(used.exact / (self.budget.total - self.begun).exact)
        candidates = self.candidates(most_cells)
        scores = partial(self.scores, candidates, model, gaussian_sigma(measure_rho))
        picked = candidates[self.choose(scores, select_rho)]
        self.picks, self.again = self.picks + 1, picked in self.seldom
        self.seldom -= {picked}  # it stays a candidate because a later measurement at a higher price is more precise
        return picked

    def candidates(self, most_cells: float) -> list[Columns]:
        """Return the candidates for which the model has at most `most_cells` cells, or does not grow."""
        sizes, limit = self.table.schema.sizes, max(most_cells, self.cells)
        every = not (self.picks + 1) & self.picks or self.again

        def fits(clique: Clique) -> bool:
            if any(set(clique).issubset(other) for other in self.cliques):
                return True
            return prod(sizes[v] for v in clique) <= limit and tree_cells(sizes, [*self.cliques, clique]) <= limit

        offered = self.places.items() if every else ((c, v) for c, v in self.places.items() if c not in self.seldom)
        return [columns for columns, clique in offered if fits(clique)]

    def scores(self, candidates: Sequence[Columns], model: Model, sigma: float) -> Floats:
        """See `Session.scores`. The scores are multiplied by the weights of the candidates."""
        return weighed(super().scores(candidates, model, sigma), np.array([self.weights[each] for each in candidates]))
