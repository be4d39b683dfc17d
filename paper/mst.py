"""MST as published: 1-way marginals, followed by a privately chosen maximum spanning tree of 2-way marginals.

The algorithm is from [1]_, section 3 and algorithms 1 and 2. There are two corrections of errors in other
implementations. First, merged rare values keep their mass, because the sum of the values is measured and the 1-way
measurement of every value is kept. Second, the L1 score is computed entrywise. `equistrata.synth.mechanisms.mst` has a
smaller error at every ε that we tried. This version is for the reproduction of the stratification paper.

References
----------
.. [1] McKenna, Miklau and Sheldon, Winning the NIST Contest, arXiv:2108.04978.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement, Merging, total_estimate
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.base import Model, Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.noise_floors import pairs_readable

Edge = tuple[str, str]


@dataclass(frozen=True)
class PaperMST(Mechanism):
    """The MST mechanism of the paper.

    Attributes
    ----------
    shares : tuple of float
        The parts of ρ for the 1-way marginals, for the choice of the tree, and for its 2-way marginals.
    rare : float
        A value is rare if its noisy count is less than this many σ. Rare values are merged before pairs are measured.
    readable : float
        The largest acceptable noise in pairs, as a fraction of the estimated number of rows. The noise is the expected
        L1 norm, averaged over all pairs. If it is larger, then no pairs are chosen and all of ρ is used for the 1-way
        marginals.
    engine : Estimator
        The estimator that fits a model to the measurements.
    """

    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    rare: float = 3.0
    readable: float = 0.5
    engine: Estimator = field(default_factory=lambda: MirrorDescent(tolerance=1e-5))

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return "MST"

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure a table.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement
            Measurements that were made before.

        Returns
        -------
        list of Measurement
            The measurements.

        Notes ----- The cost is `rho` in zCDP under adding or removing one row. The 1-way marginals have Gaussian noise
        at sensitivity 1. The rare values, and the decision to measure pairs, only depend on noisy numbers. There are d
        − 1 choices, and each of them scores pairs by ‖true − model‖₁ at sensitivity 1, where the model is fitted to
        noisy numbers (`equistrata.synth.mechanisms.session.marginal_score`). The pairs have Gaussian noise as well. By
        adaptive composition, the total cost of all steps is ρ. The budget raises an error if it would be exceeded.
        """
        session = Session(table, rho, noise, known)
        names = table.schema.names
        single_rho, choice_rho, pair_rho = rho.split(self.shares)
        first = [((name,), price) for name, price in zip(names, single_rho.split([1] * len(names)), strict=True)]
        for columns, price in first:
            session.measure(columns, price)
        rows = total_estimate(session.measurements)[0]
        if len(names) == 1 or not pairs_readable(table.schema, pair_rho, rows, self.readable):
            session.measure_again(first)
            return session.measurements
        model = self.engine.estimate(table.schema, session.measurements)
        edges = _choose_tree(session, model, choice_rho)
        groups = {name: self._rare_groups(name, session.measurements) for name in names}
        for (edge, paid), share in zip(edges, pair_rho.split([1] * len(edges)), strict=True):
            session.measure(edge, share, paid, [groups[name] for name in edge])
        return session.measurements

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Tilting:
        """Fit a model. See `Mechanism.model`."""
        return self.engine.estimate(schema, measurements)

    def _rare_groups(self, name: str, measurements: Iterable[Measurement]) -> Merging:
        """Return the group of each code, with all rare values in one group, or None if there are fewer than two."""
        single = next(m for m in measurements if m.columns == (name,))
        rare = single.values < self.rare * single.sigma
        if rare.sum() < 2:
            return None
        common = np.cumsum(~rare) - 1
        return tuple(np.where(rare, int((~rare).sum()), common).tolist())


def _choose_tree(session: Session, model: Model, rho: Rho) -> list[tuple[Edge, Rho]]:
    """Choose a spanning tree of columns, and return its edges with their costs.

    The edges are chosen one at a time by the exponential mechanism, in the order of Kruskal's algorithm.
    """
    names = session.table.schema.names
    score = cache(lambda edge: session.score(edge, model))
    part = {name: name for name in names}
    edges: list[tuple[Edge, Rho]] = []
    for price in rho.split([1] * (len(names) - 1)):
        options = [edge for edge in combinations(names, 2) if part[edge[0]] != part[edge[1]]]
        edge = options[session.choose(partial(_scores, score, options), price)]
        edges.append((edge, price))
        part = {name: part[edge[1]] if root == part[edge[0]] else root for name, root in part.items()}
    return edges


def _scores(score: Callable[[Edge], float], options: Sequence[Edge]) -> Floats:
    return np.array([score(edge) for edge in options])
