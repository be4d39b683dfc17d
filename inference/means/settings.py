"""The inputs of the estimators of means: the settings of Coinpress, the groups of values and their weights."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.inference.means.clip import Clip
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Relation
from equistrata.stats.checks import number, one_of, positive, share, whole

Sizes = Literal["public", "noisy"]
Tail = Literal["adaptive", "gaussian"]
Target = Literal["rows", "population"]
GroupedValues = Mapping[Hashable, npt.ArrayLike] | Sequence[npt.ArrayLike]
GroupWeights = PublicWeights | Mapping[Hashable, float] | Sequence[float]

WEIGHT_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class CoinpressSettings:
    """The settings of Coinpress, which are declared. They must not be computed from the private rows.

    Parameters
    ----------
    lower, upper : float
        A finite interval that contains the *mean* (not the data), in the unit of the data.
    sigma : float
        A bound on the standard deviation, positive, in the unit of the data.
    steps : int, default=2
        The number of steps t, at least 1.
    beta : float, default=0.01
        The failure probability for which the clips are chosen, in (0, 1).
    sizes : {"public", "noisy"}, default="public"
        If "public", the numbers of rows are declared as public, and the relation is replace-one. If "noisy", they are
        private, and the relation is add-remove. In this case a tenth of ρ is spent on a noisy count.
    tail : {"adaptive", "gaussian"}, default="adaptive"
        The clip of the last step. If "gaussian", the clip is √(2 ln(8n/β))·σ beyond the interval, as in Algorithm 2. If
        "adaptive", the distance is Φ⁻¹(1 − 1/(2n))·σ or more, and 8 % of ρ is spent on a histogram of the tails, which
        determines the clip. In this case earlier readings are pooled, and if the size is noisy, the values are summed
        about the point with the smallest noise.
    bounds : tuple of two float, optional
        The bounds (a, b) of the data. No clip is wider than these bounds. If None, the data have no bounds.
    target : {"rows", "population"}, default="rows"
        The mean that the interval covers. If "rows", it covers the mean of the rows, and this is exact up to the bias
        of clipping. If "population", it covers the mean of the population from which the rows were drawn, if σ is
        correct. If the tail is Gaussian, the interval of a group is always for the population (Algorithm 2).
    alike : int, default=1
        The largest number of rows of a unit (a person or a household), which may be equal. These rows are sampled
        together, so their sampling variance is up to `alike` times as large as that of independent rows. It is 1 if
        each row is a unit.
    level : float, default=0.95
        The level of the interval, in (0, 1).
    """

    lower: float
    upper: float
    sigma: float
    steps: int = 2
    beta: float = 0.01
    sizes: Sizes = "public"
    tail: Tail = "adaptive"
    bounds: tuple[float, float] | None = None
    target: Target = "rows"
    alike: int = 1
    level: float = 0.95

    def __post_init__(self) -> None:
        ends = [number(f"the {end} end of the mean's interval", getattr(self, end)) for end in ("lower", "upper")]
        if not ends[0] <= ends[1]:
            raise InputError(f"the mean's interval must be ascending, not {ends}")
        checked = {"lower": ends[0], "upper": ends[1], "sigma": positive("sigma", self.sigma)}
        checked |= {"beta": share("beta", self.beta), "level": share("level", self.level)}
        checked |= {"steps": whole("steps", self.steps, 1)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.bounds is not None:
            if not (isinstance(self.bounds, Sequence) and len(self.bounds) == 2):
                raise InputError(f"bounds must be two ascending numbers, not {self.bounds!r}")
            infinite = (-math.inf, math.inf)  # an infinite end means that no bound is declared
            ends = [each if each in infinite else number("an end of the bounds", each) for each in self.bounds]
            object.__setattr__(self, "bounds", tuple(ends))
        one_of("sizes", self.sizes, get_args(Sizes))
        one_of("tail", self.tail, get_args(Tail))
        one_of("target", self.target, get_args(Target))
        if not self.limits[0] < self.limits[1]:
            raise InputError(f"bounds must be two ascending numbers, not {self.bounds}")
        whole("alike", self.alike, 1)

    @property
    def sampling(self) -> float:
        """Return an upper bound for the sampling variance that a row adds to a sum.

        The bound is σ² times the largest number of rows of a unit. The units are sampled independently. A unit of m ≤ k
        rows adds at most m²σ² ≤ k·mσ². See docs/proofs/units.md.
        """
        return self.alike * self.sigma**2

    @property
    def limits(self) -> tuple[float, float]:
        """Return the bounds of the data, which are infinite if none are declared."""
        return (-math.inf, math.inf) if self.bounds is None else self.bounds

    @property
    def middle(self) -> float:
        """Return the midpoint of the declared interval."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def relation(self) -> Relation:
        """Return replace-one if the sizes are public, and add-remove if they are private."""
        return REPLACE_ONE if self.sizes == "public" else ADD_REMOVE

    def step_beta(self, step: int) -> float:
        """Return the failure probability of a step: β/(4(t − 1)), or β/4 for the last step (Algorithm 2)."""
        return self.beta / 4 if step == self.steps else self.beta / (4 * (self.steps - 1))

    def paper_reach(self, step: int, rows: float) -> float:
        """Return the distance between the clip of a step and the interval of the mean.

        The distance is σ√(2 ln(2n/β_s)) (Algorithm 1, line 2).
        """
        return self.sigma * math.sqrt(2 * math.log(2 * rows / self.step_beta(step)))

    def clip(self, lower: float, upper: float, reach: float) -> Clip:
        """Return the interval of the mean widened by `reach`, inside of the declared bounds."""
        least, most = self.limits
        return Clip(min(max(lower - reach, least), most), max(min(upper + reach, most), least))


