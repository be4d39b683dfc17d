"""What a private estimate is: a value, its interval, and what it cost.

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

from equistrata.privacy.budget import REPLACE_ONE, Relation, Rho

__all__ = ["REPLACE_ONE", "Estimate", "StratifiedEstimate"]


@dataclass(frozen=True)
class Estimate:
    """One private number; all of its fields may be published at the stated cost.

    Attributes:
        value: the estimate, in the unit of the data.
        lower, upper: the ends of its interval, lower ≤ value ≤ upper; what it covers is said by the function that made it.
        rho: what it cost, in zCDP.
        relation: the neighbouring relation under which it cost that.
        variance: the variance of the value about the population mean (sampling and noise), in squared units of the data;
            infinite where there was no information.
        bias: the part of the interval's half-width, in the unit of the data, that is allowed for clipping.
        rows: the number of rows: declared public, or the noisy count that was paid for.
        raw: the measured value before it was moved into its interval; None where there was no information. Its noise has
            mean zero, which that of `value` has not when the interval cuts it: combine these.
        centre, sum_deviation, count_deviation: `raw` is `centre` plus a noisy sum over `rows`; the standard deviations of
            the noise in that sum (unit of the data) and in `rows`. For combining strata by their own sizes.
        epsilon: the pure ε, for a mechanism that has one (rho is then ε²/2).
        entries: what was spent on what, in order; the amounts add up to rho.
        private: whether the noise came from a source fit for real releases.

    Raises:
        ValueError: a value outside its interval, or an interval that is not finite.
    """

    value: float
    lower: float
    upper: float
    rho: Rho
    relation: Relation
    variance: float = math.inf
    bias: float = 0.0
    rows: float = 0.0
    raw: float | None = None
    centre: float = 0.0
    sum_deviation: float = math.inf
    count_deviation: float = 0.0
    epsilon: float | None = None
    entries: tuple[tuple[str, Rho], ...] = field(default=(), repr=False)
    private: bool = False

    def __post_init__(self) -> None:
        _check_interval(self.value, self.lower, self.upper)

    @property
    def half_width(self) -> float:
        """Half the length of the interval, in the unit of the data."""
        return (self.upper - self.lower) / 2


@dataclass(frozen=True)
class StratifiedEstimate:
    """A population mean put together from strata, Σ ωᵢ μ̂ᵢ, with the strata's own estimates.

    Attributes:
        value, lower, upper: the population estimate and its interval, in the unit of the data.
        rho: what the whole cost: one ρ for all strata, which are disjoint parts of the rows (parallel composition).
        relation: the neighbouring relation. "replace-one within a stratum" takes the strata's sizes to be public, and covers no row
            that changes its stratum, since that changes them.
        strata: stratum key → its estimate; also at ρ, not on top of it.
        weights: stratum key → its share ω; they sum to one.
        variance, bias, epsilon, entries, private: as in `Estimate`; entries are those of an estimator that spends on more than
            the strata, and empty else.

    Raises:
        ValueError: as `Estimate`, or weights and strata that do not have the same keys.
    """

    value: float
    lower: float
    upper: float
    rho: Rho
    relation: Relation
    strata: Mapping[Hashable, Estimate]
    weights: Mapping[Hashable, float]
    variance: float = math.inf
    bias: float = 0.0
    epsilon: float | None = None
    entries: tuple[tuple[str, Rho], ...] = field(default=(), repr=False)
    private: bool = False

    def __post_init__(self) -> None:
        _check_interval(self.value, self.lower, self.upper)
        if self.strata.keys() != self.weights.keys():
            raise ValueError("a stratified estimate needs one weight for every stratum and no other")

    @property
    def half_width(self) -> float:
        """Half the length of the interval, in the unit of the data."""
        return (self.upper - self.lower) / 2


def _check_interval(value: float, lower: float, upper: float) -> None:
    if not (math.isfinite(lower) and math.isfinite(upper) and lower <= value <= upper):
        raise ValueError("an estimate must lie in its interval, and the interval must be finite")
