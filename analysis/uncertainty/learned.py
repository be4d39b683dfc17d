"""The misfit of models as measured pairs of columns show it: a release's, and what those of two have in common.

Measured pairs are dropped, a few at a time, and a model of the rest predicts them. What it is off by beyond the noise
of the measurement is its misfit there (`equistrata.analysis.uncertainty.misfit`). Pairs are measured in the order of
how far off they are, so log s falls linearly from the first pair to the last; both ends are found by maximum
likelihood, and unmeasured pairs have the s of the last, or less (`equistrata.analysis.uncertainty.passed_over`). What
two releases' models are off by at the same pairs tells how much of it is in both, and so not in a change.
Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import atanh, prod, sqrt, tanh

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import freedom, measured_sets, misfit_variance
from equistrata.analysis.uncertainty.replicates import expected
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, Measurement, summed

FOLDS = 4  # refits: each predicts a quarter of the measured pairs
_SURE, _ALL = 1.645, 0.999  # standard deviations; a correlation that is as good as 1
MOST_IN_COMMON = 0.9  # of the misfits of two releases (docs/experiments/series.md)
_LEAST, _MOST, _STEPS = 1e-5, 0.3, 60  # of the rows: where the misfit is looked for
_DECLINES = tuple(0.25 * step for step in range(17))  # logarithms of the first pair's misfit over the last one's
FEWEST = 3  # measured pairs that the misfit is learned from
UNKNOWN = 0.15  # of the rows where fewer were measured: pairs of a census table that are strongest decide


@dataclass(frozen=True, eq=False)
class Dropped:
    """A measured pair of columns, and what a model says of it that was made without.

    Attributes:
        part: the pair as it was measured.
        table: the model's counts, of the same shape.
        place: of its set of columns in the order in which these were measured, from 0 to 1.
    """

    part: Measurement
    table: Floats
    place: float

    @property
    def gaps(self) -> Floats:
        """What the model is off by, with the measurement's noise."""
        return np.asarray(self.part.values - self.table)


def dropped_pairs(evidence: Evidence) -> list[Dropped]:
    """Every measured pair by a model without it; none where fewer than FEWEST sets of columns were measured."""
    sets = measured_sets(evidence)
    if len(sets) < FEWEST:
        return []
    return [
        Dropped(part, table, sets.index(columns) / (len(sets) - 1))
        for fold in range(min(FOLDS, len(sets)))
        for columns, part, table in _predicted(evidence, sets[fold::FOLDS])
    ]


def learned_misfit(dropped: Sequence[Dropped]) -> float:
    """s of a pair that was not measured: how far a cell may be off beyond noise (standard deviation), as a share of
    the rows of the table. Of three columns measured together, by their pairs: cells of all three are so small that what
    they are off by depends on themselves alone.

    Args:
        dropped: of a release.
    """
    if not dropped:
        return UNKNOWN
    tables = [each.table for each in dropped]
    gaps = np.concatenate([each.gaps.ravel() for each in dropped])
    counts, free = (np.concatenate([each.ravel() for each in found]) for found in (tables, map(freedom, tables)))
    parts = [(each.part.sigma**2, float(each.table.sum()), each.place) for each in dropped]
    noise, rows, late = np.repeat(np.array(parts), [table.size for table in tables], axis=0).T

    def unlikely(last: float, decline: float) -> float:
        variance = free * misfit_variance(counts, last * np.exp(decline * (1 - late)) * rows) + noise
        return float((np.log(variance) + gaps**2 / variance).sum())

    grid = product(map(float, np.geomspace(_LEAST, _MOST, _STEPS)), _DECLINES)
    return min(grid, key=lambda both: unlikely(*both))[0]


def misfit_in_common(one: Sequence[Dropped], other: Sequence[Dropped]) -> float:
    """The least correlation of what two releases' models are off by, as pairs that both measured show: from 0 to
    MOST_IN_COMMON.

    A model leaves out the same of a pair in both, as far as rows have it in both. Noise is drawn apart: it is in the
    squares of gaps, by its variance, and not in the expectation of their products. The correlation is at least what
    this gives with 95 % confidence (Fisher's transformation, as many values as pairs have freedom with their margins
    known). 0 where both measured fewer than FEWEST pairs, or noise is all that is seen.
    """
    known = {(each.part.columns, each.part.groups, each.part.where): each for each in other}
    pairs = [
        (each, known[name])
        for each in one
        if (name := (each.part.columns, each.part.groups, each.part.where)) in known
        and known[name].part.values.shape == each.part.values.shape
    ]
    if len(pairs) < FEWEST:
        return 0.0
    products, squares, free = 0.0, np.zeros(2), 0
    for both in pairs:
        gaps, sigmas = [each.gaps for each in both], np.array([each.part.sigma for each in both])
        weight = 1 / max(float(sigmas.prod()), _LEAST)
        products += weight * float((gaps[0] * gaps[1]).sum())
        squares += weight * (np.array([float((each**2).sum()) for each in gaps]) - gaps[0].size * sigmas**2)
        free += prod(size - 1 for size in gaps[0].shape)
    if not (squares > 0).all():
        return 0.0
    found = min(products / sqrt(squares.prod()), _ALL)
    return float(np.clip(tanh(atanh(found) - _SURE / sqrt(free)), 0.0, MOST_IN_COMMON)) if found > 0 else 0.0


def _predicted(evidence: Evidence, dropped: Sequence[Columns]) -> Iterator[tuple[Columns, Measurement, Floats]]:
    """Each pair of columns that these sets alone hold: its set, as it was measured, and by a model without the sets."""
    without = [any(set(columns) <= set(m.columns) for columns in dropped) for m in evidence.published]
    kept = [each for each, drop in zip(evidence.published, without, strict=True) if not drop]
    model = evidence.without(without)
    for columns in dropped:
        for whole in (m for m in evidence.published if set(columns) <= set(m.columns)):
            for pair in combinations(columns, 2):
                if not any(set(pair) <= set(m.columns) and m.where in ((), whole.where) for m in kept):
                    part = summed(whole, pair)
                    yield columns, part, expected(model, part)
