"""The Poisson-binomial mechanism: each person reports a binomial number whose mean depends on their value.

Z ~ Binomial(m, ½ + θx/R) for x in [−R, R]. Only the sum over many people is released; it never exceeds nm, so it is
added modulo nm + 1.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> mechanism = PoissonBinomial(trials=256, theta=0.1, radius=2.0)
>>> values = np.random.default_rng(0).uniform(-1, 2, 20_000)
>>> total = int(mechanism.reports(values, SeededNoise(1)).sum())
>>> round(float(values.mean()), 3), round(float(mechanism.mean(total, 20_000)), 3)
(0.508, 0.512)
>>> round(mechanism.noise(20_000) ** 0.5, 4)
0.0044
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.inference.federated.renyi import MAX_THETA
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.checks import positive, whole

LARGEST_TRIALS = 2**20


@dataclass(frozen=True)
class PoissonBinomial:
    """The randomizer of one person's value, and the estimator from the sum of many reports.

    Attributes:
        trials: m, 1 to 2²⁰: a report takes about log₂ m bits; m in the thousands is as good as Gaussian noise.
        theta: θ in (0, ¼], from `equistrata.inference.federated.renyi.solve_theta` for an (ε, δ).
        radius: R > 0; values lie in [−R, R], declared, never read off the rows.
        squares: whether people report x² instead: the same mechanism on 2x²/R² − 1, which is in [−1, 1].

    Cost: a report alone is m·ln((½ + θ)/(½ − θ))-DP; for the sum of n see `equistrata.inference.federated.renyi`.
    Replace-one, n public.
    Source: the federated-experiments paper, Algorithm 2; Chen, Özgür and Kairouz, arXiv:2207.09916.
    """

    trials: int
    theta: float
    radius: float = 1.0
    squares: bool = False

    def __post_init__(self) -> None:
        if whole("the number of trials", self.trials, 1) > LARGEST_TRIALS:
            raise InputError(f"the number of trials is {self.trials}, but must be at most {LARGEST_TRIALS:,}")
        if not 0 < self.theta <= MAX_THETA:
            raise InputError(f"theta must lie in (0, 1/4], not {self.theta}; beyond it the accounting does not hold")
        positive("the radius R", self.radius)

    def modulus(self, rows: int) -> int:
        """nm + 1: one more than the largest sum of n reports."""
        return rows * self.trials + 1

    def reports(self, values: npt.ArrayLike, noise: NoiseSource) -> Counts:
        """One report, 0 to m, for each value. Shape (n,) in and out. Raises InputError as `check_values`."""
        unit = check_values(values, self.radius) / self.radius
        if self.squares:
            unit = np.clip(2 * unit**2 - 1, -1, 1)
        # Rounding must not shift a report's mean by more than θ.
        return noise.binomial(self.trials, 0.5 + np.clip(self.theta * unit, -self.theta, self.theta))

    def mean(self, total: npt.ArrayLike, rows: int) -> Floats:
        """R/(nmθ)·(ΣZ − nm/2), the unbiased estimate of the mean of x (or x²), from the sum of n reports (any shape).

        The paper's eq. 3 as printed subtracts m/2 once instead of n times. Noise may take a mean of squares below 0.
        """
        coins, scale = rows * self.trials, 1.0 if self.squares else self.radius
        found = np.asarray(scale / (coins * self.theta) * (np.asarray(total, dtype=np.float64) - coins / 2))
        return self.radius**2 / 2 * (1 + found) if self.squares else found

    def noise(self, rows: int) -> float:
        """R²/(4nmθ²), a bound on the noise variance of the mean of n rows (Theorem 4.1); exact less (Σx²/n)/(nm).

        Of squares: R⁴/(16nmθ²).
        """
        largest = self.radius**4 / 4 if self.squares else self.radius**2
        return largest / (4 * rows * self.trials * self.theta**2)


def check_values(values: npt.ArrayLike, radius: float) -> Floats:
    """The values as floats, shape (n,). Raises InputError on another shape, or a value outside [−R, R] or missing."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise InputError(f"the values of an arm must be one-dimensional, not of {x.ndim} dimensions")
    if not (np.abs(x) <= radius).all():  # false for NaN
        bounds = f"[-{radius:g}, {radius:g}]"
        raise InputError(f"a value lies outside the declared range {bounds} or is missing; clean the rows")
    return x
