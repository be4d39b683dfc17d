"""Planning from public numbers: the ε from which each stratum is readable, and the rows that it needs.

A plan estimates a proportion or a mean in every stratum, to a power or to a relative error. No row is read: sizes,
bounds, deviations and expected values are declared.

>>> hours = MeanQuestion(lower=1, upper=99, bounds=(1, 99), sigma=14, reference=38, relative_error=0.02)
>>> round(hours.classical_rows), round(hours.rows(epsilon=1.0)), round(hours.smallest_epsilon(2000), 2)
(1304, 1739, 0.73)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from scipy.special import ndtr, ndtri

from equistrata.errors import InputError
from equistrata.inference.counts.proportions import exact_power, power, proportion_sizing
from equistrata.inference.counts.sizing import Sizing, crossing
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, RowCount
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.inference.planning.forecast import Forecast, Found
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Relation, Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.checks import number, one_of, positive, share
from equistrata.stats.laws import NormalLaplace

Goal = Literal["power", "relative error"]
About = Literal["population", "rows"]
Status = Literal["readable", "unreadable", "too few rows"]

EXACT_POWER_ROWS = 10**8  # rows from which the normal approximation of the power is as good as the exact distribution
MOST_ROWS, MOST_RHO = 1e15, Rho(10**6)  # of a search
COARSE, PRECISION = 0.03, 1e-4  # relative, of the ρ and the rows that are found


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What is estimated in every stratum, and how well.

    Attributes:
        reference: the value expected.
        effect: the difference from it that the two-sided test is to detect, not 0; or None.
        relative_error: the half-width of the interval over the reference, positive; or None.
        alpha, beta, relation: the level of the test (or failure probability of the interval), its type II error, and
            the neighbouring relation of its ε.
        part: of the release's budget that buys this estimate, in (0, 1].
        about: a relative error about the "population" (sampling and noise) or the "rows" themselves (noise alone).
        unit_rows: the most rows k of a unit, for which ε is; all of them may be alike (docs/proofs/units.md).

    Raises InputError on a setting out of its range, and on both goals or none.
    """

    reference: float
    effect: float | None = None
    relative_error: float | None = None
    alpha: float = 0.05
    beta: float = 0.2
    part: float = 1.0
    about: About = "population"
    unit_rows: int = 1
    relation: ClassVar[Relation]

    def __post_init__(self) -> None:
        one_of("about", self.about, get_args(About))
        if self.goal == "power" and self.about == "rows":
            raise InputError("a test is about the population; ask for a relative error, or leave 'about' out")
        if not 0 < number("part", self.part) <= 1:
            raise InputError(f"part is {self.part:g}, but must be above 0 and at most 1; choose another")
        _ = self._sizing

    @property
    def goal(self) -> Goal:
        """ "power" (a difference is detected with probability 1 − beta) or "relative error"."""
        if (self.effect is None) == (self.relative_error is None):
            raise InputError("a plan needs either an effect to be seen or a relative error; give one of them")
        return "power" if self.effect is not None else "relative error"

    @property
    def classical_rows(self) -> float:
        """The rows needed without noise, not rounded; 0 where noise alone counts."""
        return self._sizing.classical_rows * self.unit_rows if self.about == "population" else 0.0

    @property
    @abstractmethod
    def _sizing(self) -> Sizing:
        """The question without noise."""

    @abstractmethod
    def rows(self, epsilon: float) -> float:
        """The rows that a stratum needs at this ε, not rounded."""

    @abstractmethod
    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        """The ε from which this many rows suffice; infinite where they would not even without noise.

        Where there are several, the nearest: below an ε `near` at which they suffice, above one at which they do not.
        """

    @abstractmethod
    def half_width(self, rows: float, epsilon: float) -> float:
        """Half the length of the interval at level 1 − alpha that this many rows give at this ε, in the data's unit."""

    def half_width_at_most(self, rows: float, epsilon: float) -> float:
        """The half-width below which it stays with confidence, where it depends on more than is declared."""
        return self.half_width(rows, epsilon)

    @abstractmethod
    def power(self, rows: float, epsilon: float) -> float:
        """Of the test, with this many rows at this ε."""

    def reached(self, rows: float, epsilon: float) -> float:
        """The power, or the relative error, that this many rows reach with confidence at this ε."""
        if self.goal == "power":
            return self.power(rows, epsilon)
        return self.half_width_at_most(rows, epsilon) / abs(self.reference)


