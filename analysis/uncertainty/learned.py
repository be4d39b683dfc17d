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

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import freedom, measured_sets, misfit_variance
from equistrata.analysis.uncertainty.replicates import expected
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, Measurement, summed

FOLDS = 4  # refits: each predicts a quarter of the measured pairs
_COMMON = np.linspace(0.0, 0.999, 334)  # correlations of the misfits of two releases; with none apart noise decides
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
    return _ends(dropped)[0] if dropped else UNKNOWN


def _ends(dropped: Sequence[Dropped]) -> tuple[float, float]:
    """The most likely s of the last pair, and the logarithm of the first one's over it."""
    tables = [each.table for each in dropped]
    gaps = np.concatenate([each.gaps.ravel() for each in dropped])
    counts, free = (np.concatenate([each.ravel() for each in found]) for found in (tables, map(freedom, tables)))
    parts = [(each.part.sigma**2, float(each.table.sum()), each.place) for each in dropped]
    noise, rows, late = np.repeat(np.array(parts), [table.size for table in tables], axis=0).T

    def unlikely(last: float, decline: float) -> float:
        variance = free * misfit_variance(counts, last * np.exp(decline * (1 - late)) * rows) + noise
        return float((np.log(variance) + gaps**2 / variance).sum())

    grid = product(map(float, np.geomspace(_LEAST, _MOST, _STEPS)), _DECLINES)
    return min(grid, key=lambda both: unlikely(*both))


def misfit_in_common(one: Sequence[Dropped], other: Sequence[Dropped]) -> float:
    """The correlation of what two releases' models are off by, as pairs that both measured show it: from 0 to 1.

    A model leaves out the same of a pair in both, as far as rows have it in both; noise is drawn apart. What two months
    are off by at a cell is normal, with each month's variance of misfit and of noise and the misfits' correlation. Its
    posterior mean by a prior that is even from 0 to 1: a change's variance is linear in it, so this is the variance's
    own. 0 where both measured fewer than FEWEST pairs.
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
    laws = [_ends(each) for each in (one, other)]
    likely = np.zeros(len(_COMMON))  # its logarithm
    for both in pairs:
        gaps = [each.gaps.ravel() for each in both]
        misfits = [_misfit(each, *law).ravel() for each, law in zip(both, laws, strict=True)]
        first, second = (off + each.part.sigma**2 for each, off in zip(both, misfits, strict=True))
        shared = _COMMON[:, None] * np.sqrt(misfits[0] * misfits[1])
        whole = first * second - shared**2
        squares = (second * gaps[0] ** 2 - 2 * shared * gaps[0] * gaps[1] + first * gaps[1] ** 2) / whole
        likely -= (np.log(whole) + squares).sum(1) / 2
    weights = np.exp(likely - likely.max())
    return float(weights @ _COMMON / weights.sum())


def _misfit(each: Dropped, last: float, decline: float) -> Floats:
    """The variance of what the model is off by at each cell, where the sums of a pair are known."""
    rows = float(each.table.sum())
    return freedom(each.table) * misfit_variance(each.table, last * np.exp(decline * (1 - each.place)) * rows)


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
