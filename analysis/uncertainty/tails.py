"""What a curve leaves unsaid: a longer tail.

Where few rows are beside a heavy value and noise hides them, a release draws them by the nearest of some curves
(`equistrata.stats.humps`). Noise may hide a longer tail, too. How far answers are by the longest from those of the
release is a part of their error. Post-processing, no cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.synth.measurements import sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import Alone, rows_by_others

TAIL = 0.5  # how likely a longer tail is as the curve that few rows are drawn by (docs/experiments/numbers.md)


@dataclass(frozen=True, eq=False)
class LongerTail:
    """Of a column.

    Attributes:
        times: of each code's rows in the release, shape (codes,).
        groups: of codes, which keep their rows: how many they have, replicates tell.
    """

    times: Floats
    groups: tuple[int, ...]

    @classmethod
    def of(cls, evidence: Evidence, name: str) -> LongerTail | None:
        """None for columns without such a curve, and where strata were measured one by one, which have none."""
        schema, published = evidence.strata.schema, evidence.published
        if not schema[name].fine or any(each.where for each in published):
            return None
        alone = Alone.of(schema[name], published, rows=rows_by_others(schema[name], published))
        if (longer := alone.with_longer_tail) is None:
            return None
        coarse = Coarsening.of(schema, published, evidence.strata.columns)
        if name not in coarse.groups:
            return None
        own, others = coarse.parts(name, alone.smooth), coarse.parts(name, longer)
        return cls(np.divide(others, own, out=np.ones(len(own)), where=own > 0), coarse.groups[name])

    def of_table(self, table: Floats, axis: int) -> Floats:
        """A model's table with this tail along an axis."""
        found = table * self.times.reshape([-1 if other == axis else 1 for other in range(table.ndim)])
        had, have = (sum_groups(each, axis, self.groups) for each in (table, found))
        kept = np.divide(had, have, out=np.ones(had.shape), where=have > 0)
        return np.asarray(found * np.take(kept, self.groups, axis))
