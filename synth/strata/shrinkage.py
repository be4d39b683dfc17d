"""Shrink strata toward a model fitted to all strata, so that small strata are less noisy.

The shares of a marginal's cells follow a linear mixed model across strata, with random effects of the stratum columns
and known noise variance (`equistrata.stats.random_effects`). The variance of an effect on a cell of share p is in
proportion to p(1 − p), as for rows that are drawn at random. For each stratum the other strata's measurements give a
prior mean and variance; the estimation engine weighs that prior against the stratum's own measurements by inverse
variance. Post-processing of noisy numbers, at no cost. See docs/proofs/shrinkage.md.

References
----------
Fay and Herriot (1979), Estimates of income for small places, JASA 74.

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["RAC1P", "DIS", "ESR"])
>>> strata = Strata.over(schema, ["RAC1P"])
>>> counts = {key: [Measurement(("DIS",), np.array([800.0, 9200.0]) * size, 100.0)]
...           for key, size in zip(strata.keys, [10, 9, 8, 7, 6, 5, 4, 3, 0.01], strict=True)}
>>> [prior] = predict_from_others(strata, counts)[(9,)]
>>> prior.columns, prior.values.round().tolist(), prior.cell_sigma.round(1).tolist()
(('DIS',), [8.0, 92.0], [2.8, 9.6])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

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

_WORTH_IT = 4.0  # times the own measurement's σ: a prior with a larger one is left out
_LEAST_STRATA = 3  # that must have measured a marginal before it is predicted; of two strata, both
FEW = 200  # strata: their matrices are so small that a second thread only waits
MOST_STRATA = 3_000  # the model takes memory as their square, and time as their cube
_MOST_GROUPS = 300  # of strata and sums over them: with more, all cells have one variance, since each takes an inverse
_RAREST = 0.1  # of an equal share: the least share of a cell that says how much it varies
_LEAST_VARIANCE = 1e-12  # of a share

Prediction = tuple[Floats, Floats]  # shares by stratum and cell, and their standard deviations, shapes (k, …)


def predict_from_others(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], wider: Sequence[Measurement] = ()
) -> dict[Key, list[Measurement]]:
    """Predict each stratum's marginals from the other strata's measurements.

    Every column is predicted, and every pair of columns that the stratum measured. A stratum without a measured pair
    gets the tree of predicted pairs with the most mutual information. A pair's prediction has the posterior of its
    columns as margins; otherwise each pair would count the prior of a column once more.

    Parameters
    ----------
    strata : Strata
    measurements : mapping of stratum key to list of Measurement
        What was measured in each stratum.
    wider : sequence of Measurement
        What was measured over all rows, or by some of the stratum columns.

    Returns
    -------
    dict of stratum key to list of Measurement
        Priors in rows: they sum to the stratum's estimated size. Empty where a prior would hardly change the posterior.

    Privacy
    -------
    None: post-processing.
    """
    if not 2 <= len(strata.keys) <= MOST_STRATA:
        return {key: [] for key in strata.keys}
    with one_thread() if len(strata.keys) <= FEW else nullcontext():
        return _predicted(strata, measurements, wider)


def _predicted(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], wider: Sequence[Measurement]
) -> dict[Key, list[Measurement]]:
    rows = np.array([max(total_estimate(measurements[key])[0], 1.0) for key in strata.keys])
    parts = np.eye(len(rows))
    groups = [_Group(measurements[key], n, own) for key, n, own in zip(strata.keys, rows, parts, strict=True)]
    groups += _sums_over_strata(strata, wider, rows)
    names = [name for name in strata.schema.names if name not in strata.columns]
    singles: list[Columns] = [(name,) for name in names]
    pairs: list[Columns] = list(combinations(names, 2))
    merged = _merged(strata, groups[: len(rows)])
    marginals = {
        columns: found
        for columns in (*singles, *pairs)
        if (found := _marginal(strata, groups, columns, merged if columns in singles else {})) is not None
    }
    pooled = _pooled_variances([marginals[name] for name in singles if name in marginals]) if len(rows) == 2 else None
    predictions = {
        columns: each.predict(each.variances(pooled if columns in singles else None))
        for columns, each in marginals.items()
    }
    priors: dict[Key, list[Measurement]] = {key: [] for key in strata.keys}
    for place, (key, group) in enumerate(zip(strata.keys, groups, strict=False)):
        chosen = [pair for pair in pairs if group.counts(pair) is not None]
        chosen = chosen or _forest({pair: predictions[pair][0][place] for pair in pairs if pair in predictions})
        margins = {columns[0]: _posterior(group, columns, predictions, place, merged) for columns in singles}
        for columns in [columns for columns in (*singles, *chosen) if columns in predictions]:
            shares, sigmas = predictions[columns]
            finer: Mapping[str, Merging] = {} if columns in pairs else merged
            share = _with_margins(shares[place], columns, margins, merged) if columns in pairs else shares[place]
            sigma = sigmas[place] * group.rows
            own = group.counts(columns, finer)
            if own is None or float(np.mean(sigma**-2.0)) ** -0.5 <= _WORTH_IT * own[1]:
                merging = tuple(finer.get(name) for name in columns)
                priors[key].append(
                    Filtered(columns, share * group.rows, root_mean_square(sigma), merging, sigmas=sigma)
                )
    return priors


@dataclass(frozen=True, eq=False)
class _Group:
    """What was measured of a stratum, or of several together: its rows, and each stratum's part in it, shape (k,)."""

    measurements: Sequence[Measurement]
    rows: float
    weights: Floats

    def counts(
        self, columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
    ) -> tuple[Floats, float] | None:
        """Counts over columns with the σ of a cell, from all measurements that hold them; None if there are none.

        `merged` are columns of which a cell holds several codes.
        """
        precision, counts = 0.0, None
        for measurement in self.measurements:
            groups = dict(zip(measurement.columns, measurement.groups, strict=True))
            known = all(name in groups and groups[name] in (None, merged.get(name)) for name in columns)
            if not measurement.sigma or not known:
                continue
            axes = [measurement.columns.index(name) for name in columns]
            rest = tuple(axis for axis in range(len(groups)) if axis not in axes)
            summed = np.transpose(measurement.values, [*axes, *rest]).reshape(
                [*(measurement.values.shape[axis] for axis in axes), -1]
            )
            variance, summed = measurement.sigma**2 * summed.shape[-1], summed.sum(-1)
            for axis, name in enumerate(columns):
                codes = merged.get(name)
                if codes is not None and groups[name] is None:
                    variance *= len(codes) / (max(codes) + 1)
                    summed = sum_groups(summed, axis, codes)
            weight = 1 / variance
            counts = weight * summed + (0.0 if counts is None else counts)
            precision += weight
        return None if counts is None else (counts / precision, precision**-0.5)


