"""Rows that agree with means that are known: a model is tilted until its means are within given intervals.

A release may hold a private mean of a column, bought for itself and more precise than that of the rows: their tail
is seen through the noise of its bins. Both are published, so to let the rows agree costs nothing (post-processing).

The model moves as little as it must in relative entropy among tilts by exp(λ·h(value)), one λ for each stratum, as in
raking (Deming and Stephan, 1940; Csiszár, "I-divergence geometry", 1975). h is the inverse hyperbolic sine, larger
where few rows are: noise is the same in each bin, so tails are known least. Far out a tilt is by a power of the value,
since an exponential tilt of a heavy tail puts all that is missing at the upper bound. Codes beside the bins keep their
probability, and impossible combinations have none.
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

# How far from the value an interval is used: rows are whole, and a mean over all rows is more precise than a model's.
ALL_ROWS_PART, STRATUM_PART = 0.5, 0.8
RAREST = 0.01  # see `_shape` (docs/experiments/coarsening.md)
_COLUMN_PASSES = 2  # a tilt of one column moves those it is related to
_PASSES = 50  # over strata and all rows, which seldom disagree
_STEEPEST = 16.0  # of λ
_LOWEST = -1e300  # of an exponent: a stratum may have no number at all
_HALVINGS = 60
_NEAR = 1e-9  # of an interval's length


@dataclass(frozen=True)
class KnownMean:
    """The mean of a numeric column in a stratum, or over all rows (`stratum` is None): a value and its interval."""

    column: str
    stratum: Key | None
    value: float
    lower: float
    upper: float

    @property
    def ends(self) -> tuple[float, float]:
        """Between which numbers the rows' mean is to be."""
        part = ALL_ROWS_PART if self.stratum is None else STRATUM_PART
        return self.value - part * (self.value - self.lower), self.value + part * (self.upper - self.value)


def raked(model: StratifiedModel, means: Sequence[KnownMean]) -> tuple[StratifiedModel, set[tuple[str, Key]]]:
    """The model with means within the intervals, over the rows that have a number; and what of it was moved.

    Post-processing: no cost, if the means are published.

    Args:
        model: each stratum's is a `Tilting`.
        means: of numeric columns that define no stratum; one over all rows at most of each.

    Returns:
        The model, and the columns and strata that were tilted. Where intervals contradict each other, those over
        all rows hold.
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
    """The weights of a column's codes, from 0 to 1, in each stratum that has to move."""
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
    """Of each code, at most 1. Those beside the bins have that of a row in the bins: they keep their probability."""
    weights = np.exp(np.minimum(exponent - exponent[law > 0].max(), 0.0))
    return np.append(weights, np.full(size - len(law), float(law @ weights)))


def _shape(numbers: Floats, law: Floats) -> Floats:
    """h of each number: the inverse hyperbolic sine of its distance from the median, in halves of the middle half, over
    how many rows are as far out, at least RAREST of half of them: what few rows have is known least."""
    upward = np.cumsum(law) / law.sum()
    quarters = np.interp([0.25, 0.5, 0.75], upward, numbers)
    spread = (quarters[2] - quarters[0]) / 2
    if not spread > 0:  # most rows have one number
        spread = float(law @ np.abs(numbers - quarters[1])) or 1.0
    beyond = np.minimum(upward, 1 - upward + law / law.sum())
    return np.asarray(np.arcsinh((numbers - quarters[1]) / spread) / np.maximum(2 * beyond, RAREST))


@dataclass(frozen=True, eq=False)
class _Column:
    """The laws of one column's bins, shape (strata, bins), each stratum's part of the rows, the bins' numbers and h."""

    laws: Floats
    parts: Floats
    numbers: Floats
    shape: Floats

    def slopes(self, within: Mapping[int, tuple[float, float]], over_all: tuple[float, float] | None) -> Floats:
        """λ of each stratum, so that means are between these ends: all rows' once more after the strata's."""
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
        """What to add to the λ of some strata, so that their rows' mean is between the ends, or as near as it gets."""
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
        """The mean over the rows of these strata. It rises with each λ, since h rises with the number."""
        exponents = np.where(laws > 0, slopes[:, None] * self.shape, -np.inf)
        weights = laws * np.exp(exponents - np.maximum(exponents.max(1, keepdims=True), _LOWEST))
        sums = weights.sum(1)
        means = np.divide(weights @ self.numbers, sums, out=np.zeros_like(sums), where=sums > 0)
        return float(parts @ means / max(float(parts.sum()), 1e-300))
