"""How many rows have each survey weight, as measured of the weight alone, and as fresh noise would have it.

The parametric bootstrap of one column, smoothed as in the release; `equistrata.analysis.uncertainty.replicates` is of
all of them. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.models.columns.alone import Alone
from equistrata.synth.models.columns.merging import projected_shares


def weight_column(evidence: Evidence) -> Column:
    """The survey weight, which the release has."""
    return evidence.strata.schema[str(evidence.strata.schema.survey_weight)]


def measured_weight(evidence: Evidence) -> list[Measurement]:
    """What was measured of the weight alone, over all rows; nothing if no measurement has all of its codes."""
    column = weight_column(evidence)
    found = [m for m in evidence.all if m.columns == (column.name,) and not m.where]
    return found if any(m.groups == (None,) for m in found) else []


def law_of(evidence: Evidence, measured: Sequence[Measurement]) -> Floats:
    """Rows of each code, shape (codes,), none below 0."""
    counts = Alone.of(weight_column(evidence), measured).smooth
    return np.asarray(max(total_estimate(measured)[0], 0.0) * projected_shares(counts))


def redrawn_laws(evidence: Evidence, count: int, seed: int) -> Iterator[Floats]:
    """As `law_of`, with fresh noise on what that has."""
    measured, rng = measured_weight(evidence), np.random.default_rng([seed, 4])
    exact = law_of(evidence, measured)
    for _ in range(count):
        noises = [rng.normal(0.0, m.cell_sigma) for m in measured]
        yield law_of(evidence, [replace(m, values=m.merged(exact) + e) for m, e in zip(measured, noises, strict=True)])
