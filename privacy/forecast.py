"""What still fits into a lifetime budget: how many releases at a price, and at which ε each of a number of them.

By the tight composition of `equistrata.privacy.budget`: prices are added in ρ, never in ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from equistrata.errors import InputError
from equistrata.privacy.budget import Rho, from_one
from equistrata.privacy.conversion import MAXIMAL_EPSILON

_DIGITS = 6  # of an ε that is proposed


def releases_left(left: Rho, price: Rho) -> int:
    """How many releases at `price` each still fit into `left`. Exact. Raises InputError for a price of nothing.

    Eight releases at ε = 1 fit into ε = 3, where adding ε would allow three.

    >>> releases_left(Rho.from_epsilon_delta(3, 1e-9), Rho.from_epsilon_delta(1, 1e-9))
    8
    """
    left, price = Rho.of(left), Rho.of(price)
    if not price:
        raise InputError("a release has a positive price")
    return math.floor(left.exact / price.exact)


def epsilon_within(left: Rho, releases: int, delta: float) -> float:
    """The ε that each of `releases` equal releases may have at `delta`, so that together they stay within `left`.

    Rounded down to six digits such that `Rho.from_epsilon_delta` of it truly fits; 0 if nothing is left. Raises
    InputError for releases < 1, or delta not in (0, 1).

    >>> left = Rho.from_epsilon_delta(3, 1e-9)
    >>> each = epsilon_within(left, 12, 1e-9)
    >>> each, releases_left(left, Rho.from_epsilon_delta(each, 1e-9))
    (0.81222, 12)
    """
    left = Rho.of(left)
    share = Rho(left.exact / from_one(releases, "a horizon needs a whole number of releases, at least one"))
    epsilon = min(share.epsilon(delta), float(MAXIMAL_EPSILON))
    if not epsilon:
        return 0.0
    step = Fraction(10) ** (math.floor(math.log10(epsilon)) - _DIGITS + 1)
    steps = math.floor(Fraction(epsilon) / step)
    while steps > 0 and Rho.from_epsilon_delta(float(steps * step), delta) > share:
        steps -= 1  # the conversion back is rounded down by up to one part in 10¹², so this happens once at most
    return float(steps * step)


def those_that_fit(left: Rho, prices: Iterable[Rho]) -> list[Rho | None]:
    """What is left after each release, in order; None for one that would be refused, at no cost.

    >>> [None if left is None else float(left) for left in those_that_fit(Rho(1), [Rho(0.75), Rho(0.5), Rho(0.25)])]
    [0.25, None, 0.0]
    """
    after: list[Rho | None] = []
    for price in prices:
        fits = price <= left
        left = left - price if fits else left
        after.append(left if fits else None)
    return after
