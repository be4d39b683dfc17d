"""Planning from public numbers: the ε from which each stratum is readable, and the rows that it needs.

No row is read: sizes, bounds, deviations and expected values are declared.

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
from typing import Literal

from equistrata.errors import InputError
from equistrata.inference.planning.questions import Question
from equistrata.stats.checks import number, positive

Status = Literal["readable", "unreadable", "too few rows"]


@dataclass(frozen=True)
class StratumPlan:
    """One stratum and its public size.

    Attributes:
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
    """Plan every stratum: label → public size (zero or more). Every stratum gets the whole ε: strata are disjoint."""
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
