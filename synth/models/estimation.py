"""Private-PGM: the maximum-entropy model closest to noisy marginals (McKenna, Sheldon and Miklau, arXiv:1901.09136).

Post-processing: no privacy cost. Two engines behind one protocol: mirror descent in NumPy on the junction tree (here,
the default), and `mbi` (`equistrata.synth.models.mbi`, the reference, imported only when asked for).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Protocol

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.stats.laws import at_least_zero
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import Columns, Measurement, Prediction, total_estimate
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.graphical import GraphicalModel, Layout, Tables, layout_of, multiply
from equistrata.synth.models.graphical_loss import LEAST, GraphicalLoss
from equistrata.synth.models.junction_tree import Clique, JunctionTree

# How strongly models are held to their columns, and how often they are fitted (docs/experiments/estimation.md).
PENALTY, PASSES = 1.0, 2
_ROUGHLY = 10.0  # times the tolerance of fits before the last: no release was worse, and they take half as long
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
        strata: Columns = (),
    ) -> Tilting:
        """The model closest to the measurements, structural zeros respected: of maximum entropy, or a mixture.

        Args:
            strata: the columns that define strata, into which the model will be cut.
        """
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

    To the loss λ·KL(μ ‖ μ₀) is added, where μ₀ is the model of columns by themselves (within strata, where it will be
    cut into them), and λ is `penalty` · rows · mean of 1/σ over measured relations. So a cell of n rows, n₀ by μ₀, is
    off by about `penalty` · σ · log(n/n₀): noise in cells that would be nearly empty goes, and no cell moves by much
    more than its noise. Then it is fitted once more, with that model as μ₀, and what rows show clearly is not off any
    more (Bregman iteration: Osher and others, doi:10.1137/040605412). See docs/experiments/estimation.md.

    Attributes:
        iterations: most steps taken.
        tolerance: stop when 25 steps together lower the loss by less than this fraction of it plus one. A smaller one
            made no release better (docs/experiments/estimation.md).
        most_cells: the largest model, in cells of all its cliques together (about 100 bytes each while fitting).
        penalty: see above; 0 for none, which is Private-PGM as published.
    """

    iterations: int = 2000
    tolerance: float = 3e-4
    most_cells: int = 5_000_000
    penalty: float = PENALTY

    weighs_cells = True
    graphical = True

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
        strata: Columns = (),
    ) -> GraphicalModel:
        """See `Estimator.estimate`. `warm_start` may lie on another junction tree of the same schema."""
        total = max(total_estimate(measurements)[0], 1.0)
        tree = JunctionTree.build(schema.sizes, model_cliques(schema, measurements))
        check_cells(schema, tree.cells, self.most_cells)
        layout = layout_of(tree)
        problem = GraphicalLoss.of(schema, layout, measurements, total)
        single, related = list[Measurement](), list[float]()
        for each in measurements:
            if len(set(each.columns) - set(strata)) <= 1:
                single.append(each)
            elif each.sigma and not isinstance(each, Prediction):  # with noise of its own
                related.append(1 / each.sigma)
        weight = self.penalty * total * fmean(related) if related else 0.0
        begun = warm_start if isinstance(warm_start, GraphicalModel) else None
        if not weight:
            joined = layout.joined(_on_tree(schema, tree, begun))
            if problem.answers.size:
                joined = self._descend(layout, joined, problem)
            return GraphicalModel(schema, total, tree, layout.split(joined))
        alone = self._alone(schema, tree, [_possible(each, strata) for each in single])
        towards = layout.joined(_on_tree(schema, tree, alone))
        joined = towards if begun is None else layout.joined(_on_tree(schema, tree, begun))
        for engine in (*[self._roughly] * (PASSES - 1), self):
            held = problem.held_to(towards, weight, joined)
            towards = joined = engine._descend(layout, joined, held)
        return GraphicalModel(schema, total, tree, layout.split(joined))

    @property
    def _roughly(self) -> MirrorDescent:
        return replace(self, tolerance=self.tolerance * _ROUGHLY)

    def _alone(self, schema: Schema, tree: JunctionTree, alone: Sequence[Measurement]) -> GraphicalModel:
        """The model of columns by themselves: on their own junction tree if it fits into `tree`, else on that."""
        small = JunctionTree.build(schema.sizes, model_cliques(schema, alone))
        if any(tree.home(clique) is None for clique in small.cliques):  # another triangulation
            small = tree
        total = max(total_estimate(alone)[0], 1.0)
        layout = layout_of(small)
        problem = GraphicalLoss.of(schema, layout, alone, total)
        joined = layout.joined(_on_tree(schema, small, None))
        if problem.answers.size:
            joined = self._descend(layout, joined, problem)
        return GraphicalModel(schema, total, small, layout.split(joined))

    def _descend(self, layout: Layout, joined: Floats, problem: GraphicalLoss) -> Floats:
        """From these P(clique | separator), all joined, those that have the least loss."""
        with one_thread():
            return self._steps(layout, joined, problem)

    def _steps(self, layout: Layout, now: Floats, problem: GraphicalLoss) -> Floats:
        # Large tables are written over: fresh memory takes longer than what is computed in it.
        now, spare, marginal = now.copy(), np.empty_like(now), np.empty_like(now)

        def marginals(joined: Floats) -> Floats:
            np.copyto(marginal, joined)
            layout.distribute(layout.split(marginal))
            return marginal

        point, log_mass = problem.start, 0.0
        found = problem.down(marginals(now))
        loss, gradient = problem.loss(found, point, log_mass)
        step, growth, checkpoint = 1.0 / problem.steepness, 1.6, loss
        direction, run = np.zeros(len(point)), 0  # the momentum, and the steps since it was last dropped
        for iteration in range(1, self.iterations + 1):
            for _ in range(40):
                move = step * gradient + min(run / (run + 3), _MOST_MOMENTUM) * direction
                new, smaller = problem.tilted(now, -move, spare)
                mass = layout.collect(layout.split(new))
                new_log_mass = log_mass + np.log(max(mass, LEAST)) + smaller
                new_found = problem.down(marginals(new))
                new_loss, new_gradient = problem.loss(new_found, point - move, new_log_mass)
                enough = 0.0 if run else 0.5 * float(gradient @ (new_found - found))
                if mass > 0 and new_loss <= loss + enough:
                    break
                step, growth, run = step * 0.5, 1.03, 0
            else:
                break
            point, log_mass = point - move, new_log_mass
            now, spare = new, now
            found, loss, gradient, direction = new_found, new_loss, new_gradient, move
            step, run = step * growth, run + 1
            if iteration % 25 == 0:
                if checkpoint - loss < self.tolerance * (1 + loss):
                    break
                checkpoint = loss
        return now


def _possible(measurement: Measurement, strata: Columns) -> Measurement:
    """Posterior means in place of counts, none of them zero or below, with the same sum in each stratum.

    A code that noise took away stays possible.
    """
    sigmas, counts = measurement.cell_sigma, measurement.values
    noisy = (sigmas > 0) & np.isfinite(sigmas)
    means = np.where(noisy, at_least_zero(counts, np.where(noisy, sigmas, 1.0)), counts)
    axes = tuple(axis for axis, name in enumerate(measurement.columns) if name not in strata)
    axes = axes or tuple(range(counts.ndim))
    wanted, found = counts.sum(axes, keepdims=True), means.sum(axes, keepdims=True)
    return replace(measurement, values=means * np.where(wanted > 0, wanted / np.where(found > 0, found, 1.0), 1.0))


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
