"""Replicates: models of tables that the release's own model could have given, measured and modelled again.

The parametric bootstrap (Efron, 1979; for synthesis with known noise, as the US Census Bureau's replicate files, 2023):
the fitted model stands for the rows, its exact marginals get fresh noise of the published σ, and the same steps as in
the release make a model of them. How far these are from the fitted model says how far that may be from the rows, as far
as noise, shrinkage and rounding go. What a model leaves out is not in them: see `equistrata.analysis.misfit`.
Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from equistrata.analysis.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Measurement, cells_where
from equistrata.synth.mechanisms.base import SharingMechanism
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.strata.model import StratifiedModel

# Of a warm-started fit: it begins within noise of where it ends.
_WARM_TOLERANCE = 1e-3


@dataclass(eq=False)
class _Remembering:
    """An engine that starts each fit of a sequence where the same fit of the first sequence ended."""

    engine: Estimator
    ended: list[Tilting] = field(default_factory=list)
    place: int = 0
    first: bool = True

    @property
    def weighs_cells(self) -> bool:
        return self.engine.weighs_cells

    @property
    def graphical(self) -> bool:
        return self.engine.graphical

    def again(self) -> None:
        """Begin another sequence."""
        self.place, self.first = 0, False
        if isinstance(self.engine, MirrorDescent):
            self.engine = replace(self.engine, tolerance=_WARM_TOLERANCE)

    def estimate(
        self, schema: Schema, measurements: Sequence[Measurement], warm_start: Tilting | None = None
    ) -> Tilting:
        """See `Estimator.estimate`."""
        if self.first:
            self.ended.append(self.engine.estimate(schema, measurements, warm_start))
            return self.ended[-1]
        known = self.ended[self.place] if self.place < len(self.ended) else None
        self.place += 1
        if known is None or known.schema.names != schema.names or known.schema.sizes != schema.sizes:
            known = warm_start
        return self.engine.estimate(schema, measurements, known)


def expected(model: StratifiedModel, measurement: Measurement) -> Floats:
    """What a measurement would be without noise if the rows were the model's."""
    codes = dict(measurement.where)
    columns = [*measurement.columns, *codes]
    counts = model.marginal(columns)[cells_where(columns, codes)]
    return np.asarray(measurement.merged(counts))


def replicate_models(evidence: Evidence, rng: np.random.Generator) -> Iterator[tuple[StratifiedModel, list[Floats]]]:
    """Models of rows without end, each of fresh noise on `evidence.fitted`, with the noisy values of `all`."""
    mechanism, engine = evidence.mechanism, None
    if isinstance(mechanism, SharingMechanism):
        engine = _Remembering(mechanism.engine)
        evidence = replace(evidence, mechanism=replace(mechanism, engine=engine))  # type: ignore[type-var]
    model = evidence.fitted
    exact = [expected(model, each) for each in evidence.published]
    while True:
        if engine is not None:
            engine.again()
        noisy = [
            replace(each, values=values + rng.normal(0.0, each.sigma, values.shape))
            for each, values in zip(evidence.published, exact, strict=True)
        ]
        yield evidence.of_rows(evidence.refitted(noisy)), evidence.rows_of([each.values for each in noisy])
