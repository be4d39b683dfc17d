"""Simulated means from the paper, as in its published code: Coinpress over k Gaussians, in total and by group.

The sizes of the groups are n times a draw from the symmetric Dirichlet distribution. Group i has mean μᵢ ~ N(0, 1) and
standard deviation 1. One half of the rows, drawn at random, is public. PubStratCoinpress only uses these rows for its
shares. (In the text of the paper, the standard deviations are σᵢ ~ U(0.1, 2).) The estimators use |μ| ≤ 3 and σ = 1.
The errors are relative to the mean of the private rows.

>>> 0 < measure(MixtureCell(3, 1.0, 4000, 0)).stratified < 0.1
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from equistrata.data.sources import Source
from equistrata.inference.means.coinpress import Coinpress
from equistrata.privacy.noise import SeededNoise

GROUPS = (3, 6, 12)
ALPHAS = (0.3, 0.5, 0.7, 1.0, 3.0, 10.0)
SIZES = (4_000, 8_000, 12_000, 16_000, 20_000)  # one half of the rows is private
RUNS_PER_SEED = 10  # the number of runs in the paper
RHO = 0.5
RADIUS, SIGMA = 3.0, 1.0
PUBLIC_SHARE = 0.5
ARMS = {
    "Coinpress": "coinpress",
    "StratCoinpress": "stratified",
    "PubStratCoinpress": "public",
    "StratCoinpress at two levels (default)": "two_levels",
    "PubStratCoinpress without noise": "sampling",
}


@dataclass(frozen=True)
class MixtureCell:
    """One simulated table.

    Attributes
    ----------
    k : int
        The number of groups.
    alpha : float
        The parameter α of the Dirichlet distribution.
    n : int
        The number of rows.
    run : int
        The number of the run.
    """

    k: int
    alpha: float
    n: int
    run: int


@dataclass(frozen=True)
class MixtureLine(MixtureCell):
    """The error |estimate − mean of the private rows| of each estimator for one table.

    The unit is the standard deviation of a group.

    Attributes
    ----------
    coinpress : float
        The error of Coinpress over all rows.
    stratified : float
        The error of StratCoinpress with the shares of the private rows.
    public : float
        The error of PubStratCoinpress, which uses the shares of the public rows.
    two_levels : float
        The error of the estimator of a release, with noisy sizes and two levels (all rows and groups).
    sampling : float
        The error of the exact means of groups, combined with the public shares.
    """

    coinpress: float
    stratified: float
    public: float
    two_levels: float
    sampling: float


def grid(groups: Sequence[int], alphas: Sequence[float], sizes: Sequence[int], runs: int) -> Iterator[MixtureCell]:
    """Yield all cells, ordered by table."""
    for k, alpha, n, run in product(groups, alphas, sizes, range(runs)):
        yield MixtureCell(k, alpha, n, run)


def measure(cell: MixtureCell, source: Source | None = None) -> MixtureLine:
    """Draw one table and estimate its mean.

    The rows are simulated, so no source is read and the results are not private.
    """
    rng = np.random.default_rng([cell.k, round(1000 * cell.alpha), cell.n, cell.run])
    shares, means = rng.dirichlet(np.full(cell.k, cell.alpha)), rng.normal(0.0, 1.0, cell.k)
    group = np.repeat(np.arange(cell.k), rng.multinomial(cell.n, shares))
    values = rng.normal(means[group], SIGMA)
    private = rng.permutation(cell.n) >= PUBLIC_SHARE * cell.n
    groups = [values[private & (group == i)] for i in range(cell.k)]
    own, public = (np.bincount(group[rows], minlength=cell.k) / rows.sum() for rows in (private, ~private))
    coinpress = Coinpress(-RADIUS, RADIUS, SIGMA, tail="gaussian")
    noise = SeededNoise(cell.run).spawn(cell.k).spawn(round(1000 * cell.alpha)).spawn(cell.n)
    estimates = [
        coinpress.mean(values[private], RHO, noise.spawn(0)).value,
        *(coinpress.by_strata(groups, list(each), RHO, noise.spawn(1)).value for each in (own, public)),
        Coinpress(-RADIUS, RADIUS, SIGMA, sizes="noisy").hierarchical(groups, None, RHO, noise.spawn(2)).value,
        sum(share * rows.mean() for share, rows in zip(public, groups, strict=True) if len(rows)),
    ]
    errors = np.abs(np.array(estimates) - values[private].mean())
    return MixtureLine(cell.k, cell.alpha, cell.n, cell.run, *errors.tolist())
