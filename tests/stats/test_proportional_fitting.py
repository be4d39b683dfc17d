"""Tests of iterative proportional fitting, which is compared with the minimum of the relative entropy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from equistrata.stats.proportional_fitting import fit_margins


def test_of_tables_with_these_sums_it_is_the_nearest_in_relative_entropy():
    rng = np.random.default_rng(0)
    table, other = rng.random((2, 3, 4, 1)) + 0.1
    sums = [other.sum(0, keepdims=True), other.sum(1, keepdims=True)]

    def dual(potentials):
        """The gradient is the difference of the sums, so the minimum is the table with these sums."""
        over_rows, over_columns = potentials[:4].reshape(1, 4, 1), potentials[4:].reshape(3, 1, 1)
        fitted = table * np.exp(over_rows + over_columns)
        return fitted.sum() - (sums[0] * over_rows).sum() - (sums[1] * over_columns).sum()

    best = minimize(dual, np.zeros(7), tol=1e-12).x
    expected = table * np.exp(best[:4].reshape(1, 4, 1) + best[4:].reshape(3, 1, 1))
    found = fit_margins(table, sums, 100)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for wanted, axis in zip(sums, (0, 1), strict=True):
        np.testing.assert_allclose(found.sum(axis, keepdims=True), wanted, rtol=1e-9)


def test_a_sum_over_a_pair_keeps_its_relation():
    rng = np.random.default_rng(1)
    table, other = rng.random((2, 2, 3, 2))
    pair, single = other.sum(2, keepdims=True), other.sum((0, 1), keepdims=True)
    found = fit_margins(table, [pair, single], 100)
    np.testing.assert_allclose(found.sum(2, keepdims=True), pair, rtol=1e-9)
    np.testing.assert_allclose(found.sum((0, 1), keepdims=True), single, rtol=1e-9)


def test_sums_that_disagree_hold_to_the_last_one():
    found = fit_margins(np.ones((2, 2)), [np.array([[9.0], [1.0]]), np.array([[2.0, 2.0]])], 5)
    assert found.sum(0).tolist() == pytest.approx([2, 2])


def test_what_is_empty_stays_empty_without_a_warning_and_the_argument_is_kept():
    table = np.array([[0.0, 0.0], [1.0, 1.0]])
    found = fit_margins(table, [np.array([[3.0], [4.0]])], 3)
    assert found.tolist() == [[0, 0], [2, 2]]
    assert table.tolist() == [[0, 0], [1, 1]]