@dataclass(frozen=True)
class WeightedGroups:
    """Disjoint groups of values with their shares, which sum to 1.

    Attributes
    ----------
    values : mapping of hashable to ndarray
        The values of each stratum, as one-dimensional arrays of floats that are not changed.
    weights : mapping of hashable to float
        The share of each stratum.
    streams : mapping of hashable to int
        The number of the noise stream of each stratum, which does not depend on the order of the groups.
    declared : bool
        If True, the weights were given. If False, the weights are equal shares that are replaced once the sizes are
        measured.
    everyone : mapping of hashable to int
        The number of rows with or without a value in each stratum. It is private if the sizes are private.
    """

    values: Mapping[Hashable, Floats]
    weights: Mapping[Hashable, float]
    streams: Mapping[Hashable, int]
    declared: bool
    everyone: Mapping[Hashable, int]

    @property
    def present(self) -> dict[Hashable, int]:
        """Return the number of values in each stratum. It is private if the sizes are private."""
        return {key: len(values) for key, values in self.values.items()}


def read_values(values: npt.ArrayLike) -> Floats:
    """Return the values as a one-dimensional array of floats, which may be a view.

    Raise InputError if the values have another shape, contain NaN, or are not numbers.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):  # the message of NumPy contains the value of a row
        raise InputError("values must be numbers; code or drop the other values before estimating") from None
    if array.ndim != 1:
        raise InputError(f"values must be one-dimensional, not of {array.ndim} dimensions")
    if np.isnan(array).any():
        raise InputError("values must not contain NaN; drop or fill missing values before estimating")
    return array


def read_groups(
    groups: GroupedValues, weights: GroupWeights | None, absent: Mapping[Hashable, int] | None = None
) -> WeightedGroups:
    """Check groups of values and their weights. No size of a group is read.

    Parameters
    ----------
    groups : mapping or sequence of array-like
        A one-dimensional array of values for each key. If it is a sequence, the keys are 0, 1, and so on.
    weights : PublicWeights, mapping or sequence of float, or None
        The share of each group. If None, the shares depend on the sizes. If a key with a positive share has no group,
        it is an empty group.
    absent : mapping of hashable to int, optional
        The number of rows without a value in each group. The default for each group is 0.

    Returns
    -------
    WeightedGroups
        The groups and their shares.

    Raises
    ------
    InputError
        If a group has no weight, if a weight is negative or not finite, if the weights do not sum to 1 within 10⁻⁶, or
        if the values are not one-dimensional or contain NaN.

    Examples
    --------
    >>> read_groups({"a": [1, 2], "b": []}, {"a": 0.75, "b": 0.25}).weights
    {'a': 0.75, 'b': 0.25}
    >>> read_groups([[1, 2], [3]], [0.5, 0.4])
    Traceback (most recent call last):
    equistrata.errors.InputError: the weights sum to 0.9, not to 1; divide them by their sum
    """
    entries = groups.items() if isinstance(groups, Mapping) else enumerate(groups)
    arrays: dict[Hashable, Floats] = {key: read_values(values) for key, values in entries}
    if not arrays:
        raise InputError("there is no group to estimate; give at least one")
    shares = dict.fromkeys(arrays, 1 / len(arrays)) if weights is None else _shares(weights, arrays)
    arrays |= {key: np.empty(0) for key, share in shares.items() if key not in arrays and share > 0}
    everyone = {key: len(values) + whole("absent", (absent or {}).get(key, 0), 0) for key, values in arrays.items()}
    return WeightedGroups(arrays, {key: shares[key] for key in arrays}, _streams(arrays), weights is not None, everyone)


def _shares(weights: GroupWeights, arrays: Mapping[Hashable, Floats]) -> dict[Hashable, float]:
    given: Any = weights.shares if isinstance(weights, PublicWeights) else weights
    if not isinstance(given, Mapping) and len(given) != len(arrays):
        raise InputError(f"{len(arrays)} groups need {len(arrays)} weights, not {len(given)}; give one for each group")
    entries = given.items() if isinstance(given, Mapping) else enumerate(given)
    shares: dict[Hashable, float] = {key: float(share) for key, share in entries}
    missing = [key for key in arrays if key not in shares]
    if missing:
        raise InputError(f"group {missing[0]!r} has no weight; give every group a weight, which is 0 if it has no rows")
    values = np.array(list(shares.values()))
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("the weights must be finite and must not be negative")
    total = math.fsum(shares.values())
    if abs(total - 1) > WEIGHT_SUM_TOLERANCE:
        raise InputError(f"the weights sum to {total:.9g}, not to 1; divide them by their sum")
    return shares


def _streams(arrays: Mapping[Hashable, Floats]) -> dict[Hashable, int]:
    """Number the groups by their sorted keys, so that the noise does not depend on their order."""
    keys: list[Any] = list(arrays)
    try:
        keys.sort()
    except TypeError:  # the keys have different types
        keys = sorted(arrays, key=repr)
    return {key: position for position, key in enumerate(keys)}
