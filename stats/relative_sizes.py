"""Sizes of groups from public shares that may be wrong and from noisy counts, by inverse variance.

How wrong the public shares are is estimated from the counts (empirical Bayes): sizes are the public ones times random
effects with Student's t law, one kind for each column that defines groups and one for the groups. See
docs/proofs/strata.md.

Sources: Fay and Herriot, JASA 1979 (small areas, known noise); Lange, Little and Taylor, JASA 1989 (t errors by EM).

>>> for sigma in (1.0, 1000.0, 3000.0):
...     counts, precision = np.array([9000.0, 6000.0]), np.full(2, sigma**-2)
...     sizes, _ = posterior_sizes(np.array([7500.0, 7500.0]), [(1,), (2,)], precision, precision * counts)
...     print((sizes / sizes.sum()).round(2))
[0.6 0.4]
[0.57 0.43]
[0.5 0.5]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.stats.random_effects import families

LEAST_SIZE = 0.25  # the least size of a group, in standard deviations of its estimate (docs/experiments/shrinkage.md)

# Tuned: docs/experiments/weights.md.
_FREEDOM = 2.0  # degrees of freedom of the effects' t law
_DOUBT = 0.1  # effects of zero added for each effect there is: where noise could be all, a scale shrinks to nothing
_START = 0.25  # squared scale of the relative effects at the start
_LEAST = 1e-10  # least squared scale: public shares that fit perfectly keep a scale of 0.001 %
CLEAR = 4.0  # standard deviations that are not put down to noise
_ITERATIONS, _CONVERGED = 300, 1e-3  # of EM; change of the logarithm of a squared scale


def posterior_sizes(
    expected: Floats, keys: Sequence[tuple[Hashable, ...]], precision: Floats, sums: Floats
) -> tuple[Floats, Floats]:
    """The groups' sizes and their standard deviations, shape (k,), with the law of the effects estimated.

    Args:
        expected: sizes if the public shares were right, (k,), positive: effects are relative.
        keys: the groups' values in the columns that define them.
        precision, sums: the measurements' precision matrix, (k, k), or its diagonal, (k,) of independent ones; and that
            times what was measured, (k,).

    Returns:
        Sizes of at least `LEAST_SIZE` of their standard deviations. Post-processing.
    """
    *shared, _ = families(keys)
    own = len(shared)
    kind = np.repeat(np.arange(own + 1), [*(family.shape[1] for family in shared), len(expected)])
    # Sizes are linear in the number of rows (over its guess) and the relative effects, the groups' own last.
    basis = np.hstack([np.ones((len(expected), 1)), *shared]) * expected[:, None]
    others, seen = np.arange(1, basis.shape[1]), _times(precision, basis)
    known = np.maximum(precision if precision.ndim == 1 else np.diag(precision), 1e-300)
    scales, weights = np.full(own + 1, _START), np.ones(len(kind))
    # EM ends at the mode next to where it starts: a group whose counts are far from its public size starts there.
    far = sums - _times(precision, expected)
    surprise = np.where(np.abs(far) > CLEAR * np.sqrt(known), far / known / expected, 0.0)
    weights[kind == own] = (_FREEDOM + 1) / (_FREEDOM + 1 + surprise**2 / _START)
    for _ in range(_ITERATIONS):
        prior = weights[kind == own] / scales[own] / expected**2  # the precision of a size about the shared effects
        covariance = 1 / (precision + prior) if precision.ndim == 1 else _inverse(precision + np.diag(prior))
        own_variance = covariance if covariance.ndim == 1 else np.diag(covariance)
        drawn = _times(covariance, seen)  # in products, so that no large numbers cancel
        system = basis.T @ (prior[:, None] * drawn)
        system[others, others] += (weights / scales[kind])[kind < own]
        inverse = _inverse(system)
        coefficients = inverse @ (basis.T @ (prior * _times(covariance, sums)))
        middle = basis @ coefficients
        sizes = _times(covariance, sums + prior * middle)
        of_own = own_variance + ((drawn @ inverse) * drawn).sum(1)
        effects = np.append(coefficients[1:], (sizes - middle) / expected)
        squares = effects**2 + np.append(np.diag(inverse)[1:], of_own / expected**2)
        weights = (_FREEDOM + 1) / (_FREEDOM + squares / scales[kind])
        found = np.maximum(np.bincount(kind, weights * squares) / np.bincount(kind) / (1 + _DOUBT), _LEAST)
        converged = bool(np.abs(np.log(found / scales)).max() < _CONVERGED)
        scales = found
        if converged:
            break
    lean = _times(covariance, prior[:, None] * basis)
    spread = np.sqrt(own_variance + ((lean @ inverse) * lean).sum(1))
    return np.maximum(sizes, LEAST_SIZE * spread), spread


def _times(covariance: Floats, array: Floats) -> Floats:
    """A covariance matrix, or its diagonal, times an array of shape (k,) or (k, m)."""
    return covariance @ array if covariance.ndim == 2 else (covariance * array.T).T


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
