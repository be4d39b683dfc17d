"""Tests of the conversion between zCDP and approximate differential privacy. The conversion must be tight, and the
privacy cost must not be too small.
"""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.privacy import conversion
from equistrata.privacy.budget import Rho
from equistrata.privacy.conversion import MAXIMAL_EPSILON


def test_the_known_value():
    assert float(Rho.from_epsilon_delta(1, 1e-9)) == pytest.approx(0.0149731, abs=5e-8)


GRID = [(e, d) for e in (0.01, 0.1, 0.5, 1.0, 5.0, 20.0) for d in (1e-12, 1e-9, 1e-6, 1e-3, 0.1)]


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_round_trip(epsilon, delta):
    rho = Rho.from_epsilon_delta(epsilon, delta)
    assert rho
    assert epsilon * (1 - 1e-6) <= rho.epsilon(delta) <= epsilon  # at most the given ε
    assert (rho * 1.0001).epsilon(delta) > epsilon  # no larger ρ is possible
    # The conversion of the textbook is not as tight.
    assert epsilon <= float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta))


@settings(max_examples=5)
@given(st.floats(0.001, 100), st.floats(0.001, 100), st.floats(1e-12, 0.5), st.floats(1e-12, 0.5))
def test_monotone(e1, e2, d1, d2):
    low, high = (Rho.from_epsilon_delta(min(e1, e2), min(d1, d2)), Rho.from_epsilon_delta(max(e1, e2), max(d1, d2)))
    assert low <= high
    assert low.epsilon(max(d1, d2)) <= low.epsilon(min(d1, d2))


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_against_the_renyi_accountant_of_dp_accounting(epsilon, delta):
    """If the same conversion is used with a fixed grid of orders, the value of ε must be slightly larger."""
    rho = Rho.from_epsilon_delta(epsilon, delta)
    orders = 1 + np.exp(np.linspace(math.log(1e-2), math.log(1e5), 4000))
    theirs = RdpAccountant(orders).compose(dp_event.ZCDpEvent(float(rho))).get_epsilon(delta)
    assert epsilon * (1 - 1e-6) <= theirs <= epsilon * 1.001 + 1e-4


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-9), (1.0, 1e-9), (1.0, 1e-6), (5.0, 1e-6)])
def test_a_gaussian_that_costs_rho_keeps_epsilon_and_delta(epsilon, delta):
    """The exact ε of the Gaussian mechanism, from the loss distribution of dp-accounting, is below
    the zCDP conversion.
    """
    rho = Rho.from_epsilon_delta(epsilon, delta)
    loss = privacy_loss_distribution.from_gaussian_mechanism(1 / math.sqrt(2 * float(rho)))
    exact = loss.get_epsilon_for_delta(delta)
    assert 0.8 * epsilon < exact <= epsilon


@pytest.mark.parametrize(
    "epsilon", [0, -1, True, math.nan, math.inf, -math.inf, MAXIMAL_EPSILON + 1, "1", None, 1j, [1]]
)
def test_invalid_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon must be a positive number"):
        Rho.from_epsilon_delta(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [0, 1, -1e-9, 2, math.nan, math.inf, "1e-9", None])
def test_invalid_delta(delta):
    with pytest.raises(ValueError, match="delta must lie strictly between"):
        Rho.from_epsilon_delta(1, delta)
    with pytest.raises(ValueError, match="delta must lie strictly between"):
        Rho(1).epsilon(delta)


def test_the_ends_of_the_scale():
    assert Rho(0).epsilon(1e-9) == 0
    assert Rho(5e-324).epsilon(1e-9) == 0
    assert Rho(1e12).epsilon(1e-9) == math.inf
    assert Rho.from_epsilon_delta(MAXIMAL_EPSILON, 1e-9).epsilon(1e-9) <= MAXIMAL_EPSILON
    with pytest.raises(ValueError, match="a ρ that is too small"):
        Rho.from_epsilon_delta(1e-300, 1e-300)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-9), (0.003, 1e-6), (40, 1e-12), (0.2, 0.01)])
def test_few_conversions_give_what_halving_alone_gives(epsilon, delta, monkeypatch):
    def allowed(rho):
        return Rho(rho).epsilon(delta) <= epsilon

    low, high = 0.0, 1.0
    while allowed(high):
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    converted, asked = conversion._epsilon.__wrapped__, []
    monkeypatch.setattr(conversion, "_epsilon", lambda *given: asked.append(given) or converted(*given))
    conversion._around.cache_clear()
    assert Rho.from_epsilon_delta(epsilon, delta) == Rho(low)
    assert 0 < len(asked) < 20  # bisection needs more than forty
