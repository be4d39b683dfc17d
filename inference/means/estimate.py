"""A private estimate: a value, its interval and its cost.

>>> from equistrata.privacy.budget import REPLACE_ONE
>>> estimate = Estimate(16.4, 16.1, 16.7, Rho(0.5), REPLACE_ONE, variance=0.02)
>>> round(estimate.half_width, 6)
0.3
>>> round(estimate.rho.epsilon(1e-6), 2)
5.22
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from equistrata.errors import InputError
from equistrata.inference.means.clip import Clip
from equistrata.inference.means.interval import NO_CLIP, NOTHING, NoisySums
from equistrata.privacy.budget import Relation, Rho


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval, in the unit of the data. InputError unless it is finite and holds the value."""

    value: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.value <= self.upper):
            raise InputError("an estimate must lie in its interval, and the interval must be finite")

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.upper - self.lower) / 2

    def uninformative(self, lower: float, upper: float) -> bool:
        """Whether it would be at least as wide as the declared interval if it were not cut to that: its longer arm has
        half of it.

        >>> Interval(60.0, 0.0, 99.0).uninformative(0, 99), Interval(5.0, 0.0, 20.0).uninformative(0, 99)
        (True, False)
        """
        return lower < upper and 2 * max(self.value - self.lower, self.upper - self.value) >= upper - lower


@dataclass(frozen=True)
class PrivateInterval(Interval):
    """An estimate with its price; all of its fields may be published at that. Coverage: as the estimator states.

    Attributes:
        rho, relation: the cost of all outputs together, in zCDP, and its neighbouring relation. "replace-one within a
            stratum" takes the strata's sizes to be public and covers no row that changes its stratum.
        variance: of the value about the population mean (sampling and noise), in squared units of the data; infinite
            where there was no information.
        bias: by clipping, in the unit of the data: the root of its expected square, which the interval allows for.
        clip: of the rows, and what it is thought to have done; of strata, jointly.
        epsilon: the pure ε, for a mechanism that has one (rho is then ε²/2).
        entries: the charges in order, (what, amount); they add up to rho. Empty where only strata are charged.
        private: whether the noise came from a source fit for real releases.
    """

    rho: Rho
    relation: Relation
    variance: float = math.inf
    bias: float = 0.0
    clip: Clip = NO_CLIP
    epsilon: float | None = None
    entries: tuple[tuple[str, Rho], ...] = field(default=(), repr=False)
    private: bool = False


@dataclass(frozen=True)
class Estimate(PrivateInterval):
    """One private number.

    Attributes:
        rows: the number of rows: declared public, or the noisy count that was paid for.
        raw: the measured value before it is moved into its interval; None where there was no information. Its noise has
            mean zero, so sums over strata use it.
        sums: what `raw` and the interval are made of: `raw` is `centre` plus a noisy sum over `rows`.
    """

    rows: float = 0.0
    raw: float | None = None
    sums: NoisySums = NOTHING

    @property
    def centre(self) -> float:
        """The point about which values were summed, in the unit of the data."""
        return self.sums.centre

    @property
    def sum_deviation(self) -> float:
        """The standard deviation of the noise of the sum, in the unit of the data."""
        return math.sqrt(self.sums.spread.of_x)

    @property
    def count_deviation(self) -> float:
        """The standard deviation of the noise of `rows`."""
        return math.sqrt(self.sums.spread.of_n)


@dataclass(frozen=True, kw_only=True)
class StratifiedEstimate(PrivateInterval):
    """A population mean combined from disjoint strata, Σ ωᵢ μ̂ᵢ, with the strata's own estimates.

    Attributes:
        strata: stratum key → its estimate; stated at the same rho, not on top of it.
        weights: stratum key → its share ω; they sum to one.

    Raises:
        InputError: as `Interval`, or weights and strata that do not have the same keys.
    """

    strata: Mapping[Hashable, Estimate]
    weights: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strata.keys() != self.weights.keys():
            raise InputError("a stratified estimate needs one weight for every stratum and no other")
