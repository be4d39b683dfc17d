"""Test of independence for noisy counts, and Cramér's V with an interval.

The noise increases Pearson's statistic of the counts. Therefore, the distribution of the statistic under independence
is simulated. The rows are a sample from the product of the margins, and the noise has the known covariance [1]_. V is
computed from the statistic minus its mean under independence. Rows and columns of the table that may be empty, such as
a declared code without people, are left out. Their expected counts are close to 0, so their noise would dominate the
statistic.

References
----------
.. [1] Gaboardi, Lim, Rogers and Vadhan (ICML 2016), Monte Carlo test.

>>> rng = np.random.default_rng(0)
>>> related = independence(np.array([[300.0, 100.0], [100.0, 300.0]]), 25.0 * np.eye(4), rng=rng)
>>> round(related.v, 2), related.p_value
(0.5, 0.001)
>>> independence(np.array([[210.0, 190.0], [195.0, 205.0]]), 25.0 * np.eye(4), rng=rng).p_value > 0.05
True
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy

from equistrata.arrays import Floats

DRAWS = 999
_LEAST = 0.5  # the smallest expected count in rows
_SEEN = 2.0  # a row or column is used if its margin is at least this many standard deviations of its noise


@dataclass(frozen=True)
class Independence:
    """The result of a test of independence.

    Attributes
    ----------
    v : float
        Cramér's V, in [0, 1].
    lower, upper : float
        The ends of the interval for V.
    standard_error : float
        The standard error of V.
    p_value : float
        The p-value for independence.
    sampled : float
        The share of the squared standard error that is due to the sampling of rows.
    """

    v: float
    lower: float
    upper: float
    standard_error: float
    p_value: float
    sampled: float


def independence(
    counts: Floats, covariance: Floats, *, rng: np.random.Generator, level: float = 0.95, design_effect: float = 1.0
) -> Independence:
    """Test whether two columns are independent in the population from which the rows were sampled.

    Parameters
    ----------
    counts : ndarray of shape (r, c)
        Unbiased noisy counts.
    covariance : ndarray of shape (r * c, r * c)
        The covariance of the noise.
    rng : numpy.random.Generator
        The random number generator for the simulation.
    level : float
        The level of the interval, in (0, 1).
    design_effect : float
        The ratio of the sampling variance to that of a simple random sample, which is at least 1.

    Returns
    -------
    Independence
        The result of the test.
    """
    counts, covariance = _seen(counts, covariance)
    shape, rows = counts.shape, max(float(counts.sum()), 1.0)
    product = _expected(counts[None])[0]
    root = _root(covariance)
    sampled = rng.multinomial(round(rows), product.ravel() / product.sum(), DRAWS).reshape(-1, *shape)
    drawn = product + sqrt(design_effect) * (sampled - product * (round(rows) / rows))
    noise = (rng.standard_normal((DRAWS, root.shape[1])) @ root.T).reshape(-1, *shape)
    law = _pearson(drawn + noise)
    found = float(_pearson(counts[None])[0])
    p_value = (1 + int((law >= found).sum())) / (DRAWS + 1)
    gradient = 2 * ((counts - product) / product).ravel()
    shares = np.maximum(counts, 0.0).ravel() / max(float(np.maximum(counts, 0.0).sum()), 1.0)
    sampling = design_effect * rows * (shares @ gradient**2 - (shares @ gradient) ** 2)
    privacy = float(_pearson(product + noise).var()) + float(gradient @ covariance @ gradient)
    variance = float(law.var()) + float(gradient @ covariance @ gradient) + max(float(sampling), 0.0)
    error = sqrt(variance)
    scale = rows * max(min(shape) - 1, 1)
    beyond, far = found - float(law.mean()), float(scipy.special.ndtri((1 + level) / 2)) * error
    v, lower, upper = (min(sqrt(max(each, 0.0) / scale), 1.0) for each in (beyond, beyond - far, beyond + far))
    spread = (upper - lower) / (2 * float(scipy.special.ndtri((1 + level) / 2)))
    return Independence(v, lower, upper, spread, p_value, 1 - min(privacy / variance, 1.0))


def _seen(counts: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Remove rows and columns from a table and its covariance if their margins may consist only of noise.

    At least two rows and two columns remain.
    """
    noise = covariance.reshape(*counts.shape, *counts.shape)
    kept = []
    for margin, variance in (
        (counts.sum(1), np.einsum("iaib->i", noise)),
        (counts.sum(0), np.einsum("aibi->i", noise)),
    ):
        seen = np.flatnonzero(margin >= _SEEN * np.sqrt(np.maximum(variance, 0.0)))
        kept.append(seen if len(seen) > 1 else np.arange(len(margin)))
    table = np.ix_(*kept)
    places = np.arange(counts.size).reshape(counts.shape)[table].ravel()
    return counts[table], covariance[np.ix_(places, places)]


