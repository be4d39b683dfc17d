"""Shrinkage: predictions of a stratum's marginals from the other strata's measurements, so that small ones borrow.

Post-processing of noisy numbers. A linear mixed model with known noise (`equistrata.stats.random_effects`) of the
strata's shares in a marginal gives each stratum a prior mean and variance from the others; the estimation engine weighs
it against the stratum's own measurements by inverse variance. See docs/proofs/shrinkage.md.

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["RAC1P", "DIS", "ESR"])
>>> strata = Strata.over(schema, ["RAC1P"])
>>> counts = {key: Measurement(("DIS",), np.array([800.0, 9200.0]) * size, 100.0)
...           for key, size in zip(strata.keys, [10, 9, 8, 7, 6, 5, 4, 3, 0.01], strict=True)}
>>> [extra] = borrow(strata, {key: [measured] for key, measured in counts.items()})[(9,)]
>>> extra.columns, extra.values.round().tolist(), extra.cell_sigma.round(1).tolist()
(('DIS',), [8.0, 92.0], [2.8, 9.6])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Key, Strata
from equistrata.stats.random_effects import effects, project, variances
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import (
    Columns,
    Filtered,
    Measurement,
    Merging,
    given,
    root_mean_square,
    sum_groups,
    total_estimate,
)
from equistrata.synth.strata.outliers import Looks, levels_of, shifts, widest_variance
from equistrata.synth.strata.related import LEAST_VARIANCE, Told, related
from equistrata.synth.strata.seen import Seen, chance_of, directions_of, told_by_others

# docs/experiments/shrinkage.md
_WORTH_IT = 4.0  # times the own measurement's σ: a prediction with a larger one would add little and is left out
_LEAST_STRATA = 3  # that must have measured a marginal before it is predicted; of two, both
FEW = 200  # strata: their matrices are so small that a second thread only waits (docs/experiments/series.md)
MOST_BORROWERS = 3_000  # strata: what each says of each other takes memory as their square, and time as their cube


def borrow(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], wider: Sequence[Measurement] = ()
) -> dict[Key, list[Measurement]]:
    """For each stratum, what the others predict; an empty list where that would add little to its own measurements.

    Every column is predicted, and the pairs of columns that the stratum measured; one that measured none, being too
    small, gets the tree of pairs with the most mutual information, as predicted for it. A pair's prediction has the
    posterior of its columns as margins: else every pair of a column would count its prior once more. Post-processing.

    Args:
        strata: how the population was cut.
        measurements: for every stratum, what was measured, with nothing borrowed yet.
        wider: what was measured over all rows, or by some of the stratum columns only.

    Returns:
        Measurements whose values sum to the stratum's estimated number of rows and whose `cell_sigma` are those of the
        prediction, as of cells that are independent except for that sum.
    """
    if not 2 <= len(strata.keys) <= MOST_BORROWERS:
        return {key: [] for key in strata.keys}
    with one_thread() if len(strata.keys) <= FEW else nullcontext():
        return _borrowed(strata, measurements, wider)


def _borrowed(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], wider: Sequence[Measurement]
) -> dict[Key, list[Measurement]]:
    """See `borrow`."""
    rows = np.array([max(total_estimate(measurements[key])[0], 1.0) for key in strata.keys])
    parts = np.eye(len(rows))
    groups = [_Group(measurements[key], n, own) for key, n, own in zip(strata.keys, rows, parts, strict=True)]
    groups += _mixtures(strata, wider, rows)
    names = [name for name in strata.schema.names if name not in strata.columns]
    singles: list[Columns] = [(name,) for name in names]
    pairs: list[Columns] = list(combinations(names, 2))
    merged = _merged(strata, groups[: len(rows)])
    found = {
        columns: _seen(strata, groups, columns, merged if columns in singles else {}) for columns in (*singles, *pairs)
    }
    known = {columns: seen for columns, seen in found.items() if seen is not None}
    usual = _usual([known[name] for name in singles if name in known]) if len(rows) == 2 else None
    spreads = {columns: seen.spread(usual if columns in singles else None) for columns, seen in known.items()}
    unlike = _unlike(strata, known, spreads)
    told = {columns: told_by_others(seen, spreads[columns], unlike[columns]) for columns, seen in known.items()}
    told |= _related(groups, len(rows), {columns: told[columns] for columns in singles if columns in told}, merged)
    extras: dict[Key, list[Measurement]] = {key: [] for key in strata.keys}
    for place, (key, group) in enumerate(zip(strata.keys, groups, strict=False)):
        chosen = [pair for pair in pairs if group.look(pair) is not None]
        chosen = chosen or _forest({pair: told[pair][0][place] for pair in pairs if pair in told})
        margins = {columns[0]: _posterior(group, columns, told, place, merged) for columns in singles}
        for columns in [columns for columns in (*singles, *chosen) if columns in told]:
            shares, sigma = told[columns]
            finer: Mapping[str, Merging] = {} if columns in pairs else merged
            share = _raked(shares[place], columns, margins, merged) if columns in pairs else shares[place]
            merging = tuple(finer.get(name) for name in columns)
            sigmas = sigma[place] * group.rows
            extra = Filtered(columns, share * group.rows, root_mean_square(sigmas), merging, sigmas=sigmas)
            own = group.look(columns, finer)
            if own is None or float(np.mean(sigmas**-2.0)) ** -0.5 <= _WORTH_IT * own[1]:
                extras[key].append(extra)
    return extras


@dataclass(frozen=True, eq=False)
class _Group:
    """What was measured of one stratum or of several together: how many rows, and each stratum's part, shape (k,)."""

    measurements: Sequence[Measurement]
    rows: float
    weights: Floats

    def look(
        self, columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
    ) -> tuple[Floats, float] | None:
        """Counts over columns and the σ of a cell, from all measurements that hold them; None if there are none.

        Args:
            merged: columns of which a cell is of several codes.
        """
        precision, counts = 0.0, None
        for measurement in self.measurements:
            seen = dict(zip(measurement.columns, measurement.groups, strict=True))
            known = all(name in seen and seen[name] in (None, merged.get(name)) for name in columns)
            if not measurement.sigma or not known:
                continue
            axes = [measurement.columns.index(name) for name in columns]
            rest = tuple(axis for axis in range(len(seen)) if axis not in axes)
            summed = np.transpose(measurement.values, [*axes, *rest]).reshape(
                [*(measurement.values.shape[axis] for axis in axes), -1]
            )
            variance, summed = measurement.sigma**2 * summed.shape[-1], summed.sum(-1)
            for axis, name in enumerate(columns):
                codes = merged.get(name)
                if codes is not None and seen[name] is None:
                    variance *= len(codes) / (max(codes) + 1)
                    summed = sum_groups(summed, axis, codes)
            weight = 1 / variance
            counts = weight * summed + (0.0 if counts is None else counts)
            precision += weight
        return None if counts is None else (counts / precision, precision**-0.5)


