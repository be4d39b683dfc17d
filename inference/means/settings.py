"""The declared settings of Coinpress, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from equistrata.errors import InputError
from equistrata.inference.means.clip import Clip
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Relation
from equistrata.stats.checks import number, one_of, positive, share, whole

Sizes = Literal["public", "noisy"]
Tail = Literal["adaptive", "gaussian"]

LAST_STEP_SHARE = Fraction(3, 4)  # of the ρ of all steps (Algorithm 2)


@dataclass(frozen=True)
class CoinpressSettings:
    """What Coinpress needs to know beforehand. All of it is declared; none of it may be read from the private rows.

    Attributes:
        lower, upper: a finite interval that holds the *mean* (not the data), in the unit of the data.
        sigma: a bound on the standard deviation, positive, in the unit of the data.
        steps: t ≥ 1.
        beta: the failure probability of an interval, in (0, 1).
        sizes: "public" when the numbers of rows are declared public (replace-one); "noisy" when they are private
            (add-remove): a tenth of ρ then buys a noisy count.
        tail: how the last step clips. "gaussian" is Algorithm 2: √(2 ln(8n/β))·σ beyond the interval. "adaptive" clips
            at Φ⁻¹(1 − 1/(2n))·σ; from 1,000 rows on, 8 % of ρ buys a histogram of the tails, which sets the clip. It
            also pools earlier readings and, with a noisy size, sums about the point with the least noise.
        bounds: bounds (a, b) of the data; no clip goes beyond them. None where there are none.
        last_share: the share of the last step in the ρ of all steps; the other steps share the rest.
    """

    lower: float
    upper: float
    sigma: float
    steps: int = 2
    beta: float = 0.01
    sizes: Sizes = "public"
    tail: Tail = "adaptive"
    bounds: tuple[float, float] | None = None
    last_share: Fraction = LAST_STEP_SHARE

    def __post_init__(self) -> None:
        ends = [number(f"the {end} end of the mean's interval", getattr(self, end)) for end in ("lower", "upper")]
        if not ends[0] <= ends[1]:
            raise InputError(f"the mean's interval must be ascending, not {ends}")
        checked = {"lower": ends[0], "upper": ends[1], "sigma": positive("sigma", self.sigma)}
        checked |= {"beta": share("beta", self.beta), "steps": whole("steps", self.steps, 1)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", (float(self.bounds[0]), float(self.bounds[1])))
        one_of("sizes", self.sizes, get_args(Sizes))
        one_of("tail", self.tail, get_args(Tail))
        if not self.limits[0] < self.limits[1]:
            raise InputError(f"bounds must be two ascending numbers, not {self.bounds}")
        share("last_share", self.last_share)

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
