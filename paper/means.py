"""Means of census columns from the paper: Coinpress over all rows and by strata, for every choice of columns.

The errors are exact and the noise is seeded, so the results are not private. For each seed, 80 % of the rows are
private. The other 20 % are the public table from which PubStratCoinpress takes its weights.
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
CODED = (*STRATA_COLUMNS, "NATIVITY")  # at least one column must not define strata
OUTCOMES = ("SCHL", "WKHP", "JWMNP", "PINCP")
STRATA = tuple("_".join(chosen) for size in range(1, 5) for chosen in combinations(STRATA_COLUMNS, size))
RHO = 0.5
COINPRESS, STRATIFIED, PUBLIC = "Coinpress", "StratCoinpress", "PubStratCoinpress"
AS_PUBLISHED, STRATIFIED_AS_PUBLISHED = "Coinpress, published priors", "StratCoinpress, published priors"
ALONE, RELEASED = "StratCoinpress (no shrinkage)", "StratCoinpress at two levels (default)"
ESTIMATORS = (AS_PUBLISHED, STRATIFIED_AS_PUBLISHED, COINPRESS, STRATIFIED, PUBLIC, ALONE, RELEASED)
# The centre and the radius of the prior for the mean in the published code, which assumes σ = 1 for the rows.
PRIORS = {"SCHL": (12.0, 12.0), "WKHP": (40.0, 80.0), "JWMNP": (30.0, 100.0), "PINCP": (40_000.0, 1_000_000.0)}
PUBLISHED_SIGMA = 1.0


@dataclass(frozen=True)
class MeanCell:
    """The mean of an outcome by some strata, for one estimator and one ρ.

    "Coinpress" uses the population mean for every stratum. "StratCoinpress" and "PubStratCoinpress" are the estimators
    of the paper, with a Gaussian tail and public sizes. They are weighted by the shares of the private rows and of the
    public rows, respectively. "Published priors" means that `PRIORS` replaces the declared bounds and standard
    deviation of the schema. "StratCoinpress at two levels (default)" is the estimator of a release, which uses noisy
    sizes, an adaptive tail, declared bounds and shrinkage towards all rows. "(no shrinkage)" is the estimator of a
    release with `--no-shrinkage`.

    Attributes
    ----------
    outcome : str
        The column of the mean.
    strata : str
        The columns that define the strata, joined by "_".
    estimator : str
        The name of the estimator.
    rho : float
        The privacy cost in zCDP.
    seed : int
        The seed of the split and of the noise.
    """

    outcome: str
    strata: str
    estimator: str
    rho: float
    seed: int


@dataclass(frozen=True)
class MeanLine(MeanCell):
    """The result for one cell.

    Attributes
    ----------
    declared : int
        The number of declared strata.
    kept : int
        The number of strata with at least 0.1 % of the rows that have the outcome.
    population_error : float
        |estimate − mean|/|mean| over all private rows that have the outcome.
    parity_error : float
        The parity error of Definition 11 with ω = 1/k over the kept strata.
    """

    declared: int
    kept: int
    population_error: float
    parity_error: float


def grid(outcomes: Sequence[str], strata: Sequence[str], seeds: int) -> Iterator[MeanCell]:
    """Yield all cells, ordered by seed and outcome."""
    for seed, outcome, by, estimator in product(range(seeds), outcomes, strata, ESTIMATORS):
        yield MeanCell(outcome, by, estimator, RHO, seed)


def measure(cell: MeanCell, source: Source) -> MeanLine:
    """Compute the estimate and the errors of one cell on the rows of a source."""
    table, outcomes, schema = read_people(cast(Any, source))
    return _measure(cell, table, outcomes[cell.outcome], schema[cell.outcome])


@lru_cache(maxsize=1)
def read_people(source: Source) -> tuple[CodedTable, dict[str, Floats], Schema]:
    """Read the columns of the strata, the outcomes and their schema.

    The values of each outcome have shape (n,), and absent values are NaN.
    """
    schema = Schema.load(SCHEMA)
    frame = source.read([*CODED, *OUTCOMES])
    outcomes = {}
    for name in OUTCOMES:
        values, absent = numbers(frame[name], schema[name])
        outcomes[name] = np.where(absent, np.nan, values)
    return CodedTable.encode(frame, schema.select(CODED)), outcomes, schema


def errors(groups: Mapping[Any, Floats], population: float, by_stratum: Floats) -> tuple[int, float, float]:
    """Compute the number of kept strata, the relative error of the population mean, and the parity error.

    A stratum is kept if it has at least 0.1 % of the rows. The parity error is over the kept strata with ω = 1/k.

    Parameters
    ----------
    groups : mapping
        The values of each stratum.
    population : float
        The estimate of the population mean.
    by_stratum : ndarray of shape (k,)
        The estimate of each stratum's mean.

    Returns
    -------
    tuple
        The number of strata, the relative error and the parity error.

    Examples
    --------
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
    """Return the estimates of the population mean and of each stratum's mean, shape (k,)."""
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
