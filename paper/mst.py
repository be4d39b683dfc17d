"""MST as published: 1-way marginals, then one privately chosen maximum spanning tree of 2-way marginals.

McKenna, Miklau and Sheldon, "Winning the NIST Contest" (arXiv:2108.04978), section 3 and algorithms 1 and 2, with two
corrections of what implementations have lost: merged rare values keep their mass (their measurement is of the sum,
and the 1-way measurement of every single value stays), and the L1 score is entrywise. `equistrata.synth.mechanisms.mst`
has less error at every ε that we tried; this one is for the stratification paper's reproduction.
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
    """The paper's MST.

    Attributes:
        shares: parts of ρ for the 1-way marginals, the choice of the tree, and its 2-way marginals.
        rare: values whose noisy count is under this many σ are merged before pairs are measured.
        readable: pairs are chosen and measured only if the noise expected on a pair (mean L1 norm over pairs) is at
            most this fraction of the number of rows, as noisy numbers estimate it. Otherwise all of ρ goes to 1-way
            marginals.
        engine: how measurements become a model.
    """

    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    rare: float = 3.0
    readable: float = 0.5
    engine: Estimator = field(default_factory=lambda: MirrorDescent(tolerance=1e-5))

    @property
    def name(self) -> str:
        """MST."""
        return "MST"

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure a table. Costs `rho` in zCDP under adding or removing one row.

        Proof sketch: the 1-way marginals are Gaussian at sensitivity 1. Whether pairs are readable, and which values
        are rare, is decided from noisy numbers alone. Each of the d − 1 choices scores pairs by ‖true − model‖₁, with a
        model made from noisy numbers, at sensitivity 1 (`equistrata.synth.mechanisms.session.marginal_score`). The
        pairs are Gaussian again. All steps compose adaptively to ρ; the budget raises if they would pass it.
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
        """See `Mechanism.model`."""
        return self.engine.estimate(schema, measurements)

    def _rare_groups(self, name: str, measurements: Iterable[Measurement]) -> Merging:
        """Codes in groups: every common value alone, the rare ones together; None if there is nothing to merge."""
        single = next(m for m in measurements if m.columns == (name,))
        rare = single.values < self.rare * single.sigma
        if rare.sum() < 2:
            return None
        common = np.cumsum(~rare) - 1
        return tuple(np.where(rare, int((~rare).sum()), common).tolist())


def _choose_tree(session: Session, model: Model, rho: Rho) -> list[tuple[Edge, Rho]]:
    """A spanning tree of columns, one edge at a time by the exponential mechanism (Kruskal's order), with its price."""
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
