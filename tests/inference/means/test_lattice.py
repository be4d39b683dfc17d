"""Tests of sums of integers, which are exact and bounded for each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.inference.means.lattice import HALF, GaussianCharge, lattice_sum, lattice_unit, noisy_histogram
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import SeededNoise

NUMBERS = st.floats(allow_nan=False)


@given(st.lists(NUMBERS, max_size=20), NUMBERS, st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_one_row_moves_a_sum_by_at_most_half_the_width(values, row, lower, width):
    without = lattice_sum(np.array(values, dtype=float), lower, lower + width)
    with_row = lattice_sum(np.array([*values, row]), lower, lower + width)
    assert abs(with_row - without) <= HALF


def test_sum_is_that_of_clipped_rows():
    values = np.random.default_rng(0).normal(0, 10, 10_000)
    total, unit = lattice_sum(values, -5, 20), lattice_unit(-5, 20)
    assert total * unit == pytest.approx((np.clip(values, -5, 20) - 7.5).sum(), abs=1e-3)


def test_histogram_pays_for_the_relation():
    add, replace = (
        noisy_histogram(np.zeros(3), [0, 1], r, GaussianCharge(Rho(0.5), Budget(Rho(0.5)), SeededNoise(1), "shells"))[1]
        for r in (ADD_REMOVE, REPLACE_ONE)
    )
    assert (add, replace) == pytest.approx((1.0, 2**0.5))
