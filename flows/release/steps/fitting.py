"""Strata are measured, share what they learn, are modelled, and are joined to one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.guard import StepFailed, scrubbed
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.storage import load_model
from equistrata.synth.series.fitting import after
from equistrata.synth.storage import load_measurements, save_measurements
from equistrata.synth.strata.fitting import cut_strata, fit_stratum, measure_stratum
from equistrata.synth.strata.model import StratifiedModel, noisy_weights
from equistrata.synth.strata.shrinkage import predict_from_others
from equistrata.synth.strata.weights import combined_weights

MOST_STARTS = 4  # of one stratum's fit in a run: lost workers are replaced, but not without end


@scrubbed
def fit_one(
    work: Workspace,
    position: int,
    mechanism: Mechanism,
    schema: Schema,
    budget: Budget,
    count_rho: Rho,
    noise: NoiseSource,
    former: Sequence[Measurement] = (),
) -> None:
    """Measure one stratum with its whole budget, and save the measurements (and a foreign mechanism's model).

    It may run again for a stratum, also at the same time, where a cluster has lost a worker: saved measurements are
    used again, and of runs that measure, the first to save wins.

    Args:
        former: what a series knows of it already.

    Cost: the budget, once, add/remove, if no run's noise decides which of them saves first; else at most MOST_STARTS
    times. See docs/proofs/budget.md, "A worker that was lost".

    Raises StepFailed if the stratum was begun MOST_STARTS times in this run.
    """
    if work.measurements(position).exists():
        return
    if work.count_start(position) > MOST_STARTS:
        raise StepFailed(
            f"a stratum was begun {MOST_STARTS} times and never finished: its workers were lost; see that they have "
            "enough memory, then start or resume the release"
        )
    table = work.load_table(work.stratum(position), schema)
    if not mechanism.keeps_measurements:
        fitted = fit_stratum(mechanism.working_in(work.root), table, budget, count_rho, noise)
        work.keep_fit(position, fitted.measurements, fitted.model)
    else:
        work.keep_fit(position, measure_stratum(mechanism, table, budget, count_rho, noise, former))


@scrubbed
def learn(plan: Plan, work: Workspace) -> None:
    """Join what was measured with what its series knew, and keep the series' state after it. Post-processing, no cost.

    What is learned enters the model, and never the measurements that are published and priced.
    """
    if plan.month is None or not plan.mechanism.keeps_measurements:
        return
    measured = {key: load_measurements(work.measurements(i)) for i, key in enumerate(plan.fitted.keys)}
    joined, state = after(plan.strata, plan.month.known(plan.strata), plan.month.number, measured)
    for i, found in enumerate(joined.values()):
        save_measurements(found, work.learned(i))
    state.save(work.state)


@scrubbed
def shrink(plan: Plan, work: Workspace) -> None:
    """Predict each stratum's marginals from the other strata's measurements. Post-processing, no cost."""
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(plan.strata.keys)}
    for i, extra in enumerate(predict_from_others(plan.strata, measurements).values()):
        save_measurements(extra, work.borrowed(i))


@scrubbed
def model_one(work: Workspace, position: int, mechanism: Mechanism, schema: Schema) -> None:
    """Model one stratum from its measurements and what it borrows, unless the model exists. No cost."""
    if not work.model(position).exists():
        borrowed = work.borrowed(position)
        extra = load_measurements(borrowed) if borrowed.exists() else []
        measured = load_measurements(work.evidence(position))
        work.keep_model(position, mechanism.model(schema, [*measured, *extra]))


@scrubbed
def join(
    work: Workspace,
    strata: Strata,
    engine: Estimator | None,
    shrinkage: bool,
    public: PublicWeights | None = None,
    combine: bool = False,
) -> None:
    """Save the model of all strata, joined by their weights, unless it exists. Post-processing, no cost.

    The engine models all strata from the measurements of shared selection; without one each stratum has its own model.
    """
    if work.joint.exists():
        return
    keys = strata.keys if engine is None else ((),)
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(keys)}
    if engine is not None:
        model = cut_strata(strata, measurements[()], engine, shrinkage)
    else:
        models = {key: load_model(work.model(i), strata.rest(key)) for i, key in enumerate(keys)}
        total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measurements.values())
        model = StratifiedModel(strata, models, noisy_weights(strata, measurements), total)
    if public is not None:
        model = replace(model, weights=combined_weights(strata, dict(measurements), public) if combine else public)
    work.keep_joint(model)


def kept_measurements(plan: Plan, work: Workspace) -> dict[Key, list[Measurement]]:
    """What the release holds of each fit; nothing of a mechanism that keeps no measurements."""
    keys = plan.fitted.keys if plan.mechanism.keeps_measurements else ()
    return {key: load_measurements(work.measurements(i)) for i, key in enumerate(keys)}
