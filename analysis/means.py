"""Combination of the two estimates that a release can have of the mean of a column over all rows.

One estimate was measured directly (`means.json`), and the other one is computed from the counts. Their noise is
independent, so they are combined by inverse-variance weighting. The sampling error is the same in both estimates
because they use the same rows, so it does not average out. This error exists for means of a population and for rows
that were held out. The direct mean is more accurate for columns with a long tail, because the counts of the bins in the
tail consist mostly of noise. Counts can be more accurate for narrow columns. Means by strata are not combined, because
the means from counts are based on a model there. The model borrows from other strata, and its error is not noise.

If an interval ends at the limit of the possible means, it gives no information about the error on this side. At a small
ε, the interval can end at the bounds on both sides, which would look like a small error. Therefore, the error is
computed from the other side. If there is none, the estimate is not used.

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
WEIGHED = "pub_strat_coinpress"  # its mean over all rows weights the strata by public weights
_AT_END = 1e-6  # an interval ends at a bound if the distance is at most this share of the range
_LEVEL = 0.95  # the level of the intervals for means from counts


@dataclass(frozen=True)
class TwoMeans:
    """Two estimates of the mean of a column over all rows, and the combined estimate.

    A standard error is infinite if it is unknown.

    Attributes
    ----------
    column : str
        The name of the column.
    estimate, standard_error : float
        The combined mean and its standard error.
    private, private_error : float
        The mean in `means.json` and its standard error.
    counted, counted_error : float
        The mean computed from counts and its standard error.
    bounds : tuple of float
        The bounds of the column.
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
        """The estimate with the smaller error: "means.json", "counts", or "neither" if both errors are unknown."""
        if not isfinite(min(self.private_error, self.counted_error)):
            return NEITHER
        return PRIVATE if self.private_error <= self.counted_error else COUNTED

    def interval(self, level: float) -> tuple[float, float]:
        """Return an interval for the combined mean within the bounds of the column.

        The interval is equal to the bounds if neither of the two estimates is usable.
        """
        if not isfinite(self.standard_error):
            return self.bounds
        reach, (lower, upper) = self.standard_error * float(scipy.special.ndtri((1 + level) / 2)), self.bounds
        return max(self.estimate - reach, lower), min(self.estimate + reach, upper)


def joined(estimates: Iterable[tuple[float, float]], shared: float = 0.0) -> tuple[float, float]:
    """Combine estimates of the same number by inverse-variance weighting.

    Parameters
    ----------
    estimates : iterable of tuple of float
        The value and the standard error of each estimate. Estimates without a finite standard error are ignored.
    shared : float
        The variance of an error that all estimates have in common. The remaining errors are independent.

    Returns
    -------
    tuple of float
        The combined estimate and its standard error.

    Examples
    --------
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
    """Compute both means over all rows for the columns in `means.json` that counts can answer.

    Columns in which absent cells count as numbers are left out, and so are means that use public weights. In these
    cases, the two means refer to different people. This is post-processing, so it costs no privacy.

    Parameters
    ----------
    answers : Answers
        The answers of the release.
    means : mapping
        The content of `means.json`.

    Returns
    -------
    list of TwoMeans
        One element per column.
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
        if not population:  # its interval is about the rows that were measured
            error = hypot(error, shared**0.5)
        private = own["value"], error
        if own.get("sigma", {}).get("too_small"):  # its interval is too narrow
            private = own["value"], inf
        found.append(TwoMeans(name, *joined([private, counted], shared), *private, *counted, schema[name].bounds))
    return found


def means_frame(means: Iterable[TwoMeans], level: float) -> pd.DataFrame:
    """Return means as a data frame. See `equistrata.analysis.release.Release.means`."""
    lines = [
        (each.column, each.estimate, *each.interval(level), each.standard_error, each.private,
         each.private_error, each.counted, each.counted_error, each.better)
        for each in means
    ]  # fmt: skip
    names = ["column", *NUMBERS, "private", "private_error", "counted", "counted_error", "better"]
    return pd.DataFrame(lines, columns=names)


def _same_people(column: Column) -> bool:
    """Return True if counts provide a mean of the same people in the same unit.

    This is the case if absent cells are not numbers and the column was not released as the numbers of its bins.
    """
    numbered = column.numeric and column.release == "index"
    return (
        has_numbers(column)
        and not numbered
        and column.missing in (None, OWN_CATEGORY, *(raw for raw, _ in column.codes))
    )


def _sampling(answers: Answers, name: str, population: bool) -> float:
    """Return the sampling variance of a mean over all rows, for the population or for the rows that were held out."""
    if not population and not answers.evidence.held_out:
        return 0.0
    apart, together = (
        answers.estimate("mean", name, population=each, weighted=False).iloc[0] for each in (False, True)
    )
    people = together["standard_error"] ** 2 - apart["standard_error"] ** 2  # beyond held-out rows
    part = 1.0 if population else answers.evidence.held_out
    return float(max(people, 0.0) * part / (1 - answers.evidence.held_out))


def _counted(answers: Answers, name: str, population: bool) -> tuple[float, float]:
    """Return the mean computed from counts and its standard error, which is infinite if the mean was not measured."""
    try:
        found = answers.answer("mean", name, population=population, weighted=False)
    except InputError:
        return nan, inf
    (value, lower, upper), (least, most) = found.numbers[0, :3].tolist(), found.ends[0].tolist()
    error = _error(value, lower, upper, _LEVEL, (least, most))
    return value, error if found.basis[0] == MEASURED else inf


def _error(value: float, lower: float, upper: float, level: float, ends: tuple[float, float]) -> float:
    """Compute a standard error from the longer arm of an interval.

    Arms that reach a limit of the possible means are ignored. The error is infinite if both arms reach a limit.

    >>> round(_error(40, 20, 99, 0.95, (0, 99)), 1), _error(40, 0, 99, 0.95, (0, 99))
    (10.2, inf)
    """
    near = _AT_END * (ends[1] - ends[0])
    both = (value - lower, lower > ends[0] + near), (upper - value, upper < ends[1] - near)
    arms = [arm for arm, says in both if says]
    return float(max(arms) / scipy.special.ndtri((1 + level) / 2)) if arms else inf
