"""The paper's means of census columns: Coinpress over all rows and by strata, for every choice of strata columns.

Errors are exact and noise is seeded: nothing of this is private. Each seed's 80 % are the private rows, the other 20 %
the public table that gives PubStratCoinpress its weights.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import Any, cast

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.cells import numbers
from equistrata.data.schema import Column, Schema
from equistrata.data.sources import Source
from equistrata.data.strata import MIN_SHARE, Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.eval.scores.parity import relative_error
from equistrata.inference.means.coinpress import Coinpress
from equistrata.privacy.noise import SeededNoise
from paper.synthesizers import TRAINING_SHARE

SCHEMA = "acs_means"
STRATA_COLUMNS = ("SEX", "RAC1P", "AGEP", "DIS")
CODED = (*STRATA_COLUMNS, "NATIVITY")  # strata must leave a column over
OUTCOMES = ("SCHL", "WKHP", "JWMNP", "PINCP")
STRATA = tuple("_".join(chosen) for size in range(1, 5) for chosen in combinations(STRATA_COLUMNS, size))
RHO = 0.5
COINPRESS, STRATIFIED, PUBLIC = "Coinpress", "StratCoinpress", "PubStratCoinpress"
AS_PUBLISHED, STRATIFIED_AS_PUBLISHED = "Coinpress, published priors", "StratCoinpress, published priors"
ALONE, RELEASED = "StratCoinpress (no shrinkage)", "StratCoinpress at two levels (default)"
ESTIMATORS = (AS_PUBLISHED, STRATIFIED_AS_PUBLISHED, COINPRESS, STRATIFIED, PUBLIC, ALONE, RELEASED)
# Of the published code: where the mean lies, and how far from there at most. It takes the rows to have σ = 1.
PRIORS = {"SCHL": (12.0, 12.0), "WKHP": (40.0, 80.0), "JWMNP": (30.0, 100.0), "PINCP": (40_000.0, 1_000_000.0)}
PUBLISHED_SIGMA = 1.0


@dataclass(frozen=True)
class MeanCell:
    """One place: an outcome's mean by these strata (columns joined by "_"), by one estimator at one ρ.

    "Coinpress" gives every stratum the population's mean. "StratCoinpress" and "PubStratCoinpress" are the paper's
    (Gaussian tail, public sizes), weighted by the rows' own shares and by those of the public rows. "Published priors"
    are `PRIORS` in place of the schema's declared bounds and standard deviation. "StratCoinpress at
    two levels (default)" is a release's: noisy sizes, adaptive tail, declared bounds, shrinkage towards all rows;
    "(no shrinkage)" is a release with `--no-shrinkage`.
    """

    outcome: str
    strata: str
    estimator: str
    rho: float
    seed: int


@dataclass(frozen=True)
class MeanLine(MeanCell):
    """A place and what was measured there.

    Attributes:
        declared: the number of declared strata.
        kept: the number of those with at least 0.1 % of the rows that have the outcome.
        population_error: |estimate − mean|/|mean| over all private rows that have the outcome.
        parity_error: Definition 11 with ω = 1/k over the kept strata.
    """

    declared: int
    kept: int
    population_error: float
    parity_error: float


def grid(outcomes: Sequence[str], strata: Sequence[str], seeds: int) -> Iterator[MeanCell]:
    """Seed by seed, outcome by outcome."""
    for seed, outcome, by, estimator in product(range(seeds), outcomes, strata, ESTIMATORS):
        yield MeanCell(outcome, by, estimator, RHO, seed)


def measure(cell: MeanCell, source: Source) -> MeanLine:
    """Estimate and score one place on the rows of a source."""
    table, outcomes, schema = read_people(cast(Any, source))
    return _measure(cell, table, outcomes[cell.outcome], schema[cell.outcome])


@lru_cache(maxsize=1)
def read_people(source: Source) -> tuple[CodedTable, dict[str, Floats], Schema]:
    """The coded columns of the strata; each outcome's values, shape (n,), NaN where absent; the schema of both."""
    schema = Schema.load(SCHEMA)
    frame = source.read([*CODED, *OUTCOMES])
    outcomes = {}
    for name in OUTCOMES:
        values, absent = numbers(frame[name], schema[name])
        outcomes[name] = np.where(absent, np.nan, values)
    return CodedTable.encode(frame, schema.select(CODED)), outcomes, schema


def errors(groups: Mapping[Any, Floats], population: float, by_stratum: Floats) -> tuple[int, float, float]:
    """The number of strata with at least 0.1 % of the rows, the relative error of the population's mean, and the parity
    error over these strata with ω = 1/k.

    >>> errors({(1,): np.array([1.0, 3.0]), (2,): np.array([4.0, 4.0])}, 3.0, np.array([1.0, 4.0]))
    (2, 0.0, 0.5)
    """
    everybody = np.concatenate(list(groups.values()))
    kept = np.array([len(values) >= max(MIN_SHARE * len(everybody), 1) for values in groups.values()])
    truth = np.array([values.mean() if len(values) else np.nan for values in groups.values()])
    error = float(relative_error(everybody.mean(), population))
    strata = int(kept.sum())
    return strata, error, error / strata + float(relative_error(truth[kept], by_stratum[kept]).sum())


def _measure(cell: MeanCell, table: CodedTable, values: Floats, column: Column) -> MeanLine:
    private = np.random.default_rng(cell.seed).random(len(table)) < TRAINING_SHARE
    strata = Strata.over(table.schema, cell.strata.split("_"))
    index, present = strata.index(table), ~np.isnan(values)
    groups: dict[Hashable, Floats] = {
        key: values[present & private & (index == i)] for i, key in enumerate(strata.keys)
    }
    weighing = {STRATIFIED: private, STRATIFIED_AS_PUBLISHED: private, PUBLIC: ~private}.get(cell.estimator)
    weights = None
    if weighing is not None:
        sizes = np.bincount(index[present & weighing], minlength=len(groups)).tolist()
        weights = PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, cell.estimator)
    estimates = _estimate(cell, column, groups, values[present & private], weights)
    kept, error, parity = errors(groups, *estimates)
    return MeanLine(**asdict(cell), declared=len(groups), kept=kept, population_error=error, parity_error=parity)


def _estimate(
    cell: MeanCell, column: Column, groups: dict[Hashable, Floats], everybody: Floats, weights: PublicWeights | None
) -> tuple[float, Floats]:
    """The population's mean, and each stratum's, shape (k,)."""
    assert column.sigma is not None
    lower, upper = column.mean_bounds
    coinpress = Coinpress(lower, upper, column.sigma, tail="gaussian")
    if cell.estimator in (ALONE, RELEASED):
        coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds)
    if cell.estimator in (AS_PUBLISHED, STRATIFIED_AS_PUBLISHED):
        centre, radius = PRIORS[cell.outcome]
        coinpress = Coinpress(centre - radius, centre + radius, PUBLISHED_SIGMA, tail="gaussian")
    noise = SeededNoise(cell.seed).spawn(STRATA.index(cell.strata)).spawn(OUTCOMES.index(cell.outcome))
    if cell.estimator in (COINPRESS, AS_PUBLISHED):
        value = coinpress.mean(everybody, cell.rho, noise).value
        return value, np.full(len(groups), value)
    estimator = coinpress.hierarchical if cell.estimator == RELEASED else coinpress.by_strata
    found = estimator(groups, weights, cell.rho, noise)
    return found.value, np.array([found.strata[key].value for key in groups])
