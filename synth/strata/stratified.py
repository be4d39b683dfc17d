"""One synthesizer per stratum at the full budget, put together again by group weights.

Rosenblatt, Stoyanovich and Musco (the stratification paper), section "Stratified Data Synthesis". Strata are a
partition of the rows, so under add/remove neighbours the per-stratum fits compose in parallel.

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "AGEP", "MAR", "ESR"])
>>> rows = CodedTable(np.random.default_rng(0).integers(0, 2, (5000, 4), dtype=np.uint8), schema)
>>> synthesizer = StratifiedSynthesizer("mst", ["SEX"], epsilon=1, delta=1e-9, seed=0).fit(rows)
>>> synthesizer.name, len(synthesizer.sample(100)), synthesizer.sample(10, where={"SEX": 1})["SEX"].unique().tolist()
('MST_SEX', 100, [1])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.schema import Schema, Value
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from equistrata.synth.measurements import (
    LEAST_SIZE,
    Measurement,
    load_measurements,
    measure_marginal,
    save_measurements,
    total_estimate,
)
from equistrata.synth.mechanisms.base import Fit, ForeignMechanism, Mechanism, fit
from equistrata.synth.models.base import Model
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.models.storage import load_model, save_model
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.cutting import cut
from equistrata.synth.strata.shared import TOLERANCE, serving_all, share
from equistrata.synth.strata.weights import combined_weights

T = TypeVar("T")

NOISY = "noisy"
NOISY_SOURCE = "noisy counts (charged)"
COUNT_SHARE = 0.02
ALL = "all.json"  # Strata.file_name of the one stratum that holds all rows
BATCH_ROWS = 1 << 20  # drawn at a time


@dataclass(frozen=True, eq=False)
class StratifiedModel:
    """A model per stratum and the weights that join them. Post-processing: using it costs nothing.

    Attributes:
        strata: how the population is cut; one stratum with the key `()` when it is not.
        models: stratum key → model over the other columns.
        weights: the share of each stratum.
        total: the number of rows it stands for.
    """

    strata: Strata
    models: Mapping[Key, Model]
    weights: PublicWeights
    total: float

    def sample(
        self, rows: int | None, rng: np.random.Generator, where: Mapping[str, Value | Sequence[Value]] | None = None
    ) -> CodedTable:
        """Draw rows, in random order, with whole rows per stratum by largest remainder.

        Args:
            rows: how many, exactly; None for `total`, rounded.
            rng: draws them; releases use fresh operating-system entropy.
            where: released value(s) that columns must have, as {"SEX": 1}; bins are named by their index.

        Raises:
            InputError: a negative number of rows, an unknown column or value, or a condition nobody can meet.
        """
        return CodedTable.concatenate(list(self.batches(rows, rng, where)))

    def batches(
        self,
        rows: int | None,
        rng: np.random.Generator,
        where: Mapping[str, Value | Sequence[Value]] | None = None,
        size: int | None = None,
    ) -> Iterator[CodedTable]:
        """As `sample`, but at most `size` rows at a time (about a million), in at least one batch: memory does not grow with
        the rows.

        Each batch has every stratum in proportion and random order within; the strata's rows add up to the same whole
        numbers as in one batch, and those of a cell differ from their expectation by less than two per column and batch.
        """
        rows = round(self.total) if rows is None else rows
        if rows < 0:
            raise InputError(f"cannot draw {rows} rows; ask for 0 or more")
        allowed = {name: _codes(self.strata.schema, name, value) for name, value in (where or {}).items()}
        models, shares = dict(self.models), dict(self.weights.shares)
        if allowed:
            models, shares = self._restricted(allowed)
        left = PublicWeights(shares, self.weights.source).allocate(rows)
        while True:
            drawn = min(rows, size or BATCH_ROWS)
            part = left
            if drawn < rows:
                part = PublicWeights.from_counts(left, self.strata, self.weights.source).allocate(drawn)
            table = self.strata.assemble({key: models[key].sample(count, rng) for key, count in part.items()})
            yield table.take(rng.permutation(drawn))
            left = {key: count - part[key] for key, count in left.items()}
            rows -= drawn
            if not rows:
                return

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Expected counts over any columns, strata columns included, summing to `total`."""
        schema = self.strata.schema
        result = np.zeros([schema[name].size for name in columns])
        for key, model in self.models.items():
            fixed = self.strata.codes_of(key)
            inside = [name for name in columns if name not in fixed]
            counts = model.marginal(inside) / max(model.total, 1e-12) * self.weights.shares[key] * self.total
            result[tuple(fixed.get(name, slice(None)) for name in columns)] += counts
        return result

    def save(self, folder: Path) -> None:
        """Write every model and the weights to a folder (NumPy archives and JSON, no pickle)."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, model in self.models.items():
            save_model(model, folder / f"{self.strata.file_name(key)}.npz")
        shares = {self.strata.label(key): share for key, share in self.weights.shares.items()}
        head = {"strata": self.strata.columns, "shares": shares, "source": self.weights.source, "total": self.total}
        (folder / "weights.json").write_text(json.dumps(head, indent=2), "utf-8")

    @classmethod
    def load(cls, folder: Path, schema: Schema) -> StratifiedModel:
        """Read what `save` wrote. Raises InputError if the folder does not hold models of this schema."""
        try:
            head = json.loads((folder / "weights.json").read_text("utf-8"))
            strata = Strata.over(schema, head["strata"])
            shares = {key: float(head["shares"][strata.label(key)]) for key in strata.keys}
            weights, total = PublicWeights(shares, str(head["source"])), float(head["total"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{str(folder)!r} holds no stratified model of schema {schema.name!r}") from None
        models = {key: load_model(folder / f"{strata.file_name(key)}.npz", strata.rest(key)) for key in strata.keys}
        return cls(strata, models, weights, total)

    def _restricted(self, allowed: Mapping[str, Sequence[int]]) -> tuple[dict[Key, Model], dict[Key, float]]:
        models, shares = dict(self.models), dict.fromkeys(self.strata.keys, 0.0)
        for key, model in self.models.items():
            fixed = self.strata.codes_of(key)
            if any(fixed[name] not in codes for name, codes in allowed.items() if name in fixed):
                continue
            inside = {name: codes for name, codes in allowed.items() if name not in fixed}
            try:
                models[key], mass = model.where(inside)
            except InputError:
                continue
            shares[key] = self.weights.shares[key] * mass
        total = sum(shares.values())
        if not total > 0:
            raise InputError(f"nobody can have that combination of {', '.join(allowed)}; loosen the condition")
        return models, {key: share / total for key, share in shares.items()}


def measure_stratum(
    mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource
) -> list[Measurement]:
    """Measure one stratum with all that is left in its budget, of which `count_rho` buys its noisy number of rows."""
    known = _count(mechanism, table, budget, count_rho, noise)
    rho = budget.spend(budget.remaining, f"{mechanism.name} on one stratum")
    return mechanism.measure(table, rho, noise, known)


def fit_stratum(mechanism: Mechanism, table: CodedTable, budget: Budget, count_rho: Rho, noise: NoiseSource) -> Fit:
    """Fit one stratum with all that is left in its budget, of which `count_rho` buys its noisy number of rows."""
    known = _count(mechanism, table, budget, count_rho, noise)
    rho = budget.spend(budget.remaining, f"{mechanism.name} on one stratum")
    return fit(mechanism, table, rho, noise, known)


def _count(mechanism: Mechanism, table: CodedTable, budget: Budget, rho: Rho, noise: NoiseSource) -> list[Measurement]:
    """The noisy number of rows: of a stratum, or, by a mechanism that takes all strata at once, of each of them."""
    shared = serving_all(mechanism)
    columns = shared.levels.strata if shared is not None and shared.levels is not None else ()
    return [measure_marginal(table, columns, rho, budget, noise)] if rho else []


def fit_strata(
    mechanism: Mechanism,
    parts: Mapping[Key, CodedTable],
    budgets: Mapping[Key, Budget],
    count_rho: Rho,
    noise: NoiseSource,
    workers: int = 1,
    leaning: Strata | None = None,
) -> dict[Key, Fit]:
    """Fit every stratum, in `workers` processes. Strata keep their key whatever order they finish in.

    Args:
        leaning: the strata, if small ones are to lean on the others (`equistrata.synth.strata.borrowing`). A foreign mechanism leaves
            no measurements to lean on.

    Cost: the largest of the budgets (parallel composition, see `Budget.parallel`), add/remove. Leaning is free.
    """
    jobs = {}
    for position, (key, table) in enumerate(parts.items()):
        # Charged here: what a worker process spends of a copy would leave the caller's budget whole.
        charged = budgets[key].part(budgets[key].remaining, f"{mechanism.name} on one stratum")
        jobs[key] = (mechanism, table, charged, count_rho, noise.spawn(position))
    with process_pool(workers) if workers > 1 and len(jobs) > 1 else nullcontext() as pool:
        if leaning is None or isinstance(mechanism, ForeignMechanism):
            return _map(pool, fit_stratum, jobs)
        measured = _map(pool, measure_stratum, jobs)
        extras = borrow(leaning, measured)
        schemas = {key: table.schema for key, table in parts.items()}
        models = _map(pool, mechanism.model, {key: (schemas[key], measured[key] + extras[key]) for key in parts})
    return {key: Fit(tuple(measured[key]), models[key]) for key in parts}


def _map(pool: Executor | None, work: Callable[..., T], jobs: Mapping[Key, tuple[Any, ...]]) -> dict[Key, T]:
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
    """The model of measurements that one choice for all strata has made, with the sizes that they tell. No cost.

    Args:
        engine: makes it; a release's own if none is given.
        shrinkage: whether strata lean on each other.
    """
    found = cut(strata, measurements, engine or MirrorDescent(tolerance=TOLERANCE), shrinkage)
    weights = PublicWeights.from_counts(found.sizes, strata, NOISY_SOURCE)
    return StratifiedModel(strata, found.models, weights, sum(found.sizes.values()))


def noisy_weights(strata: Strata, fits: Mapping[Key, Sequence[Measurement]]) -> PublicWeights:
    """Weights from what the strata's measurements say of their sizes: paid for already, so no further cost.

    No stratum is dropped by noise: one that looks smaller than a quarter of its size's standard deviation counts as
    that. (At small ε, strata of hundreds of rows would else be gone in every second release.)
    """
    estimates = {key: total_estimate(measurements) for key, measurements in fits.items()}
    counts = {key: max(rows, LEAST_SIZE * sd) if np.isfinite(sd) else rows for key, (rows, sd) in estimates.items()}
    if not any(count > 0 for count in counts.values()):
        counts = dict.fromkeys(counts, 1.0)  # nothing can be told of the sizes: treat strata alike
    return PublicWeights.from_counts(counts, strata, NOISY_SOURCE)


def stratified_name(mechanism: Mechanism, strata: Sequence[str]) -> str:
    """The paper's name for a variant: `MST_vanilla`, `MST_SEX_RAC1P`."""
    return "_".join([mechanism.name, *(strata or ["vanilla"])])


