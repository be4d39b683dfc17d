"""Shrinkage of strata toward a model that is fitted to all strata, so that small strata are less noisy.

The shares of the cells of a marginal follow a linear mixed model across strata. The model has random effects of the
stratum columns and a known noise variance (`equistrata.stats.random_effects`). The variance of an effect on a cell with
share p is proportional to p(1 − p), as for rows that are drawn at random. For each stratum, the measurements of the
other strata determine a prior mean and variance. The estimation engine then combines the prior with the measurements of
the stratum by inverse variance. Shrinkage is post-processing of noisy numbers and has no privacy cost. See
docs/proofs/shrinkage.md.

References
----------
.. [1] Fay and Herriot (1979), Estimates of income for small places, JASA 74.

Examples
--------
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
    FilteredMeasurement,
    Measurement,
    Merging,
    given,
    root_mean_square,
    sum_groups,
    total_estimate,
)

_WORTH_IT = 4.0  # the maximum σ of a prior, relative to the σ of the measurement of the stratum
_LEAST_STRATA = 3  # the minimum number of strata with a measured marginal; if there are two strata, it is both
FEW = 200  # the maximum number of strata for one thread, because small matrices do not benefit from more threads
MOST_STRATA = 3_000  # the memory of the model grows with the square of this number, and the time with its cube
_MOST_GROUPS = 300  # with more groups, all cells have the same variance, since each variance requires an inverse
_RAREST = 0.1  # the minimum share that determines the variance of a cell, as a fraction of an equal share
_LEAST_VARIANCE = 1e-12  # the minimum variance of a share

Prediction = tuple[Floats, Floats]  # shares by stratum and cell, and their standard deviations, of shape (k, …)


def predict_from_others(
    strata: Strata, measurements: Mapping[Key, Sequence[Measurement]], wider: Sequence[Measurement] = ()
) -> dict[Key, list[Measurement]]:
    """Predict the marginals of each stratum from the measurements of the other strata.

    Every column is predicted, and also every pair of columns that was measured in the stratum. If no pair was measured,
    the tree of predicted pairs with the most mutual information is used. The margins of the prediction of a pair are
    the posteriors of its columns. Otherwise, the prior of a column would be counted once more for each pair.

    Parameters
    ----------
    strata : Strata
        The strata and the schema.
    measurements : mapping of tuple to sequence of Measurement
        The measurements of each stratum.
    wider : sequence of Measurement, default=()
        The measurements over all rows or by some of the stratum columns.

    Returns
    -------
    dict of tuple to list of Measurement
        The priors of each stratum in rows, which sum to the estimated size of the stratum. A prior is omitted if it
        would hardly change the posterior.

    Privacy
    -------
    The prediction is post-processing and has no privacy cost.
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
                    FilteredMeasurement(columns, share * group.rows, root_mean_square(sigma), merging, sigmas=sigma)
                )
    return priors


