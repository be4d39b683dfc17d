"""Tests of the values of ε and δ that are passed to a class. The tests check the basic composition of the release and
the cost in zCDP.
"""

import math
from fractions import Fraction

import pytest

from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.thresholds import MOST_PART
from equistrata.synth.foreign.promise import COUNT_SHARE, Promise

DELTA = 1e-9


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("means", [0.0, 1e-4, 3e-3])
@pytest.mark.parametrize("account", [None, (10.0, 1e-9), (1.0, 1e-6)])
def test_epsilons_and_deltas_add_up_to_the_release_s(pure, means, account):
    aside = Rho(means)
    told = Promise.within(1.0, DELTA, aside, pure=pure, account=account)
    rest = DELTA - (0 if pure else DELTA / 2)
    spent = aside.epsilon(rest) if aside else 0.0
    assert told.epsilon + told.count + spent == pytest.approx(1.0, rel=1e-12)
    assert told.count == pytest.approx(COUNT_SHARE * (1 - spent))
    assert told.delta + (rest if aside else 0) <= DELTA
    assert (told.delta == 0) is pure
    if not pure and not aside and account is None:
        assert told.delta == DELTA  # all of δ
    assert told.group(1, aside, DELTA) <= 1.0 + 1e-12


@pytest.mark.parametrize("account", [(10.0, 1e-9), (3.0, 1e-6), (1.0, 1e-12)])
def test_delta_is_paid_for_at_the_account_s_rate_and_is_a_tenth_of_it_at_most(account):
    told = Promise.within(1.0, 1e-9, Rho(0), pure=False, account=account)
    rate = account[1] / float(Rho.from_epsilon_delta(*account))
    own = told.rho - Rho.of_pure(told.count)
    assert float(told.paid) == pytest.approx(MOST_PART * float(own))
    assert told.delta <= float(told.paid) * rate
    assert told.rho == Rho.of_pure(told.count) + Rho.of_pure(told.epsilon) * Fraction(10, 9)


@pytest.mark.parametrize("rho", [1e-4, 0.3, 20.0])
@pytest.mark.parametrize("count", [True, False])
def test_the_largest_promise_within_rho(rho, count):
    told = Promise.of_rho_and_delta(Rho(rho), 1e-9, count)
    assert told.rho <= Rho(rho)
    assert float(told.rho) == pytest.approx(rho, rel=1e-6)
    assert (told.count > 0) is count


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_the_delta_of_a_group_is_that_of_one_step_after_the_other(rows):
    """For each additional row, the previous δ is multiplied by e^ε and δ is added."""
    told, delta = Promise(0.5, 1e-12, 0.1), 0.0
    for _ in range(rows):
        delta = math.exp(0.5) * delta + 1e-12
    aside = Rho(0.01)
    assert told.group(rows, aside, 1e-9) == pytest.approx(rows * 0.6 + aside.group(rows).epsilon(1e-9 - delta))
    assert told.group(rows, Rho(0), delta * (1 - 1e-6)) is None
    assert told.group(rows, Rho(0), delta * (1 + 1e-6)) == pytest.approx(rows * 0.6)
    assert told.group(rows, Rho(0), 3 * delta * (1 + 1e-6), times=3) == pytest.approx(rows * 1.8)


def test_a_large_group_has_no_epsilon():
    assert Promise(1.0, 1e-12, 0.0).group(10_000, Rho(0), 1e-9) is None


def test_means_that_take_all_are_refused():
    with pytest.raises(InputError, match="leave no budget for the synthesizer"):
        Promise.within(1.0, DELTA, Rho.from_epsilon_delta(1, DELTA), pure=False)
