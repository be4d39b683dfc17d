"""The questions that a plan asks of every stratum, with the required accuracy.

Questions about a proportion are in this module, and questions about a mean are in `mean_question`. No rows are read,
because sizes, bounds, deviations and expected values are declared.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from equistrata.errors import InputError
from equistrata.inference.counts.proportions import exact_power, power, proportion_sizing
from equistrata.inference.counts.sizing import Sizing
from equistrata.privacy.budget import REPLACE_ONE, Relation
from equistrata.stats.checks import number, one_of, positive, share
from equistrata.stats.distributions import NormalLaplace

Goal = Literal["power", "relative error"]
About = Literal["population", "rows"]

# For more rows than this, the normal approximation of the power is as accurate as the exact distribution.
EXACT_POWER_ROWS = 10**8


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """A quantity that is estimated in every stratum, and the required accuracy.

    Parameters
    ----------
    reference : float
        The expected value.
    effect : float, optional
        The difference from the reference that the two-sided test is to detect, not 0.
    relative_error : float, optional
        The half-width of the interval divided by the reference, positive.
    alpha : float, default=0.05
        The level of the test, or the failure probability of the interval.
    beta : float, default=0.2
        The type II error of the test.
    part : float, default=1.0
        The share of the budget of the release that is spent on this estimate, in (0, 1].
    about : {"population", "rows"}, default="population"
        If "population", a relative error includes sampling and noise. If "rows", it includes the noise only.
    unit_rows : int, default=1
        The largest number k of rows of a unit. The ε is for a unit, and all of its rows may be equal (see
        docs/proofs/units.md).

    Attributes
    ----------
    relation : Relation
        The neighbouring relation of ε.

    Raises
    ------
    InputError
        If a setting is out of its range, or if both goals or no goal is given.
    """

    reference: float
    effect: float | None = None
    relative_error: float | None = None
    alpha: float = 0.05
    beta: float = 0.2
    part: float = 1.0
    about: About = "population"
    unit_rows: int = 1
    relation: ClassVar[Relation]

    def __post_init__(self) -> None:
        one_of("about", self.about, get_args(About))
        if self.goal == "power" and self.about == "rows":
            raise InputError(
                "'about' is 'rows', but a test is about the population; give a relative error, or leave 'about' out"
            )
        if not 0 < number("part", self.part) <= 1:
            raise InputError(f"part is {self.part:g}, but must be above 0 and at most 1; choose another")
        _ = self._sizing

    @property
    def goal(self) -> Goal:
        """Return "power" if a difference is to be detected with probability 1 − beta, and "relative error" otherwise.

        Raise InputError if both goals or no goal is given.
        """
        if (self.effect is None) == (self.relative_error is None):
            raise InputError("a plan needs either an effect to detect or a relative error; give one of them")
        return "power" if self.effect is not None else "relative error"

    @property
    def classical_rows(self) -> float:
        """Return the number of rows that is needed without noise, not rounded. It is 0 if only the noise counts."""
        return self._sizing.classical_rows * self.unit_rows if self.about == "population" else 0.0

    @property
    @abstractmethod
    def _sizing(self) -> Sizing:
        """Return the question without noise."""

    @abstractmethod
    def rows(self, epsilon: float) -> float:
        """Return the number of rows that a stratum needs at this ε, not rounded."""

    @abstractmethod
    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        """Return the smallest ε at which this number of rows is enough.

        The result is infinite if the number of rows is not enough without noise. If there are several such values, the
        nearest to `near` is returned. It is smaller than `near` if the rows are enough at `near`, and larger if they
        are not.
        """

    @abstractmethod
    def half_width(self, rows: float, epsilon: float) -> float:
        """Return half of the length of the interval at level 1 − alpha, in the unit of the data."""

    def half_width_at_most(self, rows: float, epsilon: float) -> float:
        """Return a bound on the half-width that holds with confidence.

        It differs from `half_width` only if the half-width depends on quantities that are not declared.
        """
        return self.half_width(rows, epsilon)

    @abstractmethod
    def power(self, rows: float, epsilon: float) -> float:
        """Return the power of the test for this number of rows and this ε."""

    def reached(self, rows: float, epsilon: float) -> float:
        """Return the power or the relative error that this number of rows attains with confidence at this ε."""
        if self.goal == "power":
            return self.power(rows, epsilon)
        return self.half_width_at_most(rows, epsilon) / abs(self.reference)


@dataclass(frozen=True, kw_only=True)
class ProportionQuestion(Question):
    """A question about a proportion in (0, 1) that is estimated from a count with Laplace noise.

    The sizes of the strata are declared. In the worst case, all k rows of a unit are equal. Then n rows contain as much
    information as n/k rows, and a unit changes the proportion as much as one of these n/k rows. The settings are
    described in `Question`, and the count in `equistrata.inference.counts.noisy_counts`.
    """

    reference: float = 0.5
    relation: ClassVar[Relation] = REPLACE_ONE

    @cached_property
    def _sizing(self) -> Sizing:
        if self.goal == "power":
            assert self.effect is not None
            return proportion_sizing(self.reference, self.effect, alpha=self.alpha, beta=self.beta)
        p = share("the reference", self.reference)
        return Sizing(p * (1 - p), positive("the relative error", self.relative_error) * p, self.alpha, 0.5)

    def rows(self, epsilon: float) -> float:
        """Return K·N, or ln(1/α)/(ε·distance) if only the noise counts."""
        bought = positive("epsilon", epsilon) * self.part
        units = self._sizing.rows(bought) if self.about == "population" else self._noise_rows / bought
        return units * self.unit_rows

    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        rows = positive("rows", rows) / self.unit_rows
        bought = self._sizing.smallest_epsilon(rows) if self.about == "population" else self._noise_rows / rows
        return bought / self.part

    @property
    def _noise_rows(self) -> float:
        """Return the number of rows times ε at which the noise is within the distance.

        The Laplace noise of scale 1/(rows·ε) is within the distance with probability 1 − α.
        """
        return -math.log(self.alpha) / self._sizing.distance

    def half_width(self, rows: float, epsilon: float) -> float:
        bought, p, rows = epsilon * self.part, self.reference, rows / self.unit_rows
        if self.about == "rows":
            return -math.log(self.alpha) / (rows * bought)
        return NormalLaplace(math.sqrt(p * (1 - p) / rows), 1 / (rows * bought)).quantile(1 - self.alpha / 2)

    def power(self, rows: float, epsilon: float) -> float:
        assert self.effect is not None
        found = exact_power if (whole := max(round(rows / self.unit_rows), 1)) <= EXACT_POWER_ROWS else power
        p = self.reference
        return found(p + self.effect, p0=p, rows=whole, epsilon=epsilon * self.part, alpha=self.alpha)
