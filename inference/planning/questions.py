"""What a plan asks of every stratum, and how well: of a proportion here, of a mean in `mean_question`.

No row is read: sizes, bounds, deviations and expected values are declared.
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
from equistrata.stats.laws import NormalLaplace

Goal = Literal["power", "relative error"]
About = Literal["population", "rows"]

EXACT_POWER_ROWS = 10**8  # rows from which the normal approximation of the power is as good as the exact distribution


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What is estimated in every stratum, and how well.

    Attributes:
        reference: the value expected.
        effect: the difference from it that the two-sided test is to detect, not 0; or None.
        relative_error: the half-width of the interval over the reference, positive; or None.
        alpha, beta, relation: the level of the test (or failure probability of the interval), its type II error, and
            the neighbouring relation of its ε.
        part: of the release's budget that buys this estimate, in (0, 1].
        about: a relative error about the "population" (sampling and noise) or the "rows" themselves (noise alone).
        unit_rows: the most rows k of a unit, for which ε is; all of them may be alike (docs/proofs/units.md).

    Raises InputError on a setting out of its range, and on both goals or none.
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
            raise InputError("a test is about the population; ask for a relative error, or leave 'about' out")
        if not 0 < number("part", self.part) <= 1:
            raise InputError(f"part is {self.part:g}, but must be above 0 and at most 1; choose another")
        _ = self._sizing

    @property
    def goal(self) -> Goal:
        """ "power" (a difference is detected with probability 1 − beta) or "relative error".

        Raises InputError where both are asked for, or none.
        """
        if (self.effect is None) == (self.relative_error is None):
            raise InputError("a plan needs either an effect to be seen or a relative error; give one of them")
        return "power" if self.effect is not None else "relative error"

    @property
    def classical_rows(self) -> float:
        """The rows needed without noise, not rounded; 0 where noise alone counts."""
        return self._sizing.classical_rows * self.unit_rows if self.about == "population" else 0.0

    @property
    @abstractmethod
    def _sizing(self) -> Sizing:
        """The question without noise."""

    @abstractmethod
    def rows(self, epsilon: float) -> float:
        """The rows that a stratum needs at this ε, not rounded."""

    @abstractmethod
    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        """The ε from which this many rows suffice; infinite where they would not even without noise.

        Where there are several, the nearest: below an ε `near` at which they suffice, above one at which they do not.
        """

    @abstractmethod
    def half_width(self, rows: float, epsilon: float) -> float:
        """Half the length of the interval at level 1 − alpha that this many rows give at this ε, in the data's unit."""

    def half_width_at_most(self, rows: float, epsilon: float) -> float:
        """The half-width below which it stays with confidence, where it depends on more than is declared."""
        return self.half_width(rows, epsilon)

    @abstractmethod
    def power(self, rows: float, epsilon: float) -> float:
        """Of the test, with this many rows at this ε."""

    def reached(self, rows: float, epsilon: float) -> float:
        """The power, or the relative error, that this many rows reach with confidence at this ε."""
        if self.goal == "power":
            return self.power(rows, epsilon)
        return self.half_width_at_most(rows, epsilon) / abs(self.reference)


@dataclass(frozen=True, kw_only=True)
class ProportionQuestion(Question):
    """A proportion in (0, 1) from a count with Laplace noise (`equistrata.inference.counts.noisy_counts`).

    The sizes of the strata are declared. At worst, n rows in units of k rows that are all alike tell as much as n/k
    rows, and a unit moves their share as one of these would. See `Question` for the settings.
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
        """K·N, or where noise alone counts ln(1/α)/(ε·distance)."""
        bought = positive("epsilon", epsilon) * self.part
        units = self._sizing.rows(bought) if self.about == "population" else self._noise_rows / bought
        return units * self.unit_rows

    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        rows = positive("rows", rows) / self.unit_rows
        bought = self._sizing.smallest_epsilon(rows) if self.about == "population" else self._noise_rows / rows
        return bought / self.part

    @property
    def _noise_rows(self) -> float:
        """Rows times ε at which Laplace noise of scale 1/(rows·ε) stays within the distance with probability 1 − α."""
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
