"""The paper's simulated means: Coinpress over a mixture of k Gaussians, whole and by group.

Shares v come from the symmetric Dirichlet law, group i has mean μᵢ ~ N(0, 1) and deviation σᵢ ~ U(0.1, 2), and n rows
are drawn from the mixture. (The paper's text has |Gᵢ| = n/k, "using the weights v"; both cannot hold, and Figure 1
and Theorem 10 need the weights.) Estimators know the same two things, declared for all groups alike: |μ| ≤ 5 and σ ≤
2.5.

>>> 0 < measure(MixtureCell(3, 1.0, 2000, 0)).stratified < 0.2
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
MANY_GROUPS = (3, 6, 12, 24, 48)
ALPHAS = (0.1, 1.0, 10.0)
SIZES = (2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 14_000, 16_000, 18_000, 20_000)
RUNS_PER_SEED = 10  # the paper's 50 are ours with 5 seeds
RHO = 0.5
RADIUS, SIGMA = 5.0, 2.5
PUBLIC_SHARE = 0.1  # of n: how many public rows PubStratCoinpress counts
ARMS = {"Coinpress": "coinpress", "StratCoinpress": "stratified", "PubStratCoinpress": "public"}


@dataclass(frozen=True)
class MixtureCell:
    """One simulated table: k groups, Dirichlet α, n rows, number of the run."""

    k: int
    alpha: float
    n: int
    run: int


@dataclass(frozen=True)
class MixtureLine(MixtureCell):
    """|estimate − Σ vᵢμᵢ| of three estimates of one table's mean, in the data's unit (a group's σ is 0.1 to 2).

    `stratified` has the true shares v, and `public` those of n/10 public rows.
    """

    coinpress: float
    stratified: float
    public: float


def grid(groups: Sequence[int], alphas: Sequence[float], sizes: Sequence[int], runs: int) -> Iterator[MixtureCell]:
    """All of them, table by table."""
    for k, alpha, n, run in product(groups, alphas, sizes, range(runs)):
        yield MixtureCell(k, alpha, n, run)


def measure(cell: MixtureCell, source: Source | None = None) -> MixtureLine:
    """Draw one table and estimate its mean. The rows are simulated, so no source is read and nothing is private."""
    rng = np.random.default_rng([cell.k, round(1000 * cell.alpha), cell.n, cell.run])
    shares = rng.dirichlet(np.full(cell.k, cell.alpha))
    deviations, means = rng.uniform(0.1, 2.0, cell.k), rng.normal(0.0, 1.0, cell.k)
    sizes = rng.multinomial(cell.n, shares)
    groups = [rng.normal(*law) for law in zip(means, deviations, sizes, strict=True)]
    counted = rng.multinomial(round(PUBLIC_SHARE * cell.n), shares)
    coinpress = Coinpress(-RADIUS, RADIUS, SIGMA, tail="gaussian")
    noise = SeededNoise(cell.run).spawn(cell.k).spawn(round(1000 * cell.alpha)).spawn(cell.n)
    whole = coinpress.mean(np.concatenate(groups), RHO, noise.spawn(0)).value
    by_group, by_public = (
        coinpress.by_strata(groups, list(weights), RHO, noise.spawn(1)).value
        for weights in (shares, counted / counted.sum())
    )
    errors = np.abs(np.array([whole, by_group, by_public]) - float(shares @ means))
    return MixtureLine(cell.k, cell.alpha, cell.n, cell.run, *errors.tolist())
