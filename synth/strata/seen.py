"""What other strata say of a marginal of one: a linear mixed model of their shares, with known noise.

Shares vary between strata, and by chance, as rows that are drawn do: that of a rare cell by less than that of a
frequent one. So the model is one along each direction of the multinomial covariance, with variances that are one set of
effects' times the direction's own. Post-processing of noisy numbers. See docs/proofs/shrinkage.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.stats.random_effects import project, variances
from equistrata.synth.strata.related import LEAST_VARIANCE, Told

# docs/experiments/shrinkage.md
_DEGREES = 4.0  # of freedom of a prediction: how heavy its tails are
# Cells of which eigenvectors are found, and looks at a marginal. Of more looks all cells are taken to vary alike: a
# covariance of looks is inverted for each scale.
_MOST_CELLS, _MOST_LOOKS = 256, 300
_RAREST, _MOST_SHARE = 0.1, 0.98  # of an equal part, the least share of a cell that says how it varies; and the most


@dataclass(frozen=True, eq=False)
class Seen:
    """What strata, and sums over them, show of a marginal: m looks at k strata, c cells.

    Attributes:
        shape: of the marginal.
        shares: each look's shares of the cells, shape (m, c); those of strata come first.
        noise: the noise variance of a look's shares, shape (m,).
        design: each stratum's part in a look, shape (m, k).
        own: which strata were looked at by themselves, shape (k,).
        chance: the sampling variance of a stratum's share, shape (k,).
        kernels: of the strata's effects, each of shape (k, k).
        directions: of shares that add up to one, orthonormal, shape (c, c − 1).
        scales: times the usual variance between strata and by chance, that along each direction, shape (c − 1,).
    """

    shape: tuple[int, ...]
    shares: Floats
    noise: Floats
    design: Floats
    own: npt.NDArray[np.bool_]
    chance: Floats
    kernels: Sequence[Floats]
    directions: Floats
    scales: Floats

    def over_looks(self, kernel: Floats) -> Floats:
        """A covariance of strata as that of looks, shape (m, m)."""
        return np.asarray(self.design @ kernel @ self.design.T)

    @property
    def observed(self) -> Floats:
        """Shares by direction, shape (m, c − 1): they add up to one, so they vary in no other."""
        return np.asarray(self.shares @ self.directions)

    @property
    def usual(self) -> Floats:
        """The shares of all looks together, shape (c,)."""
        return np.asarray(np.average(self.shares, axis=0, weights=1 / self.noise))

    def between(self, spread: Floats) -> Floats:
        """The covariance of strata by effects of these variances, shape (k, k)."""
        return np.asarray(np.add.reduce([v * kernel for v, kernel in zip(spread, self.kernels, strict=True)]))

    @property
    def known(self) -> Floats:
        """The variance of a look that is no effect: noise and chance, shape (m,); a mean over directions."""
        return self.noise + np.diag(self.over_looks(np.diag(self.chance)))

    @property
    def known_along(self) -> Floats:
        """The same by direction, shape (m, c − 1)."""
        chance = np.diag(self.over_looks(np.diag(self.chance)))
        return np.asarray(self.noise[:, None] + chance[:, None] * self.scales)

    def spread(self, usual: Floats | None) -> Floats:
        """The variance of each effect: `variances`."""
        kernels = [self.over_looks(kernel) for kernel in self.kernels]
        return variances(kernels, self.observed, self.known_along, usual=usual, scales=self.scales)


def told_by_others(seen: Seen, spread: Floats, unlike: Floats) -> Told:
    """A marginal of every stratum as the others predict it: shares of its cells, which add up to one, and their σ, as
    of cells that are independent except for that; shapes (k, …).

    Args:
        spread: the variance of each effect.
        unlike: the covariance of strata beside these effects, shape (k, k).
    """
    means, variance = predicted(seen, spread, unlike)
    variance = variance * surprise(seen, means, variance)[:, None] ** 2
    cells = seen.shares.shape[1]
    usual = np.maximum(seen.usual, _RAREST / cells)
    usual = np.minimum(usual / usual.sum(), _MOST_SHARE)
    # Variances v·p of independent cells are v·p(1 − p) once they add up to one.
    alone = np.maximum(variance @ (seen.directions**2).T / (1 - usual), LEAST_VARIANCE)
    shares = means @ seen.directions.T + 1 / cells
    return shares.reshape(-1, *seen.shape), np.sqrt(alone).reshape(-1, *seen.shape)


def predicted(seen: Seen, spread: Floats, unlike: Floats) -> tuple[Floats, Floats]:
    """`told_by_others` by direction: means and variances, shapes (k, c − 1)."""
    noise, own, observed = seen.noise, seen.own, seen.observed
    first = slice(int(own.sum()))
    means, variance = np.zeros((2, len(own), observed.shape[1]))
    for scale in np.unique(seen.scales):
        along = np.flatnonzero(seen.scales == scale)
        prior = scale * (seen.between(spread) + np.diag(seen.chance)) + unlike
        inverse, projection = project(seen.over_looks(prior) + np.diag(noise))
        residual = projection @ observed[:, along]
        cross = prior @ seen.design.T  # for a stratum that was not measured: the prediction from all that were
        ones = inverse.sum(1) / inverse.sum()
        mean = ones @ observed[:, along] + cross @ residual
        spare = np.diag(prior) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
        spare += (1 - cross @ inverse.sum(1)) ** 2 / inverse.sum()
        leverage = np.diag(projection)[first]  # for one that was: without its own, by the leave-one-out identity
        mean[own] = observed[first][:, along] - residual[first] / leverage[:, None]
        spare[own] = 1 / leverage - noise[first]
        means[:, along], variance[:, along] = mean, np.maximum(spare, LEAST_VARIANCE)[:, None]
    return means, variance


def surprise(seen: Seen, means: Floats, variance: Floats) -> Floats:
    """By what a prediction's standard deviation is multiplied in each stratum, shape (k,): 1 unless it is surprised.

    A prediction is Student's t with _DEGREES degrees of freedom, a normal law of unknown scale: the scale's expectation
    given how far the stratum's own measurement is from the prediction, where that is above 1. So one group that differs
    from all others is believed.
    """
    own, first = seen.own, slice(int(seen.own.sum()))
    apart = seen.observed[first] - means[own]
    squares = (apart**2 / (variance[own] + seen.noise[first][:, None])).sum(1)
    factors = np.ones(len(own))
    factors[own] = np.sqrt(np.maximum((_DEGREES + squares) / (_DEGREES + apart.shape[1]), 1.0))
    return factors


def directions_of(usual: Floats, looks: int) -> tuple[Floats, Floats]:
    """Directions of shares that add up to one, shape (c, c − 1), and along each what shares vary by, over the mean.

    As rows drawn at random do: diag(p) − ppᵀ (of its eigenvalues only the order of magnitude counts, so that few
    covariances are inverted). A rare cell's share varies less than a frequent one's. Of many cells the directions are
    no eigenvectors, which would take long: each cell against the rarer ones (Helmert's contrasts).

    >>> usual = np.append([0.5, 0.3], np.full(298, 0.2 / 298))
    >>> directions, scales = directions_of(usual, 5)
    >>> directions[:3, 0].round(3).tolist(), [round(float(scale / scales[-1])) for scale in scales[:3]]
    ([0.998, -0.003, -0.003], [512, 512, 1])
    """
    cells = len(usual)
    shares = np.maximum(usual, _RAREST / cells)
    shares = shares / shares.sum()
    if cells <= _MOST_CELLS and looks <= _MOST_LOOKS:
        values, vectors = np.linalg.eigh(np.diag(shares) - np.outer(shares, shares))
        found, variances = vectors[:, 1:], values[1:]
    else:
        found, variances = _contrasts(shares)
    if looks > _MOST_LOOKS:
        return found, np.ones(cells - 1)
    scales = 2.0 ** np.rint(np.log2(np.maximum(variances, 1e-12)))
    return np.asarray(found), np.asarray(scales / scales.mean())


def _contrasts(shares: Floats) -> tuple[Floats, Floats]:
    """Each cell against the mean of the rarer ones, orthonormal, shape (c, c − 1), and the multinomial variance of one
    row along each, shape (c − 1,)."""
    order, cells = np.argsort(-shares, kind="stable"), len(shares)
    rarer = np.arange(cells - 1, 0, -1)
    own = np.sqrt(rarer / (rarer + 1))
    found = np.zeros((cells, cells - 1))
    found[order] = np.tril(np.broadcast_to(-own / rarer, (cells, cells - 1)), -1)
    found[order[:-1], np.arange(cells - 1)] = own
    return found, np.asarray(shares @ found**2 - (shares @ found) ** 2)


def chance_of(shares: Floats, noise: Floats) -> float:
    """The sampling variance of a cell's share in one row, mean over cells; in n rows it is an n-th of that."""
    usual = np.maximum((shares / noise[:, None]).sum(0), 0.0)
    usual = usual / max(float(usual.sum()), 1e-12)
    return float((usual * (1 - usual)).sum() / (len(usual) - 1))
