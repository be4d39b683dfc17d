"""The paper's simulated means as its published code makes them: Coinpress over k Gaussians, whole and by group.

Group sizes are n times a draw of the symmetric Dirichlet law, group i has mean μᵢ ~ N(0, 1) and deviation 1, and one
half of the rows, drawn at random, is public: it gives PubStratCoinpress its shares, and nothing else. (The paper's text
has deviations σᵢ ~ U(0.1, 2).) Estimators know |μ| ≤ 3 and σ = 1. Errors are from the mean of the private rows.

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
SIZES = (4_000, 8_000, 12_000, 16_000, 20_000)  # of which one half is private
RUNS_PER_SEED = 10  # the published number of runs
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
    """One simulated table: k groups, Dirichlet α, n rows, number of the run."""

    k: int
    alpha: float
    n: int
    run: int


@dataclass(frozen=True)
class MixtureLine(MixtureCell):
    """|estimate − mean of the private rows| of one table, in units of a group's deviation.

    `stratified` has the private rows' own shares, `public` those of the public rows, and `two_levels` is a release's
    (noisy sizes, all rows and groups). `sampling` joins exact means of groups by the public shares.
    """

    coinpress: float
    stratified: float
    public: float
    two_levels: float
    sampling: float


def grid(groups: Sequence[int], alphas: Sequence[float], sizes: Sequence[int], runs: int) -> Iterator[MixtureCell]:
    """All of them, table by table."""
    for k, alpha, n, run in product(groups, alphas, sizes, range(runs)):
        yield MixtureCell(k, alpha, n, run)


def measure(cell: MixtureCell, source: Source | None = None) -> MixtureLine:
    """Draw one table and estimate its mean. The rows are simulated, so no source is read and nothing is private."""
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
