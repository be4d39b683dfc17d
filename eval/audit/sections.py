"""The sections of a public audit that measure one release: calibration, the rates of a classifier, and workload errors.

>>> import numpy as np
>>> from equistrata.data.schema import Schema
>>> from equistrata.privacy.noise import SeededNoise
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> real, synthetic = (CodedTable(np.tile(np.array(rows, dtype=np.uint8), (500, 1)), schema) for rows in (
...     [[0, 0, 0], [1, 1, 1]], [[0, 0, 0], [1, 1, 0]]))
>>> distance = noisy_workload_distance(real, synthetic, schema.names, 0.01, SeededNoise(1))
>>> round(distance.value), round(distance.deviation, 1)  # 1000 rows times an error of 1
(1005, 14.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.audit.noisy_number import AuditedRelease, ByStratum, Grouping, NoisyNumber, SectionNumbers, clipped
from equistrata.eval.scores.tables import ALL_ROWS, in_bins, rows_by_place
from equistrata.eval.scores.workload import WORST_WORKLOAD, marginal_gap, subsets_of
from equistrata.inference.ratios.design import PricedDesign
from equistrata.inference.ratios.ratio import fieller_from_sums, noisy_rate
from equistrata.inference.ratios.sums import measure_sums
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.fieller import Spread, ratio_interval

SENSITIVITY = 2.0
# The confusion matrix of a stratum. A row is counted in cell 2·(truth is positive) + (selected).
CELLS = ("true negatives", "false positives", "false negatives", "true positives")
RATES = {  # rate → the cells that are counted as successes, and those that are counted as failures
    "accuracy": ((0, 3), (1, 2)),
    "selection_rate": ((1, 3), (0, 2)),
    "false_negative_rate": ((2,), (3,)),
}


def calibration_section(subject: AuditedRelease, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Estimate the calibration ratios Σ score / Σ positive, with Fieller intervals.

    The function returns the ratios and the noisy sums. It spends the whole budget in each stratum, because the strata
    are disjoint.
    """
    found, truth = subject.predictions
    rho, grouping = budget.remaining, subject.private.grouping
    parts = budget.parallel(rho, range(len(grouping.labels)), "strata")
    price = PricedDesign.of_rho(rho, weighted=False, binary=True)
    sums = [
        measure_sums(found.score[rows], truth[rows], price, noise.spawn(stratum), budget=parts[stratum])
        for stratum, rows in enumerate(subject.private.groups)
    ]
    shown = []
    for each in (*sums, reduce(add, sums)):
        value = max(each["ws"], 0.0) / each["wy"] if each["wy"] > 0 else None
        shown.append(clipped(value, fieller_from_sums(each, level=grouping.level, alike=grouping.alike)))
    deviations = np.sqrt(np.diag(sums[0].covariance)).tolist()
    drawn = [
        {name: grouping.drawn(each[name], sigma) for name, sigma in zip(each, deviations, strict=True)} for each in sums
    ]
    return {"calibration": grouping.labelled(shown)}, {"calibration": grouping.labelled(drawn)}


