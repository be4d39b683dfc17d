"""Which values of an open domain many rows hold: noisy counts above a threshold, in zCDP with a small δ.

A value that one row alone holds would show that row if it were kept, and counts have no noise where there is no value.
So values are kept where count plus Gaussian noise reaches a threshold that one row reaches with a chance of at most δ.
Budgets are kept in ρ alone: δ is bought with ρ, at the rate of the (ε, δ) that everything must stay in. See
docs/proofs/open-categories.md.

>>> from equistrata.privacy.noise import SeededNoise
>>> kept, threshold = often(np.array([900, 300, 1]), Rho(0.0006), 1e-11, Budget(Rho(0.0006)), SeededNoise(0), "jobs")
>>> kept.tolist(), threshold.least, round(threshold.sigma, 1)
([0, 1], 196, 28.9)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma

MOST_PART = 0.1  # of any ρ that may buy δ
STEEP = 4  # at least so many per cent less δ for a per cent less ρ, at one ε


@dataclass(frozen=True)
class Threshold:
    """What a noisy count must reach.

    Attributes:
        sigma: of the Gaussian noise on each count.
        least: the least noisy count that is kept, whole.
        delta: the chance with which values that one unit alone holds are kept is at most this.
    """

    sigma: float
    least: int
    delta: float

    @classmethod
    def of(cls, rho: Rho, delta: float, rows: int = 1) -> Threshold:
        """The lowest at these prices, ρ for one row and 0 < δ < ½ for one unit of up to `rows` rows.

        Discrete Gaussian noise has no heavier tail than P[N(0, σ²) ≥ m − 1] at a whole m ≥ 1 (Canonne, Kamath and
        Steinke, arXiv:2004.00010, Proposition 25), and a row's value is kept where the noise is at least T − 1; for
        more rows see `chance`. Raises InputError for prices of nothing.
        """
        if not 0 < delta < 0.5:
            raise InputError(f"finding values needs a delta between 0 and 0.5, not {delta}")
        sigma = gaussian_sigma(rho)
        least = 1 + rows + math.floor(-NormalDist().inv_cdf(delta / rows) * sigma)
        while rows * _tail((least - rows - 1) / sigma) > delta:
            least += 1
        return cls(sigma, least, delta)

    def chance(self, rows: int) -> float:
        """At most this is the chance that a value is kept that none but `rows` ≥ 1 rows of one group hold.

        The rows may hold one value, or as many as they are.
        """
        return min(1.0, rows * _tail((self.least - rows - 1) / self.sigma))


def often(
    counts: Counts | Callable[[], Counts],
    rho: Rho,
    delta: float,
    budget: Budget,
    noise: NoiseSource,
    what: str,
    rows: int = 1,
) -> tuple[npt.NDArray[np.intp], Threshold]:
    """The places of the values that many rows hold, by falling noisy counts, and the threshold.

    Args:
        counts: of each value that is there, whole numbers, shape (values,). A row counts for one value at most. In an
            order that no row decides, as that of the values' texts: of equal noisy counts the first comes first.
        rho: charged to `budget`, which notes it as `what`.
        delta: 0 < δ < ½, which no budget here is charged for: `bought` accounts for it.
        rows: of a unit at most; δ is for a unit, and ρ for one row of it.

    Raises as `NoiseSource.gaussian` and `Threshold.of`.
    Cost: δ-approximate ρ-zCDP, add/remove (Bun and Steinke, arXiv:1605.02065, Definition 8.1), for the set of values
    and their order. See docs/proofs/open-categories.md.
    """
    threshold = Threshold.of(rho, delta, rows)
    noisy, _ = noise.gaussian(counts, 1.0, rho, budget, what)
    kept = np.flatnonzero(noisy >= threshold.least)
    return kept[np.argsort(-noisy[kept], kind="stable")], threshold


def bought(rho: Rho, budgets: Iterable[tuple[float, float]]) -> float:
    """The δ that an amount of ρ buys at the least rate δ/ρ of these (ε, δ), so that each of them still holds.

    What is charged to a budget (ε, δ) stays (ε, δ)-DP if ρ for δ is charged like any other, and is at most MOST_PART
    of what the budget holds. Raises InputError where δ is so large that this would not hold.
    """
    rates = []
    for epsilon, delta in budgets:
        whole, more = Rho.from_epsilon_delta(epsilon, delta), delta / (1 - MOST_PART)
        if more >= 1 or Rho.from_epsilon_delta(epsilon, more) > whole * (1 + MOST_PART / STEEP):
            raise InputError(
                f"delta = {delta:g} is too large beside epsilon = {epsilon:g} to find values of open columns; "
                "lower it, or list the values"
            )
        rates.append(Fraction(delta) / whole.exact)
    return float(rho.exact * min(rates)) * (1 - 1e-9)


def _tail(sigmas: float) -> float:
    """P[N(0, 1) ≥ sigmas]."""
    return math.erfc(sigmas / math.sqrt(2)) / 2
