"""The budget of a synthesizer that promises (ε, δ)-DP, and its cost in zCDP.

The promise is the only known property of the synthesizer. Therefore, the values of ε and of δ add up by basic
composition. If the synthesizer is combined with other releases, its cost is δ-approximate ε²/2-zCDP. See
docs/proofs/foreign.md.

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

COUNT_SHARE = 0.02  # the default fraction of ε, and of ρ, for the noisy number of rows of a stratum


@dataclass(frozen=True)
class Promise:
    """The price of one stratum, which is the price of all strata by parallel composition.

    Parameters
    ----------
    epsilon, delta : float
        The privacy parameters that are passed to the synthesizer.
    count : float
        The ε of the noisy number of rows, which has Laplace noise.
    bought : bool, default=False
        If True, a part of ρ is spent on δ. This is required if the budget is an account in ρ.
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
        """Compute the largest promise that keeps a release (ε, δ)-DP.

        Parameters
        ----------
        epsilon, delta : float
            The privacy parameters of the release.
        aside : Rho
            The ρ that the release spends on other results.
        pure : bool
            If True, the synthesizer promises ε-DP and gets no δ.
        account : tuple of float or None, default=None
            The values of ε and δ of the budget that is charged. If given, the δ of the synthesizer is at most the δ
            that is bought with its ρ.
        count_share : float, default=0.02
            The fraction of ε for the noisy number of rows.

        Returns
        -------
        Promise
            The promise.

        Raises
        ------
        InputError
            If no budget is left for the synthesizer.
        """
        own = 0.0 if pure else delta if not aside and account is None else delta / 2
        left = epsilon - (aside.epsilon(delta - own) if aside else 0.0)
        if not left > 0:
            raise InputError("the means leave no budget for the synthesizer; lower means_share, or raise epsilon")
        promise = cls((1 - count_share) * left, own, count_share * left, bought=account is not None and not pure)
        if promise.bought:
            assert account is not None
            promise = cls(promise.epsilon, min(own, bought(promise.paid, [account])), promise.count, bought=True)
        return promise

    @classmethod
    def of_rho_and_delta(cls, rho: Rho, delta: float, count: bool, count_share: float = COUNT_SHARE) -> Promise:
        """Compute the largest promise that costs ρ. No part of ρ is spent on δ.

        Parameters
        ----------
        rho : Rho
            The privacy cost in zCDP.
        delta : float
            The δ that is passed to the synthesizer.
        count : bool
            If True, the promise includes a noisy number of rows.
        count_share : float, default=0.02
            The fraction of ε for the noisy number of rows.

        Returns
        -------
        Promise
            The promise.
        """
        share = count_share if count else 0.0
        whole = math.sqrt(2 * float(rho) / ((1 - share) ** 2 + share**2)) * (1 - 1e-9)
        return cls((1 - share) * whole, delta, share * whole)

    @property
    def together(self) -> float:
        """The total ε of the synthesizer and of the number of rows."""
        return self.epsilon + self.count

    @property
    def paid(self) -> Rho:
        """The ρ that is spent on δ. It is the fraction MOST_PART of the total price of the synthesizer."""
        part = Fraction(MOST_PART).limit_denominator(1000)
        return Rho.of_pure(self.epsilon) * (part / (1 - part)) if self.bought else Rho(0)

    @property
    def rho(self) -> Rho:
        """The total cost in zCDP (Bun and Steinke, arXiv:1605.02065, Proposition 1.4 and section 8)."""
        return Rho.of_pure(self.count) + Rho.of_pure(self.epsilon) + self.paid

    def aside(self, rho: float, times: int = 1) -> Rho:
        """Compute the ρ that was spent on other results.

        Parameters
        ----------
        rho : float
            The total ρ of the release, which is given on its card.
        times : int, default=1
            The number of times that noise was drawn.

        Returns
        -------
        Rho
            The remaining ρ.
        """
        left = rho - times * float(self.rho)
        return Rho(left if left > 1e-9 * rho else 0)

    def group(self, rows: int, aside: Rho, delta: float, times: int = 1) -> float | None:
        """Compute the ε of a group of rows for the given value of δ.

        The result includes the cost of other results. For a group of k rows, an (ε, δ)-DP synthesizer has the privacy
        parameters (kε, δ(e^{kε} − 1)/(e^ε − 1)).

        Parameters
        ----------
        rows : int
            The number of rows of the group.
        aside : Rho
            The ρ that was spent on other results.
        delta : float
            The value of δ.
        times : int, default=1
            The number of times that noise was drawn.

        Returns
        -------
        float or None
            The value of ε. If the δ of the synthesizer for this group is larger than `delta`, the value is None.
        """
        try:
            own = self.delta * math.expm1(rows * self.epsilon) / math.expm1(self.epsilon) if self.delta else 0.0
        except OverflowError:
            return None
        rest = delta - times * own
        if rest < 0 or (aside and rest <= 0):
            return None
        return times * rows * self.together + (aside.group(rows).epsilon(rest) if aside else 0.0)