def rates_section(subject: AuditedRelease, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Estimate the rates of the classifier in each stratum from noisy confusion matrices.

    The function returns the rates and the noisy confusion matrices. It spends the whole budget. Each row is counted in
    one cell only, so the sensitivity is 1.
    """
    index, grouping, (found, truth) = subject.private.index, subject.private.grouping, subject.predictions

    def counts() -> Counts:
        return np.bincount(4 * index + 2 * truth + found.selected, minlength=4 * len(grouping.labels)).astype(np.int64)

    cells, sigma = noise.gaussian(counts, 1.0, budget.remaining, budget, "confusion matrices")
    tables = cells.astype(np.float64).reshape(-1, 4)
    shown: dict[str, ByStratum] = {}
    for rate in RATES:
        whole = _rate(rate, tables.sum(axis=0), sigma**2 * len(tables), grouping)
        shown[rate] = grouping.labelled([*(_rate(rate, table, sigma**2, grouping) for table in tables), whole])
    drawn = [
        {cell: grouping.drawn(count, sigma) for cell, count in zip(CELLS, table.tolist(), strict=True)}
        for table in tables
    ]
    return shown, {"rates": grouping.labelled(drawn)}


def _rate(rate: str, table: Floats, variance: float, grouping: Grouping) -> NoisyNumber:
    successes, failures = (list(cells) for cells in RATES[rate])
    found = noisy_rate(
        float(table[successes].sum()),
        float(table[failures].sum()),
        variance * len(successes),
        failures_variance=variance * len(failures),
        level=grouping.level,
        alike=grouping.alike,
    )
    return NoisyNumber(found.value, found.lower, found.upper, possible=1.0)


@dataclass(frozen=True)
class WorkloadDistance:
    """The noisy product of the number n of private rows and the workload error.

    Attributes
    ----------
    value : float
        The noisy product, in rows.
    deviation : float
        The standard deviation of the noise, in rows.
    """

    value: float
    deviation: float


def noisy_workload_distance(
    private: CodedTable,
    synthetic: CodedTable,
    columns: Sequence[str],
    rho: Budget | Rho | float,
    noise: NoiseSource,
    *,
    degree: int = 3,
) -> WorkloadDistance:
    """Measure the distance between the marginals of the private and of the synthetic rows, with Gaussian noise.

    The distance is Q = (1/|W|) Σ_S ‖M_S(private) − n·M_S(synthetic)/m‖₁, where S runs over all subsets of `degree`
    columns. The ratio Q/n is the workload error (see `equistrata.eval.scores.workload`). The caller divides by a noisy
    number of rows. The error itself has no useful sensitivity, because it depends on n, which is private. Fine bins of
    numeric columns are merged according to the synthetic rows, which are public (see `in_bins`).

    Parameters
    ----------
    private, synthetic : CodedTable
        Tables with the same schema. The m ≥ 1 synthetic rows are public.
    columns : sequence of str
        The columns of which subsets are taken. If there are fewer than `degree` columns, then the only subset is the
        set of all columns.
    rho : Budget, Rho or float
        The privacy cost in zCDP, ρ > 0. If it is a budget, the remaining budget is spent.
    noise : NoiseSource
        The source of the noise.
    degree : int, default=3
        The number of columns in each marginal, at least 1.

    Returns
    -------
    WorkloadDistance
        The noisy value of Q and the standard deviation of its noise.

    Raises
    ------
    InputError
        If there is no synthetic row or no column, or if `degree` is less than 1.

    Privacy
    -------
    ρ-zCDP under adding or removing one row. The sensitivity of Q is 2. See docs/proofs/workload.md.

    References
    ----------
    Stratification paper, Definition 14.
    """
    if not len(synthetic):
        raise InputError("the synthetic table holds no rows; give a table with at least one row")
    subsets = subsets_of(columns, degree)
    private, synthetic = in_bins(private, synthetic)
    unit = len(synthetic) * len(subsets)
    budget = Budget.of(rho)

    def total() -> Counts:
        gaps = (marginal_gap((private, None), (synthetic, None), subset) for subset in subsets)
        return np.array([sum(gaps)], dtype=np.int64)

    noisy, sigma = noise.gaussian(total, SENSITIVITY * unit, budget.remaining, budget, "workload distance")
    return WorkloadDistance(float(noisy[0]) / unit, sigma / unit)


def workload_section(subject: AuditedRelease, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Estimate the workload error of the whole table and of each stratum.

    The error of the whole table is over all columns. The error of a stratum is over the columns that define no strata.
    A stratum without synthetic rows has no workload error. The function returns the errors and the noisy distances. It
    spends half of the budget on the whole table and half on the strata, which are disjoint. If there are no strata, the
    whole table gets all of the budget.
    """
    private, synthetic, rows = subject.private.table, subject.synthetic, subject.private
    grouping, degree = rows.grouping, subject.degree
    shown: dict[str, NoisyNumber] = {}
    drawn: dict[str, dict[str, NoisyNumber]] = {}

    def put(label: str, distance: WorkloadDistance, count: float, count_variance: float) -> None:
        spread = Spread(distance.deviation**2, 0.0, count_variance)
        interval = ratio_interval(distance.value, count, spread, level=grouping.level, lower=0.0, upper=WORST_WORKLOAD)
        shown[label] = clipped(distance.value / count if count > 0 else None, interval, WORST_WORKLOAD)
        drawn[label] = {"distance": grouping.drawn(distance.value, distance.deviation)}

    halves = budget.remaining.split([1, 1] if grouping.strata.columns else [1])
    whole = budget.part(halves[0], "whole table")
    variance, counts = rows.sigma**2, rows.sizes.tolist()
    distance = noisy_workload_distance(private, synthetic, private.schema.names, whole, noise.spawn(0), degree=degree)
    put(ALL_ROWS, distance, sum(counts), variance * len(counts))
    if grouping.strata.columns:
        source, parts = noise.spawn(1), budget.parallel(halves[1], range(len(grouping.labels)), "strata")
        theirs = rows_by_place(grouping.strata.index(synthetic), len(grouping.labels))
        for i, (label, group, made) in enumerate(zip(grouping.labels, rows.groups, theirs, strict=True)):
            if len(made):
                sides, columns = (private.take(group), synthetic.take(made)), grouping.columns
                distance = noisy_workload_distance(*sides, columns, parts[i], source.spawn(i), degree=degree)
                put(label, distance, counts[i], variance)
    return {"workload_error": shown}, {"workload": drawn}
