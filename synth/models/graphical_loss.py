"""The loss of a graphical model on noisy marginals, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import PUBLIC_SIGMA
from equistrata.synth.models.graphical import Layout
from equistrata.synth.models.projection import cell_map
from equistrata.synth.models.shared_sums import CellSums, SharedSums


@dataclass(frozen=True, eq=False)
class GraphicalLoss:
    """The loss of the concatenated clique marginals p.

    The loss is ½ Σ weights·(select @ sums of p − answers)².

    Parameters
    ----------
    sums : SharedSums
        The sums from the clique marginals to the measured sets of columns.
    select : Additions
        The sums from these to the measured groups of codes.
    answers : ndarray
        The noisy counts, divided by the total.
    weights : ndarray
        The inverse variances of the answers.
    steepness : float
        A bound on the rate of change of the gradient, relative to the entropy.
    """

    sums: SharedSums
    select: CellSums
    answers: Floats
    weights: Floats
    steepness: float

    @classmethod
    def of(cls, schema: Schema, layout: Layout, measurements: Sequence[Measurement], total: float) -> GraphicalLoss:
        """Create the loss for measurements of sets of columns that are inside cliques of the tree.

        Measurements without columns are ignored because they contain no information about proportions.
        """
        tree = layout.tree
        measurements = [measurement for measurement in measurements if measurement.columns]
        measured = [tuple(schema.index(name) for name in measurement.columns) for measurement in measurements]
        sums = SharedSums.of(layout, [tuple(sorted(variables)) for variables in measured])
        entries: list[tuple[Indices, Indices]] = []
        answers, weights, height, covered = [np.zeros(0)], [np.zeros(0)], 0, 0
        for measurement, variables in zip(measurements, measured, strict=True):
            part = tuple(sorted(variables))
            cells = cell_map(tree.sizes, part, variables)
            group = measurement.group_index([tree.sizes[v] for v in variables])
            entries.append((group[cells] + height, np.arange(len(cells)) + sums.places[part]))
            answers.append(measurement.values.ravel() / total)
            sigmas = measurement.cell_sigma.ravel()
            weights.append(total / np.where(sigmas > 0, sigmas, PUBLIC_SIGMA))
            height += measurement.values.size
            home = tree.home(variables)
            assert home is not None  # because the tree was built from the measured cliques
            covered += prod(tree.sizes[v] for v in tree.cliques[home])
        select = CellSums.of(entries, (height, sums.cells))
        pulls = np.concatenate(weights) ** 2
        steepness = float(pulls.max(initial=0.0)) * max(1.0, covered / max(tree.cells, 1))
        return cls(sums, select, np.concatenate(answers), pulls, steepness)

    def tilted(self, tables: Floats, natural: Floats, out: Floats) -> Floats:
        """Multiply clique tables by factors, where the natural parameters are added to their logarithms (see
        `SharedSums`).
        """
        return self.sums.tilted(tables, self.select.up(natural), out)

    def down(self, marginals: Floats) -> Floats:
        """Compute the expectations of the clique marginals that correspond to the natural parameters.

        This is the transpose of `tilted`.
        """
        return self.select.down(self.sums.down(marginals))

    def loss(self, found: Floats) -> tuple[float, Floats]:
        """Compute the loss of some expectations (see `down`), and its gradient as natural parameters (see `tilted`)."""
        gap = found - self.answers
        pull = self.weights * gap
        return float(0.5 * pull @ gap), pull
