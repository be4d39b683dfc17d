"""Columns within the groups of the strata: shares by the model, what was measured of them, and how groups differ.

A share p of a group of n rows has variance p(1 − p)(1/n + τ²) about that of all rows, as in a model of Fay and Herriot
(1979): its rows are a sample, and groups differ by more than that. τ² is found by maximum likelihood for each column
from its measured counts, with a log-normal prior about that of all columns together. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.arrays import Floats
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Measurement, Merging, at_level, sum_groups, tells_apart
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.strata.model import StratifiedModel

UNKNOWN = 0.015  # τ² where nothing was measured within groups: about that of a census table's columns
_GRID = np.concatenate([[1e-6], np.geomspace(1e-4, 1.0, 33)])
_PRIOR = 1.0  # standard deviation of log τ² over columns
_SIZES = 200  # points of the integral over a group's possible sizes


@dataclass(frozen=True, eq=False)
class GroupShares:
    """A column within the groups of the strata, k of them, in their order.

    Attributes:
        column: with m codes, or groups of them (`measured_groups`).
        shares: by the model, shape (k, m).
        counts: as measured, shape (k, m); NaN where it was not.
        noise: variance of `counts`, shape (k, m); NOT_MEASURED where it was not.
        fine: shares of codes by the model, where the m are groups of them, shape (k, codes).
    """

    column: str
    shares: Floats
    counts: Floats
    noise: Floats
    fine: Floats | None = None


def measured_groups(evidence: Evidence, name: str) -> Merging:
    """The group of each code of a column with fine bins: as it was measured within the groups, if it was, else with
    other columns, else the widest that it was measured in by itself. None for other columns, and where groups were
    measured one by one.

    Of a thousand bins, each of a few rows, no share in a group is known.
    """
    if not evidence.strata.schema[name].fine or any(measurement.where for measurement in evidence.published):
        return None
    wider = [m for m in evidence.published if name in m.columns and len(m.columns) > 1]
    within = [m for m in wider if within_strata(m, evidence.strata.columns)]
    if not wider:  # all codes in one group would be off by nothing
        return tree_of(evidence.strata.schema[name])[-1]
    return Coarsening.of(evidence.strata.schema, within or wider).groups.get(name)


def within_strata(measurement: Measurement, strata: tuple[str, ...]) -> bool:
    """Whether a measurement is of other columns within the strata, or of one of them; of PUMAs, one by state is not."""
    rest = [name for name in strata if name not in dict(measurement.where)]
    return set(strata) < measurement.involved and tells_apart(measurement, rest)


def group_shares(evidence: Evidence, model: StratifiedModel, name: str, counted: bool = True) -> GroupShares:
    """A column's shares by a model, and what was measured of them unless `counted` is off."""
    schema, strata = evidence.strata.schema, evidence.strata
    published: Sequence[Measurement] = evidence.all
    columns = at_level(schema, (name,), strata.columns)
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
    """Of groups, a row each; of one without rows, anything."""
    rows = counts.sum(1, keepdims=True)
    return np.asarray(np.where(rows > 1e-9, counts / np.maximum(rows, 1e-9), 1 / counts.shape[1]))


def least_shares(evidence: Evidence, name: str) -> Floats:
    """What is expected of the share of each code, or group of codes (`measured_groups`), in all rows if it is 0 as
    measured: the mean of its noise, cut off at 0; 0 where nothing was measured of all rows together. Shape (m,).

    No cell of a model is below zero, so a share that noise hides is 0 there, and not known to be.
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
    """The model's rows of each group, shape (k,)."""
    model = evidence.model
    return np.array([model.weights.shares[key] * model.total for key in evidence.strata.keys])


def size_deviations(evidence: Evidence) -> Floats | None:
    """The standard deviation of the noise in each group's measured size, shape (k,); None where none was measured."""
    strata = evidence.strata
    known = LeastSquares.of(strata.schema, evidence.all, strata.columns) if strata.columns else None
    if known is None:
        return None
    sigmas = np.sqrt(np.diag(known.covariance)).reshape(known.shape)
    return np.array([sigmas[tuple(strata.codes_of(key).values())] for key in strata.keys])


def counted_sizes(evidence: Evidence, least: float = 1.0) -> tuple[Floats, Floats]:
    """The chance that each group has at least so many rows, and the expected 1/n if it does; both shape (k,)."""
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
    """The rows that a group of this noisy size may have, 1 or more, and their chances by a prior of 1/n; shape (k,)."""
    likeliest, sigma = max(size, 1.0), max(sigma, 0.3)
    # points even in log n: their density is the prior
    grid = np.geomspace(max(likeliest - 6 * sigma, 1.0), likeliest + 6 * sigma, _SIZES)
    likely = np.exp(((likeliest - size) ** 2 - (grid - size) ** 2) / (2 * sigma**2))
    return grid, np.asarray(likely / likely.sum())


def between_groups(evidence: Evidence, columns: Sequence[GroupShares], inverse: Floats) -> Mapping[str, float]:
    """Column → τ², how far its shares differ between groups beyond their sampling; UNKNOWN where nothing says."""
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
