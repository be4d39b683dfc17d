"""Raking of models to known means.

A model is tilted until its means are within given intervals. For example, a release can contain a differentially
private mean of a column that was measured separately. This mean is more precise than the mean of the rows, because the
tail of the rows is affected by the noise of its bins. Both are published, so their reconciliation is post-processing
and has no privacy cost.

A tilt multiplies probabilities by exp(λ·h(value)), with one λ per stratum. Among all such tilts, the model changes as
little as possible in relative entropy, as in raking [1]_ [2]_. The function h is the inverse hyperbolic sine, and it is
larger in regions with few rows. The noise is equal in all bins, so the tails are the least precise part. Far from the
median, the tilt is a power of the value. An exponential tilt of a heavy tail would instead put all of the missing mass
at the upper bound. Codes that are not bins keep their probability, and impossible combinations keep probability 0.

References
----------
.. [1] Deming and Stephan (1940).
.. [2] Csiszár (1975), I-divergence geometry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.strata import Key
from equistrata.synth.models.base import Tilting
from equistrata.synth.strata.model import StratifiedModel

# The fractions of an interval that are used. They are below 1 because counts are whole numbers. The fraction for all
# rows is smaller because a mean over all rows is more precise than that of a model.
ALL_ROWS_PART, STRATUM_PART = 0.5, 0.8
RAREST = 0.01  # see `_shape`
_COLUMN_PASSES = 2  # the number of passes over columns, because a tilt of one column changes related columns
_PASSES = 50  # the maximum number of passes over the strata and all rows, which seldom disagree
_STEEPEST = 16.0  # the maximum absolute value of λ
_LOWEST = -1e300  # the minimum of an exponent, because a stratum may have no numbers
_HALVINGS = 60
_NEAR = 1e-9  # the tolerance, relative to the length of an interval


@dataclass(frozen=True)
class KnownMean:
    """A known mean of a numeric column with its interval.

    Parameters
    ----------
    column : str
        The column.
    stratum : tuple or None
        The stratum. If None, the mean is over all rows.
    value : float
        The known mean.
    lower, upper : float
        The bounds of the interval.
    """

    column: str
    stratum: Key | None
    value: float
    lower: float
    upper: float

    @property
    def ends(self) -> tuple[float, float]:
        """The interval in which the mean of the rows should be.

        It is a fixed part of the known interval.
        """
        part = ALL_ROWS_PART if self.stratum is None else STRATUM_PART
        return self.value - part * (self.value - self.lower), self.value + part * (self.upper - self.value)


def raked(model: StratifiedModel, means: Sequence[KnownMean]) -> tuple[StratifiedModel, set[tuple[str, Key]]]:
    """Tilt a model so that its means are within the given intervals.

    The means are over the rows that have a number. If the known means are published, the result is post-processing and
    has no privacy cost.

    Parameters
    ----------
    model : StratifiedModel
        The model. The model of each stratum must be a `Tilting`.
    means : sequence of KnownMean
        The known means of numeric columns that do not define the strata. There is at most one mean over all rows per
        column.

    Returns
    -------
    model : StratifiedModel
        The tilted model. If the intervals contradict each other, the intervals over all rows are satisfied.
    moved : set of (str, tuple)
        The columns and strata that were tilted.
    """
    models, moved = dict(model.models), set[tuple[str, Key]]()
    columns = list(dict.fromkeys(each.column for each in means))
    for _ in range(_COLUMN_PASSES):
        for name in columns:
            own = [each for each in means if each.column == name]
            for key, weights in _tilts(replace(model, models=models), name, own).items():
                models[key], _ = cast(Tilting, models[key]).tilted({name: weights})
                moved.add((name, key))
        if not moved:
            break
    return replace(model, models=models), moved


def _tilts(model: StratifiedModel, name: str, means: Sequence[KnownMean]) -> dict[Key, Floats]:
    """Return the weights of the codes of a column in each stratum that must be tilted."""
    column, keys = model.strata.schema[name], list(model.models)
    numbers, size = drawn_numbers(column), column.size
    marginals = [np.maximum(model.models[key].marginal((name,)), 0.0) for key in keys]
    laws, rows = np.array([each[: column.bins] for each in marginals]), np.zeros(len(keys))
    for place, (key, law, whole) in enumerate(zip(keys, laws, marginals, strict=True)):
        rows[place] = model.weights.shares[key] * law.sum() / max(float(whole.sum()), 1e-300)
    sums = laws.sum(1, keepdims=True)
    laws = np.divide(laws, sums, out=np.zeros_like(laws), where=sums > 0)
    if not rows.sum() > 0:
        return {}
    shape = _shape(numbers, rows @ laws)
    ends = {each.stratum: each.ends for each in means}
    within = {place: ends[key] for place, key in enumerate(keys) if key in ends}
    slopes = _Column(laws, rows / max(float(rows.sum()), 1e-300), numbers, shape).slopes(within, ends.get(None))
    return {
        key: _weights(law, slope * shape, size)
        for key, law, slope in zip(keys, laws, slopes.tolist(), strict=True)
        if slope and law.sum() > 0
    }


def _weights(law: Floats, exponent: Floats, size: int) -> Floats:
    """Return the weight of each code, which is at most 1.

    Codes that are not bins get the mean weight of the bins, so that they keep their probability.
    """
    weights = np.exp(np.minimum(exponent - exponent[law > 0].max(), 0.0))
    return np.append(weights, np.full(size - len(law), float(law @ weights)))


def _shape(numbers: Floats, law: Floats) -> Floats:
    """Compute the value of h for each number.

    This is the inverse hyperbolic sine of the distance from the median, where the unit is half of the interquartile
    range. It is divided by the fraction of the rows that are at least as far from the median, multiplied by 2. The
    divisor is at least `RAREST`. Therefore, h is larger for values with few rows, which are the least precise.
    """
    upward = np.cumsum(law) / law.sum()
    quarters = np.interp([0.25, 0.5, 0.75], upward, numbers)
    spread = (quarters[2] - quarters[0]) / 2
    if not spread > 0:  # most rows have the same number
        spread = float(law @ np.abs(numbers - quarters[1])) or 1.0
    beyond = np.minimum(upward, 1 - upward + law / law.sum())
    return np.asarray(np.arcsinh((numbers - quarters[1]) / spread) / np.maximum(2 * beyond, RAREST))


@dataclass(frozen=True, eq=False)
class _Column:
    """The distributions of the bins of a column in each stratum.

    Parameters
    ----------
    laws : ndarray of shape (strata, bins)
        The distribution of each stratum.
    parts : ndarray of shape (strata,)
        The fraction of the rows in each stratum.
    numbers : ndarray of shape (bins,)
        The number that represents each bin.
    shape : ndarray of shape (bins,)
        The value of h of each bin.
    """

    laws: Floats
    parts: Floats
    numbers: Floats
    shape: Floats

    def slopes(self, within: Mapping[int, tuple[float, float]], over_all: tuple[float, float] | None) -> Floats:
        """Compute the value of λ for each stratum, so that the means are within the intervals.

        In each pass, the mean over all rows is adjusted after the means of the strata.
        """
        found = np.zeros(len(self.laws))
        for _ in range(_PASSES):
            before = found.copy()
            for place, ends in within.items():
                found[place] += self._step([place], found, ends)
            if over_all is not None:
                found += self._step(range(len(found)), found, over_all)
            if np.array_equal(before, found):
                break
        return found

    def _step(self, places: Sequence[int], slopes: Floats, ends: tuple[float, float]) -> float:
        """Compute the change of λ for some strata, so that their mean is in the interval or close to it."""
        laws, parts, own = self.laws[places], self.parts[places], slopes[places]
        near, mean = _NEAR * (ends[1] - ends[0]), self._mean(laws, parts, own)
        if not parts.sum() > 0 or ends[0] - near <= mean <= ends[1] + near:
            return 0.0
        wanted = ends[0] if mean < ends[0] else ends[1]
        low, high = -_STEEPEST, _STEEPEST
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._mean(laws, parts, own + middle) < wanted else (low, middle)
        return (low + high) / 2

    def _mean(self, laws: Floats, parts: Floats, slopes: Floats) -> float:
        """Compute the mean over the rows of some strata.

        The mean increases with each λ, because h increases with the number.
        """
        exponents = np.where(laws > 0, slopes[:, None] * self.shape, -np.inf)
        weights = laws * np.exp(exponents - np.maximum(exponents.max(1, keepdims=True), _LOWEST))
        sums = weights.sum(1)
        means = np.divide(weights @ self.numbers, sums, out=np.zeros_like(sums), where=sums > 0)
        return float(parts @ means / max(float(parts.sum()), 1e-300))