@dataclass(frozen=True, eq=False)
class _Marginal:
    """A marginal's shares in m groups of k strata, with c cells.

    Attributes
    ----------
    shape : tuple of int
        Of the marginal.
    shares : ndarray, shape (m, c)
        Rows of single strata come first; each row sums to 1.
    noise : ndarray, shape (m,)
        Noise variance of a group's shares.
    design : ndarray, shape (m, k)
        Each stratum's part in a group.
    measured : ndarray of bool, shape (k,)
        Strata that have a group of their own.
    chance : ndarray, shape (k,)
        Sampling variance of a stratum's share, mean over cells.
    mean : ndarray, shape (c,)
        The shares of all groups together, none of them 0.
    kernels : list of ndarray, shape (k, k)
        Of the random effects.
    """

    shape: tuple[int, ...]
    shares: Floats
    noise: Floats
    design: Floats
    measured: npt.NDArray[np.bool_]
    chance: Floats
    mean: Floats
    kernels: Sequence[Floats]

    def of_groups(self, covariance: Floats) -> Floats:
        """A covariance of strata as that of groups, shape (m, m)."""
        return np.asarray(self.design @ covariance @ self.design.T)

    @property
    def observed(self) -> Floats:
        """Shares around an equal share, shape (m, c), scaled so that c cells count as the c − 1 that are free."""
        cells = self.shares.shape[1]
        return np.asarray((self.shares - 1 / cells) * (cells / (cells - 1)) ** 0.5)

    @cached_property
    def scales(self) -> Floats:
        """How much each cell varies, over the mean of cells, in powers of two: one inverse is taken for each."""
        if len(self.shares) > _MOST_GROUPS:
            return np.ones(len(self.mean))
        scales = 2.0 ** np.rint(np.log2(self.mean * (1 - self.mean)))
        return np.asarray(scales / scales.mean())

    @property
    def known(self) -> Floats:
        """The variance of a group's shares by noise and chance, shape (m, c)."""
        chance = np.diag(self.of_groups(np.diag(self.chance)))
        return np.asarray(self.noise[:, None] + chance[:, None] * self.scales)

    def variances(self, pooled: Floats | None) -> Floats:
        """The variance of each effect, by restricted maximum likelihood; `pooled` is a prior's, if there is one."""
        kernels = [self.of_groups(kernel) for kernel in self.kernels]
        return variances(kernels, self.observed, self.known, usual=pooled, scales=self.scales)

    def predict(self, spread: Floats) -> Prediction:
        """Each stratum's shares as the other groups predict them, given the variance of each effect.

        Deviations are those of cells that are independent except for their sum: given the sum, a cell of share p keeps
        1 − p of such a variance.
        """
        between = np.add.reduce([v * kernel for v, kernel in zip(spread, self.kernels, strict=True)])
        first = slice(int(self.measured.sum()))
        means, found = np.zeros((2, len(self.chance), self.shares.shape[1]))
        for scale in np.unique(self.scales):
            cells = np.flatnonzero(self.scales == scale)
            shares, prior = self.shares[:, cells], scale * (between + np.diag(self.chance))
            inverse, projection = project(self.of_groups(prior) + np.diag(self.noise))
            residual = projection @ shares
            cross = prior @ self.design.T  # of a stratum without measurements: from all groups
            ones = inverse.sum(1) / inverse.sum()
            mean = ones @ shares + cross @ residual
            variance = np.diag(prior) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
            variance += (1 - cross @ inverse.sum(1)) ** 2 / inverse.sum()
            leverage = np.diag(projection)[first]  # of a stratum with measurements: the leave-one-out identity
            mean[self.measured] = shares[first] - residual[first] / leverage[:, None]
            variance[self.measured] = 1 / leverage - self.noise[first]
            means[:, cells], found[:, cells] = mean, np.maximum(variance, _LEAST_VARIANCE)[:, None]
        found *= (1 - 1 / found.shape[1]) / (1 - self.mean)
        return _to_one(means, found).reshape(-1, *self.shape), np.sqrt(found).reshape(-1, *self.shape)


