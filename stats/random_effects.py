"""Pooling across strata by a linear mixed model with known noise, as in small area estimation [1]_.

The parameter of stratum s, such as a mean or the share of a cell, is

    θ_s = μ + Σ_f u_f(s) + e_s,     observed with Gaussian noise of known variance.

There is a random effect u_f for each column f that defines strata. If there are more than two such columns, there is
also a random effect for each pair of columns. The effect e_s is specific to the stratum. The variances are estimated by
restricted maximum likelihood. The model is used to shrink marginals (`equistrata.synth.strata.shrinkage`) and means
(`equistrata.inference.means.hierarchical`). It is post-processing of noisy numbers.

References
----------
.. [1] Fay and Herriot (1979), JASA.

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

_RANGE = (-30.0, 6.0)  # the range of the log variances, relative to the precision-weighted mean square over strata


def families(keys: Sequence[tuple[Hashable, ...]]) -> list[Floats]:
    """Return the design matrix of each kind of random effect.

    There is one kind for each column that defines strata, if there are several columns, with an effect for each value.
    If there are more than two columns, there is also one kind for each pair of columns. The last kind has one effect
    for each stratum.

    Parameters
    ----------
    keys : sequence of tuple
        The values of the columns for each of the k strata.

    Returns
    -------
    list of ndarray
        One matrix of shape (k, effects) per kind. An element is 1 if the stratum has the effect, and 0 otherwise.
    """
    columns = list(zip(*keys, strict=True)) if len({len(key) for key in keys}) == 1 else []
    pairs = [list(zip(*pair, strict=True)) for pair in combinations(columns, 2)] if len(columns) > 2 else []
    shared = []
    for values in [*columns, *pairs] if len(columns) > 1 else []:
        place = {value: n for n, value in enumerate(dict.fromkeys(values))}
        shared.append(np.eye(len(place))[[place[value] for value in values]])
    return [*shared, np.eye(len(keys))]


def effects(keys: Sequence[tuple[Hashable, ...]]) -> list[Floats]:
    """Return the covariance structure of each kind of random effect.

    Parameters
    ----------
    keys : sequence of tuple
        The values of the columns for each of the k strata.

    Returns
    -------
    list of ndarray of shape (k, k)
        One matrix for each kind of effect. An element is 1 if two strata share the effect, and 0 otherwise.
    """
    return [family @ family.T for family in families(keys)]


def project(covariance: Floats) -> tuple[Floats, Floats]:
    """Invert a covariance matrix, and project out the common mean.

    Parameters
    ----------
    covariance : ndarray of shape (k, k)
        The covariance matrix.

    Returns
    -------
    tuple of ndarray, each of shape (k, k)
        The inverse, and the inverse after the common mean is projected out.
    """
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
    """Estimate the variance of each random effect by restricted maximum likelihood, optionally with a prior.

    Parameters
    ----------
    kernels : sequence of ndarray of shape (k, k)
        The matrices of the effects for the observed strata, as returned by `effects`.
    observed : ndarray of shape (k, c)
        The observations. The c columns are replicates with the same variances, and each column has its own mean.
    noise : ndarray of shape (k,) or (k, c)
        The variance of the noise for each stratum, or for each observation.
    expected : sequence of float, optional
        A variance v₀ for each effect. The likelihood is multiplied by exp(−v/v₀) and by the variance of the last
        effect, which is specific to the stratum. Without this prior, the estimate is often 0 when the number of strata
        is small [1]_.
    usual : ndarray, optional
        A positive variance for each effect that counts as one additional column without noise. This is an inverse gamma
        prior with one degree of freedom [2]_, which allows for large variances.
    scales : ndarray of shape (c,), optional
        The factor on the variances for each column. Columns with the same scale must have the same noise.

    Returns
    -------
    ndarray
        The variance of each effect.

    References
    ----------
    .. [1] Li and Lahiri (2010), Journal of Multivariate Analysis.
    .. [2] Smyth (2004), Statistical Applications in Genetics and Molecular Biology.
    """
    cells = observed.shape[1]
    scales = np.ones(cells) if scales is None else scales
    noises = np.broadcast_to(noise if noise.ndim > 1 else noise[:, None], observed.shape)
    times = np.unique(scales)
    alike = [np.flatnonzero(scales == each) for each in times]
    seen = [observed[:, columns] for columns in alike]
    known = np.array([np.diag(noises[:, columns[0]]) for columns in alike])
    # The plain variance would be dominated by the noise of the smallest strata, which is a poor starting point.
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
