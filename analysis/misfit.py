"""How far a model is off pairs of columns that were not measured, learned from pairs that were.

Measured pairs are dropped, a few at a time, and a model of the rest predicts them. What it is off by beyond the noise
of the measurement is its misfit there. A cell's misfit has about the same size whatever the cell holds, but no cell is
off by more than about itself (docs/experiments/estimates.md): its variance is 1/(1/(q² + q + 1) + 1/s²), q being the
expected count, with one s for all pairs, found by maximum likelihood. Pairs are measured in the order of how far off
they are, so those that were measured last are most like those that never were. Post-processing, no cost.

Such an effect says nothing of three columns together: no measurement of pairs can. A three-way table of which some
triple was not measured is refused, not guessed (`equistrata.analysis.answers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from equistrata.analysis.evidence import Evidence
from equistrata.analysis.replicates import expected
from equistrata.arrays import Floats
from equistrata.data.strata import Key
from equistrata.synth.measurements import Columns, Measurement

FOLDS = 4  # refits: each predicts a quarter of the measured pairs
FEWEST = 3  # measured pairs that the misfit is learned from
MOST_ROWS = 0.5  # of the rows: a pair that was measured for no more of them counts as not measured
UNKNOWN = 0.02  # of the rows where fewer were measured: about that of the strongest pairs of a census table
_LEAST, _MOST, _STEPS = 1e-5, 0.3, 120  # of the rows: where the misfit is looked for


def measured_sets(evidence: Evidence) -> list[Columns]:
    """The sets of columns, those that define strata left out, that were measured together, in the order of it."""
    inner = [tuple(name for name in m.columns if name not in evidence.strata.columns) for m in evidence.all]
    return [columns for columns in dict.fromkeys(inner) if len(columns) > 1]


def unmeasured_pairs(evidence: Evidence) -> list[Columns]:
    """The pairs of columns that were measured together neither over all rows nor in strata of half of them."""
    shares = evidence.model.weights.shares
    pairs = combinations(evidence.strata.schema.names, 2)
    return [pair for pair in pairs if sum(shares[key] for key in strata_with(evidence, pair)) <= MOST_ROWS]


def strata_with(evidence: Evidence, pair: Columns) -> list[Key]:
    """The strata in which two columns were measured together: by themselves, or all of them."""
    keys = []
    for key in evidence.strata.keys:
        codes = evidence.strata.codes_of(key)
        if any(
            set(pair) <= {*m.columns, *dict(m.where)} and dict(m.where).items() <= codes.items() for m in evidence.all
        ):
            keys.append(key)
    return keys


def learned_misfit(evidence: Evidence) -> float:
    """s of a pair that was not measured: how far a cell may be off beyond noise (standard deviation), as a share of
    the rows of the table."""
    sets = measured_sets(evidence)
    if len(sets) < FEWEST:
        return UNKNOWN
    last = set(sets[-max(len(sets) // 3, FEWEST) :] if len(sets) >= 2 * FEWEST else sets)
    found: list[tuple[Floats, Floats, float, float]] = []
    for fold in range(min(FOLDS, len(sets))):
        dropped = sets[fold::FOLDS]
        without = [any(set(columns) <= set(m.columns) for columns in dropped) for m in evidence.all]
        model = evidence.without(without)
        for columns in last.intersection(dropped):
            for part in (_summed(m, columns) for m in evidence.all if set(columns) <= set(m.columns)):
                counts = expected(model, part).ravel()
                found.append((part.values.ravel() - counts, counts, part.sigma**2, float(counts.sum())))
    gaps, counts = (np.concatenate([each[place] for each in found]) for place in (0, 1))
    noise, rows = (np.concatenate([np.full(len(each[0]), each[place]) for each in found]) for place in (2, 3))

    def unlikely(share: float) -> float:
        variance = misfit_variance(counts, share * rows) + noise
        return float((np.log(variance) + gaps**2 / variance).sum())

    return float(min(map(float, np.geomspace(_LEAST, _MOST, _STEPS)), key=unlikely))


def misfit_variance(counts: Floats, size: Floats | float) -> Floats:
    """The variance of what a cell that was not measured is off by: of its expected count, and s in rows; any shape."""
    kept = np.maximum(counts, 0.0)
    return np.asarray(1 / (1 / (kept**2 + kept + 1) + 1 / np.maximum(size, 1e-9) ** 2))


def _summed(measurement: Measurement, columns: Sequence[str]) -> Measurement:
    """A measurement added up over all other columns."""
    rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in columns)
    kept = [axis for axis in range(len(measurement.columns)) if axis not in rest]
    summed = measurement.values.sum(rest)
    sigma = measurement.sigma * (measurement.values.size / max(summed.size, 1)) ** 0.5
    return replace(
        measurement,
        columns=tuple(measurement.columns[axis] for axis in kept),
        values=summed,
        sigma=sigma,
        groups=tuple(measurement.groups[axis] for axis in kept),
    )


def pair_effects(counts: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Random factors of the cells of two columns, with mean 1 and `misfit_variance`, that keep both margins.

    Args:
        counts: expected, shape (a, b).
        share: s, as a share of them.
    """
    table = np.maximum(counts, 1e-9)
    relative = np.log1p(misfit_variance(table, share * table.sum()) / table**2)
    changed = table * np.exp(np.sqrt(relative) * rng.standard_normal(table.shape) - relative / 2)
    for _ in range(20):  # iterative proportional fitting to the table's own margins
        changed *= table.sum(1, keepdims=True) / changed.sum(1, keepdims=True)
        changed *= table.sum(0, keepdims=True) / changed.sum(0, keepdims=True)
    return np.asarray(changed / table)
