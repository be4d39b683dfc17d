"""The central baseline: a trusted party sees the rows and adds Gaussian noise to each arm's two means.

What distributed privacy costs is the difference between this and the Poisson-binomial mechanism.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> arm = gaussian_arm(np.full(1000, 0.3), radius=1, epsilon=1, delta=1e-6, noise=SeededNoise(1))
>>> round(float(arm.mean), 3), round(arm.noise**0.5, 4)
(0.303, 0.0091)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.federated.ab_test import share_for
from equistrata.inference.federated.arms import Arm, check_rows
from equistrata.inference.federated.poisson_binomial import check_values
from equistrata.inference.federated.renyi import ThetaTarget, epsilon_of
from equistrata.inference.means.lattice import Purchase, noisy_sum
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma


@dataclass(frozen=True)
class GaussianSettings:
    """Noise for the mean and the mean square of an arm of n rows (n ≥ 2, public).

    Attributes:
        radius: R; values are in [−R, R].
        mean_rho, square_rho: the cost of each, in zCDP.
    """

    rows: int
    radius: float
    mean_rho: float
    square_rho: float

    @property
    def mean_sigma(self) -> float:
        """The standard deviation of the noise of the mean, in the unit of the values."""
        return gaussian_sigma(self.mean_rho, 2 * self.radius / self.rows)

    @property
    def square_sigma(self) -> float:
        """That of the mean square, in the square of the unit."""
        return gaussian_sigma(self.square_rho, self.radius**2 / self.rows)

    def arm(self, mean: npt.ArrayLike, moment: npt.ArrayLike) -> Arm:
        """The arm by noisy means of the values and of their squares (any shape). See `private_arm`."""
        noisy, squares = np.asarray(mean, dtype=np.float64), np.asarray(moment, dtype=np.float64)
        noise = self.mean_sigma**2
        kept = 1 - 1 / self.rows
        squared = np.clip(noisy**2 - noise, 0, self.radius**2)
        variance: Floats = (squares - noisy**2 + noise) / kept
        uncertain = (self.square_sigma**2 + 4 * squared * noise + 2 * noise**2) / kept**2
        return Arm(
            self.rows, noisy, variance, moment=squares, noise=noise, variance_noise=uncertain, radius=self.radius
        )


def settle_gaussian(
    rows: int,
    *,
    radius: float,
    epsilon: float,
    delta: float,
    mean_share: float | None = None,
    orders: Sequence[float] | None = None,
) -> GaussianSettings:
    """Noise at which both means of an arm of `rows` people are (ε, δ)-DP together.

    Args: as `equistrata.inference.federated.ab_test.ArmDesign`; `mean_share` is the mean's part of ρ, None for 0.99, or
    less where the variance would be below the noise floor.

    Privacy: replace-one within the arm, n public. The mean has sensitivity 2R/n and the mean square R²/n; Gaussian
    noise of standard deviation Δ/√(2ρ) costs ρ (Bun and Steinke, Proposition 1.6), and the two amounts add up to the
    ρ that (ε, δ) implies.
    """
    check_rows(rows)
    if not 0 < radius < math.inf:
        raise InputError(f"the radius R must be a positive number, not {radius}")
    if mean_share is not None and not 0 < mean_share < 1:
        raise InputError(f"the mean's share of the budget must lie strictly between 0 and 1, not {mean_share}")
    ThetaTarget(epsilon, delta)  # checks them
    rho = _rho(epsilon, delta, None if orders is None else tuple(orders))
    # The noise in ŝ²/n, beside that in the mean: √(2ρ)·f/(4√(1 − f)).
    share = share_for(4 / math.sqrt(2 * rho)) if mean_share is None else mean_share
    return GaussianSettings(rows, radius, rho * share, rho * (1 - share))


def gaussian_arm(
    values: npt.ArrayLike,
    *,
    radius: float,
    epsilon: float,
    delta: float,
    noise: NoiseSource,
    mean_share: float | None = None,
) -> Arm:
    """An arm by central Gaussian noise. Arguments, raises and privacy as `settle_gaussian`; n is public.

    Both means are of values in whole units, so that no rounding error adds to a sensitivity
    (`equistrata.inference.means.lattice`).
    """
    x = check_values(values, radius)
    settings = settle_gaussian(len(x), radius=radius, epsilon=epsilon, delta=delta, mean_share=mean_share)
    budget = Budget(Rho(settings.mean_rho) + Rho(settings.square_rho))

    def noisy_mean(of: Floats, lower: float, upper: float, rho: float, what: str) -> float:
        summed = noisy_sum(of, lower, upper, REPLACE_ONE, Purchase(Rho(rho), budget, noise, what))
        return (lower + upper) / 2 + summed / len(x)

    mean = noisy_mean(x, -radius, radius, settings.mean_rho, "mean")
    return settings.arm(mean, noisy_mean(x**2, 0.0, radius**2, settings.square_rho, "mean square"))


@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float, orders: tuple[float, ...] | None) -> float:
    if orders is None:
        return float(Rho.from_epsilon_delta(epsilon, delta))

    def excess(rho: float) -> float:
        return epsilon_of(lambda order: rho * order, delta, orders) - epsilon

    high = float(Rho.from_epsilon_delta(epsilon, delta))  # fewer orders convert no better
    if excess(0.0) > 0:
        raise InputError(f"these orders give no epsilon as low as {epsilon} at delta = {delta}; allow higher ones")
    rho = float(brentq(excess, 0.0, high * (1 + 1e-6), xtol=high * 1e-12))
    return rho * (1 - 1e-9)
