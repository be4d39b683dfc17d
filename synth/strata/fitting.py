"""Fitting all strata: each by itself at the full budget (parallel composition), or all at once by a shared choice.

Rosenblatt, Stoyanovich and Musco (the stratification paper), section "Stratified Data Synthesis". Strata partition the
rows, so under add/remove neighbours what they cost together is the largest of their budgets.
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
from equistrata.synth.measurements import Measurement, tells_apart
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
    """How all strata are fitted.

    Attributes:
        mechanism: fits them one by one, and small ones then borrow from the others, unless one choice is `shared`.
        shared: makes one choice for all strata, measured on the whole table; its model is cut into strata.
        shrinkage: whether small strata borrow from the others.
        workers: processes that fit strata side by side, where they are fitted one by one.
    """

    mechanism: Mechanism
    strata: Strata
    shared: SharingMechanism | None = None
    shrinkage: bool = True
    workers: int = 1

    def fit(
        self, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource
    ) -> tuple[StrataMeasurements, StratifiedModel]:
        """What was measured, by stratum or with `shared` for `()`, and the model with the sizes that it estimates.

        Cost: what is left of `budget`, of which `count_rho` buys noisy sizes of the strata; add/remove.
        """
        if self.shared is not None:
            found = measure_stratum(self.shared, table, budget, count_rho, noise)
            return {(): found}, cut_strata(self.strata, found, self.shared.engine, self.shrinkage)
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
    """Measure a stratum, or by shared selection the table, with all that is left in its budget.

    Args:
        former: what former releases of a series say of it.

    Cost: the rest of `budget`, of which `count_rho` buys the noisy number of rows (of each stratum).
    """
    rho, source, known = _paid(mechanism, table, budget, count_rho, noise)
    return mechanism.measure(table, rho, source, [*known, *former])


def fit_stratum(mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource) -> Fit:
    """As `measure_stratum`, and the model."""
    return mechanism.fit_table(table, *_paid(mechanism, table, budget, count_rho, noise))


def _paid(
    mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource
) -> tuple[Rho, NoiseSource, list[Measurement]]:
    """What a mechanism may spend, its noise, and the counts that were bought before."""
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
    """Fit every stratum, in `workers` processes. Strata keep their key whatever order they finish in.

    Args:
        borrowing: the strata, if small ones are to borrow from the others (`predict_from_others`). A mechanism that
            keeps no measurements has nothing to lend.

    Cost: the largest of the budgets (parallel composition, see `Budget.parallel`), add/remove. Borrowing is free.
    """
    jobs = {}
    for position, (key, table) in enumerate(parts.items()):
        # Charged here: what a worker process spends of a copy would leave the caller's budget whole.
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
    """The same work for every stratum, in the pool if there is one."""
    if pool is None:
        return {key: work(*job) for key, job in jobs.items()}
    futures = {pool.submit(work, *job): key for key, job in jobs.items()}
    done = {futures[future]: future.result() for future in as_completed(futures)}
    return {key: done[key] for key in jobs}


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """Worker processes that start clean: never forked (forking after JAX has run hangs), crashes reported."""
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(max_workers=workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def cut_strata(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator | None = None, shrinkage: bool = True
) -> StratifiedModel:
    """The model of what shared selection measured, with the sizes that it estimates. Post-processing.

    Args:
        engine: makes it; the default engine if none is given.
        shrinkage: whether small strata borrow from the others.
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
    """`cut_strata` where each stratum was measured by itself: models of their own, as `fit_strata` makes them."""
    own = slices([measurement for measurement in measurements if not measurement.where], strata)
    places = {tuple(strata.codes_of(key).items()): key for key in strata.keys}
    for measurement in measurements:
        if measurement.where and measurement.where not in places:
            raise InputError("a measurement is of a stratum that these strata lack; give those it was made for")
        if measurement.where:
            own[places[measurement.where]].append(replace(measurement, where=()))
    wider = [m for m in measurements if not m.where and not tells_apart(m, strata.columns)]
    extras = predict_from_others(strata, own, wider) if shrinkage else {key: [] for key in own}
    priors = proportions(strata.schema, wider) if shrinkage else {}
    models = {key: modelled(strata.rest(key), [*own[key], *extras[key]], engine, priors) for key in strata.keys}
    return StratifiedModel.of(strata, models, estimated_sizes(own))
