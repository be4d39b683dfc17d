"""Pooling across strata: a linear mixed model with known noise (Fay and Herriot, JASA 1979, for small areas).

A parameter of stratum s, a mean or the share of a cell, is

    θ_s = μ + Σ_f u_f(s) + e_s,     observed with Gaussian noise of known variance,

with a random effect u_f for each column f that defines strata (and, of more than two, for each pair of columns), and
e_s for the stratum's own. Variances are estimated by restricted maximum likelihood. Used to shrink marginals
(`equistrata.synth.strata.shrinkage`) and means (`equistrata.inference.means.hierarchical`). Post-processing.

>>> keys = [(sex, race) for sex in (1, 2) for race in (1, 2, 3)]
>>> [effect.sum().astype(int).item() for effect in effects(keys)]  # same sex, same race, itself
[18, 12, 6]
>>> measured = np.array([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0]])
>>> sex, race, own = variances(effects(keys), measured, np.full(6, 0.01))
>>> bool(sex > race > own)
True
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from math import log

import numpy as np
import scipy

from equistrata.arrays import Floats

_RANGE = (-30.0, 6.0)  # of the logarithms of the variances, in units of the mean square over strata, by precision


def families(keys: Sequence[tuple[Hashable, ...]]) -> list[Floats]:
    """For each kind of effect, which stratum has which, 0 or 1, shape (k, effects).

    One kind for each stratum column, if there are several, with an effect for each value; one for each pair of columns,
    if there are more than two; and each stratum's own.
    """
    columns = list(zip(*keys, strict=True)) if len({len(key) for key in keys}) == 1 else []
    pairs = [list(zip(*pair, strict=True)) for pair in combinations(columns, 2)] if len(columns) > 2 else []
    shared = []
    for values in [*columns, *pairs] if len(columns) > 1 else []:
        place = {value: n for n, value in enumerate(dict.fromkeys(values))}
        shared.append(np.eye(len(place))[[place[value] for value in values]])
    return [*shared, np.eye(len(keys))]


def effects(keys: Sequence[tuple[Hashable, ...]]) -> list[Floats]:
    """For each random effect, which strata share its value, 0 or 1, shape (k, k)."""
    return [family @ family.T for family in families(keys)]


def project(covariance: Floats) -> tuple[Floats, Floats]:
    """The inverse of a covariance, and the same with the common mean taken out; shapes (k, k)."""
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    return inverse, _without_mean(inverse)


def _without_mean(inverse: Floats) -> Floats:
    ones = inverse.sum(1)
    return np.asarray(inverse - np.outer(ones, ones) / ones.sum())


def variances(
    kernels: Sequence[Floats],
    observed: Floats,
    noise: Floats,
    *,
    expected: Sequence[float] | None = None,
    usual: Floats | None = None,
    scales: Floats | None = None,
) -> Floats:
    """The variance of each random effect by restricted maximum likelihood, or with a prior.

    Args:
        kernels: of the observed strata, as by `effects`, each of shape (k, k).
        observed: shape (k, c); the c columns are replicates with the same variances and means of their own.
        noise: the noise variance of a stratum's observations, shape (k,); or of each, shape (k, c).
        expected: for each effect a variance v₀; the likelihood is multiplied by exp(−v/v₀), and by the variance of the
            last, the strata's own. Else few noisy strata often give 0 (Li and Lahiri, J. Multivariate Analysis 2010).
        usual: for each effect a variance above 0 that counts as one more column, seen exactly (an inverse gamma prior,
            one degree of freedom: Smyth, Statistical Applications in Genetics and Molecular Biology 2004). Large
            variances stay possible.
        scales: times the variances, those of each of the c columns, shape (c,); those of equal scale have equal noise.
    """
    cells = observed.shape[1]
    scales = np.ones(cells) if scales is None else scales
    noises = np.broadcast_to(noise if noise.ndim > 1 else noise[:, None], observed.shape)
    times = np.unique(scales)
    alike = [np.flatnonzero(scales == each) for each in times]
    seen = [observed[:, columns] for columns in alike]
    known = np.array([np.diag(noises[:, columns[0]]) for columns in alike])
    # By precision: a plain variance is that of the smallest strata's noise, and the search would start too far off.
    weights = 1 / np.maximum(noises.mean(1), 1e-12)
    apart = observed - weights @ observed / weights.sum()
    scale = max(float((weights @ apart**2).mean() / weights.sum()), 1e-12 if usual is None else float(usual.max()))

    def loss(theta: Floats) -> tuple[float, Floats]:
        parts = [scale * np.exp(t) * kernel for t, kernel in zip(theta, kernels, strict=True)]
        between, value, slope = np.add.reduce(parts), 0.0, np.zeros(len(parts))
        covariances = times[:, None, None] * between + known
        inverses, sizes = np.linalg.inv(covariances), np.linalg.slogdet(covariances)[1].tolist()
        for each, inverse, size, columns in zip(times.tolist(), inverses, sizes, seen, strict=True):
            count, projection = columns.shape[1], _without_mean(inverse)
            residual = projection @ columns
            value += count * (size + log(inverse.sum()))
            value += float((columns * residual).sum())
            slope += [
                each * (count * float((projection * part).sum()) - float((residual * (part @ residual)).sum()))
                for part in parts
            ]
        value, gradient = 0.5 * value, 0.5 * slope
        if expected is not None:
            ratio = scale * np.exp(theta) / np.asarray(expected)
            value, gradient = value + float(ratio.sum()) - float(theta[-1]), gradient + ratio
            gradient[-1] -= 1
        if usual is not None:
            ratio = usual / (scale * np.exp(theta))
            value, gradient = value + 0.5 * float((theta + ratio).sum()), gradient + 0.5 * (1 - ratio)
        return value, gradient

    start = np.full(len(kernels), log(0.3))
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[_RANGE] * len(kernels))
    return np.asarray(scale * np.exp(found.x))
