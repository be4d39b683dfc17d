"""Whole counts: exact sums, no bias, nothing where nothing can be; and columns that are right over all rows."""

import numpy as np
import pytest

from synth import rounding
from synth.rounding import MOST_CELLS, round_rows, round_table


def random_table(rng, rows=6, columns=5, most=9):
    shares = rng.gamma(0.3, size=(rows, columns)) * (rng.random((rows, columns)) > 0.4)
    totals = rng.integers(0, 10 ** rng.integers(1, most), rows)
    alive = shares.sum(1) > 0
    totals[~alive] = 0
    return totals, shares


def quotas_of(totals, shares):
    return shares / np.maximum(shares.sum(1, keepdims=True), 1e-300) * totals[:, None]


@pytest.mark.parametrize("function", [round_rows, round_table])
def test_adds_up_stays_within_one_and_never_fills_an_impossible_cell(function):
    rng = np.random.default_rng(0)
    for _ in range(300):
        totals, shares = random_table(rng)
        counts = function(totals, shares, rng)
        np.testing.assert_array_equal(counts.sum(1), totals)
        assert (counts >= 0).all()
        assert (counts[shares == 0] == 0).all()
        assert np.abs(counts - quotas_of(totals, shares)).max() < 1 + 1e-6


def test_the_columns_of_a_table_add_up_within_one():
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(200):
        totals, shares = random_table(rng, rows=int(rng.integers(2, 60)), most=3)
        quotas = quotas_of(totals, shares)
        worst = max(worst, np.abs((round_table(totals, shares, rng) - quotas).sum(0)).max())
    assert worst < 1 + 1e-6
    by_row = [np.abs((round_rows(totals, shares, rng) - quotas).sum(0)).max() for _ in range(50)]
    assert max(by_row) > 1.5  # what rows alone do


@pytest.mark.parametrize("function", [round_rows, round_table])
def test_counts_are_their_quotas_in_expectation(function):
    """400 · 20 means of 4,000 draws; a draw is within one of its quota, so Hoeffding's bound on all: below 1e-6."""
    rng = np.random.default_rng(2)
    totals, shares = np.array([1, 2, 3, 1, 0]), rng.dirichlet(np.full(4, 0.5), 5)
    mean = np.mean([function(totals, shares, rng) for _ in range(4_000)], axis=0)
    assert np.abs(mean - totals[:, None] * shares).max() < np.sqrt(np.log(2 * 20 / 1e-6) / (2 * 4_000))


def test_quotas_that_are_whole_stay():
    totals = np.array([4, 2, 0])
    shares = np.array([[0.25, 0.75, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    for seed in range(20):
        counts = round_table(totals, shares, np.random.default_rng(seed))
        assert counts.tolist() == [[1, 3, 0], [1, 0, 1], [0, 0, 0]]


def test_quotas_that_are_whole_but_for_rounding_errors_end():
    """Cells a hair off a whole number may stand alone in their row or column; the walk must end there."""
    rng = np.random.default_rng(3)
    for scale in (1e-10, 1e-9, 2e-9, 1e-8):
        for _ in range(100):
            shares = np.abs(np.eye(6)[rng.integers(0, 6, 8)] - rng.random((8, 6)) * scale)
            shares /= shares.sum(1, keepdims=True)
            counts = round_table(np.full(8, 3), shares, rng)
            np.testing.assert_array_equal(counts.sum(1), 3)


def test_a_large_table_is_rounded_row_by_row(monkeypatch):
    monkeypatch.setattr(rounding, "_round_cycles", lambda *_: pytest.fail("too slow for this many"))
    rows = MOST_CELLS // 4 + 1
    counts = round_table(np.ones(rows, dtype=int), np.full((rows, 4), 0.25), np.random.default_rng(0))
    assert (counts.sum(1) == 1).all()