@dataclass(frozen=True, eq=False)
class _Group:
    """The measurements of a stratum or of several strata together.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements.
    rows : float
        The number of rows.
    weights : ndarray of shape (k,)
        The fraction of the rows in each of the k strata.
    """

    measurements: Sequence[Measurement]
    rows: float
    weights: Floats

    def counts(
        self, columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
    ) -> tuple[Floats, float] | None:
        """Estimate the counts over some columns from all measurements that contain these columns.

        The result also contains the standard deviation of a cell. It is None if there are no such measurements. For
        columns in `merged`, a cell is a group of several codes.
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
    """The shares of a marginal with c cells in m groups of k strata.

    Parameters
    ----------
    shape : tuple of int
        The shape of the marginal.
    shares : ndarray of shape (m, c)
        The shares of the cells in each group, which sum to 1. Groups of single strata come first.
    noise : ndarray of shape (m,)
        The noise variance of the shares of each group.
    design : ndarray of shape (m, k)
        The fraction of each group in each stratum.
    measured : ndarray of bool, shape (k,)
        True for strata that are a group of their own.
    chance : ndarray of shape (k,)
        The sampling variance of a share in each stratum, which is a mean over cells.
    mean : ndarray of shape (c,)
        The positive shares of all groups together.
    kernels : list of ndarray of shape (k, k)
        The kernels of the random effects.
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
        """Convert a covariance of strata to a covariance of groups, with shape (m, m)."""
        return np.asarray(self.design @ covariance @ self.design.T)

    @property
    def observed(self) -> Floats:
        """The deviations from equal shares, with shape (m, c).

        They are scaled because only c − 1 of the c cells are free.
        """
        cells = self.shares.shape[1]
        return np.asarray((self.shares - 1 / cells) * (cells / (cells - 1)) ** 0.5)

    @cached_property
    def scales(self) -> Floats:
        """The variance of each cell relative to the mean over cells, as powers of two.

        The number of different values is small because each value requires a matrix inverse.
        """
        if len(self.shares) > _MOST_GROUPS:
            return np.ones(len(self.mean))
        scales = 2.0 ** np.rint(np.log2(self.mean * (1 - self.mean)))
        return np.asarray(scales / scales.mean())

    @property
    def known(self) -> Floats:
        """The variance of the shares of each group by noise and chance, with shape (m, c)."""
        chance = np.diag(self.of_groups(np.diag(self.chance)))
        return np.asarray(self.noise[:, None] + chance[:, None] * self.scales)

    def variances(self, pooled: Floats | None) -> Floats:
        """Estimate the variance of each effect by restricted maximum likelihood.

        If `pooled` is not None, it is used as a prior of the variances.
        """
        kernels = [self.of_groups(kernel) for kernel in self.kernels]
        return variances(kernels, self.observed, self.known, usual=pooled, scales=self.scales)

    def predict(self, spread: Floats) -> Prediction:
        """Predict the shares of each stratum from the other groups, given the variance of each effect.

        The deviations of the cells are independent except that their sum is fixed. Given the sum, the variance of a
        cell with share p is multiplied by 1 − p.
        """
        between = np.add.reduce([v * kernel for v, kernel in zip(spread, self.kernels, strict=True)])
        first = slice(int(self.measured.sum()))
        means, found = np.zeros((2, len(self.chance), self.shares.shape[1]))
        for scale in np.unique(self.scales):
            cells = np.flatnonzero(self.scales == scale)
            shares, prior = self.shares[:, cells], scale * (between + np.diag(self.chance))
            inverse, projection = project(self.of_groups(prior) + np.diag(self.noise))
            residual = projection @ shares
            cross = prior @ self.design.T  # for a stratum without measurements, the prediction uses all groups
            ones = inverse.sum(1) / inverse.sum()
            mean = ones @ shares + cross @ residual
            variance = np.diag(prior) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
            variance += (1 - cross @ inverse.sum(1)) ** 2 / inverse.sum()
            leverage = np.diag(projection)[first]  # for a stratum with measurements, by the leave-one-out identity
            mean[self.measured] = shares[first] - residual[first] / leverage[:, None]
            variance[self.measured] = 1 / leverage - self.noise[first]
            means[:, cells], found[:, cells] = mean, np.maximum(variance, _LEAST_VARIANCE)[:, None]
        found *= (1 - 1 / found.shape[1]) / (1 - self.mean)
        return _to_one(means, found).reshape(-1, *self.shape), np.sqrt(found).reshape(-1, *self.shape)


def _marginal(
    strata: Strata, groups: Sequence[_Group], columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})
) -> _Marginal | None:
    """Collect the shares of a marginal in the strata and in sums over strata.

    The result is None if too few strata have measured the marginal.
    """
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
    """Adjust shares to sum to 1 along the last axis, in proportion to their variances."""
    lacking = 1 - shares.sum(-1, keepdims=True)
    return np.asarray(shares + lacking * variance / variance.sum(-1, keepdims=True))


def _sampling_variance(shares: Floats, noise: Floats) -> float:
    """Estimate the mean sampling variance of the share of a cell in a single row.

    The variance in n rows is the result divided by n.
    """
    mean = np.maximum((shares / noise[:, None]).sum(0), 0.0)
    mean = mean / max(float(mean.sum()), 1e-12)
    return float((mean * (1 - mean)).sum() / (len(mean) - 1))


def _pooled_variances(columns: Sequence[_Marginal]) -> Floats | None:
    """Estimate the variance of each effect from all columns together.

    This is used for two strata, because the difference of two strata contains little information about a variance.
    """
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
    """Compute the posterior shares of a stratum in a marginal from its measurements and its prior.

    The result is None if there are neither measurements nor a prior.
    """
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
    """Adjust the shares of a pair to the known margins.

    The change is distributed evenly over the cells, which is the least-squares solution.
    """
    for axis, name in enumerate(columns):
        margin, codes = margins[name], merged.get(name)
        if margin is not None:
            groups = np.arange(shares.shape[axis]) if codes is None else np.asarray(codes)
            gap = margin - np.bincount(groups, shares.sum(1 - axis))
            evenly = (gap / np.bincount(groups))[groups] / shares.shape[1 - axis]
            shares = shares + np.expand_dims(evenly, 1 - axis)
    return shares


def _merged(strata: Strata, groups: Sequence[_Group]) -> dict[str, Merging]:
    """Return the columns for which all strata measured only the same merged codes."""
    found: dict[str, Merging] = {}
    for column in strata.schema.columns:
        kinds = {m.groups[0] for group in groups for m in group.measurements if m.columns == (column.name,)}
        if len(kinds) == 1 and None not in kinds:
            found[column.name] = kinds.pop()
    return found


def _sums_over_strata(strata: Strata, wider: Sequence[Measurement], rows: Floats) -> list[_Group]:
    """Return wider measurements as groups of strata, for example all strata or the strata of one sex."""
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
    """Return the spanning forest of pairs with the most mutual information."""
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
