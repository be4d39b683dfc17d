"""The plan of every stratum: what its public size reaches at an ε, and from which ε it is readable."""

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
        reached: the power, or the relative error, at the planned ε, with confidence; infinite where there is no row.
        half_width: of the interval at the planned ε, in the unit of the data, in the median; infinite where there is no
            row.
        half_width_at_most: what it stays below with confidence.
        status: "readable" at the planned ε with confidence, "unreadable" there, or "too few rows" at any ε.
    """

    label: str
    rows: float
    rows_needed: int
    smallest_epsilon: float
    reached: float
    half_width: float
    half_width_at_most: float
    status: Status


def plan_strata(asked: Question, sizes: Mapping[str, float], epsilon: float) -> tuple[StratumPlan, ...]:
    """Plan every stratum: label → public size (zero or more). Every stratum gets the whole ε: strata are disjoint.

    Raises InputError for a negative size, an ε that is not positive, or as `Question.rows`.

    >>> from equistrata.inference.planning.questions import ProportionQuestion
    >>> question = ProportionQuestion(reference=0.25, effect=0.1, beta=0.1)
    >>> for part in plan_strata(question, {"large": 5000, "small": 300, "tiny": 20}, epsilon=0.1):
    ...     print(part.label, round(part.smallest_epsilon, 3), part.rows_needed, round(part.reached, 2), part.status)
    large 0.009 578 1.0 readable
    small 0.295 578 0.42 unreadable
    tiny inf 578 0.05 too few rows
    """
    needed = math.ceil(asked.rows(positive("epsilon", epsilon)))
    plans = []
    for label, size in sizes.items():
        if number(f"the size of {label}", size) < 0:
            raise InputError(f"the size of {label} is {size:g}, but a group cannot be smaller than empty; mend it")
        nothing = 0.0 if asked.goal == "power" else math.inf
        least, reached, half, most = math.inf, nothing, math.inf, math.inf
        if size:
            least, reached = asked.smallest_epsilon(size, epsilon), asked.reached(size, epsilon)
            half, most = asked.half_width(size, epsilon), asked.half_width_at_most(size, epsilon)
        status: Status = "too few rows" if math.isinf(least) else "readable" if least <= epsilon else "unreadable"
        plans.append(StratumPlan(label, size or 0.0, needed, least, reached, half, most, status))
    return tuple(plans)
