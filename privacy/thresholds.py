"""Private selection of the frequent values of an open domain, by noisy counts above a threshold.

If a value that occurs in a single row were published, it would reveal that row. Counts do not have noise at values that
do not occur. Therefore a value is kept only if its count plus Gaussian noise reaches a threshold. The probability that
the value of a single row reaches this threshold is at most δ.

Budgets are recorded in ρ only, so the release pays for δ with an additional amount of ρ. The exchange rate depends on
the (ε, δ) of the budget. See docs/proofs/open-categories.md.

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

MOST_PART = 0.1  # the largest fraction of a budget's ρ that may be spent on δ
STEEP = 4  # at a fixed ε, a ρ that is 1% smaller must make δ smaller by at least this percentage


@dataclass(frozen=True)
class Threshold:
    """Threshold for noisy counts.

    Attributes
    ----------
    sigma : float
        The standard deviation of the Gaussian noise on each count.
    least : int
        The smallest noisy count that is kept.
    delta : float
        Upper bound for the probability that the values of a single unit are kept.
    """

    sigma: float
    least: int
    delta: float

    @classmethod
    def of(cls, rho: Rho, delta: float, rows: int = 1) -> Threshold:
        """Compute the lowest threshold for the given privacy parameters.

        Discrete Gaussian noise does not have a heavier tail than P[N(0, σ²) ≥ m − 1] at an integer m ≥ 1. The value of
        a single row is kept if the noise is at least T − 1. For more rows, see `chance`.

        Parameters
        ----------
        rho : Rho
            Privacy cost of one row, ρ > 0.
        delta : float
            Privacy parameter of one unit, 0 < δ < ½.
        rows : int, default=1
            The largest number of rows of a unit.

        Returns
        -------
        Threshold
            The lowest threshold that satisfies the bound.

        Raises
        ------
        InputError
            If `rho` is not positive or `delta` is out of its range.

        References
        ----------
        Canonne, Kamath and Steinke (2020), arXiv:2004.00010, Proposition 25.
        """
        if not 0 < delta < 0.5:
            raise InputError(f"finding values needs a delta between 0 and 0.5, not {delta}")
        sigma = gaussian_sigma(rho)
        least = 1 + rows + math.floor(-NormalDist().inv_cdf(delta / rows) * sigma)
        while rows * _tail((least - rows - 1) / sigma) > delta:
            least += 1
        return cls(sigma, least, delta)

    def chance(self, rows: int) -> float:
        """Bound the probability that a value is kept if it occurs only in the rows of one group.

        Parameters
        ----------
        rows : int
            The number of rows of the group, at least 1. They can all have the same value or different values.

        Returns
        -------
        float
            Upper bound for the probability.
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
    """Select the values that occur in many rows.

    Parameters
    ----------
    counts : ndarray of int of shape (n_values,), or callable
        The number of rows with each value. Each row is counted once at most. The order of the values decides between
        equal noisy counts. It must not depend on the rows, so sort the values by name, for example.
    rho : Rho
        Privacy cost of one row, which is charged to `budget`.
    delta : float
        Privacy parameter of one unit, 0 < δ < ½. It is not charged to `budget` (see `bought`).
    budget : Budget
        Budget to which `rho` is charged.
    noise : NoiseSource
        Source of the Gaussian noise.
    what : str
        Name of the charge.
    rows : int, default=1
        The largest number of rows of a unit.

    Returns
    -------
    kept : ndarray of int
        The indices of the selected values, in descending order of their noisy counts.
    threshold : Threshold
        The threshold that was used.

    Raises
    ------
    InputError
        If a parameter is out of its range, or if the counts are not whole numbers.
    BudgetExceeded
        If the price is larger than the remaining budget.
    RuntimeError
        If the privacy map of OpenDP is larger than `rho`.

    Privacy
    -------
    The set of selected values and their order satisfy δ-approximate ρ-zCDP under adding or removing one row (Bun and
    Steinke, arXiv:1605.02065, Definition 8.1). The proof is given in docs/proofs/open-categories.md.
    """
    threshold = Threshold.of(rho, delta, rows)
    noisy, _ = noise.gaussian(counts, 1.0, rho, budget, what)
    kept = np.flatnonzero(noisy >= threshold.least)
    return kept[np.argsort(-noisy[kept], kind="stable")], threshold


def bought(rho: Rho, budgets: Iterable[tuple[float, float]]) -> float:
    """Return the δ that can be used in exchange for an amount of ρ.

    If the amount is charged like any other cost, then every budget still satisfies its (ε, δ). The amount must not be
    larger than the fraction MOST_PART of the budget.

    Parameters
    ----------
    rho : Rho
        The amount to exchange.
    budgets : iterable of (float, float)
        The parameters ε and δ of each budget. The lowest of the rates δ/ρ is used.

    Returns
    -------
    float
        The value of δ.

    Raises
    ------
    InputError
        If the δ of a budget is too large for this exchange.
    """
    rates = []
    for epsilon, delta in budgets:
        whole, more = Rho.from_epsilon_delta(epsilon, delta), delta / (1 - MOST_PART)
        if more >= 1 or Rho.from_epsilon_delta(epsilon, more) > whole * (1 + MOST_PART / STEEP):
            raise InputError(
                f"delta = {delta:g} is too large for epsilon = {epsilon:g} to find values of open columns; "
                "lower it, or list the values"
            )
        rates.append(Fraction(delta) / whole.exact)
    return float(rho.exact * min(rates)) * (1 - 1e-9)


def _tail(sigmas: float) -> float:
    """Return the probability that a standard normal variable is at least `sigmas`."""
    return math.erfc(sigmas / math.sqrt(2)) / 2
