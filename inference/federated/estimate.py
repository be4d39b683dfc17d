"""Stratum means and differences between two arms, from holders who keep their rows.

>>> import numpy as np, pandas as pd
>>> from equistrata.data.schema import Schema
>>> from equistrata.inference.federated.aggregation import InProcessAggregator
>>> from equistrata.inference.federated.holder import FrameRows, TableHolder
>>> from equistrata.privacy.noise import SeededNoise
>>> schema = Schema.from_dict({"name": "visits", "columns": {
...     "SEX": {"values": [1, 2]}, "NEW": {"values": [0, 1]}, "DAYS": {"lower": 0, "upper": 10}}})
>>> plan = FederatedPlan(schema, "DAYS", holders=3, strata=("SEX",), arm="NEW", treated=1, control=0, epsilon=1, delta=1e-6)
>>> rng, holders = np.random.default_rng(0), []
>>> for i in range(3):
...     rows = pd.DataFrame({"SEX": rng.integers(1, 3, 4000), "NEW": rng.integers(0, 2, 4000)})
...     rows["DAYS"] = (rng.normal(4, 1, 4000) + rows["NEW"]).clip(0, 10)
...     holders.append(TableHolder(plan, FrameRows(rows), SeededNoise(i)))
>>> found = federate(plan, InProcessAggregator(holders))
>>> [round(found.strata[0].difference.value, 2), round(found.overall.difference.half_width, 2), found.simulated]
[0.93, 0.04, True]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equistrata.errors import EquistrataError
from equistrata.inference.federated.aggregation import SecureAggregator
from equistrata.inference.federated.arms import Arm, combine
from equistrata.inference.federated.arms_private import private_arm
from equistrata.inference.federated.plan import Cell, FederatedPlan, Part
from equistrata.privacy.budget import REPLACE_ONE, Relation

__all__ = ["FederatedPlan", "FederatedResult", "Interval", "StratumResult", "federate"]


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval, in the unit of the outcome."""

    value: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.upper - self.lower) / 2


@dataclass(frozen=True)
class StratumResult:
    """One stratum, or all of them together.

    Attributes:
        label: as "SEX=1,RAC1P=2"; "all" for all strata together.
        rows: part ("control", "treated", or "all" without arms) → rows over all holders, public.
        means: part → mean; parts that were left out are not in it.
        difference: treated less control; None where there are no two arms.
    """

    label: str
    rows: Mapping[Part, int]
    means: Mapping[Part, Interval]
    difference: Interval | None


@dataclass(frozen=True)
class FederatedResult:
    """All of it may be published at the stated price.

    Attributes:
        strata: every declared stratum, in order.
        overall: all strata together, weighted by their rows. Means are over everybody who was estimated; the difference is
            Σ w_s·(difference in stratum s) over the strata with two arms, w_s in proportion to their rows.
        epsilon, delta, relation: the price, and what neighbours are.
        holders, stayed: how many took part, and how many stayed to the end.
        aggregator, simulated: what added the numbers up, and whether that saw single holders' numbers.
        level, target: of the intervals.
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation,
            "holders": self.holders,
            "stayed": self.stayed,
            "aggregator": self.aggregator,
            "simulated": self.simulated,
            "level": self.level,
            "target": self.target,
            "overall": _stratum_dict(self.overall),
            "strata": [_stratum_dict(stratum) for stratum in self.strata],
        }


class RowsMissing(EquistrataError, RuntimeError):
    """More rows are missing than the plan's θ allows for; nothing is published."""