def _expected(tables: Floats) -> Floats:
    """Return the product of the margins of each table, shape (n, r, c)."""
    down, across = (np.maximum(tables.sum(axis), _LEAST) for axis in (1, 2))
    product = across[:, :, None] * down[:, None, :] / np.maximum(tables.sum((1, 2)), 1.0)[:, None, None]
    return np.asarray(np.maximum(product, _LEAST))


def _pearson(tables: Floats) -> Floats:
    expected = _expected(tables)
    return np.asarray(((tables - expected) ** 2 / expected).sum((1, 2)))


def _root(covariance: Floats) -> Floats:
    scale, basis = np.linalg.eigh(covariance)
    return np.asarray(basis * np.sqrt(np.maximum(scale, 0.0)))


@dataclass(frozen=True, eq=False)
class Interaction:
    """The difference between noisy counts and the product of their margins.

    Attributes
    ----------
    counts : ndarray of shape (r, c)
        The counts minus the product of the margins.
    squares : float
        The sum of the squares of `counts`.
    expected : float
        The expected value of `squares` for independent columns, which is due to noise and sampling.
    p_value : float
        The probability of a sum of squares that is at least as large, for independent columns.
    """

    counts: Floats
    squares: float
    expected: float
    p_value: float

    @classmethod
    def of(cls, counts: Floats, variance: Floats, design_effect: float = 1.0) -> Interaction:
        """Compute the interaction of counts with independent normal noise.

        For independent columns, the sum of squares is a quadratic form in the noise and the sampling error. Let p and q
        be the shares of the margins. The noise N contributes (I − p1ᵀ) N (I − 1qᵀ), and the sampling variance of n rows
        is n·p·q in each cell. The distribution is approximated by a scaled χ² distribution with the same mean and
        variance [1]_.

        Parameters
        ----------
        counts : ndarray of shape (r, c)
            The noisy counts.
        variance : ndarray of shape (r, c)
            The variance of the noise in each cell.
        design_effect : float
            The ratio of the sampling variance to that of a simple random sample. It is 0 if there is no sampling.

        Returns
        -------
        Interaction
            The interaction.

        References
        ----------
        .. [1] Satterthwaite (1946), An approximate distribution of estimates of variance components.
        """
        rows = max(float(counts.sum()), 1.0)
        down, across = (np.maximum(counts.sum(axis), 0.0) for axis in (1, 0))
        down, across = (each / max(float(each.sum()), 1e-300) for each in (down, across))
        beyond = counts - np.outer(counts.sum(1), across) - np.outer(down, counts.sum(0))
        beyond = beyond + counts.sum() * np.outer(down, across)
        left, right = (_crossed(shares) for shares in (down, across))
        variance = variance + design_effect * rows * np.outer(down, across)
        expected = float(np.diag(left) @ variance @ np.diag(right))
        spread = 2 * float((variance * (left**2 @ variance @ right**2)).sum())
        squares = float((beyond**2).sum())
        if not expected > 0 or rows <= 1:
            return cls(beyond, squares, expected, 1.0)
        freedom = 2 * expected**2 / spread
        return cls(beyond, squares, expected, float(scipy.special.chdtrc(freedom, freedom * squares / expected)))

    def share_in(self, counts: Floats) -> float:
        """Return the share of the relation that another table with the same number of rows has.

        The share is 1 if the relation is the same, and 0 if there is none. The noise in `squares` is subtracted because
        it is not part of the relation.
        """
        signal = self.squares - self.expected
        other = Interaction.of(counts, np.zeros_like(counts)).counts
        return float((other * self.counts).sum()) / signal if signal > 0 else 0.0


def _crossed(shares: Floats) -> Floats:
    """Return AᵀA for the matrix A = I − s1ᵀ, where the shares s add up to 1."""
    return np.eye(len(shares)) - shares[:, None] - shares[None, :] + float(shares @ shares)
