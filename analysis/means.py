"""The means over all rows that a release holds twice: bought for themselves (`means.json`), and by its counts; joined.

Their noise was drawn apart, so they are joined by inverse variance. What sampling adds (of people from a population,
or of the rows that were not held out) is the same in both, as both are of the same rows, and does not average out. Of
a long tail a private mean knows more, since counts of its bins are noise; of a narrow column counts may. Means by
strata are not joined: those by counts follow from a model there, which borrows from other strata, and the model's own
error is no noise.

An interval that ends where a mean must lie says nothing of the error on that side: at a small ε it is the bounds on
both sides, as if the error were small. Then the other side says it, or the mean has no part in the joined one.

>>> joined([(100.0, 3.0), (110.0, 4.0)])
(103.6, 2.4)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import hypot, inf, isfinite, nan
from typing import Any

import pandas as pd
import scipy

from equistrata.analysis.answers import Answers
from equistrata.analysis.derived import MEASURED, NUMBERS
from equistrata.analysis.questions import has_numbers
from equistrata.data.columns.column import OWN_CATEGORY
from equistrata.data.schema import Column
from equistrata.errors import InputError

PRIVATE, COUNTED, NEITHER = "means.json", "counts", "neither"
WEIGHED = "pub_strat_coinpress"  # its mean over all rows is of the strata by public weights
_AT_END = 1e-6  # times the range: an interval ends there
_LEVEL = 0.95  # of the intervals that say how far off counts may be


@dataclass(frozen=True)
class TwoMeans:
    """Both means of a column over all rows, and the joined one; each with its standard error, infinite if unknown.

    Attributes:
        estimate, standard_error: of the joined mean.
        private, private_error: of that in `means.json`.
        counted, counted_error: of that by counts.
        bounds: the column's.
    """

    column: str
    estimate: float
    standard_error: float
    private: float
    private_error: float
    counted: float
    counted_error: float
    bounds: tuple[float, float] = (-inf, inf)

    @property
    def better(self) -> str:
        """Which of the two has the smaller error: means.json or counts; neither if both may be anywhere."""
        if not isfinite(min(self.private_error, self.counted_error)):
            return NEITHER
        return PRIVATE if self.private_error <= self.counted_error else COUNTED

    def interval(self, level: float) -> tuple[float, float]:
        """Of the joined mean, within the column's bounds: these where neither mean says anything."""
        if not isfinite(self.standard_error):
            return self.bounds
        reach, (lower, upper) = self.standard_error * float(scipy.special.ndtri((1 + level) / 2)), self.bounds
        return max(self.estimate - reach, lower), min(self.estimate + reach, upper)


def joined(estimates: Iterable[tuple[float, float]], shared: float = 0.0) -> tuple[float, float]:
    """Estimates of one number with their standard errors, by inverse variance, and the standard error.

    Args:
        estimates: value and standard error of each; those without a finite one have no part.
        shared: the variance of an error that all have in common; the rest of their errors is independent.

    >>> joined([(1.0, 1.0), (2.0, 1.0)]), joined([(1.0, 1.0), (2.0, 1.0)], shared=1.0)
    ((1.5, 0.707106781187), (1.5, 1.0))
    """
    known = [(value, error) for value, error in estimates if isfinite(value) and 0 < error < inf]
    precision = sum(error**-2 for _, error in known)
    if not precision:
        return nan, inf
    parts = [error**-2 / precision for _, error in known]
    variance = 1 / precision + min(shared, *(error**2 for _, error in known)) * (1 - sum(part**2 for part in parts))
    return round(sum(value / error**2 for value, error in known) / precision, 12), round(variance**0.5, 12)


def two_means(answers: Answers, means: Mapping[str, Any]) -> list[TwoMeans]:
    """The means over all rows of `means.json` that counts answer as well.

    Those of columns in which absent cells count as numbers are left out, and those by public weights: the two are of
    different people then.

    Args:
        answers: of the release.
        means: `means.json`.

    Cost: none.
    """
    found, schema = [], answers.evidence.strata.schema
    for name, estimates in means["outcomes"].items():
        ours = [each for estimator, each in estimates.items() if estimator != WEIGHED]
        if name not in schema.names or not _same_people(schema[name]) or not ours:
            continue
        own = next((each for each in ours if "strata" in each), ours[0])
        population = own["target"] == "population"
        counted, shared = _counted(answers, name, population), _sampling(answers, name, population)
        ends = schema[name].mean_bounds
        error = _error(own["value"], own["lower"], own["upper"], own["level"], ends)
        if not population:  # its interval is of the rows that were measured
            error = hypot(error, shared**0.5)
        private = own["value"], error
        if own.get("sigma", {}).get("too_small"):  # it is off by more than its interval says
            private = own["value"], inf
        found.append(TwoMeans(name, *joined([private, counted], shared), *private, *counted, schema[name].bounds))
    return found


def means_frame(means: Iterable[TwoMeans], level: float) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.means`."""
    lines = [
        (each.column, each.estimate, *each.interval(level), each.standard_error, each.private,
         each.private_error, each.counted, each.counted_error, each.better)
        for each in means
    ]  # fmt: skip
    names = ["column", *NUMBERS, "private", "private_error", "counted", "counted_error", "better"]
    return pd.DataFrame(lines, columns=names)


def _same_people(column: Column) -> bool:
    """Whether counts have a mean of the people who have a value, in its unit: absent cells are no numbers, nor are bins
    numbered."""
    numbered = column.numeric and column.release == "index"
    return (
        has_numbers(column)
        and not numbered
        and column.missing in (None, OWN_CATEGORY, *(raw for raw, _ in column.codes))
    )


def _sampling(answers: Answers, name: str, population: bool) -> float:
    """The variance that sampling gives a mean over all rows: of the people, or of the rows that were not held out."""
    if not population and not answers.evidence.held_out:
        return 0.0
    apart, together = (
        answers.estimate("mean", name, population=each, weighted=False).iloc[0] for each in (False, True)
    )
    people = together["standard_error"] ** 2 - apart["standard_error"] ** 2  # beyond what is held out
    part = 1.0 if population else answers.evidence.held_out
    return float(max(people, 0.0) * part / (1 - answers.evidence.held_out))


def _counted(answers: Answers, name: str, population: bool) -> tuple[float, float]:
    """The mean by counts and its standard error; infinite where no count says."""
    try:
        found = answers.answer("mean", name, population=population, weighted=False)
    except InputError:
        return nan, inf
    (value, lower, upper), (least, most) = found.numbers[0, :3].tolist(), found.ends[0].tolist()
    error = _error(value, lower, upper, _LEVEL, (least, most))
    return value, error if found.basis[0] == MEASURED else inf


def _error(value: float, lower: float, upper: float, level: float, ends: tuple[float, float]) -> float:
    """A standard error by the longer arm of an interval, of those that do not reach where a mean must lie; infinite if
    both do.

    >>> round(_error(40, 20, 99, 0.95, (0, 99)), 1), _error(40, 0, 99, 0.95, (0, 99))
    (10.2, inf)
    """
    near = _AT_END * (ends[1] - ends[0])
    both = (value - lower, lower > ends[0] + near), (upper - value, upper < ends[1] - near)
    arms = [arm for arm, says in both if says]
    return float(max(arms) / scipy.special.ndtri((1 + level) / 2)) if arms else inf
