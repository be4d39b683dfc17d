"""Distribution of columns within the groups of the strata, and the variance between groups.

In a group with n rows, a share p has the variance p(1 − p)(1/n + τ²) around the share of all rows, similar to the model
of Fay and Herriot (1979). The first term is due to sampling, and the second term is due to differences between groups.
For each column, τ² is estimated from the measured counts with a log-normal prior around the common value of all
columns. All results are post-processing, so they cost no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Measurement, Merging, has_all_codes, join_level_columns, sum_groups
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.strata.model import StratifiedModel

UNKNOWN = 0.015  # τ² if nothing was measured within groups, which is typical of the columns of a census table
_GRID = np.concatenate([[1e-6], np.geomspace(1e-4, 1.0, 33)])
_PRIOR = 1.0  # the standard deviation of log τ² between columns
_SIZES = 200  # the number of grid points for the integral over the size of a group


@dataclass(frozen=True, eq=False)
class GroupShares:
    """The distribution of a column within the k groups of the strata.

    Attributes
    ----------
    column : str
        The name of the column, which has m codes or groups of codes (see `measured_groups`).
    shares : ndarray of shape (k, m)
        The shares according to the model.
    counts : ndarray of shape (k, m)
        The measured counts, or NaN if they were not measured.
    noise : ndarray of shape (k, m)
        The variance of `counts`, or NOT_MEASURED if they were not measured.
    fine : ndarray of shape (k, codes), optional
        The shares of the codes according to the model, if the m categories are groups of codes.
    """

    column: str
    shares: Floats
    counts: Floats
    noise: Floats
    fine: Floats | None = None


def measured_groups(evidence: Evidence, name: str) -> Merging:
    """Return the group of each code for a column with fine bins.

    The groups in which the column was measured within the strata are preferred, then the groups in which it was
    measured with other columns, then the widest groups in which it was measured alone. Groups are needed because the
    shares of many small bins are not known within a stratum. Returns None for other columns, and if the strata were
    measured separately.
    """
    if not evidence.strata.schema[name].fine or any(measurement.where for measurement in evidence.published):
        return None
    wider = [m for m in evidence.published if name in m.columns and len(m.columns) > 1]
    within = [m for m in wider if within_strata(m, evidence.strata.columns)]
    if not wider:  # a single group with all codes would have no error
        return tree_of(evidence.strata.schema[name])[-1]
    return Coarsening.of(evidence.strata.schema, within or wider).groups.get(name)


def within_strata(measurement: Measurement, strata: tuple[str, ...]) -> bool:
    """Return True if a measurement contains all columns of the strata and at least one other column.

    If a single stratum was measured, its columns are included. A measurement by state does not count if the strata are
    PUMAs.
    """
    rest = [name for name in strata if name not in dict(measurement.where)]
    return set(strata) < measurement.involved and has_all_codes(measurement, rest)


def group_shares(evidence: Evidence, model: StratifiedModel, name: str, counted: bool = True) -> GroupShares:
    """Return the shares of a column in a model, and its measured counts unless `counted` is False."""
    schema, strata = evidence.strata.schema, evidence.strata
    published: Sequence[Measurement] = evidence.all
    columns = join_level_columns(schema, (name,), strata.columns)
    table, groups = model.marginal(columns), measured_groups(evidence, name)
    codes = table
    if groups is not None:
        merged = Coarsening(schema, {name: groups})
        schema, table = merged.schema, sum_groups(table, columns.index(name), groups)
        own = [measurement for measurement in published if name in measurement.columns]
        published = [*merged.coarse_all(own), *(m for m in published if name not in m.columns)] if counted else []
    shape = tuple(schema[each].size for each in columns)
    keys = [strata.codes_of(key) for key in strata.keys]
    places = tuple(np.array([key[other] for key in keys], dtype=np.intp) for other in columns if other != name)

    def by_group(table: Floats) -> Floats:
        last = np.moveaxis(table, columns.index(name), -1)
        return np.asarray(last[places] if places else last[None])

    shares, fine = _shares(by_group(table)), None if groups is None else _shares(by_group(codes))
    known = LeastSquares.of(schema, published, columns) if counted else None
    if known is None:
        return GroupShares(name, shares, np.full(shares.shape, np.nan), np.full(shares.shape, NOT_MEASURED), fine)
    noise = by_group(known.variance.reshape(shape))
    counts = by_group(known.counts([measurement.values for measurement in published]).reshape(shape))
    counts = np.where(noise < NOT_MEASURED / 2, counts, np.nan)
    return GroupShares(name, shares, counts, noise, fine)


def _shares(counts: Floats) -> Floats:
    """Convert counts to shares, with one row per group. A group without rows has equal shares."""
    rows = counts.sum(1, keepdims=True)
    return np.asarray(np.where(rows > 1e-9, counts / np.maximum(rows, 1e-9), 1 / counts.shape[1]))


def least_shares(evidence: Evidence, name: str) -> Floats:
    """Return the expected share of each code, or group of codes, if its measured share is 0. Shape (m,).

    A model has no negative cells, so a small share can be 0 in the model because of noise. Its expected value is the
    mean of the noise, cut off at 0. It is 0 if nothing was measured over all rows.
    """
    schema, published = evidence.strata.schema, [m for m in evidence.all if name in m.columns]
    groups = measured_groups(evidence, name)
    if groups is not None:
        merged = Coarsening(schema, {name: groups})
        schema, published = merged.schema, list(merged.coarse_all(published))
    known = LeastSquares.of(schema, published, (name,))
    if known is None:
        return np.zeros(schema[name].size)
    rows = max(float(group_sizes(evidence).sum()), 1.0)
    noise = np.where(known.variance < NOT_MEASURED / 2, known.variance, 0.0).ravel()
    return np.asarray(np.minimum(np.sqrt(noise) * NOISE_L1 / rows, 1 / schema[name].size))


def group_sizes(evidence: Evidence) -> Floats:
    """Return the number of rows of each group in the model, shape (k,)."""
    model = evidence.model
    return np.array([model.weights.shares[key] * model.total for key in evidence.strata.keys])


def size_deviations(evidence: Evidence) -> Floats | None:
    """Return the standard deviation of the noise in each group's size, shape (k,).

    Returns None if no sizes were measured.
    """
    strata = evidence.strata
    known = LeastSquares.of(strata.schema, evidence.all, strata.columns) if strata.columns else None
    if known is None:
        return None
    sigmas = np.sqrt(np.diag(known.covariance)).reshape(known.shape)
    return np.array([sigmas[tuple(strata.codes_of(key).values())] for key in strata.keys])


def counted_sizes(evidence: Evidence, least: float = 1.0) -> tuple[Floats, Floats]:
    """Return the probability that each group has at least `least` rows, and the expected value of 1/n in this case.

    Both arrays have shape (k,).
    """
    sizes, sigmas = group_sizes(evidence), size_deviations(evidence)
    if sigmas is None:
        return np.where(sizes >= least, 1.0, 0.0), np.asarray(1 / np.maximum(sizes, max(least, 1.0)))
    chances, inverse = np.empty(len(sizes)), np.empty(len(sizes))
    for place, (size, sigma) in enumerate(zip(sizes.tolist(), sigmas.tolist(), strict=True)):
        rows, chance = _likely_sizes(size, sigma)
        counts = chance * (rows >= least)
        chances[place] = counts.sum()
        inverse[place] = counts @ (1 / rows) / counts.sum() if counts.any() else 1 / max(least, 1.0)
    return chances, inverse


def _likely_sizes(size: float, sigma: float) -> tuple[Floats, Floats]:
    """Return possible numbers of rows of a group, which are at least 1, and their probabilities with a prior of 1/n."""
    likeliest, sigma = max(size, 1.0), max(sigma, 0.3)
    # the points are equally spaced in log n, so their density is equal to the prior
    grid = np.geomspace(max(likeliest - 6 * sigma, 1.0), likeliest + 6 * sigma, _SIZES)
    likely = np.exp(((likeliest - size) ** 2 - (grid - size) ** 2) / (2 * sigma**2))
    return grid, np.asarray(likely / likely.sum())


def between_groups(evidence: Evidence, columns: Sequence[GroupShares], inverse: Floats) -> Mapping[str, float]:
    """Estimate τ², the variance of a column's shares between groups in excess of sampling, for each column.

    The value is UNKNOWN if nothing was measured within groups.
    """
    sizes, unlikely = group_sizes(evidence), dict[str, Floats]()
    for found in columns if len(sizes) > 1 else ():
        seen = found.noise < NOT_MEASURED / 2
        if not seen.any():
            continue
        shares = np.broadcast_to(sizes @ found.shares / max(float(sizes.sum()), 1e-9), found.shares.shape)
        rows = np.maximum(np.where(seen, found.counts, 0.0).sum(1, keepdims=True), 1.0)
        gaps, chance = found.counts - shares * rows, rows**2 * shares * (1 - shares)
        variances = (
            (chance * np.minimum(inverse[:, None] + spread, 1.0) + found.noise + 1e-9)[seen] for spread in _GRID
        )
        unlikely[found.column] = np.array([float((np.log(v) + gaps[seen] ** 2 / v).sum()) for v in variances])
    if not unlikely:
        return {each.column: UNKNOWN for each in columns}
    common = float(_GRID[int(np.argmin(sum(unlikely.values())))])
    prior = ((np.log(_GRID) - np.log(common)) / _PRIOR) ** 2
    own = {name: float(_GRID[int(np.argmin(each + prior))]) for name, each in unlikely.items()}
    return {each.column: own.get(each.column, common) for each in columns}
