"""Tests of rounding to integers: exact sums, no bias, no impossible cells, and correct columns over all rows."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from equistrata.synth.models.rounding import assign, spread

TABLES = (st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))


def table_of(seed, height, width):
    """Return totals, unnormalised shares and quotas."""
    rng = np.random.default_rng(seed)
    shares = rng.gamma(0.3, size=(height, width)) * (rng.random((height, width)) > 0.3)
    totals = rng.integers(0, 10 ** rng.integers(1, 9), height) * (shares.sum(axis=1) > 0)
    return rng, totals, shares, shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300) * totals[:, None]


@given(*TABLES)
@example(seed=16000, height=23, width=6)  # a count is 2.08 from its quota
def test_adds_up_stays_near_every_quota_and_fills_no_impossible_cell(seed, height, width):
    rng, totals, shares, quotas = table_of(seed, height, width)
    counts = spread(totals, shares, rng)
    assert (counts.sum(axis=1) == totals).all()
    assert (counts[shares == 0] == 0).all()
    assert (counts >= 0).all()
    # Each column is within one of its part of the remaining count, which changes by less than one for each previous
    # column.
    assert (np.abs(counts - quotas) < np.arange(1, width + 1) + 1e-6).all()


@given(*TABLES)
def test_the_first_column_adds_up_in_every_run_of_rows_and_the_others_nearly(seed, height, width):
    rng, totals, shares, quotas = table_of(seed, height, width)
    off = np.cumsum(spread(totals, shares, rng) - quotas, axis=0)
    assert np.abs(np.subtract.outer(off[:, 0], off[:, 0])).max() < 1 + 1e-5
    assert np.abs(off).max() < 2 * width  # this bound is not proved. Of 60,000 tables, 13 are above the width


def test_columns_of_many_small_rows_are_kept():
    """Each row contains one to three people. If each row is rounded separately, the mean error of the sum of a column
    is 6. The mean error of this method is 2.
    """
    rng = np.random.default_rng(1)
    together, apart = [], []
    for _ in range(50):
        shares, totals = rng.dirichlet(np.full(5, 0.5), 100), rng.integers(1, 4, 100)
        quotas = totals[:, None] * shares
        single = [spread(totals[i : i + 1], shares[i : i + 1], rng)[0] for i in range(100)]
        together.append(np.abs((spread(totals, shares, rng) - quotas).sum(axis=0)))
        apart.append(np.abs((np.array(single) - quotas).sum(axis=0)))
    assert np.mean(together) < 0.5 * np.mean(apart)
    assert np.max(together, axis=0)[0] < 1


def test_unbiased():
    """The test uses 20,000 draws. The probability that the mean differs by 0.05 is less than 1e-5
    by Hoeffding's bound.
    """
    rng, totals, shares = np.random.default_rng(0), np.array([3, 2, 1]), np.array([[2, 5, 3.0], [6, 0, 4], [1, 1, 1]])
    mean = np.mean([spread(totals, shares, rng) for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(mean, shares / shares.sum(axis=1, keepdims=True) * totals[:, None], atol=0.05)


def test_who_of_a_group_gets_a_value_is_drawn():
    rng, group = np.random.default_rng(0), np.repeat([0, 2], 50)
    drawn = np.array([assign(group, np.array([[1, 1], [1, 1], [0, 1.0]]), rng) for _ in range(400)])
    assert (drawn[:, 50:] == 1).all()
    assert (drawn[:, :50].sum(axis=1) == 25).all()
    assert np.abs(drawn[:, :50].mean(axis=0) - 0.5).max() < 0.15  # 6 standard deviations
