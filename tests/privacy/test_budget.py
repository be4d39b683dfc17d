"""Tests that amounts are exact and that a budget cannot be overspent."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st

from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, BudgetExceeded, Rho
from equistrata.privacy.forecast import epsilon_within, releases_left
from equistrata.privacy.noise import SeededNoise, gaussian_sigma, selection_epsilon

amounts = st.floats(0, 1e6) | st.fractions(0, 1000)
positive_shares = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20)


@given(amounts, positive_shares)
def test_parts_add_up_exactly(amount, shares):
    rho = Rho(amount)
    parts = rho.split(shares)
    assert len(parts) == len(shares)
    assert sum(parts, start=Rho(0)) == rho
    for part, share in zip(parts, shares, strict=True):
        assert float(part) == pytest.approx(float(rho) * share / sum(shares), rel=1e-9)


@given(amounts, positive_shares)
def test_a_whole_budget_can_be_spent_in_its_parts_and_no_more(amount, shares):
    budget = Budget(Rho(amount))
    for part in budget.total.split(shares):
        budget.spend(part, "a part")
    assert budget.spent == budget.total
    assert not budget.remaining
    with pytest.raises(BudgetExceeded):
        budget.spend(Rho(Fraction(1, 10**30)), "a crumb")


@given(st.floats(0, 100), st.floats(0, 100))
def test_arithmetic_and_order(a, b):
    assert Rho(a) + Rho(b) == Rho(b) + Rho(a)
    assert (Rho(a) + Rho(b)) - Rho(b) == Rho(a)
    assert (Rho(a) < Rho(b)) == (a < b)
    assert (Rho(a) >= Rho(b)) == (a >= b)
    assert Rho(a) * 2 == Rho(a) + Rho(a)
    assert bool(Rho(a)) == (a > 0)


@pytest.mark.parametrize("make", [np.float32, np.float64, np.int64, np.uint8, int, float, Fraction])
def test_numbers_of_every_kind_become_exact(make):
    rho = Rho(make(3))
    assert rho == Rho(3)
    assert type(rho.exact.numerator) is int
    parts = Rho.from_epsilon_delta(1, 1e-9).split([make(1), make(2)])
    assert sum(parts, start=Rho(0)) == Rho.from_epsilon_delta(1, 1e-9)
    assert Rho(1e-300) * make(3) == Rho(1e-300) + Rho(1e-300) + Rho(1e-300)


def test_of_takes_either():
    assert Rho.of(0.5) == Rho(0.5)
    assert Rho.of(Rho(0.5)) == Rho(0.5)


@pytest.mark.parametrize("amount", [-1, -1e-300, math.nan, math.inf, -math.inf, np.float32("nan"), np.float64("inf")])
def test_amounts_that_are_none(amount):
    with pytest.raises(ValueError, match=r"zCDP amount (is|must)"):
        Rho(amount)


def test_arithmetic_cannot_leave_the_amounts():
    with pytest.raises(ValueError, match="negative"):
        Rho(1) - Rho(2)
    with pytest.raises(ValueError, match="negative"):
        Rho(1) * -1
    for factor in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            Rho(1) * factor


@pytest.mark.parametrize("shares", [[], [0, 0], [1, -1], [-1], [math.nan, 1], [math.inf, 1]])
def test_shares_that_are_none(shares):
    with pytest.raises(ValueError, match="share"):
        Rho(1).split(shares)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 10])
def test_a_group_is_bounded_and_no_smaller_bound_is_true(rows):
    """A group of k rows moves a clipped sum by k times as much as a single row.

    The Rényi divergence of two Gaussians is D_α = α·(shift/σ)²/2, so the factor k² is exact. If a row is moved from one
    end to the other end, the sum changes by two. This is the same as to remove a row and to add another row. The cost
    is therefore equal to 4ρ. If the two changes were separate, the cost would only be 2ρ.
    """
    rho = Rho.from_epsilon_delta(1, 1e-9)
    sigma = 1 / math.sqrt(2 * float(rho))
    assert float(rho.group(rows)) == pytest.approx((rows / sigma) ** 2 / 2, rel=1e-12)
    exact = privacy_loss_distribution.from_gaussian_mechanism(sigma / rows).get_epsilon_for_delta(1e-9)
    assert 0.9 * rho.group(rows).epsilon(1e-9) < exact <= rho.group(rows).epsilon(1e-9)
    assert rows == 1 or exact > (rho * rows).epsilon(1e-9)


def test_groups_are_whole_and_not_empty():
    assert Rho(Fraction(1, 3)).group(np.int64(2)) == Rho(Fraction(4, 3))
    for rows in (0, -2):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            Rho(1).group(rows)
    for rows in (1.5, True, "2", None):
        for sized in (Rho(1).group, Rho(1).per_row):
            with pytest.raises(InputError, match="whole number"):
                sized(rows)


@pytest.mark.parametrize("amount", [True, False, np.True_, math.nan, math.inf, -math.inf, "1", None, [1], 1j])
def test_what_is_no_amount_is_refused_wherever_one_is_taken(amount):
    """Regression test: the value True was used as 1, and a TypeError was raised if the value is a string."""
    Rho.of_pure(1)  # a cache could return this value for True
    budget, noise, one = Budget(Rho(1)), SeededNoise(1), np.array([1])
    for taken in (Rho, Rho.of, Rho.of_pure, Budget, Budget.of, gaussian_sigma, selection_epsilon, Rho(1).__mul__):
        with pytest.raises(InputError):
            taken(amount)
    for drawn in (
        lambda: budget.spend(amount, "x"),
        lambda: Rho(1).split([amount, 1]),
        lambda: noise.gaussian(one, 1.0, amount, budget, "x"),
        lambda: noise.gaussian(one, amount, Rho(0.5), budget, "x"),
        lambda: noise.laplace(one, 1.0, amount, budget, "x"),
        lambda: noise.select(one, 1.0, amount, budget, "x"),
        lambda: releases_left(Rho(1), amount),
        lambda: epsilon_within(amount, 3, 1e-9),
        lambda: epsilon_within(Rho(1), amount, 1e-9),
    ):
        with pytest.raises(InputError):
            drawn()
    assert budget.remaining == Rho(1)


def test_a_refused_charge_leaves_no_trace():
    budget = Budget(Rho(1))
    budget.spend(Rho(0.75), "marginals")
    with pytest.raises(BudgetExceeded, match=r"selection asks for ρ = 0\.5, but only 0\.25 is left") as caught:
        budget.spend(Rho(0.5), "selection")
    assert caught.value.asked == Rho(0.5)
    assert caught.value.left == Rho(0.25)
    assert budget.entries == (("marginals", Rho(0.75)),)
    assert budget.remaining == Rho(0.25)
    with pytest.raises(BudgetExceeded):
        budget.parallel(Rho(0.5), ["a", "b"], "strata")
    assert budget.spent == Rho(0.75)
    assert budget.spend(Rho(0.25), "the rest") == Rho(0.25)


@given(st.lists(st.floats(0, 1), max_size=30))
def test_no_sequence_of_charges_overspends(asked):
    budget = Budget(Rho(1))
    for amount in asked:
        left = budget.remaining
        if Rho(amount) > left:
            with pytest.raises(BudgetExceeded):
                budget.spend(Rho(amount), "x")
            assert budget.remaining == left
        else:
            budget.spend(Rho(amount), "x")
        assert budget.spent + budget.remaining == budget.total
    assert budget.spent <= Rho(1)


def test_tenths_add_up_to_no_more_than_one():
    budget = Budget(Rho(1))
    for _ in range(9):
        budget.spend(Rho(0.1), "a tenth")
    with pytest.raises(BudgetExceeded):  # the float 0.1 is slightly larger than a tenth
        budget.spend(Rho(0.1), "a tenth")


def test_parallel_charges_once_and_each_part_is_bounded():
    budget = Budget(Rho(1))
    parts = budget.parallel(Rho(0.75), ("a", "b", "c"), "strata")
    assert budget.spent == Rho(0.75)
    assert budget.entries == (("strata", Rho(0.75)),)
    assert [part.total for part in parts.values()] == [Rho(0.75)] * 3
    parts["a"].spend(Rho(0.75), "x")
    assert parts["b"].remaining == Rho(0.75)
    with pytest.raises(BudgetExceeded):
        parts["a"].spend(Rho(0.01), "x")
    assert budget.spent == Rho(0.75)


def test_a_charge_that_is_no_amount_is_not_recorded():
    budget = Budget(Rho(1))
    for amount in (0.1, math.nan, None):
        with pytest.raises(InputError, match="a budget must be a Rho"):
            budget.spend(amount, "x")
        with pytest.raises(InputError, match="a budget must be a Rho"):
            Budget(amount)
    assert not budget.spent
