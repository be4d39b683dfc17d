"""The reference engine: Private-PGM as its authors maintain it (`mbi` 2, on JAX). Slower on small domains.

Imported only when asked for (`mechanism(..., engine="mbi")`); importing it switches JAX to 64-bit floats, without
which estimates of large tables stall.
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
    import mbi  # after the switch: mbi warns, rightly, when it finds 32-bit floats

from equistrata.data.schema import Schema  # noqa: E402
from equistrata.synth.measurements import Measurement, Merging, total_estimate  # noqa: E402
from equistrata.synth.models.base import Tilting  # noqa: E402
from equistrata.synth.models.estimation import model_cliques, possible_cells  # noqa: E402
from equistrata.synth.models.graphical import GraphicalModel, layout_of  # noqa: E402
from equistrata.synth.models.junction_tree import JunctionTree  # noqa: E402


@dataclass(frozen=True)
class MbiEngine:
    """mbi's mirror descent behind our protocol.

    Attributes:
        iterations: steps taken.
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
        """See `equistrata.synth.models.estimation.Estimator.estimate`; `warm_start` is not used."""
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
        possible = possible_cells(schema, tree)  # potentials drift, and would leave an impossible cell 1e-255 of a row
        layout, conditional = layout_of(tree), []
        for i, (clique, cells) in enumerate(zip(tree.cliques, possible, strict=True)):
            values = np.asarray(model.project(tuple(schema.names[v] for v in clique)).values, dtype=float)
            marginal = np.maximum(values.ravel(), 0.0) / total * cells
            above = layout.own[i].sums(marginal)
            cells, above = layout.own[i].beside(marginal, np.where(above > 0, above, 1.0))
            conditional.append((cells / above).ravel())
        return GraphicalModel(schema, total, tree, conditional)


def _structural_zeros(schema: Schema, domain: Any) -> tuple[Any, list[Any]]:
    """Potentials to start from that rule out impossible cells, and blank measurements that keep their cliques.

    mbi 2.0 has `Constraint` for this, but its estimators then meet -inf gradients and stop or return NaN.
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
    """mbi's query for a marginal whose codes were merged into groups before it was measured."""

    groups: tuple[Merging, ...]

    def __call__(self, factor: Any) -> Any:
        values = factor.values
        for axis, groups in enumerate(self.groups):
            if groups is not None:
                spread = np.eye(max(groups) + 1)[list(groups)]
                values = jnp.moveaxis(jnp.tensordot(values, spread, axes=(axis, 0)), -1, axis)
        return values.ravel()

    def op_norm_sq(self) -> float:
        """The squared operator norm, with which mbi chooses its first step."""
        return float(np.prod([1 if g is None else max(np.bincount(g)) for g in self.groups]))
