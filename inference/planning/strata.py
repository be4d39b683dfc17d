"""Planning from public numbers: at which ε each stratum can be read, how many rows that takes, and which strata never will.

Nothing here reads a row: sizes, bounds, deviations and guesses are declared.

>>> from equistrata.inference.planning.questions import ProportionQuestion
>>> question = ProportionQuestion(reference=0.25, effect=0.1, beta=0.1)
>>> for part in plan_strata(question, {"large": 5000, "small": 300, "tiny": 20}, epsilon=0.1):
...     print(part.label, round(part.smallest_epsilon, 3), part.rows_needed, round(part.reached, 2), part.status)
large 0.009 578 1.0 readable
small 0.295 578 0.42 unreadable
tiny inf 578 0.05 too few rows
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from equistrata.errors import InputError
from equistrata.inference.planning.questions import Goal
from equistrata.privacy.budget import Relation
from equistrata.stats.checks import number, positive

__all__ = ["Question", "StratumPlan", "plan_strata"]

Status = Literal["readable", "unreadable", "too few rows"]


class Question(Protocol):
    """What is to be read in every stratum, and how well.

    Attributes:
        goal: "power" (a difference is seen with probability 1 − beta) or "relative error".
        relation: the neighbouring relation of its ε.
    """

    @property
    def goal(self) -> Goal: ...

    @property
    def relation(self) -> Relation: ...

    @property
    def classical_rows(self) -> float:
        """The rows that it takes without noise, not rounded."""
        ...

    def rows(self, epsilon: float) -> float:
        """The rows that a stratum needs at this ε."""
        ...

    def smallest_epsilon(self, rows: float) -> float:
        """The ε from which this many rows suffice; infinite where they would not even without noise."""
        ...

    def reached(self, rows: float, epsilon: float) -> float:
        """The power, or the relative error, of this many rows at this ε."""
        ...


@dataclass(frozen=True)
class StratumPlan:
    """One stratum.

    Attributes:
        label: its name.
        rows: its public size, zero or more.
        rows_needed: at the planned ε.
        smallest_epsilon: from which its rows suffice; infinite where no ε is enough.
        reached: the power, or the relative error, at the planned ε; infinite where there is no row.
        status: "readable" at the planned ε, "unreadable" there, or "too few rows" at any ε.
    """

    label: str
    rows: float
    rows_needed: int
    smallest_epsilon: float
    reached: float
    status: Status


def plan_strata(asked: Question, sizes: Mapping[str, float], epsilon: float) -> tuple[StratumPlan, ...]:
    """Plan every stratum: label → public size (zero or more). Every stratum gets the whole ε: strata are disjoint.

    Raises InputError: ε not positive, or a size that is negative or not a number.
    """
    needed = math.ceil(asked.rows(positive("epsilon", epsilon)))
    return tuple(_plan(asked, label, size, epsilon, needed) for label, size in sizes.items())


def _plan(asked: Question, label: str, size: float, epsilon: float, needed: int) -> StratumPlan:
    if number(f"the size of {label}", size) < 0:
        raise InputError(f"the size of {label} is {size:g}, but a group cannot be smaller than empty; mend it")
    if not size:
        nothing = 0.0 if asked.goal == "power" else math.inf
        return StratumPlan(label, 0.0, needed, math.inf, nothing, "too few rows")
    least = asked.smallest_epsilon(size)
    status: Status = "too few rows" if math.isinf(least) else "readable" if least <= epsilon else "unreadable"
    return StratumPlan(label, size, needed, least, asked.reached(size, epsilon), status)
