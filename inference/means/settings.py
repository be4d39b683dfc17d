"""What estimators of means are given: the declared settings of Coinpress, groups of values and their weights."""

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
    """What Coinpress needs to know in advance. All of it is declared; none of it may be read from the private rows.

    Attributes:
        lower, upper: a finite interval that holds the *mean* (not the data), in the unit of the data.
        sigma: a bound on the standard deviation, positive, in the unit of the data.
        steps: t ≥ 1.
        beta: the failure probability that clips are chosen for, in (0, 1).
        sizes: "public" when the numbers of rows are declared public (replace-one); "noisy" when they are private
            (add-remove): a tenth of ρ then buys a noisy count.
        tail: how the last step clips. "gaussian" is Algorithm 2: √(2 ln(8n/β))·σ beyond the interval. "adaptive" clips
            at Φ⁻¹(1 − 1/(2n))·σ or beyond, where 8 % of ρ buys a histogram of the tails, which sets the clip. It
            also pools earlier readings and, with a noisy size, sums about the point with the least noise.
        bounds: bounds (a, b) of the data; no clip goes beyond them. None where there are none.
        target: the mean that an interval covers: that of the "rows", exactly up to the bias of clipping, or that of the
            "population" they were drawn from, if σ is right. Of the Gaussian tail: the population's (Algorithm 2).
        alike: rows of a unit (a person, a household), which may be alike: sampled with it, they have up to so many
            times the sampling variance of as many rows that are drawn one by one. 1 where each row is a unit.
        level: of the interval, in (0, 1).
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
            infinite = (-math.inf, math.inf)  # there none is declared
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
        """The most that a row adds to the sampling variance of a sum: σ², times the rows of a unit if all are alike.

        Units are sampled independently. A unit of m ≤ k rows adds at most m²σ² ≤ k·mσ². See docs/proofs/units.md.
        """
        return self.alike * self.sigma**2

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds of the data, infinite where none are declared."""
        return (-math.inf, math.inf) if self.bounds is None else self.bounds

    @property
    def middle(self) -> float:
        """The midpoint of the declared interval."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def relation(self) -> Relation:
        """Replace-one where sizes are public, add-remove where they are private."""
        return REPLACE_ONE if self.sizes == "public" else ADD_REMOVE

    def step_beta(self, step: int) -> float:
        """The failure probability of a step (1, …, t): β/(4(t − 1)), and β/4 for the last (Algorithm 2)."""
        return self.beta / 4 if step == self.steps else self.beta / (4 * (self.steps - 1))

    def paper_reach(self, step: int, rows: float) -> float:
        """How far beyond the mean's interval a step clips: σ√(2 ln(2n/β_s)) (Algorithm 1, line 2)."""
        return self.sigma * math.sqrt(2 * math.log(2 * rows / self.step_beta(step)))

    def clip(self, lower: float, upper: float, reach: float) -> Clip:
        """The mean's interval widened by `reach`, inside the declared bounds."""
        least, most = self.limits
        return Clip(min(max(lower - reach, least), most), max(min(upper + reach, most), least))


@dataclass(frozen=True)
class WeightedGroups:
    """Disjoint groups of values with their shares, which sum to 1.

    Attributes:
        values, weights: stratum key → its values, a 1-D float array, never written to; its share.
        streams: stratum key → the number of its noise stream, which does not depend on the order of the groups.
        declared: whether the weights were given. If not, they are equal shares that stand in until sizes are paid for.
        everyone: stratum key → its number of rows, with a value or without. Private where sizes are.
    """

    values: Mapping[Hashable, Floats]
    weights: Mapping[Hashable, float]
    streams: Mapping[Hashable, int]
    declared: bool
    everyone: Mapping[Hashable, int]

    @property
    def present(self) -> dict[Hashable, int]:
        """Stratum key → its number of values. Private where sizes are."""
        return {key: len(values) for key, values in self.values.items()}


def read_values(values: npt.ArrayLike) -> Floats:
    """A 1-D float view (or copy) of the values. Raises InputError on other shapes, on NaN, and on what is no number."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):  # NumPy's message quotes the value, which is of a row
        raise InputError("values must be numbers; code or leave out what is none before estimating") from None
    if array.ndim != 1:
        raise InputError(f"values must be one-dimensional, not of {array.ndim} dimensions")
    if np.isnan(array).any():
        raise InputError("values must not hold NaN; drop or fill absent cells before estimating")
    return array


def read_groups(
    groups: GroupedValues, weights: GroupWeights | None, absent: Mapping[Hashable, int] | None = None
) -> WeightedGroups:
    """Check groups and weights against each other. No size is read.

    Args:
        groups: stratum key → 1-D array of values, or a sequence of such arrays (its keys are then 0, 1, …).
        weights: the share of each group: public weights, a mapping or a sequence; None for shares of sizes. A positive
            share without a group is an empty group.
        absent: group → the number of its rows without a value; of a group that is not listed, none.

    Raises:
        InputError: a group without a weight, a negative or non-finite weight, a sum that is not 1 within 10⁻⁶, or
            values that are not one-dimensional or hold NaN.

    >>> read_groups({"a": [1, 2], "b": []}, {"a": 0.75, "b": 0.25}).weights
    {'a': 0.75, 'b': 0.25}
    >>> read_groups([[1, 2], [3]], [0.5, 0.4])
    Traceback (most recent call last):
    equistrata.errors.InputError: the weights sum to 0.9, not to 1; make them sum to 1
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
    keys: list[Any] = list(arrays)
    try:
        keys.sort()
    except TypeError:  # keys of several kinds
        keys = sorted(arrays, key=repr)
    return {key: position for position, key in enumerate(keys)}
