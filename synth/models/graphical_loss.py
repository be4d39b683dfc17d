"""The loss of a graphical model against noisy marginals, and its gradient, where models are held to another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import PUBLIC_SIGMA
from equistrata.synth.models.graphical import Layout
from equistrata.synth.models.projection import cell_map
from equistrata.synth.models.shared_sums import Additions, SharedSums, factors_of

LEAST = 1e-300  # probability, where a logarithm is taken


@dataclass(frozen=True, eq=False)
class GraphicalLoss:
    """The loss over the concatenated clique marginals p: ½ Σ weights·(select @ sums of p − answers)².

    And, where it is `held_to` a model μ₀, that much of the divergence from it. Every step tilts by what is measured, so
    log(μ/μ₀) is a linear function of the cells of measurements, less log Σ μ₀·tilts: its coefficients, the natural
    parameters, are few, and no logarithm of the tables is needed. A fit that starts elsewhere has one more, the share
    of log(start/μ₀) that is left.

    Attributes:
        tables: the number of cliques.
        steepness: a bound on how fast the gradient can turn, relative to the entropy.
        hold: the divergence's weight.
        apart: log(start/μ₀) of all cliques' P(clique | separator); nothing where a fit starts at μ₀.
    """

    sums: SharedSums
    select: Additions
    answers: Floats
    weights: Floats
    steepness: float
    tables: int
    hold: float = 0.0
    apart: Floats | None = None

    @classmethod
    def of(cls, schema: Schema, layout: Layout, measurements: Sequence[Measurement], total: float) -> GraphicalLoss:
        """Lay out measurements of cliques that fit into the tree. Those of no column say nothing of shares."""
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
            assert home is not None  # the tree was built on the measured cliques
            covered += prod(tree.sizes[v] for v in tree.cliques[home])
        select = Additions.of(entries, (height, sums.cells))
        pulls = np.concatenate(weights) ** 2
        steepness = float(pulls.max(initial=0.0)) * max(1.0, covered / max(tree.cells, 1))
        return cls(sums, select, np.concatenate(answers), pulls, steepness, len(tree.cliques))

    def held_to(self, towards: Floats, weight: float, start: Floats) -> GraphicalLoss:
        """The problem with `weight` times the divergence from a model of these tables, to be begun at `start`."""
        apart = None if start is towards else _logarithms(start) - _logarithms(towards)
        return replace(self, hold=weight, steepness=self.steepness + weight, apart=apart)

    @property
    def start(self) -> Floats:
        """The natural parameters of where a fit starts: by measured cell, and the share of `apart`, if any."""
        return np.concatenate([np.zeros(len(self.answers)), np.ones(int(self.apart is not None))])

    def tilted(self, tables: Floats, natural: Floats, out: Floats) -> tuple[Floats, float]:
        """Clique tables, multiplied by what these natural parameters add to log(μ/μ₀); see `SharedSums.tilted`."""
        result, smaller = self.sums.tilted(tables, self.select.up(natural[: len(self.answers)]), out)
        if self.apart is not None:
            factors, most = factors_of(natural[-1] * self.apart)
            result *= factors
            smaller += most * self.tables
        return result, smaller

    def down(self, marginals: Floats) -> Floats:
        """The expectations that go with natural parameters (the transpose of `tilted`), of the clique marginals."""
        found = self.select.down(self.sums.down(marginals))
        return found if self.apart is None else np.append(found, self.apart @ marginals)

    def loss(self, found: Floats, natural: Floats, log_mass: float) -> tuple[float, Floats]:
        """The loss, and its gradient with respect to the clique marginals as natural parameters (see `tilted`).

        Args:
            found: the model's expectations (see `down`).
            natural: its natural parameters.
            log_mass: log of the mass of μ₀ tilted by them.
        """
        gap = found[: len(self.answers)] - self.answers
        pull = self.weights * gap
        loss = float(0.5 * pull @ gap)
        gradient = pull if self.apart is None else np.append(pull, 0.0)
        if self.hold:
            loss, gradient = loss + self.hold * float(natural @ found - log_mass), gradient + self.hold * natural
        return loss, gradient


def _logarithms(tables: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(tables, LEAST)))
