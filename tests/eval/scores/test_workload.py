"""Tests of the workload error, which is compared with a slow reference implementation."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from score_fixtures import workload_in, workload_of

from equistrata.errors import InputError


def random_table(seed, rows=300, size=4, columns=5):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(0, size, rows) for name in "ABCDEFG"[:columns]})


def slow_distance(real, synthetic, subset):
    left = Counter(real[list(subset)].itertuples(index=False, name=None))
    right = Counter(synthetic[list(subset)].itertuples(index=False, name=None))
    return sum(abs(left[t] / len(real) - right[t] / len(synthetic)) for t in left.keys() | right.keys())


def slow_workload(real, synthetic, degree=3, columns=None):
    subsets = list(combinations(columns or real.columns, degree))
    return sum(slow_distance(real, synthetic, subset) for subset in subsets) / len(subsets)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "size"), [(300, 4), (7, 2), (200, 60)])
def test_agrees_with_plain_loops(degree, rows, size):
    real, synthetic = random_table(degree, rows, size), random_table(degree + 9, rows * 2, size)
    assert workload_of(real, synthetic, degree) == pytest.approx(slow_workload(real, synthetic, degree))


def test_large_domains_take_the_sparse_way():
    real, synthetic = random_table(1, 200, 10**6), random_table(2, 200, 10**6)
    synthetic.iloc[:100] = real.iloc[:100]
    assert workload_of(real, synthetic) == pytest.approx(slow_workload(real, synthetic)) == pytest.approx(1.0)


def test_equal_tables_up_to_order_and_size_have_no_error():
    real = random_table(0, rows=333)
    other = pd.concat([real, real, real]).sample(frac=1, random_state=0)[list("ECABD")]
    assert workload_of(real, other) == 0
    assert set(workload_in(real, other, ["A", "B"]).values()) == {0}


def test_disjoint_tables_are_two_apart_and_fewer_columns_than_the_degree_make_one_marginal():
    real = random_table(0)
    assert workload_of(real, real + 10) == 2.0
    pair = real[["A", "B"]]
    other = random_table(3)[["A", "B"]]
    assert workload_of(pair, other, 3) == pytest.approx(slow_workload(pair, other, 2))


def test_text_and_absent_cells_are_values():
    real = pd.DataFrame({"A": ["x", "y", None, None]})
    synthetic = pd.DataFrame({"A": ["x", "y", "y", "z"]})
    assert workload_of(real, synthetic, 1) == pytest.approx(0 + 0.25 + 0.25 + 0.5)
    numbers = pd.DataFrame({"A": [1.0, np.nan]}), pd.DataFrame({"A": [1, 1]})
    assert workload_of(*numbers, 1) == 1.0


@pytest.mark.parametrize("strata_columns", [["A"], ["B", "A"]])
def test_by_stratum_agrees_with_plain_loops(strata_columns):
    real, synthetic = random_table(5, 500, 3), random_table(6, 400, 3)
    rest = [column for column in real.columns if column not in strata_columns]
    made = dict(iter(synthetic.groupby(strata_columns)))
    slow = [slow_workload(rows, made[key], columns=rest) for key, rows in real.groupby(strata_columns)]
    assert list(workload_in(real, synthetic, strata_columns).values()) == pytest.approx(slow)


def test_a_lost_stratum_counts_two_and_a_tiny_one_is_left_out():
    real = pd.DataFrame({"G": [1] * 600 + [2] * 400 + [3], "A": 0, "B": 1})
    synthetic = pd.DataFrame({"G": [1, 1, 4], "A": 0, "B": 1})
    assert workload_in(real, synthetic, ["G"]) == {"G=1": 0.0, "G=2": 2.0}


def test_without_strata_columns_it_is_the_whole_table():
    real, synthetic = random_table(1), random_table(2)
    assert workload_in(real, synthetic, []) == {"all": workload_of(real, synthetic)}


def test_settings_out_of_range_are_refused():
    real = random_table(0)
    with pytest.raises(InputError, match="degree is 0"):
        workload_of(real, real, 0)


def test_strata_must_leave_a_column():
    real = random_table(0, columns=2)
    with pytest.raises(InputError, match="use up every column"):
        workload_in(real, real, ["A", "B"])
