"""Ids for drawn rows: matches that exist, change little, and change as often as expected."""

import itertools

import numpy as np
import pytest

from equistrata.synth.series.identities import (
    NOBODY,
    costs_of,
    most_followed,
    partners,
    realised,
    with_changes,
)

SIZES = [3, 2, 4, 3]


def rows(count, seed):
    """Rows whose columns depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, count)
    second = np.where(rng.random(count) < 0.8, first > 0, rng.integers(0, 2, count))
    third = np.where(rng.random(count) < 0.7, first + second, rng.integers(0, 4, count))
    return np.stack([first, second, third, rng.integers(0, 3, count)], axis=1).astype(np.uint8)


def check(partner, before, now, stayed):
    """Each row of now has one person at most, and so many people stay."""
    assert partner.shape == (len(now),)
    there = partner[partner != NOBODY]
    assert len(there) == len(np.unique(there)) == stayed
    assert (there < len(before)).all()


@pytest.mark.parametrize("seed", range(5))
def test_everybody_who_stays_has_one_row_and_the_cost_is_near_the_least(seed):
    """Against all permutations of eight rows: greedy matching is 1.3 times the least cost at most, over cases."""
    rng = np.random.default_rng(seed)
    costs = np.array([3.0, 2.0, 1.0, 0.5])
    found = least = 0.0
    for case in range(4):
        before, now = rows(6, 100 * seed + case), rows(6, 1000 + 100 * seed + case)
        partner = partners(before, now, SIZES, costs, 6, rng)
        check(partner, before, now, 6)
        price = ((before[:, None] != now[None]) * costs).sum(-1)
        found += price[partner, np.arange(6)].sum()
        least += min(
            sum(price[one, two] for two, one in enumerate(order)) for order in itertools.permutations(range(6))
        )
    assert least <= found <= 1.3 * least + 1e-9


def test_rows_that_are_the_same_keep_everybody_as_they_are():
    before = rows(2000, 1)
    now = before[np.random.default_rng(2).permutation(2000)]
    partner = partners(before, now, SIZES, np.ones(4), 2000, np.random.default_rng(3))
    check(partner, before, now, 2000)
    assert (before[partner] == now).all()


def test_new_people_are_what_is_left_over():
    before, more = rows(1000, 1), np.tile(np.array([[0, 1, 3, 2]], np.uint8), (60, 1))
    now = np.concatenate([before, more])
    partner = partners(before, now, SIZES, np.ones(4), 1000, np.random.default_rng(3))
    assert (now[partner == NOBODY] == more).all()


@pytest.mark.parametrize(("before", "now", "stayed"), [(0, 5, 0), (5, 0, 0), (4, 4, 0), (1, 1, 1), (0, 0, 0)])
def test_tables_of_few_rows_and_none(before, now, stayed):
    one, two, rng = rows(before, 1), rows(now, 2), np.random.default_rng(1)
    partner = partners(one, two, SIZES, np.ones(4), stayed, rng)
    check(partner, one, two, stayed)
    expected = {0: np.full((3, 3), stayed / 9)}
    check(with_changes(partner, one, two, SIZES, np.ones(4), expected, rng), one, two, stayed)


def test_no_common_column():
    rng = np.random.default_rng(1)
    one, two = np.zeros((3, 0), np.uint8), np.zeros((4, 0), np.uint8)
    check(partners(one, two, [], np.zeros(0), 3, rng), one, two, 3)


def test_people_change_as_often_as_expected_and_nothing_else_moves():
    """A column's changes come by two people who change places in it; the other columns' transitions stay."""
    rng = np.random.default_rng(5)
    before = rows(20_000, 1)
    now = before[rng.permutation(len(before))]
    costs = np.array([3.0, 2.0, 1.0, 0.5])
    partner = partners(before, now, SIZES, costs, len(before), rng)
    expected = {0: np.array([[0, 200.4, 80], [220, 0, 90], [60, 110, 0]]), 1: np.array([[0, 300.0], [300.0, 0]])}
    changed = with_changes(partner, before, now, SIZES, costs, expected, rng)
    check(changed, before, now, len(before))
    for column, counts in expected.items():
        found = realised(changed, before, now, column, SIZES[column])
        both, wanted = found + found.T, counts + counts.T
        assert np.abs(both - wanted)[~np.eye(len(wanted), dtype=bool)].max() <= 2  # rounded at random
        assert found.sum(0).tolist() == np.bincount(now[:, column], minlength=SIZES[column]).tolist()
    for column in (2, 3):
        found = realised(changed, before, now, column, SIZES[column])
        assert found.sum() == np.trace(found)


def test_where_more_go_one_way_new_people_give_their_places():
    """A tenth loses code 0 for code 1, and as many new people come: left over are those with code 1, at first."""
    rng = np.random.default_rng(5)
    before = rows(10_000, 1)
    now = before.copy()
    lost = np.flatnonzero((now[:, 0] == 0) & (rng.random(10_000) < 0.1))
    now[lost, 0] = 1
    stay = rng.permutation(10_000)[:9_500]
    expected = np.zeros((3, 3))
    np.add.at(expected, (before[stay, 0], now[stay, 0]), 1)
    costs = np.array([3.0, 2.0, 1.0, 0.5])
    partner = partners(before, now, SIZES, costs, 9_500, rng)
    first = realised(partner, before, now, 0, 3)
    assert first[0, 1] < 0.6 * expected[0, 1]
    changed = with_changes(partner, before, now, SIZES, costs, {0: expected}, rng)
    check(changed, before, now, 9_500)
    found = realised(changed, before, now, 0, 3)
    assert np.abs(found - expected)[~np.eye(3, dtype=bool)].max() <= 2


def test_changes_are_not_taken_back_where_the_rows_ask_for_them():
    before = np.zeros((500, 4), np.uint8)
    now = before.copy()
    now[:100, 0] = 1
    rng = np.random.default_rng(1)
    partner = partners(before, now, SIZES, np.ones(4), 500, rng)
    found = realised(
        with_changes(partner, before, now, SIZES, np.ones(4), {0: np.zeros((3, 3))}, rng), before, now, 0, 3
    )
    assert found.tolist() == [[400, 100, 0], [0, 0, 0], [0, 0, 0]]


def test_costs_are_in_the_order_of_what_may_change():
    costs = costs_of([2, 100, 5, 2], {2: 0.05, 3: 0.001}, [0])
    assert costs[1] < costs[2] < costs[3] < costs[0]
    assert costs[2] > costs[1]
    assert costs[0] > costs[1] + costs[2] + costs[3]
    assert np.isfinite(costs_of([2, 2], {0: 0.0, 1: 1.0}, [])).all()


def test_many_columns_end_as_well():
    """More columns than all sets of them could be gone through."""
    rng = np.random.default_rng(1)
    one, two = (rng.integers(0, 6, (400, 40)).astype(np.uint8) for _ in range(2))
    check(partners(one, two, [6] * 40, np.linspace(1, 2, 40), 390, rng), one, two, 390)


def test_no_one_changes_strata_though_they_grow_and_shrink():
    """A third of one stratum's rows are another's in the month after, as weights make them."""
    before, now = rows(900, 1), rows(900, 2)
    now[np.flatnonzero(now[:, 0] == 1)[::3], 0] = 2
    fewest = sum(min((before[:, 0] == code).sum(), (now[:, 0] == code).sum()) for code in range(3))
    most = most_followed(before, now, [0], SIZES)
    assert most == fewest < 0.95 * 900
    costs, rng = costs_of(SIZES, {}, [0]), np.random.default_rng(3)
    for stayed in (most, most - 50):
        partner = partners(before, now, SIZES, costs, stayed, rng, [0])
        check(partner, before, now, stayed)
        there = partner != NOBODY
        assert (before[partner[there], 0] == now[there, 0]).all()
    there = partners(before, now, SIZES, costs, most, rng)
    moved = there != NOBODY
    assert (before[there[moved], 0] != now[moved, 0]).any()
