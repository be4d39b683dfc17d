"""The reference engine, which is the Private-PGM implementation of its authors (`mbi` 2, based on JAX).

It is slower on small domains. This module is imported only on request (`mechanism(..., engine="mbi")`). The import
switches JAX to 64-bit floats, because estimates of large tables do not converge without them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # mbi warns about a compilation cache that it does not need
    import mbi  # after the switch to 64-bit floats, because mbi correctly warns about 32-bit floats

from equistrata.data.schema import Schema  # noqa: E402
from equistrata.synth.measurements import Measurement, Merging, total_estimate  # noqa: E402
from equistrata.synth.models.base import Tilting  # noqa: E402
from equistrata.synth.models.estimation import model_cliques, possible_cells  # noqa: E402
from equistrata.synth.models.graphical import GraphicalModel, layout_of  # noqa: E402
from equistrata.synth.models.junction_tree import JunctionTree  # noqa: E402


@dataclass(frozen=True)
class MbiEngine:
    """The mirror descent of mbi as an `Estimator`.

    Parameters
    ----------
    iterations : int, default=5000
        The number of steps.
    """

    iterations: int = 5000

    weighs_cells = False
    graphical = True

    def estimate(
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
    ) -> GraphicalModel:
        """See `equistrata.synth.models.estimation.Estimator.estimate`. The parameter `warm_start` is ignored."""
        total = max(total_estimate(measurements)[0], 1.0)
        domain = mbi.Domain(schema.names, schema.sizes)
        linear = [
            mbi.LinearMeasurement(jnp.asarray(m.values.ravel()), m.columns, m.sigma, _Merged(m.groups))
            for m in measurements
            if m.columns
        ]
        start, anchors = _structural_zeros(schema, domain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mbi warns about a compilation cache that it does not need
            model = mbi.estimation.MirrorDescent().estimate(
                domain, linear + anchors, known_total=total, iters=self.iterations, warm_start=start
            )
        tree = JunctionTree.build(schema.sizes, model_cliques(schema, measurements))
        # Impossible cells are set to 0, because the potentials drift and would leave 1e-255 of a row in such a cell.
        possible = possible_cells(schema, tree)
        layout, conditional = layout_of(tree), []
        for i, (clique, cells) in enumerate(zip(tree.cliques, possible, strict=True)):
            values = np.asarray(model.project(tuple(schema.names[v] for v in clique)).values, dtype=float)
            marginal = np.maximum(values.ravel(), 0.0) / total * cells
            above = layout.own[i].sums(marginal)
            cells, above = layout.own[i].beside(marginal, np.where(above > 0, above, 1.0))
            conditional.append((cells / above).ravel())
        return GraphicalModel(schema, total, tree, conditional)


def _structural_zeros(schema: Schema, domain: Any) -> tuple[Any, list[Any]]:
    """Return start potentials that exclude impossible cells, and blank measurements that keep the cliques of these
    cells.

    The class `Constraint` of mbi 2.0 has the same purpose, but its estimators then have gradients of -inf and stop or
    return NaN.
    """
    if not schema.impossible:
        return None, []
    ruled_out, blanks = {}, []
    for zero in schema.impossible:
        potential = jnp.where(jnp.asarray(schema.zero_mask(zero)), -1e3, 0.0)
        ruled_out[zero.columns] = mbi.Factor(domain.project(zero.columns), potential)
        blanks.append(mbi.LinearMeasurement(jnp.zeros(domain.size(zero.columns)), zero.columns, 1e9))
    return mbi.CliqueVector(domain, list(ruled_out), ruled_out), blanks


@dataclass(frozen=True)
class _Merged:
    """The query of mbi for a marginal with codes that were merged into groups before it was measured."""

    groups: tuple[Merging, ...]

    def __call__(self, factor: Any) -> Any:
        values = factor.values
        for axis, groups in enumerate(self.groups):
            if groups is not None:
                spread = np.eye(max(groups) + 1)[list(groups)]
                values = jnp.moveaxis(jnp.tensordot(values, spread, axes=(axis, 0)), -1, axis)
        return values.ravel()

    def op_norm_sq(self) -> float:
        """The squared operator norm, which determines the first step size of mbi."""
        return float(np.prod([1 if g is None else max(np.bincount(g)) for g in self.groups]))
