"""Conversion between zCDP and approximate differential privacy.

The functions use the tight conversion that is implemented in OpenDP. All parameters are floats.

References
----------
Canonne, Kamath and Steinke (2020), arXiv:2004.00010, Proposition 12.

>>> rho = rho_within(1.0, 1e-9)
>>> round(rho, 7), epsilon_at(rho, 1e-9) <= 1
(0.0149731, True)
"""

from __future__ import annotations

import math
from functools import lru_cache
from numbers import Real
from typing import Any

from equistrata.errors import InputError

MAXIMAL_EPSILON = 500  # a larger ε gives no protection, and e^ε would soon overflow
_MINIMAL_RHO = 1e-100


def epsilon_at(rho: float, delta: float) -> float:
    """Return the ε for which ρ-zCDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    rho : float
        The amount of zCDP, ρ ≥ 0.
    delta : float
        Parameter of the guarantee, 0 < δ < 1.

    Returns
    -------
    float
        The value of ε, rounded up. It is infinite if it is larger than about 700.

    Raises
    ------
    InputError
        If `delta` is out of its range.
    """
    _check_delta(delta)
    return _epsilon(rho, delta)


def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Parameter of the guarantee, 0 < ε ≤ 500.
    delta : float
        Parameter of the guarantee, 0 < δ < 1.

    Returns
    -------
    float
        The value of ρ, rounded down. It is exact to one part in 10¹².

    Raises
    ------
    InputError
        If `epsilon` or `delta` is out of its range, or if ρ would be smaller than 10⁻¹⁰⁰.
    """
    if not _is_number(epsilon) or not 0 < epsilon <= MAXIMAL_EPSILON:
        raise InputError(f"epsilon must be a positive number, at most {MAXIMAL_EPSILON}, not {epsilon!r}")
    _check_delta(delta)
    below, above = _around(epsilon, delta)

    def fits(rho: float) -> bool:
        return rho <= below or (rho < above and _epsilon(rho, delta) <= epsilon)

    low, high = 0.0, 1.0
    while fits(high):
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high < _MINIMAL_RHO:
            raise InputError(f"epsilon = {epsilon} with delta = {delta} gives a ρ that is too small; raise one of them")
    return low


@lru_cache(maxsize=1 << 10)
def _around(epsilon: float, delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound for ρ, so that fewer conversions are needed to compute it.

    The bounds are computed with the secant method. The starting point is given by the approximation ε = ρ + 2√(ρ ln
    1/δ). If no lower bound is found, it is 0. If no upper bound is found, it is infinity.
    """
    below, above = 0.0, math.inf

    def excess(log_rho: float) -> float:
        nonlocal below, above
        rho = math.exp(log_rho)
        found = _epsilon(rho, delta)
        below, above = (max(below, rho), above) if found <= epsilon else (below, min(above, rho))
        return math.log(found / epsilon) if 0 < found < math.inf else math.copysign(1.0, found - epsilon)

    slack = math.sqrt(-math.log(delta))
    before = 2 * math.log(epsilon / (math.hypot(slack, math.sqrt(epsilon)) + slack))
    if before < math.log(_MINIMAL_RHO):
        return below, above
    last = excess(before)
    here = before - 1.5 * last
    for _ in range(7):
        now = excess(here)
        if abs(now) < 1e-13 or now == last:
            break
        before, last, here = here, now, here - now * (here - before) / (now - last)
    for far in (1e-12, 1e-10, 1e-8):
        if above == math.inf or above - below > 4 * far * above:
            excess(here - far)
            excess(here + far)
    return below, above


@lru_cache(maxsize=1 << 12)  # a conversion takes 4 ms, its inverse needs about twelve, and both are called often
def _epsilon(rho: float, delta: float) -> float:
    if rho == 0:
        return 0.0
    from equistrata.privacy import opendp_parts as dp

    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.make_gaussian(*space, scale=1.0)  # its privacy map converts a distance d to ρ = d²/2
    profile = dp.make_zCDP_to_approxDP(gaussian).map(math.sqrt(2 * max(rho, _MINIMAL_RHO)))
    try:
        return float(profile.epsilon(delta))
    except dp.OpenDPException:  # e^ε overflows
        return math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # True would count as ε = 1


def _check_delta(delta: float) -> None:
    if not _is_number(delta) or not 0 < delta < 1:
        raise InputError(f"delta must lie strictly between 0 and 1, not {delta!r}")


def round_up(x: float, digits: int = 3) -> float:
    """Round a bound up, so that no printed cost is too low.

    Parameters
    ----------
    x : float
        The bound. If it is not positive and finite, it is returned unchanged.
    digits : int, default=3
        The number of significant digits.

    Returns
    -------
    float
        The rounded bound.

    Examples
    --------
    >>> round_up(1.4401), round_up(math.e), round_up(22026.5), round_up(1.234567, 5)
    (1.45, 2.72, 22100.0, 1.2346)
    """
    if not 0 < x < math.inf:
        return x
    step = 10.0 ** (math.floor(math.log10(x)) + 1 - digits)
    return float(f"{math.ceil(x / step - 1e-9) * step:.{digits}g}")
