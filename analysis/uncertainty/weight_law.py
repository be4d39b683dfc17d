"""Distribution of the survey weight, as measured and with new noise.

This is a parametric bootstrap of a single column, with the same smoothing as in the release. The bootstrap of all
columns is in `equistrata.analysis.uncertainty.replicates`. All results are post-processing, so they cost no privacy.
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
    """Return the column of the survey weight. The release must have one."""
    return evidence.strata.schema[str(evidence.strata.schema.survey_weight)]


def measured_weight(evidence: Evidence) -> list[Measurement]:
    """Return the measurements of the weight alone over all rows.

    The list is empty if no measurement contains all codes of the weight.
    """
    column = weight_column(evidence)
    found = [m for m in evidence.all if m.columns == (column.name,) and not m.where]
    return found if any(m.groups == (None,) for m in found) else []


def law_of(evidence: Evidence, measured: Sequence[Measurement]) -> Floats:
    """Return the nonnegative number of rows for each code of the weight, shape (codes,)."""
    counts = Alone.of(weight_column(evidence), measured).smooth
    return np.asarray(max(total_estimate(measured)[0], 0.0) * projected_shares(counts))


def redrawn_laws(evidence: Evidence, count: int, seed: int) -> Iterator[Floats]:
    """Generate the result of `law_of` with new noise in its measurements."""
    measured, rng = measured_weight(evidence), np.random.default_rng([seed, 4])
    exact = law_of(evidence, measured)
    for _ in range(count):
        noises = [rng.normal(0.0, m.cell_sigma) for m in measured]
        yield law_of(evidence, [replace(m, values=m.merged(exact) + e) for m, e in zip(measured, noises, strict=True)])
