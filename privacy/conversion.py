"""The ε of a ρ at a δ, and the largest ρ that an (ε, δ) allows: OpenDP's tight conversion, on plain floats.

Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Proposition 12.

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

MAXIMAL_EPSILON = 500  # beyond it e^ε leaves floating point, and nothing is protected anyway
_MINIMAL_RHO = 1e-100


def epsilon_at(rho: float, delta: float) -> float:
    """The ε for which ρ-zCDP, ρ ≥ 0, implies (ε, δ)-DP, 0 < δ < 1: rounded up, ∞ where it is past 700."""
    _check_delta(delta)
    return _epsilon(rho, delta)


def rho_within(epsilon: float, delta: float) -> float:
    """The largest ρ (to one part in 10¹², rounded down) for which ρ-zCDP implies (ε, δ)-DP.

    Raises InputError unless 0 < ε ≤ 500 and 0 < δ < 1, or if ρ would be too small for floating point.
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
            raise InputError(f"epsilon = {epsilon} with delta = {delta} leaves too small an amount to spend")
    return low


@lru_cache(maxsize=1 << 10)
def _around(epsilon: float, delta: float) -> tuple[float, float]:
    """A ρ that ε allows and one that it does not, near one another: what lies outside need not be converted.

    By the secant rule, from the approximation ε = ρ + 2√(ρ ln 1/δ). 0 and ∞ where it finds none.
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


@lru_cache(maxsize=1 << 12)  # a conversion takes 4 ms, the way back a dozen, and both are asked for again and again
def _epsilon(rho: float, delta: float) -> float:
    if rho == 0:
        return 0.0
    from equistrata.privacy import opendp_parts as dp

    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.make_gaussian(*space, scale=1.0)  # its privacy map sends a distance d to ρ = d²/2
    profile = dp.make_zCDP_to_approxDP(gaussian).map(math.sqrt(2 * max(rho, _MINIMAL_RHO)))
    try:
        return float(profile.epsilon(delta))
    except dp.OpenDPException:  # e^ε overflows
        return math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # True would be an ε of 1


def _check_delta(delta: float) -> None:
    if not _is_number(delta) or not 0 < delta < 1:
        raise InputError(f"delta must lie strictly between 0 and 1, not {delta!r}")
