"""The Poisson-binomial mechanism, in which each person reports a binomial number with a mean that depends on the value.

The report of a value x in [−R, R] is Z ~ Binomial(m, ½ + θx/R). Only the sum over many people is released. The sum is
at most nm, so it is computed modulo nm + 1.

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
    """The randomizer of the value of one person, and the estimator from the sum of many reports.

    Parameters
    ----------
    trials : int
        The number m of trials, from 1 to 2²⁰. A report has about log₂ m bits. With several thousand trials, the
        mechanism is as accurate as Gaussian noise.
    theta : float
        The parameter θ in (0, ¼]. For a given (ε, δ), it is computed by
        `equistrata.inference.federated.renyi.solve_theta`.
    radius : float, default=1.0
        The radius R, positive. The values are in [−R, R]. It is declared and must not be computed from the rows.
    squares : bool, default=False
        If True, people report x². In this case the mechanism is applied to 2x²/R² − 1, which is in [−1, 1].

    Privacy
    -------
    A single report is m·ln((½ + θ)/(½ − θ))-DP. For the sum of n reports, see `equistrata.inference.federated.renyi`.
    The relation is replace-one, and n is public.

    References
    ----------
    The federated-experiments paper, Algorithm 2; Chen, Özgür and Kairouz, arXiv:2207.09916.
    """

    trials: int
    theta: float
    radius: float = 1.0
    squares: bool = False

    def __post_init__(self) -> None:
        if whole("the number of trials", self.trials, 1) > LARGEST_TRIALS:
            raise InputError(f"the number of trials is {self.trials}, but must be at most {LARGEST_TRIALS:,}")
        if not 0 < self.theta <= MAX_THETA:
            raise InputError(f"theta must lie in (0, 1/4], where the accounting holds, not {self.theta}")
        positive("the radius R", self.radius)

    def modulus(self, rows: int) -> int:
        """Return nm + 1, which is one more than the largest sum of n reports."""
        return rows * self.trials + 1

    def reports(self, values: npt.ArrayLike, noise: NoiseSource) -> Counts:
        """Draw one report from 0 to m for each value.

        Parameters
        ----------
        values : array-like of shape (n,)
            The values, in [−R, R].
        noise : NoiseSource
            The source of the random numbers.

        Returns
        -------
        ndarray of shape (n,)
            The reports.

        Raises
        ------
        InputError
            If `check_values` raises it.
        """
        unit = check_values(values, self.radius) / self.radius
        if self.squares:
            unit = np.clip(2 * unit**2 - 1, -1, 1)
        # The rounding must not change the mean of a report by more than θ.
        return noise.binomial(self.trials, 0.5 + np.clip(self.theta * unit, -self.theta, self.theta))

    def mean(self, total: npt.ArrayLike, rows: int) -> Floats:
        """Return R/(nmθ)·(ΣZ − nm/2), which is the unbiased estimate of the mean of x (or of x²).

        The printed equation 3 of the paper subtracts m/2 only once instead of n times. The noise may make a mean of
        squares negative.

        Parameters
        ----------
        total : array-like
            The sum of n reports, of any shape.
        rows : int
            The number n of reports.

        Returns
        -------
        ndarray
            The estimates, with the shape of `total`.
        """
        coins, scale = rows * self.trials, 1.0 if self.squares else self.radius
        found = np.asarray(scale / (coins * self.theta) * (np.asarray(total, dtype=np.float64) - coins / 2))
        return self.radius**2 / 2 * (1 + found) if self.squares else found

    def noise(self, rows: int) -> float:
        """Return R²/(4nmθ²), which is a bound on the noise variance of the mean of n rows (Theorem 4.1).

        The exact variance is smaller by (Σx²/n)/(nm). For squares, the bound is R⁴/(16nmθ²).
        """
        largest = self.radius**4 / 4 if self.squares else self.radius**2
        return largest / (4 * rows * self.trials * self.theta**2)


def check_values(values: npt.ArrayLike, radius: float) -> Floats:
    """Return the values as an array of floats of shape (n,).

    Raise InputError if the array has another shape, or if a value is missing or outside of [−R, R].
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise InputError(f"the values of an arm must be one-dimensional, not of {x.ndim} dimensions")
    if not (np.abs(x) <= radius).all():  # false for NaN
        bounds = f"[-{radius:g}, {radius:g}]"
        raise InputError(f"a value lies outside the declared range {bounds} or is missing; clean the rows")
    return x
