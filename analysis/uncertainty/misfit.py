"""How far a model may be off pairs of columns that were not measured: the law of a cell, and what margins leave of it.

A cell's misfit has about the same size whatever the cell holds, but no cell is off by more than about itself
(docs/experiments/estimates.md): its variance is q + 1/(1/(q² + 1) + 1/s²), q being the expected count. s is learned of
pairs that were measured (`equistrata.analysis.uncertainty.learned`). Margins are known, so that is the variance of
cells before their sums are: see `with_margins`. Post-processing, no cost.

Such an effect says nothing of three columns together: no measurement of pairs can. A table of three columns or more
that were not measured together is refused, not guessed (`equistrata.analysis.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from equistrata.analysis.axes import Merged, holds
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.data.strata import Key
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.stats.proportional_fitting import with_sums
from equistrata.synth.measurements import Columns

MOST_ROWS = 0.5  # of the rows: a pair that was measured for no more of them counts as not measured
BELIEF = 0.08  # of the rows: what a measured pair is weighed against
MOST_EFFECT = 2.0  # squared: of a cell of few rows, in whole tables
SUPPORT = 0.01  # of the expected counts: no cell of a sample is empty
_RAKINGS = 15
_LEAST_FREE = 1e-3
_RANK = 1e-12  # of the largest eigenvalue: sums over rows and over columns have the same sum


def measured_sets(evidence: Evidence) -> list[Columns]:
    """The sets of columns that were measured together, in the order of it.

    Those that define strata are left out, and the survey weight, which is measured with every column, however little it
    has to do with it.
    """
    apart = {*evidence.strata.columns, UNIT_ROWS, evidence.strata.schema.survey_weight}
    inner = [tuple(name for name in m.columns if name not in apart) for m in evidence.published]
    return [columns for columns in dict.fromkeys(inner) if len(columns) > 1]


def unmeasured_pairs(evidence: Evidence) -> list[Columns]:
    """The pairs of columns that were measured together neither over all rows nor in strata of half of them."""
    shares = evidence.shares
    pairs = combinations(evidence.names, 2)
    return [pair for pair in pairs if sum(shares[key] for key in strata_with(evidence, pair)) <= MOST_ROWS]


def strata_with(evidence: Evidence, columns: Columns, merged: Merged = ()) -> list[Key]:
    """The strata in which columns were measured together, some in groups of codes: by themselves, or all of them."""
    strata = evidence.strata
    found = [dict(m.where) for m in evidence.published if holds(m, columns, strata.schema, merged)]
    if not all(found):  # over all rows
        return list(strata.keys)
    return [key for key in strata.keys if any(each.items() <= strata.codes_of(key).items() for each in found)]


def misfit_variance(counts: Floats, size: Floats | float) -> Floats:
    """The variance of what a cell that was not measured is off by: of its expected count, and s in rows; any shape.

    Even where the model is right, rows are a sample of it: q.
    """
    kept = np.maximum(counts, 0.0)
    return np.asarray(kept + 1 / (1 / (kept**2 + 1) + 1 / np.maximum(size, 1e-9) ** 2))


def freedom(table: Floats) -> Floats:
    """The part of a cell's variance that is left where the sums over each axis are known: all (1 − its share) of them,
    multiplied, for variances that are products."""
    left = np.ones(table.shape)
    for axis in range(table.ndim):
        sums = table.sum(tuple(other for other in range(table.ndim) if other != axis), keepdims=True)
        left = left * (1 - np.clip(sums / max(float(sums.sum()), 1e-9), 0.0, 1.0))
    return np.asarray(np.maximum(left, _LEAST_FREE))


def with_margins(functionals: Floats, variance: Floats) -> Floats:
    """Sums of cells, each off by itself, where both margins are known.

    Their covariance is the product of the result and its transpose: what the best fit of row and column effects leaves
    of each functional.

    Args:
        functionals: shape (n, a·b).
        variance: of each cell without the margins, shape (a, b).

    Returns: shape (n, a·b).

    >>> left = with_margins(np.array([[1.0, 0, 0, 0], [0.0, 1, 0, 0], [1.0, 1, 0, 0]]), np.full((2, 2), 4.0))
    >>> ((left @ left.T).round(6) + 0.0).tolist()
    [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    a, b = variance.shape
    values = functionals.reshape(len(functionals), a, b)
    # Normal equations of the effects: a matrix of all cells by all effects would be far larger than both.
    crossed = np.block([[np.diag(variance.sum(1)), variance], [variance.T, np.diag(variance.sum(0))]])
    scale = 1 / np.sqrt(np.maximum(np.diag(crossed), 1e-300))
    spread = values * variance
    sums = np.concatenate([spread.sum(2), spread.sum(1)], axis=1)
    inverse = np.linalg.pinv(crossed * scale[:, None] * scale, rcond=_RANK, hermitian=True)
    effects = (sums * scale) @ inverse * scale
    left = values - effects[:, :a, None] - effects[:, None, a:]
    return np.asarray((left * np.sqrt(variance)).reshape(len(values), -1))


def pair_effects(counts: Floats, variance: Floats, rng: np.random.Generator) -> Floats:
    """Random factors of the cells of two columns, with mean 1, that keep both margins.

    Args:
        counts: expected, shape (a, b).
        variance: of what they are off by, before the margins are known.
    """
    table = np.maximum(counts, 1e-9)
    off = np.minimum(variance / table**2, MOST_EFFECT)
    changed = table * np.exp(np.sqrt(np.log1p(off)) * rng.standard_normal(table.shape) - np.log1p(off) / 2)
    margins = [table.sum(1, keepdims=True), table.sum(0, keepdims=True)]
    return np.asarray(with_sums(changed, margins, _RAKINGS) / table)


def table_effects(
    counts: Floats,
    columns: Columns,
    sets: Sequence[frozenset[str]],
    share: float,
    noise: Callable[[Columns], Floats],
    rng: np.random.Generator,
    common: int | None = None,
) -> Floats:
    """A table that rows might have where a model expects these counts: a sample, with the sums that were measured.

    A sum with noise of variance v is known as far as that goes: with a prior variance b (`misfit_variance` at BELIEF)
    it is off by (1 − k)·√b besides what the noise does, k = b/(b + v).

    Args:
        counts: expected, one axis for each of `columns`.
        sets: the columns of each measurement.
        share: s: a pair that no set holds gets `pair_effects` besides.
        noise: of sums over all but some columns, their variance, one axis for each of these.
        common: the seed of `pair_effects` that are the same in all strata.
    """
    held = dict.fromkeys(frozenset(columns) & columns_of for columns_of in sets)  # in an order that no hash changes
    most = [each for each in held if len(each) > 1 and not any(each < other for other in held)]
    kept = [tuple(axis for axis, name in enumerate(columns) if name in each) for each in most]
    kept += [(axis,) for axis in range(len(columns)) if not any(axis in axes for axes in kept)]
    table = np.maximum(counts, 1e-9)
    sums = []
    for axes in kept:
        known = _over(table, axes)
        prior = misfit_variance(known, BELIEF * table.sum())
        variance = noise(tuple(columns[axis] for axis in axes)).reshape(known.shape)
        left = variance / (prior + variance) * np.sqrt(prior)
        sums.append(np.maximum(known + left * rng.standard_normal(known.shape), SUPPORT * known))
    changed = with_sums(rng.poisson(table) + SUPPORT * table, sums, _RAKINGS)
    apart = [pair for pair in combinations(range(len(columns)), 2) if not any(set(pair) <= set(axes) for axes in kept)]
    for pair in apart:
        own = rng if common is None else np.random.default_rng([common, *pair])
        known, shape = _over(table, pair), [table.shape[axis] for axis in pair]
        variance = misfit_variance(known, share * known.sum()).reshape(shape)
        changed = changed * pair_effects(known.reshape(shape), variance, own).reshape(known.shape)
    return changed


def _over(table: Floats, axes: Sequence[int]) -> Floats:
    """Its sums over all other axes, which have length 1."""
    return np.asarray(table.sum(tuple(axis for axis in range(table.ndim) if axis not in axes), keepdims=True))
