"""Forecasts of the releases that still fit into a lifetime budget.

Costs are added in ρ and never in ε, which gives the tight composition of `equistrata.privacy.budget`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from equistrata.errors import InputError
from equistrata.privacy.budget import Rho, from_one
from equistrata.privacy.conversion import MAXIMAL_EPSILON

_DIGITS = 6  # the number of significant digits of a proposed ε


def releases_left(left: Rho, price: Rho) -> int:
    """Return the number of releases that still fit into the remaining budget.

    Parameters
    ----------
    left : Rho
        The amount that is left of the budget.
    price : Rho
        The cost of each release.

    Returns
    -------
    int
        The number of releases. It is computed exactly.

    Raises
    ------
    InputError
        If the price is zero.

    Examples
    --------
    Eight releases at ε = 1 fit into a budget of ε = 3. A simple sum of the values of ε would only allow three.

    >>> releases_left(Rho.from_epsilon_delta(3, 1e-9), Rho.from_epsilon_delta(1, 1e-9))
    8
    """
    left, price = Rho.of(left), Rho.of(price)
    if not price:
        raise InputError("the price of a release must be positive")
    return math.floor(left.exact / price.exact)


def epsilon_within(left: Rho, releases: int, delta: float) -> float:
    """Return the ε that each of several equal releases can have within the remaining budget.

    Parameters
    ----------
    left : Rho
        The amount that is left of the budget.
    releases : int
        The number of releases, at least 1.
    delta : float
        Parameter of the guarantee of each release, 0 < δ < 1.

    Returns
    -------
    float
        The value of ε, rounded down to six significant digits so that all releases fit. It is 0 if nothing is left.

    Raises
    ------
    InputError
        If `releases` or `delta` is out of its range.

    Examples
    --------
    >>> left = Rho.from_epsilon_delta(3, 1e-9)
    >>> each = epsilon_within(left, 12, 1e-9)
    >>> each, releases_left(left, Rho.from_epsilon_delta(each, 1e-9))
    (0.81222, 12)
    """
    left = Rho.of(left)
    share = Rho(left.exact / from_one(releases, "the number of releases must be a whole number of at least 1"))
    epsilon = min(share.epsilon(delta), float(MAXIMAL_EPSILON))
    if not epsilon:
        return 0.0
    step = Fraction(10) ** (math.floor(math.log10(epsilon)) - _DIGITS + 1)
    steps = math.floor(Fraction(epsilon) / step)
    while steps > 0 and Rho.from_epsilon_delta(float(steps * step), delta) > share:
        steps -= 1  # happens at most once, because the inverse conversion is exact to one part in 10¹²
    return float(steps * step)


def remaining_after(left: Rho, prices: Iterable[Rho]) -> list[Rho | None]:
    """Return the amount that is left of the budget after each release.

    Parameters
    ----------
    left : Rho
        The amount that is left of the budget.
    prices : iterable of Rho
        The costs of the releases, in order.

    Returns
    -------
    list of Rho or None
        The remaining amount after each release. It is None if the release would exceed the budget. A release that does
        not fit costs nothing.

    Examples
    --------
    >>> [None if left is None else float(left) for left in remaining_after(Rho(1), [Rho(0.75), Rho(0.5), Rho(0.25)])]
    [0.25, None, 0.0]
    """
    after: list[Rho | None] = []
    for price in prices:
        fits = price <= left
        left = left - price if fits else left
        after.append(left if fits else None)
    return after