def _posterior(
    group: _Group,
    columns: Columns,
    told: Mapping[Columns, Told],
    place: int,
    merged: Mapping[str, Merging],
) -> Floats | None:
    """A stratum's shares in a marginal, from its own measurements and its prediction; None where there is neither."""
    own, parts, precision = group.look(columns, merged), [], []
    if own is not None:
        parts.append(own[0] / group.rows)
        precision.append(np.full(own[0].shape, (group.rows / own[1]) ** 2))
    if columns in told:
        parts.append(told[columns][0][place])
        precision.append(told[columns][1][place] ** -2)
    if not parts:
        return None
    shares, variance = np.average(parts, axis=0, weights=precision), 1 / np.add.reduce(precision)
    return np.asarray(shares + (1 - shares.sum()) * variance / variance.sum())


def _raked(
    shares: Floats, columns: Columns, margins: Mapping[str, Floats | None], merged: Mapping[str, Merging]
) -> Floats:
    """A pair's shares with these margins where they are known, changed evenly, as least squares would."""
    for axis, name in enumerate(columns):
        margin, codes = margins[name], merged.get(name)
        if margin is not None:
            groups = np.arange(shares.shape[axis]) if codes is None else np.asarray(codes)
            gap = margin - np.bincount(groups, shares.sum(1 - axis))
            evenly = (gap / np.bincount(groups))[groups] / shares.shape[1 - axis]
            shares = shares + np.expand_dims(evenly, 1 - axis)
    return shares


def _merged(strata: Strata, groups: Sequence[_Group]) -> dict[str, Merging]:
    """Columns that each stratum measured by themselves with merged codes only, the same ones in all strata."""
    found: dict[str, Merging] = {}
    for column in strata.schema.columns:
        kinds = {m.groups[0] for group in groups for m in group.measurements if m.columns == (column.name,)}
        if len(kinds) == 1 and None not in kinds:
            found[column.name] = kinds.pop()
    return found


