"""The steps that measure strata, share information between them, estimate their models and join the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.guard import StepFailed, scrub_errors
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.storage import load_model
from equistrata.synth.series.fitting import after
from equistrata.synth.storage import load_measurements, save_measurements
from equistrata.synth.strata.fitting import fit_stratum, measure_stratum, model_strata
from equistrata.synth.strata.model import StratifiedModel, noisy_weights
from equistrata.synth.strata.shrinkage import predict_from_others
from equistrata.synth.strata.weights import combined_weights

MOST_STARTS = 4  # the largest number of starts of a fit in one run, because a lost worker is replaced


@scrub_errors
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
    """Measure a stratum with its whole budget, and save the measurements.

    For a foreign mechanism, the model is saved as well.

    If a cluster loses a worker, this function may run again for the same stratum, possibly at the same time. If the
    measurements are already saved, nothing is measured again. If two runs measure at the same time, the measurements
    that are saved first are used.

    Parameters
    ----------
    work : Workspace
        The working folder.
    position : int
        The position of the stratum.
    mechanism : Mechanism
        The mechanism.
    schema : Schema
        The schema of the rows of the stratum.
    budget : Budget
        The budget, which is spent completely.
    count_rho : Rho
        The part of the budget for noisy counts.
    noise : NoiseSource
        The source of the noise.
    former : sequence of Measurement, default=()
        The measurements of earlier releases in a series.

    Raises
    ------
    StepFailed
        If the stratum was started more than MOST_STARTS times in this run.

    Privacy
    -------
    The cost is the budget under adding or removing one row, or one unit if the synthesis counts units. This holds if
    the noise does not determine which run is the first to save. Otherwise the cost is at most MOST_STARTS times the
    budget. See docs/proofs/budget.md, "A worker that was lost".
    """
    if work.measurements(position).exists():
        return
    if work.count_start(position) > MOST_STARTS:
        raise StepFailed(
            f"a stratum was started {MOST_STARTS} times and never finished, because its workers were lost; give them "
            "more memory, and then start or resume the release"
        )
    table = work.load_table(work.stratum(position), schema)
    if not mechanism.keeps_measurements:
        fitted = fit_stratum(mechanism.working_in(work.root), table, budget, count_rho, noise)
        work.keep_fit(position, fitted.measurements, fitted.model)
    else:
        work.keep_fit(position, measure_stratum(mechanism, table, budget, count_rho, noise, former))


@scrub_errors
def learn(plan: Plan, work: Workspace) -> None:
    """Combine the measurements with the earlier ones of the series, and save the new state of the series.

    The combined measurements are only used for the model. They are not part of the measurements that are published and
    paid for. This is post-processing without a privacy cost.
    """
    if plan.month is None or not plan.mechanism.keeps_measurements:
        return
    measured = {key: load_measurements(work.measurements(i)) for i, key in enumerate(plan.fitted.keys)}
    joined, state = after(plan.strata, plan.month.known(plan.strata), plan.month.number, measured)
    for i, found in enumerate(joined.values()):
        save_measurements(found, work.learned(i))
    state.save(work.state)


@scrub_errors
def shrink(plan: Plan, work: Workspace) -> None:
    """Predict the marginals of each stratum from the measurements of the other strata.

    This is post-processing without a privacy cost.
    """
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(plan.strata.keys)}
    for i, extra in enumerate(predict_from_others(plan.strata, measurements).values()):
        save_measurements(extra, work.borrowed(i))


@scrub_errors
def model_one(work: Workspace, position: int, mechanism: Mechanism, schema: Schema) -> None:
    """Estimate the model of a stratum, unless it exists.

    The model is based on the measurements of the stratum and on the predictions from other strata. There is no privacy
    cost.
    """
    if not work.model(position).exists():
        borrowed = work.borrowed(position)
        extra = load_measurements(borrowed) if borrowed.exists() else []
        measured = load_measurements(work.evidence(position))
        work.keep_model(position, mechanism.model(schema, [*measured, *extra]))


@scrub_errors
def join(
    work: Workspace,
    strata: Strata,
    engine: Estimator | None,
    shrinkage: bool,
    public: PublicWeights | None = None,
    combine: bool = False,
) -> None:
    """Save the joint model of all strata with their weights, unless it exists.

    This is post-processing without a privacy cost.

    Parameters
    ----------
    work : Workspace
        The working folder.
    strata : Strata
        The strata.
    engine : Estimator or None
        The estimator of a model for all strata from the measurements of a shared selection. If None, each stratum has
        its own model.
    shrinkage : bool
        If True, small strata are shrunk.
    public : PublicWeights or None, default=None
        The public weights.
    combine : bool, default=False
        If True, the public weights are combined with noisy counts.
    """
    if work.joint.exists():
        return
    keys = strata.keys if engine is None else ((),)
    measurements = {key: load_measurements(work.evidence(i)) for i, key in enumerate(keys)}
    if engine is not None:
        model = model_strata(strata, measurements[()], engine, shrinkage)
    else:
        models = {key: load_model(work.model(i), strata.rest(key)) for i, key in enumerate(keys)}
        total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measurements.values())
        model = StratifiedModel(strata, models, noisy_weights(strata, measurements), total)
    if public is not None:
        model = replace(model, weights=combined_weights(strata, dict(measurements), public) if combine else public)
    work.keep_joint(model)


def kept_measurements(plan: Plan, work: Workspace) -> dict[Key, list[Measurement]]:
    """Return the published measurements of each fit. They are empty for a mechanism that does not keep measurements."""
    keys = plan.fitted.keys if plan.mechanism.keeps_measurements else ()
    return {key: load_measurements(work.measurements(i)) for i, key in enumerate(keys)}
