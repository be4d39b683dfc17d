"""Estimation of graphical models by Private-PGM.

The estimated model is the maximum-entropy model that is closest to the noisy marginals [1]_. The estimation is
post-processing and has no privacy cost.

There are two engines with the same interface. The default is mirror descent in NumPy on the junction tree, which is in
this module. The other engine, `mbi`, is the reference implementation (`equistrata.synth.models.mbi`). It is imported
only on request.

References
----------
.. [1] McKenna, Sheldon and Miklau, arXiv:1901.09136.
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

_MOST_MOMENTUM = 0.97  # the maximum fraction of the previous step that is kept
_REVIVED = 1e-9  # the minimum probability in a warm start, so that new measurements can increase a zero


class Estimator(Protocol):
    """An engine that estimates a model from measurements."""

    @property
    def weighs_cells(self) -> bool:
        """Return True if the engine uses the σ of each cell (`Prediction`), which is required for shrinkage across
        strata.
        """
        ...

    @property
    def graphical(self) -> bool:
        """Return True if the models are graphical models, which grow with their cliques.

        If False, the models are mixtures of a fixed size.
        """
        ...

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
    ) -> Tilting:
        """Estimate the model that is closest to the measurements.

        The model respects structural zeros. It is either the model of maximum entropy or a mixture.

        Parameters
        ----------
        schema : Schema
            The schema of the measurements.
        measurements : sequence of Measurement
            The measurements.
        warm_start : Tilting or None, default=None
            A former model from which the estimation can start.

        Returns
        -------
        Tilting
            The estimated model.
        """
        ...


def stratum_cliques(schema: Schema, strata: Columns) -> list[Columns]:
    """Return the sets of each other column together with all stratum columns.

    A model has cliques for these sets if every column is measured within strata.
    """
    others = [name for name in schema.names if name not in strata]
    return [tuple(name for name in schema.names if name == other or name in strata) for other in others]


def model_cliques(schema: Schema, measurements: Iterable[Measurement], strata: Columns = ()) -> list[Clique]:
    """Return the cliques that a model needs.

    These are the measured sets of columns, the columns of structural zeros, and the `stratum_cliques` of the strata.

    Parameters
    ----------
    schema : Schema
        The schema of the model.
    measurements : iterable of Measurement
        The measurements.
    strata : tuple of str, default=()
        The columns that define strata. If empty, there are no `stratum_cliques`.

    Returns
    -------
    list of tuple of int
        The cliques, as positions of columns in the schema.
    """
    groups = [measurement.columns for measurement in measurements] + [zero.columns for zero in schema.impossible]
    groups += stratum_cliques(schema, strata) if strata else []
    return sorted({tuple(sorted(schema.index(name) for name in names)) for names in groups if names})


def check_cells(schema: Schema, cells: int, most: int) -> None:
    """Raise InputError if a model of these columns needs more cells than `most`."""
    if cells > most:
        raise InputError(
            f"a model of {few(schema.names)} needs {cells:,} cells, but the maximum is {most:,}; "
            "use fewer columns, coarser bins, or fewer impossible combinations that tie columns together"
        )


def few(names: Sequence[str]) -> str:
    """Format column names for a message. If there are many names, only the first five are listed."""
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more columns"


@dataclass(frozen=True)
class MirrorDescent:
    """Entropic mirror descent with momentum on calibrated clique conditionals.

    The algorithm minimises ½ Σ ‖(Mμ − y)/σ‖² over the distributions that factorise on the junction tree. Each step
    multiplies the clique tables by exp(−η·gradient) and calibrates them again. Therefore, the tables remain
    probabilities and structural zeros remain zero. Each step also keeps a part of the previous step, which increases as
    in Nesterov's method. If this would raise the loss, the algorithm restarts from the plain gradient with half of the
    step size [1]_.

    Parameters
    ----------
    iterations : int, default=2000
        The maximum number of steps.
    tolerance : float, default=1e-3
        The tolerance. The algorithm stops if 25 steps reduce the loss by less than `tolerance` times (1 + loss). A
        smaller value did not improve any release (docs/experiments/estimation.md).
    most_cells : int, default=5_000_000
        The maximum number of cells of all cliques together. The estimation needs about 100 bytes per cell.

    References
    ----------
    .. [1] O'Donoghue and Candès, arXiv:1204.3982.
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
        """See `Estimator.estimate`.

        The model `warm_start` can have another junction tree if it has the same schema.
        """
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
        """Minimise the loss from the given conditionals P(clique | separator), and return the best conditionals."""
        # Large tables are overwritten because the allocation of new memory takes longer than the computation.
        now, spare, marginal = now.copy(), np.empty_like(now), np.empty_like(now)

        def marginals(joined: Floats) -> Floats:
            np.copyto(marginal, joined)
            layout.distribute(layout.split(marginal))
            return marginal

        found = problem.down(marginals(now))
        loss, gradient = problem.loss(found)
        step, growth, checkpoint = 1.0 / problem.steepness, 1.6, loss
        direction, run = np.zeros(len(gradient)), 0  # the momentum, and the number of steps since the last restart
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
    """Return the conditionals P(clique | separator) of a model on another junction tree.

    If there is no model, all possible cells are equally likely.
    """
    factors = possible_cells(schema, tree)
    if model is not None:
        for clique, table in zip(model.tree.cliques, model.conditional, strict=True):
            multiply(tree, factors, clique, np.maximum(table, _REVIVED))
    return layout_of(tree).conditionals(factors)[0]


def possible_cells(schema: Schema, tree: JunctionTree) -> Tables:
    """For each clique of the tree, return 1 for each possible cell and 0 for each structural zero.

    Parameters
    ----------
    schema : Schema
        The schema, which contains the structural zeros.
    tree : JunctionTree
        The junction tree.

    Returns
    -------
    list of ndarray
        The flat table of each clique.
    """
    factors = [np.ones(int(np.prod([tree.sizes[v] for v in clique]))) for clique in tree.cliques]
    for zero in schema.impossible:
        variables = tuple(schema.index(name) for name in zero.columns)
        multiply(tree, factors, variables, (~schema.zero_mask(zero)).ravel().astype(float))
    return factors
