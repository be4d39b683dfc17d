"""Plans for a private mean: the number of rows and the ε at which Coinpress attains a power or a relative error.

>>> hours = MeanQuestion(lower=1, upper=99, bounds=(1, 99), sigma=14, reference=38, relative_error=0.02)
>>> round(hours.classical_rows), round(hours.rows(epsilon=1.0)), round(hours.smallest_epsilon(2000), 2)
(1304, 1736, 0.73)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import scipy

from equistrata.errors import InputError
from equistrata.inference.counts.sizing import Sizing, find_root
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, RowCount
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.inference.planning.forecast import Forecast, PredictedInterval
from equistrata.inference.planning.questions import Question
from equistrata.privacy.budget import ADD_REMOVE, Relation, Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.stats.checks import number, positive, share

MOST_ROWS, MOST_RHO = 1e15, Rho(10**6)  # the upper limits of a search
COARSE, PRECISION = 0.03, 1e-4  # the relative accuracy of the resulting ρ and number of rows


@dataclass(frozen=True, kw_only=True)
class MeanQuestion(Question):
    """A question about a mean that is estimated by Coinpress with a noisy number of rows, as in releases.

    The other settings are described in `Question`. If the reference is 0, there is no relative error. The interval and
    the deviation are those that the estimator reports, and they are computed by the code of the estimator (see
    `equistrata.inference.planning.forecast`). The half-width is the median. A goal is attained if it is attained with a
    confidence of 90 %.

    Parameters
    ----------
    lower, upper, sigma : float
        The settings of `Coinpress`. The reference is in [lower, upper].
    bounds : tuple of two float, optional
        The bounds of the data, as in `Coinpress`.
    delta : float, default=1e-9
        The δ of the release, in (0, 1).
    sizes : tuple of float
        The numbers of rows of all strata, at least two, if the means are measured at two levels. This is the default
        method of a release (`Coinpress.hierarchical`). Empty if each mean is measured separately
        (`Coinpress.by_strata`).
    tail : float, default=0.0
        The share of rows beyond the usual clip on each side that the bounds leave open, in [0, 0.5). It is 0 for
        columns with a bell-shaped distribution and about 0.01 for incomes. These rows require a wider clip with more
        noise.
    replaced : bool, default=False
        If True, one unit is replaced in a neighbouring table. If False, one unit is added.
    """

    lower: float
    upper: float
    sigma: float
    bounds: tuple[float, float] | None = None
    delta: float = 1e-9
    sizes: tuple[float, ...] = ()
    tail: float = 0.0
    replaced: bool = False
    relation: ClassVar[Relation] = ADD_REMOVE  # the numbers of rows are private and use a tenth of the budget

    def __post_init__(self) -> None:
        interval = f"[{number('lower', self.lower):g}, {number('upper', self.upper):g}]"
        if not self.lower < self.upper:
            raise InputError(f"the mean's interval is {interval}, but its ends must ascend; correct them")
        if not self.lower <= number("the reference", self.reference) <= self.upper:
            raise InputError(f"the reference is {self.reference:g}, outside the mean's declared interval {interval}")
        if self.effect is not None and number("effect", self.effect) == 0:
            raise InputError("effect is 0, but a difference of 0 cannot be detected; give the difference to detect")
        if self.goal == "relative error" and self.reference == 0:
            raise InputError("the reference is 0, so no relative error is defined; give an effect in the column's unit")
        if self.goal == "relative error" and self._sizing.distance >= (self.upper - self.lower) / 2:
            raise InputError(
                f"the mean's interval {interval} already has this relative error without any rows; give a smaller one"
            )
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
        """Return the share of the ρ of a unit for which the noise is drawn (see `Unit.sum_cost`)."""
        return self.part / (self.unit_rows * (2 if self.replaced else 1)) ** 2

    def rows(self, epsilon: float) -> float:
        """Return the number of rows that a stratum needs (see `Question.rows`).

        The relative accuracy is `PRECISION`, and the returned number of rows is enough. Raise InputError if no number
        of rows up to `MOST_ROWS` is enough.
        """
        rho = Rho.from_epsilon_delta(positive("epsilon", epsilon), self.delta) * self._bought
        if self._excess(MOST_ROWS, rho) < 0:
            raise InputError(
                f"no number of rows up to {MOST_ROWS:g} is enough; ask for less precision, or raise epsilon"
            )
        if self._excess(1.0, rho) >= 0:
            return 1.0
        start = find_root(lambda rows: self._median_excess(rows, rho), 1000.0, COARSE)
        return find_root(lambda rows: self._excess(rows, rho), start, PRECISION) * (1 + PRECISION)

    def smallest_epsilon(self, rows: float, near: float = 1.0) -> float:
        if not positive("rows", rows) > self.classical_rows or self._median_excess(rows, MOST_RHO) < 0:
            return math.inf  # the sampling error is too large
        price = self._price(near)
        enough = self._excess(rows, price) >= 0
        start = find_root(lambda amount: self._median_excess(rows, Rho(amount)), float(price), COARSE)
        start = start if enough else max(start, float(price))
        while self._excess(rows, Rho(2 * start)) < 0:
            start *= 2
            if start > float(MOST_RHO):
                return math.inf
        rho = find_root(lambda amount: self._excess(rows, Rho(amount)), start, PRECISION) * (1 + PRECISION)
        least = Rho(rho / self._bought).epsilon(self.delta)  # the rows are enough at this ε
        return min(least, near) if enough else least

    def half_width(self, rows: float, epsilon: float) -> float:
        return self._forecast.median(rows, self._price(epsilon)).half_width

    def half_width_at_most(self, rows: float, epsilon: float) -> float:
        return self._forecast.bound(rows, self._price(epsilon)).half_width

    def power(self, rows: float, epsilon: float) -> float:
        assert self.effect is not None
        rho = self._price(epsilon)
        deviation = self._deviation(rows, rho, self._forecast.bound(rows, rho).noise)
        z, seen = float(-scipy.special.ndtri(self.alpha / 2)), abs(self.effect) / deviation
        return float(scipy.special.ndtr(seen - z) + scipy.special.ndtr(-seen - z))

    def deviation(self, rows: float, rho: Rho) -> float:
        """Return the standard deviation that the estimator would report.

        For a mean of rows, it is that of the noise only.
        """
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
        """Return the distance to detect minus the smallest distance that this number of rows detects with confidence.

        The difference increases with the number of rows and with ρ. If it is negative for the median, that value is
        returned (see `_median_excess`).
        """
        median = self._median_excess(rows, rho)
        return median if median < 0 else self._spare(rows, rho, self._forecast.bound(rows, rho))

    def _median_excess(self, rows: float, rho: Rho) -> float:
        """Return the distance to detect minus the smallest distance that this number of rows detects in the median."""
        return self._spare(rows, rho, self._forecast.median(rows, rho))

    def _spare(self, rows: float, rho: Rho, found: PredictedInterval) -> float:
        if self.goal == "power":
            return self._sizing.distance - self._sizing.quantiles * self._deviation(rows, rho, found.noise)
        return self._sizing.distance - found.half_width
