"""Stratum means and differences between two arms, from holders who keep their rows.

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
    """One stratum, with a label as "SEX=1,RAC1P=2", or "all" of them together.

    Attributes:
        rows, means: part ("control", "treated", or "all" without arms) → rows over all holders, public; and the mean,
            without the parts that were left out.
        difference: treated less control; None where there are no two arms.
    """

    label: str
    rows: Mapping[Part, int]
    means: Mapping[Part, Interval]
    difference: Interval | None


@dataclass(frozen=True)
class FederatedResult:
    """The result; all of it may be published at the stated price.

    Attributes:
        strata: every declared stratum, in order.
        overall: all strata together, weighted by their rows. The difference is over the strata with two arms.
        epsilon, delta, relation, level, target: the price, its neighbouring relation, and the intervals' settings.
        unit: whom the price is for, in words; of a unit's rows, those at one holder.
        holders, stayed: how many took part, and how many stayed to the end.
        aggregator, simulated: the aggregator, and whether it saw single holders' numbers.
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
        """For JSON."""
        return {**asdict(self), "strata": [asdict(stratum) for stratum in self.strata]}


class RowsMissing(EquistrataError, RuntimeError):
    """More rows are missing than the plan's θ allows for; nothing is published."""


def federate(plan: FederatedPlan, aggregator: SecureAggregator) -> FederatedResult:
    """Ask the holders for sizes and then for sums, and estimate.

    The aggregator enforces how many holders must stay; the rows are checked here too.

    Raises:
        InputError: a holder's rows do not fit the plan, or a cell has one row; no noise is drawn then.
        TooFewHolders: more holders dropped out than the plan allows.
        RowsMissing: more rows dropped out than the plan allows, in some cell.

    Cost: see `FederatedPlan`.
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
            raise RowsMissing(
                f"cell {plan.label(cell)} lost more rows than the plan allows for; nothing is published, "
                "and what the server has seen may cost more than the plan's epsilon; plan anew"
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
    """These strata together, weighted by their rows; the difference is over those that have both arms."""
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
