"""Private-PGM: the maximum-entropy model closest to noisy marginals (McKenna, Sheldon and Miklau, arXiv:1901.09136).

Post-processing: no privacy cost. Two engines behind one protocol: mirror descent in NumPy on the junction tree (here,
the default), and `mbi` (`equistrata.synth.models.mbi`, the reference, imported only when asked for).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import Columns, Measurement, total_estimate
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.graphical import GraphicalModel, Layout, Tables, layout_of, multiply
from equistrata.synth.models.graphical_loss import GraphicalLoss
from equistrata.synth.models.junction_tree import Clique, JunctionTree

_MOST_MOMENTUM = 0.97  # largest part of the former step that is kept
_REVIVED = 1e-9  # least probability taken over from a former model, so that new measurements can raise a zero


class Estimator(Protocol):
    """Something that finds a model for measurements."""

    @property
    def weighs_cells(self) -> bool:
        """Whether it uses a σ for each cell (`Prediction`), as shrinkage across strata needs."""
        ...

    @property
    def graphical(self) -> bool:
        """Whether its models are graphical models, as large as their cliques; otherwise mixtures of one size."""
        ...

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
    ) -> Tilting:
        """The model closest to the measurements, structural zeros respected: of maximum entropy, or a mixture."""
        ...


def ties(schema: Schema, strata: Columns) -> list[Columns]:
    """Each other column with the stratum columns: what a model holds once every column is measured within strata."""
    others = [name for name in schema.names if name not in strata]
    return [tuple(name for name in schema.names if name == other or name in strata) for other in others]


def model_cliques(schema: Schema, measurements: Iterable[Measurement], strata: Columns = ()) -> list[Clique]:
    """The cliques that a model needs: what was measured, structural zeros, and `ties` of strata."""
    groups = [measurement.columns for measurement in measurements] + [zero.columns for zero in schema.impossible]
    groups += ties(schema, strata) if strata else []
    return sorted({tuple(sorted(schema.index(name) for name in names)) for names in groups if names})


def check_cells(schema: Schema, cells: int, most: int) -> None:
    """Raise InputError if a model of these columns needs more cells than `most`."""
    if cells > most:
        raise InputError(
            f"a model of {few(schema.names)} needs {cells:,} cells, more than {most:,}; "
            "use fewer columns, coarser bins, or fewer impossible combinations that tie columns together"
        )


def few(names: Sequence[str]) -> str:
    """Names in a message: of many, the first five."""
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more columns"


@dataclass(frozen=True)
class MirrorDescent:
    """Entropic mirror descent with momentum, on calibrated clique conditionals.

    Minimises ½ Σ ‖(Mμ − y)/σ‖² over the distributions that factorise on the junction tree. A step multiplies each
    clique by exp(−η·gradient) and calibrates again: the tables stay probabilities, structural zeros stay zero. A step
    keeps part of the one before, growing as in Nesterov's method; where that would raise the loss, it restarts from
    the plain gradient with half the step (O'Donoghue and Candès, arXiv:1204.3982).

    Attributes:
        iterations: most steps taken.
        tolerance: stop when 25 steps together lower the loss by less than this fraction of it plus one. A smaller one
            made no release better (docs/experiments/estimation.md).
        most_cells: the largest model, in cells of all its cliques together (about 100 bytes each while fitting).
    """

    iterations: int = 2000
    tolerance: float = 1e-3
    most_cells: int = 5_000_000

    weighs_cells = True
    graphical = True

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
    ) -> GraphicalModel:
        """See `Estimator.estimate`. `warm_start` may lie on another junction tree of the same schema."""
        total = max(total_estimate(measurements)[0], 1.0)
        tree = JunctionTree.build(schema.sizes, model_cliques(schema, measurements))
        check_cells(schema, tree.cells, self.most_cells)
        layout = layout_of(tree)
        problem = GraphicalLoss.of(schema, layout, measurements, total)
        begun = warm_start if isinstance(warm_start, GraphicalModel) else None
        joined = layout.joined(_on_tree(schema, tree, begun))
        if problem.answers.size:
            with one_thread():
                joined = self._descend(layout, joined, problem)
        return GraphicalModel(schema, total, tree, layout.split(joined))

    def _descend(self, layout: Layout, now: Floats, problem: GraphicalLoss) -> Floats:
        """From these P(clique | separator), all joined, those that have the least loss."""
        # Large tables are written over: fresh memory takes longer than what is computed in it.
        now, spare, marginal = now.copy(), np.empty_like(now), np.empty_like(now)

        def marginals(joined: Floats) -> Floats:
            np.copyto(marginal, joined)
            layout.distribute(layout.split(marginal))
            return marginal

        found = problem.down(marginals(now))
        loss, gradient = problem.loss(found)
        step, growth, checkpoint = 1.0 / problem.steepness, 1.6, loss
        direction, run = np.zeros(len(gradient)), 0  # the momentum, and the steps since it was last dropped
        for iteration in range(1, self.iterations + 1):
            for _ in range(40):
                move = step * gradient + min(run / (run + 3), _MOST_MOMENTUM) * direction
                new = problem.tilted(now, -move, spare)
                mass = layout.collect(layout.split(new))
                new_found = problem.down(marginals(new))
                new_loss, new_gradient = problem.loss(new_found)
                enough = 0.0 if run else 0.5 * float(gradient @ (new_found - found))
                if mass > 0 and new_loss <= loss + enough:
                    break
                step, growth, run = step * 0.5, 1.03, 0
            else:
                break
            now, spare = new, now
            found, loss, gradient, direction = new_found, new_loss, new_gradient, move
            step, run = step * growth, run + 1
            if iteration % 25 == 0:
                if checkpoint - loss < self.tolerance * (1 + loss):
                    break
                checkpoint = loss
        return now


def _on_tree(schema: Schema, tree: JunctionTree, model: GraphicalModel | None) -> Tables:
    """P(clique | separator) of a model on another junction tree; without one, of all that is possible, evenly."""
    factors = possible_cells(schema, tree)
    if model is not None:
        for clique, table in zip(model.tree.cliques, model.conditional, strict=True):
            multiply(tree, factors, clique, np.maximum(table, _REVIVED))
    return layout_of(tree).conditionals(factors)[0]


def possible_cells(schema: Schema, tree: JunctionTree) -> Tables:
    """For each clique of the tree, 1 where the schema's structural zeros allow a cell and 0 where they do not."""
    factors = [np.ones(int(np.prod([tree.sizes[v] for v in clique]))) for clique in tree.cliques]
    for zero in schema.impossible:
        variables = tuple(schema.index(name) for name in zero.columns)
        multiply(tree, factors, variables, (~schema.zero_mask(zero)).ravel().astype(float))
    return factors