@dataclass(frozen=True, kw_only=True)
class ProportionQuestion(Question):
    """A proportion in (0, 1) from a count with Laplace noise (`equistrata.inference.counts.noisy_counts`).

    The sizes of the strata are declared. At worst, n rows in units of k rows that are all alike tell as much as n/k
    rows, and a unit moves their share as one of these would. See `Question` for the settings.
    """

    reference: float = 0.5
    relation: ClassVar[Relation] = REPLACE_ONE

    @cached_property
    def _sizing(self) -> Sizing:
        if self.goal == "power":
            assert self.effect is not None
            return proportion_sizing(self.reference, self.effect, alpha=self.alpha, beta=self.beta)
        p = share("the reference", self.reference)
        return Sizing(p * (1 - p), positive("the relative error", self.relative_error) * p, self.alpha, 0.5)

    def rows(self, epsilon: float) -> float:
        """K·N, or where noise alone counts ln(1/α)/(ε·distance)."""
        bought = positive("epsilon", epsilon) * self.part
        units = self._sizing.rows(bought) if self.about == "population" else self._noise_rows / bought
        return units * self.unit_rows

    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        rows = positive("rows", rows) / self.unit_rows
        bought = self._sizing.smallest_epsilon(rows) if self.about == "population" else self._noise_rows / rows
        return bought / self.part

    @property
    def _noise_rows(self) -> float:
        """Rows times ε at which Laplace noise of scale 1/(rows·ε) stays within the distance with probability 1 − α."""
        return -math.log(self.alpha) / self._sizing.distance

    def half_width(self, rows: float, epsilon: float) -> float:
        bought, p, rows = epsilon * self.part, self.reference, rows / self.unit_rows
        if self.about == "rows":
            return -math.log(self.alpha) / (rows * bought)
        return NormalLaplace(math.sqrt(p * (1 - p) / rows), 1 / (rows * bought)).quantile(1 - self.alpha / 2)

    def power(self, rows: float, epsilon: float) -> float:
        assert self.effect is not None
        found = exact_power if (whole := max(round(rows / self.unit_rows), 1)) <= EXACT_POWER_ROWS else power
        p = self.reference
        return found(p + self.effect, p0=p, rows=whole, epsilon=epsilon * self.part, alpha=self.alpha)


