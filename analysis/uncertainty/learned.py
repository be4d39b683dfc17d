"""Estimation of the model's misfit from measured pairs of columns.

Pairs are measured in the order of their error. Therefore, the last half of the measured sets is left out, and a model
of the other sets predicts it. The misfit is the error of this prediction in excess of the noise of the measurement (see
`equistrata.analysis.uncertainty.misfit`). Its size is estimated by maximum likelihood, and the same size is assumed for
pairs that were not measured. All results are post-processing, so they cost no privacy.
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

_LEAST, _MOST, _STEPS = 1e-5, 0.3, 60  # the grid for the misfit as a share of the rows
FEWEST = 3  # the minimum number of sets of columns for estimating the misfit
UNKNOWN = 0.15  # the share if fewer sets were measured, chosen for the strongest pairs of a census table


@dataclass(frozen=True, eq=False)
class ModelMisfit:
    """The error of a release's model for columns that were not measured together.

    Attributes
    ----------
    evidence : Evidence
        The measurements of a release.
    """

    evidence: Evidence

    @cached_property
    def share(self) -> float:
        """The standard deviation s of a cell's misfit, as a share of the rows of the table.

        It applies to pairs that were not measured, and does not include noise. If three columns were measured together,
        then each pair of these columns is used. The value is UNKNOWN if too few sets were measured.
        """
        sets = measured_sets(self.evidence)
        predicted = list(_predicted(self.evidence, sets[len(sets) // 2 :])) if len(sets) >= FEWEST else []
        return likely_share(predicted) if predicted else UNKNOWN

    @cached_property
    def unmeasured(self) -> list[Columns]:
        """The pairs of columns that were not measured. See `unmeasured_pairs`."""
        return unmeasured_pairs(self.evidence)

    def never_measured(self, pair: Columns, merged: Merged = ()) -> bool:
        """Return True if two columns are in `unmeasured`, or were not measured in the given groups of codes."""
        if not merged:
            return pair in self.unmeasured
        return not strata_with(self.evidence, pair, merged)


def likely_share(predicted: Sequence[tuple[Measurement, Floats]]) -> float:
    """Return the maximum likelihood estimate of the misfit s.

    Parameters
    ----------
    predicted : sequence of tuple
        The measurement of each pair, and the counts of a model that was fitted without it. Both have the same shape.

    Returns
    -------
    float
        The misfit as a share of the rows.
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
    """Yield the measurement of each pair and the counts of a model that is fitted without it.

    The pairs are those that are only contained in the `dropped` sets.
    """
    without = [any(set(columns) <= set(m.columns) for columns in dropped) for m in evidence.published]
    kept = [each for each, drop in zip(evidence.published, without, strict=True) if not drop]
    model = evidence.without(without)
    for columns in dropped:
        for whole in (m for m in evidence.published if set(columns) <= set(m.columns)):
            for pair in combinations(columns, 2):
                if not any(set(pair) <= set(m.columns) and m.where in ((), whole.where) for m in kept):
                    part = summed(whole, pair)
                    yield part, expected(model, part)
