"""Groups of values and their weights, checked once for every stratified estimator.

>>> strata = read_groups({"a": [1, 2], "b": []}, {"a": 0.75, "b": 0.25})
>>> strata.weights
{'a': 0.75, 'b': 0.25}
>>> read_groups([[1, 2], [3]], [0.5, 0.4])
Traceback (most recent call last):
equistrata.errors.InputError: the weights sum to 0.9, not to 1; make them sum to 1
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError

GroupedValues = Mapping[Hashable, npt.ArrayLike] | Sequence[npt.ArrayLike]
GroupWeights = PublicWeights | Mapping[Hashable, float] | Sequence[float]

WEIGHT_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class WeightedGroups:
    """Disjoint groups of values with their shares, which sum to 1.

    Attributes:
        values, weights: stratum key → its values, a 1-D float array, never written to; its share.
        streams: stratum key → the number of its noise stream, which does not depend on the order of the groups.
        declared: whether the weights were given. If not, they are equal shares that stand in until sizes are paid for.
    """

    values: Mapping[Hashable, Floats]
    weights: Mapping[Hashable, float]
    streams: Mapping[Hashable, int]
    declared: bool


def read_values(values: npt.ArrayLike) -> Floats:
    """A 1-D float view (or copy) of the values. Raises InputError on other shapes and on NaN."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"values must be one-dimensional, not of {array.ndim} dimensions")
    if np.isnan(array).any():
        raise InputError("values must not hold NaN; drop or fill absent cells before estimating")
    return array


def read_groups(groups: GroupedValues, weights: GroupWeights | None) -> WeightedGroups:
    """Check groups and weights against each other. No size is read.

    Args:
        groups: stratum key → 1-D array of values, or a sequence of such arrays (its keys are then 0, 1, …).
        weights: the share of each group: public weights, a mapping or a sequence; None for shares of sizes. A positive
            share without a group is an empty group.

    Raises:
        InputError: a group without a weight, a negative or non-finite weight, a sum that is not 1 within 10⁻⁶, or
            values that are not one-dimensional or hold NaN.
    """
    entries = groups.items() if isinstance(groups, Mapping) else enumerate(groups)
    arrays: dict[Hashable, Floats] = {key: read_values(values) for key, values in entries}
    if not arrays:
        raise InputError("there is no group to estimate; give at least one")
    shares = dict.fromkeys(arrays, 1 / len(arrays)) if weights is None else _shares(weights, arrays)
    arrays |= {key: np.empty(0) for key, share in shares.items() if key not in arrays and share > 0}
    return WeightedGroups(arrays, {key: shares[key] for key in arrays}, _streams(arrays), weights is not None)


def _shares(weights: GroupWeights, arrays: Mapping[Hashable, Floats]) -> dict[Hashable, float]:
    given: Any = weights.shares if isinstance(weights, PublicWeights) else weights
    if not isinstance(given, Mapping) and len(given) != len(arrays):
        raise InputError(f"{len(arrays)} groups need as many weights, not {len(given)}")
    entries = given.items() if isinstance(given, Mapping) else enumerate(given)
    shares: dict[Hashable, float] = {key: float(share) for key, share in entries}
    missing = [key for key in arrays if key not in shares]
    if missing:
        raise InputError(f"the weights miss group {missing[0]!r}; give every group a weight, 0 if it has no row")
    values = np.array(list(shares.values()))
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("the weights must be finite and must not be negative")
    total = math.fsum(shares.values())
    if abs(total - 1) > WEIGHT_SUM_TOLERANCE:
        raise InputError(f"the weights sum to {total:.9g}, not to 1; make them sum to 1")
    return shares


def _streams(arrays: Mapping[Hashable, Floats]) -> dict[Hashable, int]:
    """Number the groups by their sorted keys, so that a group's noise does not depend on the order of the others."""
    try:
        ordered = sorted(arrays)  # type: ignore[type-var]
    except TypeError:  # keys of several kinds
        ordered = sorted(arrays, key=repr)
    return {key: position for position, key in enumerate(ordered)}