def _marginal(
    strata: Strata, groups: Sequence[_Group], columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
) -> _Marginal | None:
    """A marginal by strata and by sums over several; None if too few strata have measured it."""
    count = len(strata.keys)
    found = [(group, group.counts(columns, merged)) for group in groups]
    looks = [(group, look) for group, look in found if look is not None]
    measured = np.array([look is not None for _, look in found[:count]])
    if measured.sum() < min(_LEAST_STRATA, count) or looks[0][1][0].size < 2:
        return None
    shares = np.array([(look[0] / group.rows).ravel() for group, look in looks])
    shares += (1 - shares.sum(1, keepdims=True)) / shares.shape[1]
    noise = np.array([(look[1] / group.rows) ** 2 for group, look in looks])
    chance = _sampling_variance(shares, noise) / np.array([group.rows for group in groups[:count]])
    design = np.array([group.weights for group, _ in looks])
    mean = np.maximum(np.average(shares, axis=0, weights=1 / noise), _RAREST / shares.shape[1])
    mean = mean / mean.sum()
    return _Marginal(looks[0][1][0].shape, shares, noise, design, measured, chance, mean, effects(strata.keys))


def _to_one(shares: Floats, variance: Floats) -> Floats:
    """Shares that sum to 1 along the last axis: what they lack is spread in proportion to their variance."""
    lacking = 1 - shares.sum(-1, keepdims=True)
    return np.asarray(shares + lacking * variance / variance.sum(-1, keepdims=True))


def _sampling_variance(shares: Floats, noise: Floats) -> float:
    """The sampling variance of a cell's share in one row, mean over cells; in n rows it is an n-th of that."""
    mean = np.maximum((shares / noise[:, None]).sum(0), 0.0)
    mean = mean / max(float(mean.sum()), 1e-12)
    return float((mean * (1 - mean)).sum() / (len(mean) - 1))


def _pooled_variances(columns: Sequence[_Marginal]) -> Floats | None:
    """The variance of each effect over columns together: the difference of two strata says little of a variance."""
    most = max((len(column.shares) for column in columns), default=0)
    equal = [column for column in columns if len(column.shares) == most]
    if not equal:
        return None
    kernels = [equal[0].of_groups(kernel) for kernel in equal[0].kernels]
    observed = np.hstack([column.observed for column in equal])
    known = np.mean([column.known.mean(1) for column in equal], axis=0)
    return np.maximum(variances(kernels, observed, known), _LEAST_VARIANCE)


def _posterior(
    group: _Group,
    columns: Columns,
    predictions: Mapping[Columns, Prediction],
    place: int,
    merged: Mapping[str, Merging],
) -> Floats | None:
    """A stratum's shares in a marginal, from its measurements and its prior; None where there is neither."""
    own, parts, precision = group.counts(columns, merged), [], []
    if own is not None:
        parts.append(own[0] / group.rows)
        precision.append(np.full(own[0].shape, (group.rows / own[1]) ** 2))
    if columns in predictions:
        parts.append(predictions[columns][0][place])
        precision.append(predictions[columns][1][place] ** -2)
    if not parts:
        return None
    return _to_one(np.average(parts, axis=0, weights=precision), 1 / np.add.reduce(precision))


def _with_margins(
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


def _sums_over_strata(strata: Strata, wider: Sequence[Measurement], rows: Floats) -> list[_Group]:
    """Wider measurements by the group of strata that they are sums over: all strata, those of one sex, and so on."""
    codes = np.array([list(strata.codes_of(key).values()) for key in strata.keys])
    found: dict[tuple[Columns, tuple[int, ...]], list[Measurement]] = {}
    for measurement in wider:
        level = tuple(name for name in strata.columns if name in measurement.columns)
        for group in np.ndindex(*(strata.schema[name].size for name in level)):
            part = given(measurement, dict(zip(level, group, strict=True)))
            found.setdefault((level, group), []).append(part)
    sums = []
    for (level, group), parts in found.items():
        sizes = np.where((codes[:, [strata.columns.index(name) for name in level]] == group).all(1), rows, 0.0)
        if sizes.any():
            sums.append(_Group(parts, float(sizes.sum()), sizes / sizes.sum()))
    return sums


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
