"""The means that a release holds twice: bought for themselves (`means.json`), and as its counts have them; and joined.

Their noise was drawn apart, so they are joined by inverse variance. Of a long tail a private mean knows more, since
counts of its bins are noise; of a narrow column counts may.

>>> joined([100.0, 110.0], [3.0, 4.0])
(103.6, 2.4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from equistrata.analysis.answers import Answers
from equistrata.analysis.questions import has_numbers
from equistrata.data.column import OWN_CATEGORY
from equistrata.data.schema import Column
from equistrata.data.strata import Key, Strata
from equistrata.errors import InputError

COLUMNS = (
    "column", "stratum", "estimate", "lower", "upper", "standard_error",
    "private", "private_error", "counted", "counted_error", "better",
)  # fmt: skip
PRIVATE, COUNTED = "means.json", "counts"
_LEVEL = 0.95  # of the intervals that say how far off counts may be


def joined(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Independent estimates of one number by inverse variance, and the standard error; those without one are left out.

    NaN if there is none.
    """
    pairs = [(value, error) for value, error in zip(values, errors, strict=True) if np.isfinite(value) and error > 0]
    precision = sum(error**-2 for _, error in pairs if np.isfinite(error))
    if not precision:
        return np.nan, np.nan
    value = sum(value / error**2 for value, error in pairs if np.isfinite(error)) / precision
    return round(float(value), 12), round(float(precision**-0.5), 12)


def both_means(answers: Answers, means: Mapping[str, Any], level: float) -> pd.DataFrame:
    """A row for each mean of `means.json` that counts answer as well: see `Release.means`.

    Args:
        answers: of the release.
        means: `means.json`.
        level: of the intervals.
    """
    strata = answers.evidence.strata
    lines = [
        line
        for name, estimates in means["outcomes"].items()
        if name in strata.schema.names and _same_people(strata.schema[name])
        for line in _lines(answers, strata, name, _chosen(estimates), level, means)
    ]
    return pd.DataFrame(lines, columns=[*COLUMNS])


def _chosen(estimates: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a column's estimates that by strata, if there is one."""
    return next((each for each in estimates.values() if "strata" in each), next(iter(estimates.values())))


def _same_people(column: Column) -> bool:
    """Whether counts have a mean of the people who have a value: absent cells are no numbers."""
    return has_numbers(column) and column.missing in (None, OWN_CATEGORY, *(raw for raw, _ in column.codes))


def _lines(
    answers: Answers, strata: Strata, name: str, own: Mapping[str, Any], level: float, means: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """The mean over all rows, and those of the strata that there are."""
    population = own.get("target", means.get("target")) == "population"
    labels: dict[str, Key] = {strata.label(key): key for key in strata.keys}
    groups = {label: own["strata"][label] for label in labels if label in own.get("strata", {})}
    trusted = not own.get("sigma", {}).get("too_small", False)
    if answers.evidence.weights is None:  # else the private mean has the strata by weights of all their rows
        found = _counted(answers, name, (), population)
        yield _line(name, "", own, found.get((), (np.nan, np.nan)), level, trusted)
    if groups:
        counted = _counted(answers, name, strata.columns, population)
        for label, each in groups.items():
            yield _line(name, label, each, counted.get(labels[label], (np.nan, np.nan)), level, trusted)


def _counted(
    answers: Answers, name: str, by: Sequence[str], population: bool
) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Group → the mean by counts and its error; empty where they do not say."""
    try:
        found = answers.estimate("mean", name, by, level=_LEVEL, population=population)
    except InputError:
        return {}
    keys = found[list(by)].itertuples(index=False, name=None) if by else [()]
    ends = found[["estimate", "lower", "upper"]].itertuples(index=False, name=None)
    return {key: (each[0], _error(*each, _LEVEL)) for key, each in zip(keys, ends, strict=True)}


def _error(value: float, lower: float, upper: float, level: float) -> float:
    """A standard error by the longer arm of an interval: of a ratio with few rows below, that says more than any."""
    return float(max(value - lower, upper - value) / norm.ppf((1 + level) / 2))


def _line(
    name: str, stratum: str, own: Mapping[str, Any], counted: tuple[float, float], level: float, trusted: bool
) -> tuple[Any, ...]:
    """Both means and the joined one. Where the private one's sigma was seen to be too small, it is off by more than its
    interval says, and counts alone are taken."""
    private = own["value"], _error(own["value"], own["lower"], own["upper"], own["level"])
    usable = private if trusted else (np.nan, np.nan)
    value, error = joined(*zip(usable, counted, strict=True))
    reach = error * float(norm.ppf((1 + level) / 2))
    better = PRIVATE if trusted and not counted[1] < private[1] else COUNTED
    return name, stratum, value, value - reach, value + reach, error, *private, *counted, better
