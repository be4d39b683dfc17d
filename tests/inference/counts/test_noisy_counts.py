"""Tests of noisy counts and noisy tables. The tests check the values and the privacy cost, and try to refute the
privacy cost.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from refutation import HalvedNoise, empirical_epsilon
from scipy import stats

from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import noisy_count, noisy_table
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

RUNS = 10_000


class NoNoise(SeededNoise):
    """A noise source that adds no noise and records the noise scales."""

    def __init__(self):
        super().__init__(0)
        self.scales: list[float] = []

    def _laplace(self, values, scale, *claim):
        self.scales.append(scale)
        return values


@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float])
def test_count_is_of_the_ones(dtype):
    noise = NoNoise()
    values = np.array([1, 0, 0, 1, 1], dtype=dtype)
    found = noisy_count(values, epsilon=0.25, noise=noise)
    assert (found.value, found.rows, found.proportion) == (3.0, 5, 0.6)
    assert noise.scales == [4.0] == [found.scale]


def test_table_counts_every_cell_once():
    codes = np.array([[0, 2], [1, 0], [0, 2], [0, 1]])
    noise = NoNoise()
    found = noisy_table(codes, (2, 3), epsilon=0.5, noise=noise)
    assert found.values.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert noise.scales == [4.0]
    assert (found.rows, found.scale) == (4, 4.0)


def test_account():
    """Pure ε is equal to ε²/2 in zCDP, which is charged once for a table of any shape."""
    count = noisy_count([0, 1], epsilon=0.5, noise=SeededNoise(1))
    table = noisy_table([[0, 0]], (3, 4), epsilon=0.5, noise=SeededNoise(1))
    assert (count.epsilon, count.rho, count.relation) == (0.5, Rho(0.125), REPLACE_ONE)
    assert count.entries == (("count", Rho(0.125)),)
    assert (table.epsilon, table.rho, table.relation) == (0.5, Rho(0.125), REPLACE_ONE)
    assert table.entries == (("table", Rho(0.125)),)
    assert not count.private
    assert noisy_count([0, 1], epsilon=0.5, noise=SecureNoise()).private
    assert noisy_table([0, 1], (2,), epsilon=0.5, noise=SecureNoise()).private


def test_the_noise_is_laplace_and_independent_between_cells():
    """A Kolmogorov-Smirnov test of secure noise at level 10⁻⁶. The correlation of two cells is within five standard
    errors.
    """
    tables = np.array(
        [noisy_table([0, 0, 1], (2,), epsilon=0.5, noise=SecureNoise()).values - [2, 1] for _ in range(2000)]
    )
    assert stats.kstest(tables.ravel(), stats.laplace(scale=4).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(tables.T)[0, 1]) < 5 / math.sqrt(2000)
    counts = [noisy_count([1, 1, 0], epsilon=0.5, noise=SecureNoise()).value - 2 for _ in range(2000)]
    assert stats.kstest(counts, stats.laplace(scale=2).cdf).pvalue > 1e-6


ZEROS, ONE = np.zeros(6, dtype=int), np.array([1, 0, 0, 0, 0, 0])


def count_statistic(rows, noise):
    return noisy_count(rows, epsilon=1.0, noise=noise).value


def table_statistic(relation):
    """Return the statistic of the two cells that change if a row is replaced."""

    def statistic(rows, noise):
        values = noisy_table(rows, (2,), epsilon=1.0, noise=noise, relation=relation).values
        return min(values[1], len(ZEROS) - values[0])

    return statistic


def runs(statistic, rows, seed, fault=False):
    source = SeededNoise(seed)
    return np.array([statistic(rows, HalvedNoise(source) if fault else source) for _ in range(RUNS)])


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("statistic", [count_statistic, table_statistic(REPLACE_ONE)], ids=["count", "table"])
def test_refutation(statistic, fault):
    """The parameters are ε = 1 and δ = 0, with a false alarm rate of 10⁻³."""
    bound = empirical_epsilon(runs(statistic, ZEROS, 0, fault), runs(statistic, ONE, 1, fault), 0.0)
    assert (bound > 1.0) == fault


def test_a_replaced_row_charged_as_an_added_one_is_caught():
    """If the noise scale of each cell is 1/ε, a replaced row costs 2ε."""
    statistic = table_statistic(ADD_REMOVE)
    assert empirical_epsilon(runs(statistic, ZEROS, 0), runs(statistic, ONE, 1), 0.0) > 1.0


def test_an_added_row_costs_what_it_says():
    def added(rows, noise):
        return noisy_table(rows, (2,), epsilon=1.0, noise=noise, relation=ADD_REMOVE).values[0]

    bound = empirical_epsilon(runs(added, ZEROS, 0), runs(added, ZEROS[1:], 1), 0.0)
    assert 0.8 < bound <= 1.0


class Forbidden:
    """A noise source that must not be used."""

    private = False
    name = "forbidden"

    def __getattr__(self, name):
        raise AssertionError(f"noise was drawn: {name}")


@pytest.mark.parametrize(
    ("values", "epsilon", "message"),
    [
        ([], 1.0, "at least one row"),
        ([[0, 1]], 1.0, "shape"),
        ([0, 1, 7], 1.0, "zeros and ones"),
        ([0.0, math.nan], 1.0, "zeros and ones"),
        (["0", "1"], 1.0, "zeros and ones"),
        ([0, 1], 0.0, "epsilon"),
        ([0, 1], math.inf, "epsilon"),
    ],
)
def test_bad_counts_are_refused_before_any_noise(values, epsilon, message):
    with pytest.raises(InputError, match=message) as told:
        noisy_count(values, epsilon=epsilon, noise=Forbidden())
    assert "7" not in str(told.value)


@pytest.mark.parametrize(
    ("codes", "shape", "settings", "message"),
    [
        ([[0, 7]], (2, 2), {}, "not a declared category"),
        ([[0, -1]], (2, 2), {}, "not a declared category"),
        ([[0.5, 1.0]], (2, 2), {}, "not a declared category"),
        ([[0, 1]], (2, 2, 2), {}, "shape"),
        ([[0, 1]], (2, 0), {}, "categories"),
        (np.empty((0, 2), dtype=int), (2, 2), {}, "needs at least one"),
        ([[0, 1]], (2, 2), {"epsilon": -1.0}, "epsilon"),
        ([[0, 1]], (2, 2), {"relation": "both"}, "relation"),
    ],
)
def test_bad_tables_are_refused_before_any_noise(codes, shape, settings, message):
    with pytest.raises(InputError, match=message) as told:
        noisy_table(codes, shape, **({"epsilon": 1.0, "noise": Forbidden()} | settings))
    assert "7" not in str(told.value)


def test_the_callers_arrays_stay_as_they_are():
    values = np.array([0, 1, 1])
    codes = np.array([[0, 1], [1, 1]])
    noisy_count(values, epsilon=1.0, noise=SeededNoise(1))
    noisy_table(codes, (2, 2), epsilon=1.0, noise=SeededNoise(1))
    assert values.tolist() == [0, 1, 1]
    assert codes.tolist() == [[0, 1], [1, 1]]
