"""AIM's last rounds as its release shows them: what was offered, what was chosen, and the model that it was chosen by.

A release publishes what was measured, in the order of it, with its noise. From the schema and these follow the model
before each round, the candidates, their weights and what the choice cost: the choice was private, and its outcome is
public. So how likely a choice was, if a candidate's table had been another one, is known too. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, sum_groups, total_estimate
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import Clique, cells_in, tree_cells


@dataclass(frozen=True, eq=False)
class Round:
    """One round.

    Attributes:
        chosen: what was measured, with merged codes.
        sigma: of its noise.
        scale: rows of a score that make a choice e times as likely.
        model: before it, over `coarse.schema`.
        weights: of all candidates, over the largest; where none of the largest was small enough to be offered, scores
            were higher than here.
        coarse: which codes are merged.
        cliques: of the model.
        most_cells: that the model may have.
    """

    chosen: Measurement
    sigma: float
    scale: float
    model: Model
    weights: Mapping[Columns, float]
    coarse: Coarsening
    cliques: Sequence[Clique]
    most_cells: float

    def offered(self, columns: Columns) -> bool:
        """Whether these columns might have been chosen: they are a candidate, and leave the model in bounds."""
        schema = self.coarse.schema
        clique = tuple(sorted(map(schema.index, columns)))
        return columns in self.weights and tree_cells(schema.sizes, [*self.cliques, clique]) <= self.most_cells

    def scores(self, columns: Columns, tables: Floats) -> Floats:
        """The score of a candidate, over `scale`, if its counts were these: one table, or several along first axes."""
        own = self.model.marginal(columns)
        axes = tuple(range(tables.ndim - own.ndim, tables.ndim))
        gap = np.abs(tables - own).sum(axes) - NOISE_L1 * self.sigma * own.size
        return np.asarray(self.weights[columns] * gap / self.scale)

    def merged(self, columns: Columns, table: Floats) -> Floats:
        """A table of all codes as one of merged codes."""
        for axis, name in enumerate(columns):
            if name in self.coarse.groups:
                table = sum_groups(table, axis, self.coarse.groups[name])
        return table


def last_rounds(aim: AIM, schema: Schema, measurements: Sequence[Measurement], most: int) -> Iterator[Round]:
    """The last rounds of a run, at most so many from the first on that chose columns together, in their order.

    Rounds before that one, which chose single columns, count as what is measured before rounds: a candidate may then
    seem too large that was offered, and never the other way round.

    None where other settings than these have been at work as far as the measurements show: where something was measured
    that is no candidate, or no column over all rows though levels over all rows are offered.

    Args:
        aim: as it ran, with its strata.
        measurements: of one run, in the order of it, with those before the rounds.
    """
    inner = {*aim.levels.inner(schema)}
    plain = all(type(each) is Measurement and each.sigma and not each.where for each in measurements)
    over_all = any(each.columns[0] in inner and len(each.columns) == 1 for each in measurements)
    if schema.weighed or not plain or not over_all:
        return
    several = (place for place, each in enumerate(measurements) if len(inner & {*each.columns}) > 1)
    first = next(several, len(measurements))
    price = [1 / (2 * each.sigma**2) for each in measurements]
    price[first:] = [part / aim.measured for part in price[first:]]  # with the choice's
    total, opening = sum(price), sum(price[:first]) if aim.strata else 0.0
    coarse = Coarsening.of(schema, measurements, aim.strata)
    made = replace(aim, levels=aim.levels.reached(measurements))
    rows = total_estimate(measurements)[0]
    weights = made.candidates_of(coarse.schema, not made.sets_clear(coarse.schema, total, rows))
    if not weights or any(each.columns not in weights for each in measurements[first:]):
        return
    shares = {columns: weight / max(weights.values()) for columns, weight in weights.items()}
    scale = sqrt(aim.measured / (1 - aim.measured)) * schema.unit.choice_sensitivity
    engine, model = made.between_rounds(), None
    for place in range(max(first, len(measurements) - most), len(measurements)):
        known = coarse.coarse_all(measurements[:place])
        model = engine.estimate(coarse.schema, made.levels.modelled(known), model)
        cliques, chosen = model_cliques(coarse.schema, known), measurements[place]
        used = (sum(price[: place + 1]) - opening) / (total - opening)
        most_cells = max(cells_in(aim.model_size) * used, tree_cells(coarse.schema.sizes, cliques))
        yield Round(
            coarse.coarse(chosen), chosen.sigma, scale * chosen.sigma, model, shares, coarse, cliques, most_cells
        )
