"""Groups of values and their weights, as the stratified estimators take them: checked once, in one place.

>>> strata = read_groups({"a": [1, 2], "b": []}, {"a": 0.75, "b": 0.25})
>>> strata.weights
{'a': 0.75, 'b': 0.25}
>>> read_groups([[1, 2], [3]], [0.5, 0.4])
Traceback (most recent call last):
ValueError: the weights sum to 0.9, not to 1; make them sum to 1
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.weights import PublicWeights

Groups = Mapping[Hashable, npt.ArrayLike] | Sequence[npt.ArrayLike]
Weights = PublicWeights | Mapping[Hashable, float] | Sequence[float]

SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class WeightedGroups:
    """Disjoint groups of values with their shares.

    Attributes:
        values: stratum key → its values, a 1-D float array, never written to.
        weights: stratum key → its share; the same keys in the same order; sums to 1.
        streams: stratum key → the number of its noise stream, the same in whatever order the groups are given.
    """

    values: Mapping[Hashable, Floats]
    weights: Mapping[Hashable, float]
    streams: Mapping[Hashable, int]


def read_values(values: npt.ArrayLike) -> Floats:
    """A 1-D float view (or copy) of the values. Raises ValueError on other shapes, and where a number is missing."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values must be one-dimensional, not of {array.ndim} dimensions")
    if np.isnan(array).any():
        raise ValueError("values must not hold NaN; drop or fill absent cells before estimating")
    return array


def read_groups(groups: Groups, weights: Weights | None) -> WeightedGroups:
    """Check groups and weights against each other.

    Args:
        groups: stratum key → 1-D array of values, or a sequence of such arrays (its keys are then 0, 1, …).
        weights: the share of each group: public weights, a mapping with the same keys, or a sequence as long as
            `groups`. A stratum that has a positive share but no group counts as an empty group: the declared strata are
            those of the weights, whoever is in them. None means |Gᵢ|/n, which is for sizes that are declared public.

    Raises:
        ValueError: a group without a weight, a negative or non-finite weight, a sum that is not 1 within 10⁻⁶, or values
            that are not one-dimensional or hold NaN.
    """
    arrays = {key: read_values(values) for key, values in _items(groups)}
    if not arrays:
        raise ValueError("there is no group to estimate; give at least one")
    if weights is None:
        total = sum(len(values) for values in arrays.values())
        if not total:
            raise ValueError("all groups are empty; give the weights of the groups")
        shares: dict[Hashable, float] = {key: len(values) / total for key, values in arrays.items()}
    else:
        shares = _shares(weights, arrays)
        empty = np.empty(0)
        arrays |= {key: empty for key, share in shares.items() if key not in arrays and share > 0}
    return WeightedGroups(arrays, {key: shares[key] for key in arrays}, _streams(arrays))


def equal_weights(groups: Groups) -> dict[Hashable, float]:
    """The same share for each group: for reading groups whose sizes must not be looked at yet."""
    keys = list(groups) if isinstance(groups, Mapping) else range(len(groups))
    return {key: 1 / len(keys) for key in keys}


def _items(
    entries: Mapping[Hashable, npt.ArrayLike] | Sequence[npt.ArrayLike],
) -> Iterable[tuple[Hashable, npt.ArrayLike]]:
    return entries.items() if isinstance(entries, Mapping) else enumerate(entries)


def _shares(weights: Weights, arrays: Mapping[Hashable, Floats]) -> dict[Hashable, float]:
    if isinstance(weights, PublicWeights):
        shares: dict[Hashable, float] = {key: float(share) for key, share in weights.shares.items()}
    elif isinstance(weights, Mapping):
        shares = {key: float(share) for key, share in weights.items()}
    else:
        shares = {position: float(share) for position, share in enumerate(weights)}
        if len(shares) != len(arrays):
            raise ValueError(f"{len(arrays)} groups need as many weights, not {len(shares)}")
    missing = [key for key in arrays if key not in shares]
    if missing:
        raise ValueError(
            f"the weights miss group {missing[0]!r}; give every group a weight, 0 where nobody is expected"
        )
    values = np.array(list(shares.values()))
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("the weights must be finite and must not be negative")
    total = math.fsum(shares.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"the weights sum to {total:.9g}, not to 1; make them sum to 1")
    return shares


def _streams(arrays: Mapping[Hashable, Floats]) -> dict[Hashable, int]:
    """Number the groups by their sorted keys, so that each group's noise does not depend on who stands before it."""
    try:
        ordered = sorted(arrays)  # type: ignore[type-var]
    except TypeError:  # keys of several kinds
        ordered = sorted(arrays, key=repr)
    return {key: position for position, key in enumerate(ordered)}
