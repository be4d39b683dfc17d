"""The misfit of a model as measured pairs of columns show it.

Pairs are measured in the order of how far off they are. So the later half of the sets that were measured is left out,
and a model of the earlier ones predicts it. What this is off by beyond the noise of the measurement is the misfit
there (`equistrata.analysis.uncertainty.misfit`); its size is found by maximum likelihood, and pairs that were not
measured have the same. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from equistrata.analysis.axes import Merged
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import (
    freedom,
    measured_sets,
    misfit_variance,
    strata_with,
    unmeasured_pairs,
)
from equistrata.analysis.uncertainty.replicates import expected
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, Measurement, summed

_LEAST, _MOST, _STEPS = 1e-5, 0.3, 60  # of the rows: where the misfit is looked for
FEWEST = 3  # sets of columns, of which the misfit is learned
UNKNOWN = 0.15  # of the rows where fewer were measured: pairs of a census table that are strongest decide


@dataclass(frozen=True, eq=False)
class ModelMisfit:
    """How far a release's model may be off columns that were not measured together.

    Attributes:
        evidence: what was measured.
    """

    evidence: Evidence

    @cached_property
    def share(self) -> float:
        """s of a pair that was not measured: how far a cell may be off beyond noise (standard deviation), as a share of
        the rows of the table. Of three columns measured together, by their pairs. UNKNOWN where too few were measured.
        """
        sets = measured_sets(self.evidence)
        predicted = list(_predicted(self.evidence, sets[len(sets) // 2 :])) if len(sets) >= FEWEST else []
        return likely_share(predicted) if predicted else UNKNOWN

    @cached_property
    def unmeasured(self) -> list[Columns]:
        """See `unmeasured_pairs`."""
        return unmeasured_pairs(self.evidence)

    def never_measured(self, pair: Columns, merged: Merged = ()) -> bool:
        """Whether two columns are one of `unmeasured`, or were not measured together in these groups of codes."""
        if not merged:
            return pair in self.unmeasured
        return not strata_with(self.evidence, pair, merged)


def likely_share(predicted: Sequence[tuple[Measurement, Floats]]) -> float:
    """The most likely s.

    Args:
        predicted: pairs as they were measured, and counts by a model without them, of the same shape.
    """
    tables = [table for _, table in predicted]
    gaps = np.concatenate([(part.values - table).ravel() for part, table in predicted])
    counts, free = (np.concatenate([each.ravel() for each in found]) for found in (tables, map(freedom, tables)))
    parts = [(part.sigma**2, float(table.sum())) for part, table in predicted]
    noise, rows = np.repeat(np.array(parts), [table.size for table in tables], axis=0).T

    def unlikely(share: float) -> float:
        variance = free * misfit_variance(counts, share * rows) + noise
        return float((np.log(variance) + gaps**2 / variance).sum())

    return min(map(float, np.geomspace(_LEAST, _MOST, _STEPS)), key=unlikely)


def _predicted(evidence: Evidence, dropped: Sequence[Columns]) -> Iterator[tuple[Measurement, Floats]]:
    """Each pair of columns that these sets alone hold, as it was measured, and by a model without the sets."""
    without = [any(set(columns) <= set(m.columns) for columns in dropped) for m in evidence.published]
    kept = [each for each, drop in zip(evidence.published, without, strict=True) if not drop]
    model = evidence.without(without)
    for columns in dropped:
        for whole in (m for m in evidence.published if set(columns) <= set(m.columns)):
            for pair in combinations(columns, 2):
                if not any(set(pair) <= set(m.columns) and m.where in ((), whole.where) for m in kept):
                    part = summed(whole, pair)
                    yield part, expected(model, part)
