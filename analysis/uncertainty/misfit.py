"""Misfit of a model for pairs of columns that were not measured together.

The misfit of a cell has about the same size for all cells, but it is at most about the expected count q of the cell
(docs/proofs/estimates.md). Its variance is q + 1/(1/(q² + 1) + 1/s²). The size s is estimated from pairs that were
measured (`equistrata.analysis.uncertainty.learned`). This is the variance of cells before conditioning on the margins,
which are known (see `with_margins`). All results are post-processing, so they cost no privacy.

The misfit of pairs does not describe interactions of three columns, because measurements of pairs contain no
information about these. Therefore, `equistrata.analysis.answers` refuses questions about three or more columns that
were not measured together.
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
from equistrata.stats.proportional_fitting import fit_margins
from equistrata.synth.measurements import Columns

MOST_ROWS = 0.5  # a pair counts as not measured if it was measured for at most this share of the rows
BELIEF = 0.08  # the prior misfit of a measured pair, as a share of the rows
MOST_EFFECT = 2.0  # the maximum squared relative misfit of a cell with few rows, in whole tables
SUPPORT = 0.01  # the share of the expected counts that is added, so that no cell of a sample is empty
_RAKINGS = 15
_LEAST_FREE = 1e-3
_RANK = 1e-12  # relative tolerance; the system is singular, because row sums and column sums have the same total


def measured_sets(evidence: Evidence) -> list[Columns]:
    """Return the sets of columns that were measured together, in the order of measurement.

    The columns that define strata are left out. The survey weight is left out as well, because it is always measured
    with every column.
    """
    apart = {*evidence.strata.columns, UNIT_ROWS, evidence.strata.schema.survey_weight}
    inner = [tuple(name for name in m.columns if name not in apart) for m in evidence.published]
    return [columns for columns in dict.fromkeys(inner) if len(columns) > 1]


def unmeasured_pairs(evidence: Evidence) -> list[Columns]:
    """Return the pairs of columns that were not measured together.

    A pair counts as measured if it was measured over all rows, or in strata with more than half of the rows.
    """
    shares = evidence.shares
    pairs = combinations(evidence.names, 2)
    return [pair for pair in pairs if sum(shares[key] for key in strata_with(evidence, pair)) <= MOST_ROWS]


def strata_with(evidence: Evidence, columns: Columns, merged: Merged = ()) -> list[Key]:
    """Return the strata in which columns were measured together, optionally in groups of codes.

    These are all strata if the columns were measured over all rows.
    """
    strata = evidence.strata
    found = [dict(m.where) for m in evidence.published if holds(m, columns, strata.schema, merged)]
    if not all(found):  # over all rows
        return list(strata.keys)
    return [key for key in strata.keys if any(each.items() <= strata.codes_of(key).items() for each in found)]


def misfit_variance(counts: Floats, size: Floats | float) -> Floats:
    """Return the variance of the misfit for cells that were not measured.

    It is at least the count q of the cell, because the rows are a sample even if the model is correct.

    Parameters
    ----------
    counts : ndarray
        The expected counts, of any shape.
    size : float or ndarray
        The size s of the misfit in rows.

    Returns
    -------
    ndarray
        The variances, with the shape of `counts`.
    """
    kept = np.maximum(counts, 0.0)
    return np.asarray(kept + 1 / (1 / (kept**2 + 1) + 1 / np.maximum(size, 1e-9) ** 2))


def freedom(table: Floats) -> Floats:
    """Return the share of each cell's variance that remains if the sums over each axis are known.

    It is the product of (1 − share) over the axes, which is exact for variances that are products.
    """
    left = np.ones(table.shape)
    for axis in range(table.ndim):
        sums = table.sum(tuple(other for other in range(table.ndim) if other != axis), keepdims=True)
        left = left * (1 - np.clip(sums / max(float(sums.sum()), 1e-9), 0.0, 1.0))
    return np.asarray(np.maximum(left, _LEAST_FREE))


def with_margins(functionals: Floats, variance: Floats) -> Floats:
    """Compute sums of cells with independent errors, given both margins.

    The product of the result and its transpose is the covariance of the sums. It is the part of each functional that
    remains after the best fit of row and column effects.

    Parameters
    ----------
    functionals : ndarray of shape (n, a * b)
        The sums as functionals of the cells.
    variance : ndarray of shape (a, b)
        The variance of each cell before conditioning on the margins.

    Returns
    -------
    ndarray of shape (n, a * b)
        Independent components of the errors.

    Examples
    --------
    >>> left = with_margins(np.array([[1.0, 0, 0, 0], [0.0, 1, 0, 0], [1.0, 1, 0, 0]]), np.full((2, 2), 4.0))
    >>> ((left @ left.T).round(6) + 0.0).tolist()
    [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    a, b = variance.shape
    values = functionals.reshape(len(functionals), a, b)
    # Use the normal equations of the effects, because the matrix of all cells by all effects would be too large.
    crossed = np.block([[np.diag(variance.sum(1)), variance], [variance.T, np.diag(variance.sum(0))]])
    scale = 1 / np.sqrt(np.maximum(np.diag(crossed), 1e-300))
    spread = values * variance
    sums = np.concatenate([spread.sum(2), spread.sum(1)], axis=1)
    inverse = np.linalg.pinv(crossed * scale[:, None] * scale, rcond=_RANK, hermitian=True)
    effects = (sums * scale) @ inverse * scale
    left = values - effects[:, :a, None] - effects[:, None, a:]
    return np.asarray((left * np.sqrt(variance)).reshape(len(values), -1))


def pair_effects(counts: Floats, variance: Floats, rng: np.random.Generator) -> Floats:
    """Draw random factors for the cells of two columns, with mean 1, that preserve both margins.

    Parameters
    ----------
    counts : ndarray of shape (a, b)
        The expected counts.
    variance : ndarray of shape (a, b)
        The variance of the misfit before conditioning on the margins.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    ndarray of shape (a, b)
        The factors.
    """
    table = np.maximum(counts, 1e-9)
    off = np.minimum(variance / table**2, MOST_EFFECT)
    changed = table * np.exp(np.sqrt(np.log1p(off)) * rng.standard_normal(table.shape) - np.log1p(off) / 2)
    margins = [table.sum(1, keepdims=True), table.sum(0, keepdims=True)]
    return np.asarray(fit_margins(changed, margins, _RAKINGS) / table)


def table_effects(
    counts: Floats,
    columns: Columns,
    sets: Sequence[frozenset[str]],
    share: float,
    noise: Callable[[Columns], Floats],
    rng: np.random.Generator,
    common: int | None = None,
) -> Floats:
    """Draw a table of counts that rows may have, given the expected counts of a model and the measured sums.

    The noise of a measured sum has variance v, and its prior misfit has variance b (`misfit_variance` at BELIEF). The
    sum therefore has an error of (1 − k)·√b in addition to the effect of the noise, where k = b/(b + v).

    Parameters
    ----------
    counts : ndarray
        The expected counts, with one axis for each of `columns`.
    columns : tuple of str
        The columns of the table.
    sets : sequence of frozenset of str
        The columns of each measurement.
    share : float
        The misfit s. Each pair that is not in any set also gets `pair_effects`.
    noise : callable
        A function that returns the variance of the sums over some columns, with one axis for each of these columns.
    rng : numpy.random.Generator
        The random number generator.
    common : int, optional
        The seed for the `pair_effects` that are the same in all strata.

    Returns
    -------
    ndarray
        The table, with the shape of `counts`.
    """
    # The order does not depend on hash values.
    held = dict.fromkeys(frozenset(columns) & columns_of for columns_of in sets)
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
    changed = fit_margins(rng.poisson(table) + SUPPORT * table, sums, _RAKINGS)
    apart = [pair for pair in combinations(range(len(columns)), 2) if not any(set(pair) <= set(axes) for axes in kept)]
    for pair in apart:
        own = rng if common is None else np.random.default_rng([common, *pair])
        known, shape = _over(table, pair), [table.shape[axis] for axis in pair]
        variance = misfit_variance(known, share * known.sum()).reshape(shape)
        changed = changed * pair_effects(known.reshape(shape), variance, own).reshape(known.shape)
    return changed


def _over(table: Floats, axes: Sequence[int]) -> Floats:
    """Return the sums of a table over all other axes, which are kept with length 1."""
    return np.asarray(table.sum(tuple(axis for axis in range(table.ndim) if axis not in axes), keepdims=True))