@dataclass(frozen=True, kw_only=True)
class MeanQuestion(Question):
    """A mean by Coinpress with a noisy number of rows (`equistrata.inference.means.coinpress`), as in releases.

    Attributes:
        lower, upper, sigma, bounds: as of `Coinpress`; the reference is in [lower, upper].
        delta: δ of the release, in (0, 1).
        sizes: the numbers of rows of all strata, two or more, where they are measured at two levels
            (`Coinpress.hierarchical`, as by default); () where each is measured alone (`by_strata`).
        tail: the share of rows, in [0, 0.5), beyond the usual clip on each side, where bounds leave room: 0 for
            bell-shaped columns, about 0.01 for incomes. Such rows ask for a wider clip, with more noise.
        replaced: whether neighbouring tables have one unit in place of another, instead of one more.

    See `Question` for the other settings. A reference of 0 has no relative error. The interval and the deviation are
    those that the estimator itself reports, computed by its own code (`equistrata.inference.planning.forecast`): a half
    width in the median; goals are reached if they are with a confidence of nine in ten.
    """

    lower: float
    upper: float
    sigma: float
    bounds: tuple[float, float] | None = None
    delta: float = 1e-9
    sizes: tuple[float, ...] = ()
    tail: float = 0.0
    replaced: bool = False
    relation: ClassVar[Relation] = ADD_REMOVE  # the numbers of rows are private: a tenth of the price buys them

    def __post_init__(self) -> None:
        interval = f"[{number('lower', self.lower):g}, {number('upper', self.upper):g}]"
        if not self.lower < self.upper:
            raise InputError(f"the mean's interval is {interval}; make its ends ascend")
        if not self.lower <= number("the reference", self.reference) <= self.upper:
            raise InputError(f"the reference is {self.reference:g}, outside the mean's declared interval {interval}")
        if self.effect is not None and number("effect", self.effect) == 0:
            raise InputError("effect is 0, and no number of rows can show no difference; give a difference to be seen")
        if self.goal == "relative error" and self.reference == 0:
            raise InputError("a relative error of a mean of 0 means nothing; give an effect in the column's unit")
        if self.goal == "relative error" and self._sizing.distance >= (self.upper - self.lower) / 2:
            raise InputError(f"the mean's declared interval {interval} is as narrow without rows; ask for less error")
        share("delta", self.delta)
        if not 0 <= number("tail", self.tail) < 0.5:
            raise InputError(f"tail is {self.tail:g}, but must be a share from 0 to below 0.5; choose another")
        super().__post_init__()

    @cached_property
    def _sizing(self) -> Sizing:
        variance = positive("sigma", self.sigma) ** 2
        if self.effect is not None:
            return Sizing(variance, abs(self.effect), self.alpha, self.beta)
        distance = positive("the relative error", self.relative_error) * abs(self.reference)
        return Sizing(variance, distance, self.alpha, 0.5)

    @cached_property
    def _settings(self) -> CoinpressSettings:
        return CoinpressSettings(
            self.lower,
            self.upper,
            self.sigma,
            sizes="noisy",
            bounds=self.bounds,
            target=self.about,
            alike=self.unit_rows,
        )

    @property
    def _bought(self) -> float:
        """The part of a unit's ρ at which noise is drawn (`equistrata.data.units.unit.Unit.sum_cost`)."""
        return self.part / (self.unit_rows * (2 if self.replaced else 1)) ** 2

    def rows(self, epsilon: float) -> float:
        """See `Question.rows`; to `PRECISION`, on the side where they suffice.

        Where a histogram of tails makes fewer rows suffice than some more do: those that suffice with it.
        """
        rho = Rho.from_epsilon_delta(positive("epsilon", epsilon), self.delta) * self._bought
        if self._excess(MOST_ROWS, rho) < 0:
            raise InputError(
                f"no number of rows up to {MOST_ROWS:g} is enough; ask for less precision, or raise epsilon"
            )
        if self._excess(1.0, rho) >= 0:
            return 1.0
        bought = self._forecast.histogram_rows(rho)
        start = crossing(lambda rows: self._median_excess(rows, rho), bought, COARSE)
        start = max(start, bought) if self._excess(bought, rho) < 0 else start
        return crossing(lambda rows: self._excess(rows, rho), start, PRECISION) * (1 + PRECISION)

    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        if not positive("rows", rows) > self.classical_rows or self._median_excess(rows, MOST_RHO) < 0:
            return math.inf  # sampling error, or what a clip may lose where no histogram is bought, is too large
        price = self._price(near)
        enough = self._excess(rows, price) >= 0
        start = crossing(lambda amount: self._median_excess(rows, Rho(amount)), float(price), COARSE)
        start = start if enough else max(start, float(price))
        while self._excess(rows, Rho(2 * start)) < 0:
            start *= 2
            if start > float(MOST_RHO):
                return math.inf
        rho = crossing(lambda amount: self._excess(rows, Rho(amount)), start, PRECISION) * (1 + PRECISION)
        least = Rho(rho / self._bought).epsilon(self.delta)  # on the side where they suffice
        return min(least, near) if enough else least

    def half_width(self, rows: float, epsilon: float) -> float:
        return self._forecast.median(rows, self._price(epsilon)).half_width

    def half_width_at_most(self, rows: float, epsilon: float) -> float:
        return self._forecast.bound(rows, self._price(epsilon)).half_width

    def power(self, rows: float, epsilon: float) -> float:
        assert self.effect is not None
        rho = self._price(epsilon)
        deviation = self._deviation(rows, rho, self._forecast.bound(rows, rho).noise)
        z, seen = float(-ndtri(self.alpha / 2)), abs(self.effect) / deviation
        return float(ndtr(seen - z) + ndtr(-seen - z))

    def deviation(self, rows: float, rho: Rho) -> float:
        """The standard deviation that the estimator would report; that of the noise alone about the rows."""
        return self._deviation(rows, rho, self._forecast.median(rows, rho).noise)

    def _deviation(self, rows: float, rho: Rho, noise: float) -> float:
        least = RowCount(rows, gaussian_sigma(rho * ROW_COUNT_SHARE)).least
        return math.hypot(math.sqrt(self._settings.sampling / least) if self.about == "population" else 0.0, noise)

    def _price(self, epsilon: float) -> Rho:
        return Rho.from_epsilon_delta(epsilon, self.delta) * self._bought

    @cached_property
    def _forecast(self) -> Forecast:
        return Forecast(self._settings, self.reference, self.alpha, self.sizes, self.tail)

    def _excess(self, rows: float, rho: Rho) -> float:
        """The distance to detect less the smallest one that so many rows detect with confidence; rises in both.

        Where they do not in the median, that is enough to know: `_median_excess`.
        """
        median = self._median_excess(rows, rho)
        return median if median < 0 else self._spare(rows, rho, self._forecast.bound(rows, rho))

    def _median_excess(self, rows: float, rho: Rho) -> float:
        """The distance to detect less the smallest one that so many rows detect in the median."""
        return self._spare(rows, rho, self._forecast.median(rows, rho))

    def _spare(self, rows: float, rho: Rho, found: Found) -> float:
        if self.goal == "power":
            return self._sizing.distance - self._sizing.quantiles * self._deviation(rows, rho, found.noise)
        return self._sizing.distance - found.half_width


