"""Tests of marginals of private rows: the charge is made before the rows are read, and the noise has the stated
variance.
"""

import numpy as np
import pytest
from no_noise import NoNoise

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, BudgetExceeded, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise
from equistrata.synth.counting import measure_marginal

SCHEMA = Schema("small", (Column("A", values=(0, 1)), Column("B", values=(0, 1, 2, 3)), Column("C", values=("x",))))


@pytest.fixture
def table():
    return CodedTable(np.random.default_rng(0).integers(0, (2, 4, 1), (1000, 3)).astype(np.uint8), SCHEMA)


@pytest.mark.parametrize("columns", [(), ("A",), ("B", "A"), ("A", "B", "C")])
def test_measures_that_marginal_in_that_order_at_that_price(table, columns):
    budget = Budget(Rho(2))
    measured = measure_marginal(table, columns, Rho(0.5), budget, NoNoise())
    assert budget.spent == Rho(0.5)
    assert measured.sigma == 1.0  # 1/√(2ρ)
    assert measured.columns == columns
    np.testing.assert_array_equal(measured.values, table.marginal(columns))


def test_merges_before_it_adds_noise(table):
    groups = ((1, 0), (0, 1, 1, 2))
    measured = measure_marginal(table, ("A", "B"), Rho(1), Budget(Rho(1)), NoNoise(), groups)
    counts = table.marginal(("A", "B"))
    expected = [[counts[a, bs].sum() for bs in ([0], [1, 2], [3])] for a in (1, 0)]
    np.testing.assert_array_equal(measured.values, expected)
    np.testing.assert_array_equal(measured.merged(counts), expected)


@pytest.mark.parametrize("noise", [SeededNoise(1), SecureNoise()], ids=["seeded", "secure"])
def test_noise_has_the_variance_that_is_claimed(noise):
    """With 2,000 cells, the sample variance has a relative standard deviation of √(2/2000) = 3 %.

    The false alarm rate of 20 %, which is more than 6 standard deviations, is below 1e-9.
    """
    schema = Schema("wide", (Column("A", values=tuple(range(2000))),))
    empty = CodedTable(np.zeros((0, 1), dtype=np.uint16), schema)
    measured = measure_marginal(empty, ("A",), Rho(0.005), Budget(Rho(1)), noise)
    assert measured.sigma == 10.0
    assert abs(measured.values.std() / 10 - 1) < 0.2
    assert abs(measured.values.mean()) < 10 * 6 / 2000**0.5


def test_is_charged_before_the_rows_are_read():
    class Untouchable:
        """A table with a public schema and without rows."""

        def __init__(self, schema):
            self.schema = schema

        def marginal(self, columns):
            raise AssertionError("the rows were read")

    with pytest.raises(BudgetExceeded, match="marginal of A"):
        measure_marginal(
            Untouchable(Schema("t", (Column("A", values=(0, 1)),))), ("A",), Rho(2), Budget(Rho(1)), SeededNoise(0)
        )
