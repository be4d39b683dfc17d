"""What a synthesizer that promises (ε, δ)-DP is given to spend, and what that costs in zCDP.

Nothing is known of such a synthesizer but its promise, so prices add up by basic composition, ε to ε and δ to δ. Beside
other releases it counts as δ-approximate ε²/2-zCDP. See docs/proofs/foreign.md.

>>> promise = Promise.within(1.0, 1e-9, Rho(0), pure=False)
>>> round(promise.count, 3), round(promise.epsilon, 3), promise.delta, round(float(promise.rho), 3)
(0.02, 0.98, 1e-09, 0.48)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.thresholds import MOST_PART, bought

COUNT_SHARE = 0.02  # of ε, for the noisy number of rows of a stratum; the default of the same share of ρ


@dataclass(frozen=True)
class Promise:
    """The price of one stratum, and by parallel composition of all.

    Attributes:
        epsilon, delta: what the synthesizer is given.
        count: ε of the noisy number of rows, Laplace.
        bought: whether δ is paid for with ρ, as an account in ρ needs it.
    """

    epsilon: float
    delta: float
    count: float
    bought: bool = False

    @classmethod
    def within(
        cls,
        epsilon: float,
        delta: float,
        aside: Rho,
        *,
        pure: bool,
        account: tuple[float, float] | None = None,
        count_share: float = COUNT_SHARE,
    ) -> Promise:
        """The largest that keeps a release (ε, δ)-DP, of which `aside` is spent on something else.

        Args:
            pure: whether the synthesizer promises ε-DP, and is given no δ.
            account: (ε, δ) of the budget that is charged: as much δ is given as its ρ buys.

        Raises InputError where nothing is left.
        """
        own = 0.0 if pure else delta if not aside and account is None else delta / 2
        left = epsilon - (aside.epsilon(delta - own) if aside else 0.0)
        if not left > 0:
            raise InputError("the means leave nothing for the synthesizer; lower means_share, or raise epsilon")
        promise = cls((1 - count_share) * left, own, count_share * left, bought=account is not None and not pure)
        if promise.bought:
            assert account is not None
            promise = cls(promise.epsilon, min(own, bought(promise.paid, [account])), promise.count, bought=True)
        return promise

    @classmethod
    def costing(cls, rho: Rho, delta: float, count: bool, count_share: float = COUNT_SHARE) -> Promise:
        """The largest that costs ρ, at this δ, which is not paid for; with or without a noisy number of rows."""
        share = count_share if count else 0.0
        whole = math.sqrt(2 * float(rho) / ((1 - share) ** 2 + share**2)) * (1 - 1e-9)
        return cls((1 - share) * whole, delta, share * whole)

    @property
    def together(self) -> float:
        """ε of the synthesizer and of the number of rows."""
        return self.epsilon + self.count

    @property
    def paid(self) -> Rho:
        """ρ that buys the δ, MOST_PART of all that is paid for the synthesizer."""
        part = Fraction(MOST_PART).limit_denominator(1000)
        return Rho.of_pure(self.epsilon) * (part / (1 - part)) if self.bought else Rho(0)

    @property
    def rho(self) -> Rho:
        """What all of it costs in zCDP (Bun and Steinke, arXiv:1605.02065, Proposition 1.4 and section 8)."""
        return Rho.of_pure(self.count) + Rho.of_pure(self.epsilon) + self.paid

    def aside(self, rho: float, times: int = 1) -> Rho:
        """What was spent on something else, of ρ as a card has it; noise was drawn so often."""
        left = rho - times * float(self.rho)
        return Rho(left if left > 1e-9 * rho else 0)

    def group(self, rows: int, aside: Rho, delta: float, times: int = 1) -> float | None:
        """The ε of a group of rows at δ, `aside` included; None where its δ is more than that.

        A group of k rows has (kε, δ(e^{kε} − 1)/(e^ε − 1)) of an (ε, δ)-DP synthesizer.

        Args:
            times: how often noise was drawn.
        """
        try:
            own = self.delta * math.expm1(rows * self.epsilon) / math.expm1(self.epsilon) if self.delta else 0.0
        except OverflowError:
            return None
        rest = delta - times * own
        if rest < 0 or (aside and rest <= 0):
            return None
        return times * rows * self.together + (aside.group(rows).epsilon(rest) if aside else 0.0)
