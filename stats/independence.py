"""A test of independence for noisy counts, and Cramér's V with an interval.

Pearson's statistic of noisy counts is too large by what the noise adds, so its law without a relation is drawn: rows as
a sample of the product of the margins, and noise of the known covariance (Gaboardi, Lim, Rogers and Vadhan, ICML 2016,
Monte Carlo test). V comes from the statistic less its mean without a relation. Rows and columns that may be empty (a
declared code that no one has) are left out: over an expected count of next to nothing their noise would be all of the
statistic.

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
_LEAST = 0.5  # of an expected count, in rows
_SEEN = 2.0  # standard deviations of its noise: what a margin must be for its row or column to count


@dataclass(frozen=True)
class Independence:
    """Cramér's V in [0, 1] with an interval, its standard error, and the p-value of no relation.

    `sampled` is the part of the error's square that is by the sampling of rows.
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
    """Test whether two columns are independent in the population that rows are a sample of.

    Args:
        counts: unbiased, noisy, shape (r, c).
        covariance: of their noise, shape (r·c, r·c).
        rng: of the draws.
        level: of the interval, in (0, 1).
        design_effect: by which the sampling variance is that of a simple random sample; 1 or more.
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
    """The table and its covariance without rows and columns of which the margin may be noise, if two of each remain."""
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
    """The product of the margins of each table, shape (n, r, c)."""
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
    """What noisy counts have beyond the product of their margins.

    Attributes:
        counts: the counts less that product, shape (r, c).
        squares: the sum of their squares.
        expected: that sum's mean by noise and sampling alone, where the columns are independent.
        p_value: the chance of a sum as large by these alone.
    """

    counts: Floats
    squares: float
    expected: float
    p_value: float

    @classmethod
    def of(cls, counts: Floats, variance: Floats, design_effect: float = 1.0) -> Interaction:
        """Of counts with independent normal noise of these variances, shape (r, c) both.

        Without a relation the sum of squares is a quadratic form of what noise and sampling add: with p and q the
        margins' shares, N adds (I − p1ᵀ) N (I − 1qᵀ), and the sampling of n rows has variance n·p·q in each cell. Its
        law is that of a scaled χ² with the same mean and variance.

        Args:
            design_effect: by which the sampling variance is that of a simple random sample; 0 without sampling.

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
        """How much of the relation another table of the same number of rows has: 1 is all of it, 0 none.

        The noise in `squares`, which is no part of the relation, is left out.
        """
        signal = self.squares - self.expected
        other = Interaction.of(counts, np.zeros_like(counts)).counts
        return float((other * self.counts).sum()) / signal if signal > 0 else 0.0


def _crossed(shares: Floats) -> Floats:
    """AᵀA of A = I − s1ᵀ, with the shares s that add up to 1."""
    return np.eye(len(shares)) - shares[:, None] - shares[None, :] + float(shares @ shares)