class StratifiedSynthesizer:
    """Fit a synthesizer per stratum and draw synthetic rows, scikit-learn style.

    Args:
        mechanism: a name ("mst") or a Mechanism.
        strata: the columns that define strata; none for the non-stratified ("vanilla") form.
        epsilon, delta: the price of the whole fit, (ε, δ)-DP under adding or removing one row.
        weights: PublicWeights, or "noisy" for sizes bought with `count_share` of ρ.
        combine_weights: whether PublicWeights may be wrong: noisy counts are bought as well, and both are joined by inverse
            variance (`equistrata.synth.strata.weights`).
        shrinkage: whether small strata lean on the others (`equistrata.synth.strata.borrowing`), at no cost.
        selection: "shared" for one choice of what is measured, for all strata; "per-stratum"; None for shared where the
            mechanism and the schema allow it (`equistrata.synth.strata.shared`).
        levels: "auto" to measure over all rows and within strata; "strata" or "none" for one of them (`equistrata.synth.mechanisms.levels`).
        workers: processes that fit strata side by side.
        seed: for tests only: reproducible, and therefore NOT private. None draws secure noise.

    After `fit`: `model_` (StratifiedModel), `measurements_` (stratum → measurements; with shared selection `()` → those of the
    whole table), `rho_`, `name`.
    """

    def __init__(
        self,
        mechanism: str | Mechanism = "mst",
        strata: Sequence[str] = (),
        *,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        weights: PublicWeights | str = NOISY,
        combine_weights: bool = False,
        count_share: float = COUNT_SHARE,
        engine: str = "numpy",
        shrinkage: bool = True,
        selection: str | None = None,
        levels: str = "auto",
        workers: int = 1,
        seed: int | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.strata = strata
        self.epsilon = epsilon
        self.delta = delta
        self.weights = weights
        self.combine_weights = combine_weights
        self.count_share = count_share
        self.engine = engine
        self.shrinkage = shrinkage
        self.selection = selection
        self.levels = levels
        self.workers = workers
        self.seed = seed

    @property
    def name(self) -> str:
        """The variant's name, as `MST_SEX_RAC1P`."""
        return stratified_name(self._mechanism(), self.strata)

    def fit(self, table: CodedTable | pd.DataFrame, schema: Schema | None = None) -> StratifiedSynthesizer:
        """Fit to private rows. Cost: (epsilon, delta)-DP, neighbours by adding or removing one row.

        Args:
            table: coded rows, or a data frame of raw values with the `schema` that codes it.

        Raises:
            InputError: the table, strata or weights do not fit the schema.
        """
        if isinstance(table, pd.DataFrame):
            if schema is None:
                raise InputError("a data frame needs the schema that codes it; give schema=Schema.load(...)")
            table = CodedTable.encode(table, schema)
        strata = Strata.over(table.schema, self.strata)
        self._check(strata)
        noise: NoiseSource = SecureNoise() if self.seed is None else SeededNoise(self.seed)
        self.rho_ = Rho.from_epsilon_delta(self.epsilon, self.delta)
        mechanism = self._mechanism()
        shared = share(mechanism, strata, self.selection, self.levels)
        paid_counts = (self.combine_weights or self.weights == NOISY) and len(strata.keys) > 1
        count_rho = self.rho_ * self.count_share if paid_counts else Rho(0)
        if shared is not None:
            found = measure_stratum(shared, table, Budget(self.rho_), count_rho, noise)
            self.measurements_: dict[Key, Sequence[Measurement]] = {(): found}
            self.model_ = cut_strata(strata, found, shared.engine, self.shrinkage)
        else:
            budgets = Budget(self.rho_).parallel(self.rho_, strata.keys, "synthesis, strata in parallel")
            fits = fit_strata(
                mechanism, strata.partition(table), budgets, count_rho, noise, min(self.workers, len(strata.keys)),
                strata if self.shrinkage else None,
            )  # fmt: skip
            self.measurements_ = {key: result.measurements for key, result in fits.items()}
            sizes = noisy_weights(strata, self.measurements_)
            models = {key: result.model for key, result in fits.items()}
            self.model_ = StratifiedModel(strata, models, sizes, sizes.total or 0.0)
        if isinstance(self.weights, PublicWeights):
            known = self.weights
            weights = combined_weights(strata, self.measurements_, known) if self.combine_weights else known
            self.model_ = replace(self.model_, weights=weights)
        return self

    def sample(
        self,
        rows: int | None = None,
        *,
        where: Mapping[str, Value | Sequence[Value]] | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """Draw synthetic rows as released values. No further cost. See `StratifiedModel.sample`."""
        if not hasattr(self, "model_"):
            raise InputError("the synthesizer is not fitted yet; call fit first")
        rng = np.random.default_rng(self.seed if seed is None else seed)
        return self.model_.sample(rows, rng, where).decode(rng)

    def _check(self, strata: Strata) -> None:
        if self.workers < 1:
            raise InputError(f"workers is {self.workers}, but at least one process has to work; give 1 or more")
        if not 0 <= self.count_share < 1:
            raise InputError(f"count_share is {self.count_share}, but it is a part of the budget; give 0 up to, not 1")
        if not isinstance(self.weights, PublicWeights) and self.weights != NOISY:
            raise InputError(f"unknown weights {self.weights!r}; give PublicWeights or {NOISY!r}")
        if self.combine_weights and not (isinstance(self.weights, PublicWeights) and strata.columns):
            raise InputError("there is nothing to combine with noisy counts; give strata and their PublicWeights")
        if isinstance(self.weights, PublicWeights) and set(self.weights.shares) != set(strata.keys):
            raise InputError("the weights are for other strata than these; make them for the same columns and schema")

    def _mechanism(self) -> Mechanism:
        return mechanism(self.mechanism, self.engine) if isinstance(self.mechanism, str) else self.mechanism


def save_all_measurements(measurements: Mapping[Key, Sequence[Measurement]], strata: Strata, folder: Path) -> None:
    """Write readable files: one per stratum, named by it, or `all.json` of what one choice for all strata has measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, noisy in measurements.items():
        save_measurements(noisy, folder / (f"{strata.file_name(key)}.json" if key else ALL))


def load_all_measurements(strata: Strata, folder: Path) -> dict[Key, list[Measurement]]:
    """Read what `save_all_measurements` wrote, or a release's: stratum → measurements, or `()` → those of all rows.

    Raises InputError if a stratum's file is missing or broken.
    """
    if (folder / ALL).exists():
        return {(): load_measurements(folder / ALL)}
    return {key: load_measurements(folder / f"{strata.file_name(key)}.json") for key in strata.keys}


def _codes(schema: Schema, name: str, value: Value | Sequence[Value]) -> list[int]:
    keys = schema[name].keys
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    unknown = [v for v in values if v not in keys]
    if unknown or not values:
        raise InputError(f"column {name!r} has no value {', '.join(map(repr, unknown)) or '(none given)'} to ask for")
    return [keys.index(v) for v in values]
