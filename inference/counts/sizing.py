"""The number of rows, or the ε, at which a test detects a difference of means under Laplace noise.

The mean of n rows of variance σ² with Laplace noise of scale Δ/(nε) is normal-Laplace. The two-sided test at level α
has power 1 − β when F⁻¹(1 − α/2) + F⁻¹(1 − β) = distance, for the quantiles F⁻¹ of the centred distribution. That
equation is solved for n or for ε.

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
from equistrata.stats.laws import NormalLaplace

Law = Literal["normal", "normal-laplace"]

DOUBLINGS = 200  # of a bracket, beyond the resolution of floats


@dataclass(frozen=True)
class Sizing:
    """A difference to detect.

    Attributes:
        variance, distance: σ² of one row and the difference, positive, in the unit of the data and its square.
        alpha: the level of the two-sided test, in (0, 1).
        beta: the type II error, in (0, 1 − alpha/2); ½ asks for an interval of half-width `distance` at confidence
            1 − alpha.
        sensitivity: Δ of the sum, positive, in the unit of the data.
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
        """z(1 − α/2) + z(1 − β), positive."""
        return float(-scipy.special.ndtri(self.alpha / 2) - scipy.special.ndtri(self.beta))

    @cached_property
    def classical_rows(self) -> float:
        """N = (z(1 − α/2) + z(1 − β))²σ²/distance²: the rows needed without noise, not rounded."""
        return self.quantiles**2 * self.variance / self.distance**2

    def rows(self, epsilon: float, law: Law = "normal-laplace") -> float:
        """The rows needed at this ε > 0, not rounded; never fewer than without noise.

        "normal" takes the noise for normal, in closed form; "normal-laplace" uses the exact convolution, for which the
        root is unique (quantiles spread with the noise: Lewis and Thompson, 1981).
        """
        epsilon = positive("epsilon", epsilon)
        noise = 8 * (self.sensitivity * self.distance / (epsilon * self.quantiles * self.variance)) ** 2
        closed = self.classical_rows * (0.5 + math.sqrt(1 + noise) / 2)
        one_of("law", law, get_args(Law))
        if law == "normal":
            return closed
        return crossing(lambda rows: self._excess(rows, epsilon), closed)

    def smallest_epsilon(self, rows: float, law: Law = "normal-laplace") -> float:
        """The ε at which this many rows (positive) suffice; infinite where they would not even without noise."""
        one_of("law", law, get_args(Law))
        rows = positive("rows", rows)
        spare = rows / self.classical_rows
        if not spare > 1:
            return math.inf
        root = math.sqrt((2 * spare - 1) ** 2 - 1)
        closed = math.sqrt(8) * self.sensitivity * self.distance / (self.quantiles * self.variance * root)
        if law == "normal":
            return closed
        return crossing(lambda epsilon: self._excess(rows, epsilon), closed)

    def correction_factor(self, epsilon: float, law: Law = "normal-laplace") -> float:
        """K ≥ 1: the factor by which noise at ε multiplies the rows."""
        return self.rows(epsilon, law) / self.classical_rows

    def effective_rows(self, rows: float, epsilon: float, law: Law = "normal-laplace") -> float:
        """rows/K: the rows without noise that `rows` > 0 noisy ones are worth, for example in a meta-analysis."""
        return positive("rows", rows) / self.correction_factor(epsilon, law)

    def _excess(self, rows: float, epsilon: float) -> float:
        """The power at this many rows less the one asked for; rises in both."""
        law = NormalLaplace(sd=math.sqrt(self.variance / rows), scale=self.sensitivity / (rows * epsilon))
        return float(law.cdf(self.distance - law.quantile(1 - self.alpha / 2))) - (1 - self.beta)


def crossing(rising: Callable[[float], float], near: float, precision: float = 1e-13) -> float:
    """The zero of a rising function of a positive number, searched from `near` outwards by factors of two."""
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
