"""Fitting of all strata, either separately or with a shared selection.

If the strata are fitted separately, each of them gets the full budget (parallel composition). The strata are a
partition of the rows. Therefore, if neighbouring tables differ by one added or removed row, the total cost is the
largest of the budgets.

References
----------
.. [1] Rosenblatt, Stoyanovich and Musco (the stratification paper), section "Stratified Data Synthesis".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import Measurement, has_all_codes
from equistrata.synth.mechanisms.base import Fit, Mechanism, SharingMechanism
from equistrata.synth.models.coarsening import Coarsening, modelled
from equistrata.synth.models.columns.alone import proportions
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.strata.cutting import cut, slices
from equistrata.synth.strata.model import StratifiedModel, estimated_sizes
from equistrata.synth.strata.shrinkage import predict_from_others

Result = TypeVar("Result")
StrataMeasurements = Mapping[Key, Sequence[Measurement]]


@dataclass(frozen=True)
class Fitting:
    """The settings of a fit of all strata.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that fits the strata separately. It is used if `shared` is None.
    strata : Strata
        The strata and the schema.
    shared : SharingMechanism or None, default=None
        The mechanism that selects once for all strata. It measures the whole table, and its model is cut into strata.
    shrinkage : bool, default=True
        If True, the estimates of small strata are shrunk toward the other strata.
    workers : int, default=1
        The number of processes that fit strata in parallel, if the strata are fitted separately.
    """

    mechanism: Mechanism
    strata: Strata
    shared: SharingMechanism | None = None
    shrinkage: bool = True
    workers: int = 1

    def fit(
        self, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource
    ) -> tuple[StrataMeasurements, StratifiedModel]:
        """Fit all strata.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        budget : Budget
            The budget. All of the remaining budget is spent.
        count_rho : Rho
            The part of the budget that is spent on noisy sizes of the strata.
        noise : NoiseSource
            The source of the noise.

        Returns
        -------
        measured : dict of tuple to list of Measurement
            The measurements of each stratum. If the selection is shared, the key `()` has the measurements of the whole
            table.
        model : StratifiedModel
            The model with the estimated sizes.

        Privacy
        -------
        The cost is the remaining budget. Neighbouring tables differ by one added or removed row.
        """
        if self.shared is not None:
            found = measure_stratum(self.shared, table, budget, count_rho, noise)
            return {(): found}, model_strata(self.strata, found, self.shared.engine, self.shrinkage)
        parts = self.strata.partition(table)
        budgets = budget.parallel(budget.remaining, self.strata.keys, "synthesis, strata in parallel")
        borrowing = self.strata if self.shrinkage else None
        fits = fit_strata(self.mechanism, parts, budgets, count_rho, noise, self.workers, borrowing)
        measured = {key: fit.measurements for key, fit in fits.items()}
        models = {key: fit.model for key, fit in fits.items()}
        return measured, StratifiedModel.of(self.strata, models, estimated_sizes(measured))


def measure_stratum(
    mechanism: Mechanism,
    table: CodedTable,
    budget: Budget,
    count_rho: Rho,
    noise: NoiseSource,
    former: Sequence[Measurement] = (),
) -> list[Measurement]:
    """Measure a stratum with all of its remaining budget.

    If the selection is shared, the whole table is measured instead.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    table : CodedTable
        The private rows.
    budget : Budget
        The budget. All of the remaining budget is spent.
    count_rho : Rho
        The part of the budget that is spent on the noisy number of rows (of each stratum).
    noise : NoiseSource
        The source of the noise.
    former : sequence of Measurement, default=()
        The estimates for these rows from former releases of a series.

    Returns
    -------
    list of Measurement
        The measurements.

    Privacy
    -------
    The cost is the remaining budget. Neighbouring tables differ by one added or removed row.
    """
    rho, source, known = _paid(mechanism, table, budget, count_rho, noise)
    return mechanism.measure(table, rho, source, [*known, *former])


def fit_stratum(mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource) -> Fit:
    """Measure a stratum as in `measure_stratum`, and estimate its model.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    table : CodedTable
        The private rows.
    budget : Budget
        The budget. All of the remaining budget is spent.
    count_rho : Rho
        The part of the budget that is spent on the noisy number of rows.
    noise : NoiseSource
        The source of the noise.

    Returns
    -------
    Fit
        The measurements and the model.

    Privacy
    -------
    The cost is the remaining budget. Neighbouring tables differ by one added or removed row.
    """
    return mechanism.fit_table(table, *_paid(mechanism, table, budget, count_rho, noise))


def _paid(
    mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource
) -> tuple[Rho, NoiseSource, list[Measurement]]:
    """Measure the noisy counts, charge the rest of the budget, and return it with the noise source and the counts."""
    known = [measure_marginal(table, mechanism.strata, count_rho, budget, noise)] if count_rho else []
    return budget.spend(budget.remaining, f"{mechanism.name} on one stratum"), noise, known


def fit_strata(
    mechanism: Mechanism,
    parts: Mapping[Key, CodedTable],
    budgets: Mapping[Key, Budget],
    count_rho: Rho,
    noise: NoiseSource,
    workers: int = 1,
    borrowing: Strata | None = None,
) -> dict[Key, Fit]:
    """Fit every stratum separately.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    parts : mapping of tuple to CodedTable
        The private rows of each stratum.
    budgets : mapping of tuple to Budget
        The budget of each stratum.
    count_rho : Rho
        The part of each budget that is spent on the noisy number of rows.
    noise : NoiseSource
        The source of the noise.
    workers : int, default=1
        The number of processes that fit strata in parallel. The results do not depend on it.
    borrowing : Strata or None, default=None
        The strata, if the estimates of small strata are shrunk toward the other strata (`predict_from_others`). This is
        not possible if the mechanism does not keep measurements.

    Returns
    -------
    dict of tuple to Fit
        The measurements and the model of each stratum.

    Privacy
    -------
    The cost is the largest of the budgets (parallel composition, see `Budget.parallel`). Neighbouring tables differ by
    one added or removed row. Shrinkage has no privacy cost.
    """
    jobs = {}
    for position, (key, table) in enumerate(parts.items()):
        # The budget is charged here, because a worker process has only a copy of the budget of the caller.
        charged = budgets[key].part(budgets[key].remaining, f"{mechanism.name} on one stratum")
        jobs[key] = (mechanism, table, charged, count_rho, noise.spawn(position))
    workers = min(workers, len(jobs))
    with process_pool(workers) if workers > 1 else nullcontext() as pool:
        if borrowing is None or not mechanism.keeps_measurements:
            return _map(pool, fit_stratum, jobs)
        measured = _map(pool, measure_stratum, jobs)
        extras = predict_from_others(borrowing, measured)
        schemas = {key: table.schema for key, table in parts.items()}
        models = _map(pool, mechanism.model, {key: (schemas[key], measured[key] + extras[key]) for key in parts})
    return {key: Fit(tuple(measured[key]), models[key]) for key in parts}


def _map(pool: Executor | None, work: Callable[..., Result], jobs: Mapping[Key, tuple[Any, ...]]) -> dict[Key, Result]:
    """Apply the same function to every stratum, in the pool if there is one."""
    if pool is None:
        return {key: work(*job) for key, job in jobs.items()}
    futures = {pool.submit(work, *job): key for key, job in jobs.items()}
    done = {futures[future]: future.result() for future in as_completed(futures)}
    return {key: done[key] for key in jobs}


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """Create a pool of worker processes.

    The processes are started fresh and never forked, because forking after JAX has run causes a deadlock. Crashes of
    workers are reported.

    Parameters
    ----------
    workers : int
        The number of processes.

    Yields
    ------
    Executor
        The pool, which is shut down at the end.
    """
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(max_workers=workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def model_strata(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator | None = None, shrinkage: bool = True
) -> StratifiedModel:
    """Estimate the model of all strata from the measurements of a shared selection.

    The estimation is post-processing.

    Parameters
    ----------
    strata : Strata
        The strata and the schema.
    measurements : sequence of Measurement
        The measurements of the whole table.
    engine : Estimator or None, default=None
        The engine that estimates the model. If None, the default engine is used.
    shrinkage : bool, default=True
        If True, the estimates of small strata are shrunk toward the other strata.

    Returns
    -------
    StratifiedModel
        The model with the estimated sizes.
    """
    engine = engine or MirrorDescent()
    if any(measurement.where for measurement in measurements):
        return _each_stratum(strata, measurements, engine, shrinkage)
    coarsening = Coarsening.of(strata.schema, measurements, strata.columns)
    coarse = Strata.over(coarsening.schema, strata.columns)
    models, sizes = cut(coarse, coarsening.coarse_all(measurements), engine, shrinkage)
    shares = {name: coarsening.shares(name, measurements) for name in coarsening.groups}
    expanded = {
        key: coarsening.expanded(model, measurements, strata.rest(key), shares) for key, model in models.items()
    }
    return StratifiedModel.of(strata, expanded, sizes)


def _each_stratum(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool
) -> StratifiedModel:
    """Perform `model_strata` for strata that were measured separately, with separate models as in `fit_strata`."""
    own = slices([measurement for measurement in measurements if not measurement.where], strata)
    places = {tuple(strata.codes_of(key).items()): key for key in strata.keys}
    for measurement in measurements:
        if measurement.where and measurement.where not in places:
            raise InputError(
                "a measurement belongs to a stratum that is not among these strata; give the strata it was made for"
            )
        if measurement.where:
            own[places[measurement.where]].append(replace(measurement, where=()))
    wider = [m for m in measurements if not m.where and not has_all_codes(m, strata.columns)]
    extras = predict_from_others(strata, own, wider) if shrinkage else {key: [] for key in own}
    priors = proportions(strata.schema, wider) if shrinkage else {}
    models = {key: modelled(strata.rest(key), [*own[key], *extras[key]], engine, priors) for key in strata.keys}
    return StratifiedModel.of(strata, models, estimated_sizes(own))