def _seen(
    strata: Strata, groups: Sequence[_Group], columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
) -> Seen | None:
    """A marginal as seen by strata and then by sums over several; None if too few have measured it."""
    count = len(strata.keys)
    found = [(group, group.look(columns, merged)) for group in groups]
    looks = [(group, look) for group, look in found if look is not None]
    own = np.array([look is not None for _, look in found[:count]])
    if own.sum() < min(_LEAST_STRATA, count) or looks[0][1][0].size < 2:
        return None
    shares = np.array([(look[0] / group.rows).ravel() for group, look in looks])
    noise = np.array([(look[1] / group.rows) ** 2 for group, look in looks])
    chance = chance_of(shares, noise) / np.array([group.rows for group in groups[:count]])
    design = np.array([group.weights for group, _ in looks])
    directions, scales = directions_of(np.average(shares, axis=0, weights=1 / noise), len(looks))
    shape = looks[0][1][0].shape
    return Seen(shape, shares, noise, design, own, chance, effects(strata.keys), directions, scales)


def _usual(columns: Sequence[Seen]) -> Floats | None:
    """The variance of each effect over columns together: one difference of two strata says little of a variance."""
    most = max((len(column.shares) for column in columns), default=0)
    alike = [column for column in columns if len(column.shares) == most]
    if not alike:
        return None
    kernels = [alike[0].over_looks(kernel) for kernel in alike[0].kernels]
    known = np.mean([column.known for column in alike], axis=0)
    observed = np.hstack([column.observed for column in alike])
    return np.maximum(variances(kernels, observed, known), LEAST_VARIANCE)


def _unlike(strata: Strata, known: Mapping[Columns, Seen], spreads: Mapping[Columns, Floats]) -> dict[Columns, Floats]:
    """For each marginal the covariance of strata that are unlike all others, shape (k, k); of two strata none is."""
    count = len(strata.keys)
    if count < _LEAST_STRATA:
        return {columns: np.zeros((count, count)) for columns in known}
    levels, looks = levels_of(strata.keys), {}
    for columns, seen in known.items():
        covariance = seen.over_looks(seen.between(spreads[columns])) + np.diag(seen.known)
        projection = project(covariance)[1]
        looks[columns] = Looks(projection, seen.observed, levels @ seen.design.T, widest_variance(seen.usual))
    return {columns: np.asarray(levels.T * found @ levels) for columns, found in shifts(looks).items()}


def _related(
    groups: Sequence[_Group], strata: int, told: Mapping[Columns, Told], merged: Mapping[str, Merging]
) -> dict[Columns, Told]:
    """Predictions of columns, by the stratum's own counts of other columns besides (`related`)."""
    names = [columns[0] for columns in told]
    looks = {name: [_shares(group, (name,), merged) for group in groups[:strata]] for name in names}
    pairs = {}
    for pair in combinations(names, 2):
        found = [look for group in groups if (look := _shares(group, pair, merged)) is not None]
        if found:
            precision = np.array([sigma**-2 for _, sigma in found])
            together = np.average([shares for shares, _ in found], axis=0, weights=precision)
            pairs[pair] = together, float(precision.sum() ** -0.5)
    return {(name,): new for name, new in related({name: told[name,] for name in names}, looks, pairs).items()}


def _shares(group: _Group, columns: Columns, merged: Mapping[str, Merging]) -> tuple[Floats, float] | None:
    """`_Group.look` as shares of the group's rows."""
    look = group.look(columns, merged)
    return None if look is None else (look[0] / group.rows, look[1] / group.rows)


def _mixtures(strata: Strata, wider: Sequence[Measurement], rows: Floats) -> list[_Group]:
    """Wider measurements by the group of strata that they are sums over: all strata, those of one sex, and so on."""
    codes = np.array([list(strata.codes_of(key).values()) for key in strata.keys])
    found: dict[tuple[Columns, tuple[int, ...]], list[Measurement]] = {}
    for measurement in wider:
        level = tuple(name for name in strata.columns if name in measurement.columns)
        for group in np.ndindex(*(strata.schema[name].size for name in level)):
            part = given(measurement, dict(zip(level, group, strict=True)))
            found.setdefault((level, group), []).append(part)
    mixtures = []
    for (level, group), parts in found.items():
        sizes = np.where((codes[:, [strata.columns.index(name) for name in level]] == group).all(1), rows, 0.0)
        if sizes.any():
            mixtures.append(_Group(parts, float(sizes.sum()), sizes / sizes.sum()))
    return mixtures


def _forest(shares: Mapping[Columns, Floats]) -> list[Columns]:
    """The spanning forest of pairs with the most mutual information."""
    part = {name: name for pair in shares for name in pair}
    tree: list[Columns] = []
    for pair in sorted(shares, key=lambda pair: -_mutual_information(shares[pair])):
        old, new = part[pair[0]], part[pair[1]]
        if old != new:
            tree.append(pair)
            part = {name: new if root == old else root for name, root in part.items()}
    return tree


def _mutual_information(shares: Floats) -> float:
    joint = np.maximum(shares, 1e-9)
    joint = joint / joint.sum()
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    return float((joint * np.log(joint / apart)).sum())
