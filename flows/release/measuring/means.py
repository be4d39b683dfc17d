"""Private means of numeric columns, over all rows or by stratum, in a part of the budget of their own."""

from __future__ import annotations

import json
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import Workspace
from equistrata.inference.means.clip import MOST_BEYOND
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource


@scrubbed
def estimate_means(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Private means of the outcome columns over the rows where they are present, into `means.json`.

    Cost: the whole of `budget`, add/remove; outcomes and estimators share it equally.
    """
    assert plan.means is not None
    outcomes: dict[str, dict[str, Any]] = {}
    shares = list(plan.parts.items())[1 : 1 + len(plan.estimates)]
    for (column, kind), (name, share) in zip(plan.estimates, shares, strict=True):
        part = budget.part(share * Fraction(1, plan.unit.sum_cost), name)
        if not work.mean(name).exists():
            work.count_start(name)
            source = noise.spawn(2 * plan.means.columns.index(column) + (kind == "vanilla"))
            work.keep_mean(name, _mean(plan, work, column, kind, part, source))
        outcomes.setdefault(column.name, {}).update(json.loads(work.mean(name).read_text("utf-8")))
    document = {
        "over": "people who have a value in the column",
        "weights": "noisy counts of the people who have a value (charged)"
        if plan.fixed_weights is None
        else f"{plan.fixed_weights.source}: shares of the people; how many of them a row stands for is told by noisy "
        "counts of rows with a value and without (charged)",
        "rho": float(plan.price.means),
        "relation": plan.relation,
        "target": plan.config.means_target,
        "outcomes": outcomes,
    }
    if codes := {column.name: list(column.codes) for column in plan.means.columns if column.codes}:
        document["codes"] = codes  # raw cells that are no number: an audit leaves the same rows out
    work.staging.mkdir(exist_ok=True)
    work.save_json(work.staging / "means.json", document)


def _mean(plan: Plan, work: Workspace, column: Column, kind: str, budget: Budget, noise: NoiseSource) -> dict[str, Any]:
    """One estimate of one column's mean, for all of the budget, under the estimator's name."""
    assert column.sigma is not None
    cost = plan.unit.sum_cost
    cells: dict[Hashable, Floats] = {
        key: work.load(work.outcome(column.name, i)) for i, key in enumerate(plan.strata.keys)
    }
    groups = {key: values[~np.isnan(values)] for key, values in cells.items()}
    lower, upper = column.mean_bounds
    about, alike = plan.config.means_target, plan.unit.at_most
    coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds, target=about, alike=alike)
    if kind == "vanilla" or not plan.strata.columns:
        whole = coinpress.mean(np.concatenate(list(groups.values())), budget, noise)
        return {"coinpress": _entry(whole, coinpress, cost) | _tail(whole, coinpress)}
    estimator = coinpress.hierarchical if plan.config.shrinkage else coinpress.by_strata
    absent = {key: len(cells[key]) - len(groups[key]) for key in cells} if plan.fixed_weights else None
    stratified = estimator(groups, plan.fixed_weights, budget, noise, absent=absent)
    strata = {
        plan.strata.label(key): _entry(
            estimate, coinpress, cost, plan.config.shrinkage and estimate.value != estimate.raw
        )
        | {"share": stratified.weights[key]}
        for key, estimate in ((key, stratified.strata[key]) for key in plan.strata.keys)
    }
    name = "pub_strat_coinpress" if plan.fixed_weights else "strat_coinpress"
    return {name: _entry(stratified, coinpress, cost) | _tail(stratified, coinpress) | {"strata": strata}}


def _entry(
    estimate: Estimate | StratifiedEstimate, settings: Coinpress, unit_cost: int, shrunk: bool = False
) -> dict[str, Any]:
    """A mean as it is released; `rho` is that of a unit, so many times a row's.

    Its interval covers the rows' own mean, or that of the population they were drawn from (`target`), at `level`. A
    `shrunk` value was moved towards the other strata's; the interval is that of its own measurement. An `uninformative`
    one is as wide as the declared interval of means.
    """
    entry: dict[str, Any] = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
    entry |= {
        "rho": float(estimate.rho * unit_cost),
        "level": settings.level,
        "target": settings.target,
        "shrunk": shrunk,
        "uninformative": estimate.uninformative(settings.lower, settings.upper),
    }
    return entry | {"rows": estimate.rows} if isinstance(estimate, Estimate) else entry


def _tail(estimate: Estimate | StratifiedEstimate, settings: Coinpress) -> dict[str, Any]:
    """σ as declared; the largest share of a group's rows that histograms show beyond what it allows; whether that is
    too much."""
    beyond = estimate.clip.beyond
    return {"sigma": {"declared": settings.sigma, "rows_far_out": beyond, "too_small": beyond > MOST_BEYOND}}
