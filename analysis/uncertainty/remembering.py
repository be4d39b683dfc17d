"""An engine that remembers its first fits: others of the same measurements with other noise begin where those ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Measurement
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent

# Of a warm-started fit: it begins within noise of where it ends.
_WARM_TOLERANCE = 1e-3


@dataclass(eq=False)
class Remembering:
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
        self,
        schema: Schema,
        measurements: Sequence[Measurement],
        warm_start: Tilting | None = None,
        strata: Columns = (),
    ) -> Tilting:
        """See `Estimator.estimate`."""
        if self.first:
            self.ended.append(self.engine.estimate(schema, measurements, warm_start, strata))
            return self.ended[-1]
        known = self.ended[self.place] if self.place < len(self.ended) else None
        self.place += 1
        if known is None or known.schema.names != schema.names or known.schema.sizes != schema.sizes:
            known = warm_start
        return self.engine.estimate(schema, measurements, known, strata)
