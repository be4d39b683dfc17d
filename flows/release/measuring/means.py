"""Private means of numeric columns over all rows or by stratum, which have their own part of the budget."""

from __future__ import annotations

import json
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import Workspace
from equistrata.inference.means.clip import MOST_BEYOND
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource


@scrub_errors
def estimate_means(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Estimate the means of the outcome columns over the rows with a value, and write them to `means.json`.

    Privacy
    -------
    The cost is the whole `budget` under adding or removing one row, so that a unit pays its parts in `plan.parts`. The
    budget is divided equally among the columns and the estimators.
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
        document["codes"] = codes  # raw cells that are not a number, so that an audit leaves out the same rows
    work.staging.mkdir(exist_ok=True)
    work.save_json(work.staging / "means.json", document)


def _mean(plan: Plan, work: Workspace, column: Column, kind: str, budget: Budget, noise: NoiseSource) -> dict[str, Any]:
    """Estimate one mean with the whole budget and return it under the name of the estimator."""
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
    """Return the entry of a mean in `means.json`.

    The value of `rho` is the cost for a unit, which is `unit_cost` times the cost for a row. The interval covers the
    mean of the rows, or the mean of the population from which the rows were drawn, depending on `target`. Its
    confidence level is `level`. If `shrunk` is True, the value was moved towards the other strata, but the interval
    only depends on its own measurement. If `uninformative` is True, the interval is as wide as the declared interval of
    means.
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
    """Return the declared σ, the largest share of rows beyond its range, and whether this share is too large.

    The share is taken from the noisy histograms of the groups.
    """
    beyond = estimate.clip.beyond
    return {"sigma": {"declared": settings.sigma, "rows_far_out": beyond, "too_small": beyond > MOST_BEYOND}}
