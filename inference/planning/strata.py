"""The plan for every stratum, computed from its public size.

It contains the accuracy at a given ε, and the ε at which the stratum is readable.
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
    """The plan for one stratum.

    Attributes
    ----------
    label : str
        The label of the stratum.
    rows : float
        The public size of the stratum.
    rows_needed : int
        The number of rows that is needed at the planned ε.
    smallest_epsilon : float
        The smallest ε at which the rows of the stratum are enough. It is infinite if no ε is enough.
    reached : float
        The power or the relative error at the planned ε, with confidence. A relative error is infinite if there are no
        rows.
    half_width : float
        The median of the half-width of the interval at the planned ε, in the unit of the data. It is infinite if there
        are no rows.
    half_width_at_most : float
        A bound on the half-width that holds with confidence.
    status : {"readable", "unreadable", "too few rows"}
        If "readable", the goal is attained at the planned ε with confidence. If "unreadable", it is attained only at a
        larger ε. If "too few rows", it is not attained at any ε.
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
    """Plan an estimate for every stratum.

    Each stratum gets the whole ε, because the strata are disjoint.

    Parameters
    ----------
    asked : Question
        The question, with the required accuracy.
    sizes : mapping of str to float
        The public size of each stratum, at least 0.
    epsilon : float
        The planned ε, positive.

    Returns
    -------
    tuple of StratumPlan
        The plans, in the order of `sizes`.

    Raises
    ------
    InputError
        If a size is negative, if ε is not positive, or if `Question.rows` raises it.

    Examples
    --------
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
            raise InputError(f"the size of {label} is {size:g}, but must not be negative; correct it")
        nothing = 0.0 if asked.goal == "power" else math.inf
        least, reached, half, most = math.inf, nothing, math.inf, math.inf
        if size:
            least, reached = asked.smallest_epsilon(size, epsilon), asked.reached(size, epsilon)
            half, most = asked.half_width(size, epsilon), asked.half_width_at_most(size, epsilon)
        status: Status = "too few rows" if math.isinf(least) else "readable" if least <= epsilon else "unreadable"
        plans.append(StratumPlan(label, size or 0.0, needed, least, reached, half, most, status))
    return tuple(plans)
