"""Means of strata and differences between two arms, for rows that remain with several holders.

>>> import numpy as np, pandas as pd
>>> from equistrata.data.schema import Schema
>>> from equistrata.inference.federated.aggregation import InProcessAggregator
>>> from equistrata.inference.federated.holder import TableHolder
>>> from equistrata.privacy.noise import SeededNoise
>>> schema = Schema.from_dict({"name": "visits", "columns": {
...     "SEX": {"values": [1, 2]}, "NEW": {"values": [0, 1]}, "DAYS": {"lower": 0, "upper": 10}}})
>>> arms = {"arm": "NEW", "treated": 1, "control": 0}
>>> plan = FederatedPlan(schema, "DAYS", holders=3, strata=("SEX",), **arms, epsilon=1, delta=1e-6)
>>> rng, holders = np.random.default_rng(0), []
>>> for i in range(3):
...     rows = pd.DataFrame({"SEX": rng.integers(1, 3, 4000), "NEW": rng.integers(0, 2, 4000)})
...     rows["DAYS"] = (rng.normal(4, 1, 4000) + rows["NEW"]).clip(0, 10)
...     holders.append(TableHolder(plan, rows, SeededNoise(i)))
>>> found = federate(plan, InProcessAggregator(holders))
>>> [round(found.strata[0].difference.value, 2), round(found.overall.difference.half_width, 2), found.simulated]
[0.93, 0.05, True]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from equistrata.data.strata import Key
from equistrata.data.units.unit import ROW
from equistrata.errors import EquistrataError
from equistrata.inference.federated.ab_test import private_arm
from equistrata.inference.federated.aggregation import SecureAggregator
from equistrata.inference.federated.arms import Arm, Target, interval_of
from equistrata.inference.federated.protocol import Cell, FederatedPlan, Part
from equistrata.inference.means.estimate import Interval
from equistrata.privacy.budget import REPLACE_ONE, Relation


@dataclass(frozen=True)
class StratumResult:
    """The result for one stratum, or for all strata together.

    Attributes
    ----------
    label : str
        The label of the stratum, such as "SEX=1,RAC1P=2". It is "all" for all strata together.
    rows : mapping of str to int
        The public number of rows over all holders, for each part. The parts are "control" and "treated", or "all" if
        there are no arms.
    means : mapping of str to Interval
        The mean of each part, without the parts that were left out.
    difference : Interval or None
        The mean of the treated arm minus the mean of the control arm. None if there are not two arms.
    """

    label: str
    rows: Mapping[Part, int]
    means: Mapping[Part, Interval]
    difference: Interval | None


@dataclass(frozen=True)
class FederatedResult:
    """The result of a federated estimate. All of it may be published at the stated privacy cost.

    Attributes
    ----------
    strata : tuple of StratumResult
        The results for every declared stratum, in order.
    overall : StratumResult
        The result for all strata together, weighted by their rows. The difference is over the strata that have two
        arms.
    epsilon, delta : float
        The privacy cost.
    holders, stayed : int
        The number of holders, and the number of holders that stayed until the end.
    aggregator : str
        The name of the aggregator.
    simulated : bool
        If True, the aggregator has seen the numbers of single holders.
    level : float
        The coverage of the intervals.
    target : {"pate", "sate"}
        The target of the intervals, as in `FederatedPlan`.
    relation : Relation
        The neighbouring relation of the privacy cost.
    unit : str
        The unit of privacy, in words. It consists of the rows of a unit at one holder.
    """

    strata: tuple[StratumResult, ...]
    overall: StratumResult
    epsilon: float
    delta: float
    holders: int
    stayed: int
    aggregator: str
    simulated: bool
    level: float
    target: str
    relation: Relation = REPLACE_ONE
    unit: str = ROW.words

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary for JSON."""
        return {**asdict(self), "strata": [asdict(stratum) for stratum in self.strata]}


class TooManyRowsMissing(EquistrataError, RuntimeError):
    """Exception that is raised if more rows are missing than the θ of the plan allows.

    In this case nothing is published.
    """


def federate(plan: FederatedPlan, aggregator: SecureAggregator) -> FederatedResult:
    """Ask the holders for the sizes of the cells and then for the sums, and compute the estimates.

    The aggregator enforces the number of holders that must stay. The number of rows is also checked here.

    Parameters
    ----------
    plan : FederatedPlan
        The plan on which the holders have agreed.
    aggregator : SecureAggregator
        The aggregator of the holders.

    Returns
    -------
    FederatedResult
        The estimates and their privacy cost.

    Raises
    ------
    InputError
        If the rows of a holder do not fit the plan, or if a cell has only one row. No noise is drawn in this case.
    TooFewHolders
        If more holders dropped out than the plan allows.
    RowsMissing
        If more rows of some cell dropped out than the plan allows.

    Privacy
    -------
    The cost is that of `FederatedPlan`.
    """
    sizes = aggregator.total(plan.sizes()).sums.tolist()
    settings = plan.arm_settings(sizes)
    total = aggregator.total(plan.sums(sizes))
    means, squares, rows = total.sums.reshape(3, -1)
    arms: dict[Cell, Arm] = {}
    counts: dict[Cell, int] = dict(zip(plan.cells, sizes, strict=True))
    for place, (cell, chosen) in enumerate(zip(plan.cells, settings, strict=True)):
        if chosen is None:
            continue
        if rows[place] < chosen.rows:
            raise TooManyRowsMissing(
                f"cell {plan.label(cell)} lost more rows than the plan allows, so nothing is published; the server has "
                "seen sums that may cost more than the plan's epsilon, so make a new plan"
            )
        counts[cell] = int(rows[place])
        sums = [means[place], squares[place]]
        arms[cell] = private_arm(sums, chosen, rows=counts[cell], alike=plan.bound.at_most)
    keys, label = plan.partition.keys, plan.partition.label
    return FederatedResult(
        strata=tuple(_together(plan, label(key), [key], arms, counts, plan.target) for key in keys),
        overall=_together(plan, "all", keys, arms, counts),
        epsilon=plan.epsilon,
        delta=plan.delta,
        holders=aggregator.holders,
        stayed=total.holders,
        aggregator=aggregator.name,
        simulated=aggregator.simulated,
        level=plan.level,
        target=plan.target,
        unit=plan.bound.words,
    )


def _together(
    plan: FederatedPlan,
    label: str,
    keys: Sequence[Key],
    arms: Mapping[Cell, Arm],
    counts: Mapping[Cell, int],
    target: Target = "pate",
) -> StratumResult:
    """Return the result for several strata together, weighted by their rows.

    The difference is over the strata that have both arms.
    """
    rows: dict[Part, int] = {}
    means: dict[Part, Interval] = {}
    for part in dict.fromkeys(cell.arm for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.arm == part and cell.key in keys]
        rows[part] = sum(counts[cell] for cell in cells)
        chosen = [arms[cell] for cell in cells if cell in arms]
        if chosen:
            people = sum(arm.rows for arm in chosen)
            shares = [arm.rows / people for arm in chosen]
            means[part] = interval_of(chosen, shares, plan.level, shift=plan.centre)
    pairs = [(arms.get(Cell(key, "treated")), arms.get(Cell(key, "control"))) for key in keys]
    both = [(treated, control) for treated, control in pairs if treated and control]
    difference = None
    if both:
        flat = [arm for pair in both for arm in pair]
        people = sum(arm.rows for arm in flat)
        signed = [sign * (treated.rows + control.rows) / people for treated, control in both for sign in (1, -1)]
        difference = interval_of(flat, signed, plan.level, target=target)
    return StratumResult(label, rows, means, difference)