def federate(plan: FederatedPlan, aggregator: SecureAggregator) -> FederatedResult:
    """Ask the holders for sizes and then for sums, and estimate.

    Args:
        plan: what they agreed to.
        aggregator: adds up their answers; how many must stay is the aggregator's to hold, and is checked here too.

    Raises:
        InputError: a holder's rows do not fit the plan, or a cell has one row; before any noise is drawn.
        TooFewHolders: more holders dropped out than the plan allows.
        RowsMissing: more rows dropped out than the plan allows, in some cell.

    Privacy: see `FederatedPlan`. Everything after the two sums is post-processing.
    """
    sizes = aggregator.total(plan.sizes())
    question = plan.sums([int(size) for size in sizes.sums])
    settings = plan.settle([int(size) for size in sizes.sums])
    total = aggregator.total(question)
    means, squares, rows = total.sums.reshape(3, -1)
    arms: dict[Cell, Arm] = {}
    counts = {cell: int(count) for cell, count in zip(plan.cells, sizes.sums, strict=True)}
    for place, (cell, chosen) in enumerate(zip(plan.cells, settings, strict=True)):
        if chosen is None:
            continue
        if rows[place] < chosen.rows:
            raise RowsMissing(
                f"cell {plan.label(cell)} lost more rows than the plan allows for; nothing is published, and what the "
                "server has seen may cost more than the plan's epsilon"
            )
        counts[cell] = int(rows[place])
        arms[cell] = private_arm([means[place], squares[place]], chosen, rows=counts[cell])
    strata = tuple(
        _stratum(plan, [cell for cell in plan.cells if cell.key == key], arms, counts) for key in plan.partition.keys
    )
    return FederatedResult(
        strata=strata,
        overall=_overall(plan, arms, counts),
        epsilon=plan.epsilon,
        delta=plan.delta,
        holders=aggregator.holders,
        stayed=total.holders,
        aggregator=aggregator.name,
        simulated=aggregator.simulated,
        level=plan.level,
        target=plan.target,
    )


def _stratum(
    plan: FederatedPlan, cells: Sequence[Cell], arms: Mapping[Cell, Arm], counts: Mapping[Cell, int]
) -> StratumResult:
    means = {cell.arm: _interval(plan, [arms[cell]], [1.0], plan.centre) for cell in cells if cell in arms}
    difference = None
    if plan.arm is not None and len(means) == 2:
        control, treated = (arms[cell] for cell in cells)
        difference = _interval(plan, [treated, control], [1, -1], 0.0, target=plan.target)
    return StratumResult(
        plan.partition.label(cells[0].key), {cell.arm: counts[cell] for cell in cells}, means, difference
    )


def _overall(plan: FederatedPlan, arms: Mapping[Cell, Arm], counts: Mapping[Cell, int]) -> StratumResult:
    parts = dict.fromkeys(cell.arm for cell in plan.cells)
    means, rows = {}, {}
    for part in parts:
        rows[part] = sum(count for cell, count in counts.items() if cell.arm == part)
        chosen = [arm for cell, arm in arms.items() if cell.arm == part]
        if chosen:
            people = sum(arm.rows for arm in chosen)
            means[part] = _interval(plan, chosen, [arm.rows / people for arm in chosen], plan.centre)
    both = [
        (arms[Cell(key, "treated")], arms[Cell(key, "control")])
        for key in plan.partition.keys
        if Cell(key, "treated") in arms and Cell(key, "control") in arms
    ]
    difference = None
    if both:
        people = sum(treated.rows + control.rows for treated, control in both)
        shares = [(treated.rows + control.rows) / people for treated, control in both]
        flat = [arm for pair in both for arm in pair]
        difference = _interval(plan, flat, [sign * share for share in shares for sign in (1, -1)], 0.0)
    return StratumResult("all", rows, means, difference)


def _interval(
    plan: FederatedPlan, arms: Sequence[Arm], coefficients: Sequence[float], shift: float, **target: Any
) -> Interval:
    value, half = (float(number) for number in combine(arms, coefficients, plan.level, **target))
    value += shift
    return Interval(value, value - half, value + half)


def _stratum_dict(stratum: StratumResult) -> dict[str, Any]:
    def plain(interval: Interval | None) -> dict[str, float] | None:
        return None if interval is None else {name: float(np.float64(n)) for name, n in vars(interval).items()}

    return {
        "label": stratum.label,
        "rows": dict(stratum.rows),
        "means": {part: plain(mean) for part, mean in stratum.means.items()},
        "difference": plain(stratum.difference),
    }
