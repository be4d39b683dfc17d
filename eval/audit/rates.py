"""The public audit's numbers on a classifier: calibration ratios and rates of strata."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.eval.audit.grouping import ByStratum, SectionNumbers, Subject
from equistrata.eval.audit.noisy_number import NoisyNumber, clipped
from equistrata.inference.ratios.design import PricedDesign
from equistrata.inference.ratios.ratio import fieller_from_sums, noisy_rate
from equistrata.inference.ratios.sums import measure_sums
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource

# A stratum's confusion matrix: row r has cell 2·(really positive) + (selected).
CELLS = ("true negatives", "false positives", "false negatives", "true positives")
RATES = {  # rate → the cells that count as successes, and as failures
    "accuracy": ((0, 3), (1, 2)),
    "selection_rate": ((1, 3), (0, 2)),
    "false_negative_rate": ((2,), (3,)),
}


def calibration_section(subject: Subject, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Calibration ratios, Σ score / Σ positive, with Fieller intervals; and the noisy sums.

    Cost: the budget; strata are disjoint.
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
        shown.append(clipped(value, fieller_from_sums(each, level=grouping.level)))
    deviations = np.sqrt(np.diag(sums[0].covariance)).tolist()
    drawn = [
        {name: grouping.drawn(each[name], sigma) for name, sigma in zip(each, deviations, strict=True)} for each in sums
    ]
    return {"calibration": grouping.labelled(shown)}, {"calibration": grouping.labelled(drawn)}


def rates_section(subject: Subject, budget: Budget, noise: NoiseSource) -> SectionNumbers:
    """Rates, by name and stratum, from noisy confusion matrices; and these.

    Cost: the budget; a row is in one cell, so the sensitivity is 1.
    """
    index, grouping, (found, truth) = subject.private.index, subject.private.grouping, subject.predictions

    def counts() -> Counts:
        return np.bincount(4 * index + 2 * truth + found.selected, minlength=4 * len(grouping.labels)).astype(np.int64)

    cells, sigma = noise.gaussian(counts, 1.0, budget.remaining, budget, "confusion matrices")
    tables = cells.astype(np.float64).reshape(-1, 4)
    shown: dict[str, ByStratum] = {}
    for rate in RATES:
        whole = _rate(rate, tables.sum(axis=0), sigma**2 * len(tables), grouping.level)
        shown[rate] = grouping.labelled([*(_rate(rate, table, sigma**2, grouping.level) for table in tables), whole])
    drawn = [
        {cell: grouping.drawn(count, sigma) for cell, count in zip(CELLS, table.tolist(), strict=True)}
        for table in tables
    ]
    return shown, {"rates": grouping.labelled(drawn)}


def _rate(rate: str, table: Floats, variance: float, level: float) -> NoisyNumber:
    """A rate from a noisy confusion matrix with noise of this variance in each cell."""
    successes, failures = (list(cells) for cells in RATES[rate])
    found = noisy_rate(
        float(table[successes].sum()),
        float(table[failures].sum()),
        variance * len(successes),
        failures_variance=variance * len(failures),
        level=level,
    )
    return NoisyNumber(found.value, found.lower, found.upper, possible=1.0)
