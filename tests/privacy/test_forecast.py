"""Tests that a forecast does not exceed the budget."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.privacy.budget import Rho
from equistrata.privacy.forecast import epsilon_within, releases_left


@settings(max_examples=6)
@given(st.floats(0.05, 20), st.integers(1, 400), st.sampled_from([1e-12, 1e-9, 1e-5]))
def test_the_epsilon_of_a_horizon_fits_and_is_the_largest(epsilon, releases, delta):
    left = Rho.from_epsilon_delta(epsilon, delta)
    each = epsilon_within(left, releases, delta)
    assert releases_left(left, Rho.from_epsilon_delta(each, delta)) >= releases
    assert releases_left(left, Rho.from_epsilon_delta(each * (1 + 1e-4), delta)) < releases or releases == 1
    assert float(f"{each:.6g}") == each


@given(st.fractions(0, 10), st.fractions("1/1000", 1))
def test_the_count_is_exact(left, price):
    count = releases_left(Rho(left), Rho(price))
    assert price * count <= left < price * (count + 1)


def test_the_ends_of_the_scale():
    assert epsilon_within(Rho(0), 3, 1e-9) == 0
    assert epsilon_within(Rho(10_000), 1, 1e-9) == 500
    for wrong in (
        lambda: epsilon_within(Rho(1), 0, 1e-9),
        lambda: epsilon_within(Rho(1), 1, 0),
        lambda: releases_left(Rho(1), Rho(0)),
    ):
        with pytest.raises(ValueError):
            wrong()
