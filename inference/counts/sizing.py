"""The number of rows, or the ε, at which a test detects a difference of means under Laplace noise.

The mean of n rows with variance σ² and Laplace noise of scale Δ/(nε) has a normal-Laplace distribution. The two-sided
test at level α has the power 1 − β if F⁻¹(1 − α/2) + F⁻¹(1 − β) = distance, where F⁻¹ is the quantile function of the
centred distribution. This equation is solved for n or for ε.

>>> question = Sizing(variance=0.21, distance=0.1, alpha=0.05, beta=0.1)
>>> round(question.classical_rows, 2), round(question.rows(0.1), 1), round(question.rows(0.1, "normal"), 1)
(220.66, 577.4, 581.8)
>>> round(question.smallest_epsilon(question.rows(0.1)), 9)
0.1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import scipy

from equistrata.errors import InputError
from equistrata.stats.checks import one_of, positive, share
from equistrata.stats.distributions import NormalLaplace

Law = Literal["normal", "normal-laplace"]

DOUBLINGS = 200  # the largest number of doublings of a bracket, which exceeds the resolution of floats


@dataclass(frozen=True)
class Sizing:
    """A difference that a test is to detect.

    Parameters
    ----------
    variance : float
        The variance σ² of one row, positive, in squared units of the data.
    distance : float
        The difference, positive, in the unit of the data.
    alpha : float
        The level of the two-sided test, in (0, 1).
    beta : float
        The type II error, in (0, 1 − alpha/2). If it is ½, the result is for an interval of half-width `distance` with
        confidence 1 − alpha.
    sensitivity : float, default=1.0
        The sensitivity Δ of the sum, positive, in the unit of the data.
    """

    variance: float
    distance: float
    alpha: float
    beta: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        for name in ("variance", "distance", "sensitivity"):
            positive(f"the {name}", getattr(self, name))
        share("alpha", self.alpha)
        if not share("beta", self.beta) < 1 - self.alpha / 2:
            raise InputError(
                f"beta is {self.beta:g}, but a type II error of 1 − alpha/2 = {1 - self.alpha / 2:g} or more "
                "needs no rows at all; choose a smaller beta"
            )

    @cached_property
    def quantiles(self) -> float:
        """Return z(1 − α/2) + z(1 − β), which is positive."""
        return float(-scipy.special.ndtri(self.alpha / 2) - scipy.special.ndtri(self.beta))

    @cached_property
    def classical_rows(self) -> float:
        """Return N = (z(1 − α/2) + z(1 − β))²σ²/distance², which is the number of rows without noise.

        It is not rounded.
        """
        return self.quantiles**2 * self.variance / self.distance**2

    def rows(self, epsilon: float, law: Law = "normal-laplace") -> float:
        """Return the number of rows that the test needs at a given ε.

        Parameters
        ----------
        epsilon : float
            The privacy cost ε, positive.
        law : {"normal", "normal-laplace"}, default="normal-laplace"
            If "normal", the noise is treated as normal, and the result has a closed form. If "normal-laplace", the
            exact convolution is used. In this case the root is unique, because the quantiles increase with the noise
            (Lewis and Thompson, 1981).

        Returns
        -------
        float
            The number of rows, which is not rounded. It is not less than the number of rows without noise.
        """
        epsilon = positive("epsilon", epsilon)
        noise = 8 * (self.sensitivity * self.distance / (epsilon * self.quantiles * self.variance)) ** 2
        closed = self.classical_rows * (0.5 + math.sqrt(1 + noise) / 2)
        one_of("law", law, get_args(Law))
        if law == "normal":
            return closed
        return find_root(lambda rows: self._excess(rows, epsilon), closed)

    def smallest_epsilon(self, rows: float, law: Law = "normal-laplace") -> float:
        """Return the smallest ε at which a positive number of rows is enough.

        The result is infinite if the number of rows is not enough without noise.
        """
        one_of("law", law, get_args(Law))
        rows = positive("rows", rows)
        spare = rows / self.classical_rows
        if not spare > 1:
            return math.inf
        root = math.sqrt((2 * spare - 1) ** 2 - 1)
        closed = math.sqrt(8) * self.sensitivity * self.distance / (self.quantiles * self.variance * root)
        if law == "normal":
            return closed
        return find_root(lambda epsilon: self._excess(rows, epsilon), closed)

    def correction_factor(self, epsilon: float, law: Law = "normal-laplace") -> float:
        """Return the factor K ≥ 1 by which the noise at ε multiplies the number of rows."""
        return self.rows(epsilon, law) / self.classical_rows

    def effective_rows(self, rows: float, epsilon: float, law: Law = "normal-laplace") -> float:
        """Return rows/K, which is the number of rows without noise that has the same power.

        It can be used as a sample size in a meta-analysis.
        """
        return positive("rows", rows) / self.correction_factor(epsilon, law)

    def _excess(self, rows: float, epsilon: float) -> float:
        """Return the power minus the required power. The difference increases with the number of rows and with ε."""
        law = NormalLaplace(sd=math.sqrt(self.variance / rows), scale=self.sensitivity / (rows * epsilon))
        return float(law.cdf(self.distance - law.quantile(1 - self.alpha / 2))) - (1 - self.beta)


def find_root(rising: Callable[[float], float], near: float, precision: float = 1e-13) -> float:
    """Return the zero of an increasing function of a positive number. The search begins at `near`."""
    low = high = near
    for _ in range(DOUBLINGS):
        if rising(low) <= 0:
            break
        low /= 2
    for _ in range(DOUBLINGS):
        if rising(high) >= 0:
            break
        high *= 2
    if low == high:
        return near
    return math.exp(
        scipy.optimize.brentq(lambda x: rising(math.exp(x)), math.log(low), math.log(high), xtol=precision, rtol=1e-14)
    )
