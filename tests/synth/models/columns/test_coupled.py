"""Tests of the exchange of codes within groups, which must preserve counts and reproduce the correlation of columns."""

import numpy as np
import pytest
from scipy.special import ndtr

from equistrata.synth.models.columns import coupled as module
from equistrata.synth.models.columns.coupled import Placed, coupled

FINE, GROUPS = 600, 6


def rows_of(correlation, count, seed=0, absent=0.0):
    """Return two columns of a normal copula with codes that are random within groups of six, and the true codes."""
    rng = np.random.default_rng(seed)
    numbers = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], count).T
    true = np.minimum((ndtr(numbers) * FINE).astype(np.intp), FINE - 1)
    found = []
    for codes in true:
        groups, mixed = codes * GROUPS // FINE, codes.copy()
        for group in range(GROUPS):
            places = np.flatnonzero(groups == group)
            mixed[places] = codes[rng.permutation(places)]
        missing = rng.random(count) < absent
        found.append(Placed(np.where(missing, -1, groups), GROUPS, np.where(missing, FINE + 1, mixed)))
    return found, true


@pytest.mark.parametrize("correlation", [-0.9, -0.7, 0.0, 0.7, 0.9, 0.98])
def test_columns_go_together_as_the_normal_numbers_do(correlation):
    columns, true = rows_of(correlation, 20_000)
    before, after = (np.corrcoef(codes)[0, 1] for codes in ([c.codes for c in columns], coupled(columns, rng())))
    wanted = np.corrcoef(true)[0, 1]
    assert abs(after - wanted) < (0.006 if abs(correlation) < 0.95 else 0.02)  # .9 and .98 are .84 and .93 before
    assert abs(after - wanted) <= abs(before - wanted) + 0.002


def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("block", [1 << 18, 1000])
def test_each_group_keeps_its_codes_and_those_beside_stay(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    columns, _ = rows_of(0.8, 3500, absent=0.1)
    for column, codes in zip(columns, coupled(columns, rng()), strict=True):
        assert (codes != column.codes).mean() > 0.5
        for group in range(-1, GROUPS):
            places = column.groups == group
            assert sorted(codes[places]) == sorted(column.codes[places])
        assert (codes[column.groups < 0] == FINE + 1).all()


def test_a_column_of_whole_groups_leads_others_and_has_no_codes():
    columns, true = rows_of(0.9, 20_000)
    leading = Placed(columns[0].groups, GROUPS)
    none, codes = coupled([leading, columns[1]], rng())
    assert none is None
    inside = [columns[1].groups == group for group in range(GROUPS)]
    gained = [
        np.corrcoef(true[0][i], codes[i])[0, 1] - np.corrcoef(true[0][i], columns[1].codes[i])[0, 1] for i in inside
    ]
    assert np.mean(gained) > 0.15


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_what_goes_with_nothing_or_little_is_as_it_was(correlation):
    columns, _ = rows_of(correlation, 400)
    assert all((new == old.codes).all() for new, old in zip(coupled(columns, rng()), columns, strict=True))


def test_three_columns_that_cannot_all_be_so_close_are_brought_to_some_that_can():
    (first, second), _ = rows_of(0.95, 5000)
    third = Placed(GROUPS - 1 - first.groups, GROUPS, FINE - 1 - first.codes)
    found = np.corrcoef(coupled([first, second, third], rng()))
    assert np.isfinite(found).all()
    assert found[0, 1] > 0.9 > -0.9 > found[0, 2]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows_or_none(count):
    columns, _ = rows_of(0.9, count)
    assert [len(codes) for codes in coupled(columns, rng())] == [count, count]
    assert coupled([], rng()) == []


def test_rows_of_one_group_or_all_absent():
    one = Placed(np.zeros(50, dtype=np.intp), 1, np.arange(50))
    absent = Placed(np.full(50, -1), 3, np.full(50, 3))
    for column, codes in zip([one, absent], coupled([one, absent], rng()), strict=True):
        assert sorted(codes) == sorted(column.codes)
