"""A private estimate, with its value, its interval and its privacy cost.

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
    """An estimate and its interval, in the unit of the data.

    Attributes
    ----------
    value : float
        The estimate.
    lower, upper : float
        The ends of the interval.

    Raises
    ------
    InputError
        If the interval is not finite or does not contain the value.
    """

    value: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.value <= self.upper):
            raise InputError("an estimate must lie in its interval, and the interval must be finite")

    @property
    def half_width(self) -> float:
        """Return half of the length of the interval."""
        return (self.upper - self.lower) / 2

    def uninformative(self, lower: float, upper: float) -> bool:
        """Return True if the interval is not informative because of its width.

        This is the case if, without clipping, it would be at least as wide as the declared interval [lower, upper]. The
        interval of an estimate is clipped to the declared interval. Therefore the function compares twice the distance
        between the value and the farther end with the length of the declared interval.

        >>> Interval(60.0, 0.0, 99.0).uninformative(0, 99), Interval(5.0, 0.0, 20.0).uninformative(0, 99)
        (True, False)
        """
        return lower < upper and 2 * max(self.value - self.lower, self.upper - self.value) >= upper - lower


@dataclass(frozen=True)
class PrivateInterval(Interval):
    """An estimate with its privacy cost. All fields may be published at that cost.

    The coverage of the interval depends on the estimator.

    Attributes
    ----------
    rho : Rho
        The cost of all outputs together, in zCDP.
    relation : Relation
        The neighbouring relation. If it is "replace-one within a stratum", the sizes of the strata are public, and a
        row that moves to another stratum is not covered.
    variance : float
        The variance of the value about the population mean, in squared units of the data. It includes sampling and
        noise. It is infinite if there was no information.
    bias : float
        The root mean square of the bias of clipping, in the unit of the data. The interval allows for this bias.
    clip : Clip
        The clip of the rows and its expected effect. For strata, it is the joint clip.
    epsilon : float or None
        The cost in pure ε-DP, if the mechanism has one. In this case rho is ε²/2.
    entries : tuple of (str, Rho)
        The charges in order, which add up to rho. Empty if only the strata are charged.
    private : bool
        If True, the noise source is suitable for real releases.
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
    """A single private number.

    Attributes
    ----------
    rows : float
        The number of rows, which is declared as public or is a noisy count.
    raw : float or None
        The measured value before it is clipped to its interval. None if there was no information. The mean of its noise
        is zero, so it is used for sums over strata.
    sums : NoisySums
        The sums from which `raw` and the interval are computed. The value `raw` is `centre` plus a noisy sum divided by
        `rows`.
    """

    rows: float = 0.0
    raw: float | None = None
    sums: NoisySums = NOTHING

    @property
    def centre(self) -> float:
        """Return the point about which the values were summed, in the unit of the data."""
        return self.sums.centre

    @property
    def sum_deviation(self) -> float:
        """Return the standard deviation of the noise of the sum, in the unit of the data."""
        return math.sqrt(self.sums.spread.of_x)

    @property
    def count_deviation(self) -> float:
        """Return the standard deviation of the noise of `rows`."""
        return math.sqrt(self.sums.spread.of_n)


@dataclass(frozen=True, kw_only=True)
class StratifiedEstimate(PrivateInterval):
    """An estimate Σ ω_i μ_i of the population mean from disjoint strata, with the estimates of the strata.

    Attributes
    ----------
    strata : mapping of hashable to Estimate
        The estimate of each stratum. The rho of a stratum is the same cost and not an additional one.
    weights : mapping of hashable to float
        The share ω of each stratum. The shares sum to one.

    Raises
    ------
    InputError
        If the interval is not valid (see `Interval`), or if the strata and the weights have different keys.
    """

    strata: Mapping[Hashable, Estimate]
    weights: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strata.keys() != self.weights.keys():
            raise InputError("a stratified estimate needs one weight for every stratum and no other")