@dataclass(frozen=True)
class StratumPlan:
    """One stratum and its public size.

    Attributes:
        rows_needed: at the planned ε.
        smallest_epsilon: from which its rows suffice; infinite where no ε is enough.
        reached: the power, or the relative error, at the planned ε, with confidence; infinite where there is no row.
        half_width: of the interval at the planned ε, in the unit of the data, in the median; infinite where there is no
            row.
        half_width_at_most: what it stays below with confidence.
        status: "readable" at the planned ε with confidence, "unreadable" there, or "too few rows" at any ε.
    """

    label: str
    rows: float
    rows_needed: int
    smallest_epsilon: float
    reached: float
    half_width: float
    half_width_at_most: float
    status: Status


def plan_strata(asked: Question, sizes: Mapping[str, float], epsilon: float) -> tuple[StratumPlan, ...]:
    """Plan every stratum: label → public size (zero or more). Every stratum gets the whole ε: strata are disjoint.

    >>> question = ProportionQuestion(reference=0.25, effect=0.1, beta=0.1)
    >>> for part in plan_strata(question, {"large": 5000, "small": 300, "tiny": 20}, epsilon=0.1):
    ...     print(part.label, round(part.smallest_epsilon, 3), part.rows_needed, round(part.reached, 2), part.status)
    large 0.009 578 1.0 readable
    small 0.295 578 0.42 unreadable
    tiny inf 578 0.05 too few rows
    """
    needed = math.ceil(asked.rows(positive("epsilon", epsilon)))
    plans = []
    for label, size in sizes.items():
        if number(f"the size of {label}", size) < 0:
            raise InputError(f"the size of {label} is {size:g}, but a group cannot be smaller than empty; mend it")
        nothing = 0.0 if asked.goal == "power" else math.inf
        least, reached, half, most = math.inf, nothing, math.inf, math.inf
        if size:
            least, reached = asked.smallest_epsilon(size, epsilon), asked.reached(size, epsilon)
            half, most = asked.half_width(size, epsilon), asked.half_width_at_most(size, epsilon)
        status: Status = "too few rows" if math.isinf(least) else "readable" if least <= epsilon else "unreadable"
        plans.append(StratumPlan(label, size or 0.0, needed, least, reached, half, most, status))
    return tuple(plans)
