"""Exchanges of values: what they leave as it is, how far the rest moves, and that people change less."""

from itertools import combinations

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.synth.measurements import Former
from equistrata.synth.series import keeping
from equistrata.synth.series.identities import NOBODY, costs_of, partners, realised
from equistrata.synth.series.keeping import ALLOWED, Keeping, pair_noise, tied

SIZES = (2, 6, 4, 3, 5)  # the first is the strata's


def drawn(count, seed, tilt=0.0):
    """Rows of a chain of columns, each near the one before; those with `tilt` have more of the last codes."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 2, count)]
    for size in SIZES[1:]:
        near = columns[-1] * size // max(int(columns[-1].max()) + 1, 1)
        late = rng.random(count) < tilt
        columns.append(np.where(late, size - 1, np.where(rng.random(count) < 0.6, near, rng.integers(0, size, count))))
    return np.stack(columns, axis=1).astype(np.uint8)


def matched(count=4000, seed=1, tilt=0.02, stayed=0.97):
    """Two months' rows and who is whom."""
    before, now, rng = drawn(count, seed), drawn(count, seed + 100, tilt), np.random.default_rng(seed)
    return partners(before, now, SIZES, costs_of(SIZES, {}, [0]), round(stayed * count), rng), before, now


def changes(partner, before, now):
    return np.array([1 - np.trace(c) / c.sum() for c in (realised(partner, before, now, at, size)
                                                         for at, size in enumerate(SIZES))])  # fmt: skip


def table(rows, columns):
    cells = np.ravel_multi_index([rows[:, c].astype(int) for c in columns], [SIZES[c] for c in columns])
    return np.bincount(cells, minlength=int(np.prod([SIZES[c] for c in columns])))


ORDER = (4, 3, 2, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.0, 40.0])
def test_each_column_keeps_its_counts_in_strata_and_pairs_move_within_their_error(seed, noise):
    partner, before, now = matched(seed=seed)
    pairs = dict.fromkeys(combinations(range(5), 2), noise)
    found = Keeping(SIZES, (0,), ORDER, pairs).exchanged(partner, before, now, {}, np.random.default_rng(seed))
    assert (found[:, 0] == now[:, 0]).all()
    for column in range(1, 5):
        assert (table(found, (0, column)) == table(now, (0, column))).all()
    for pair in combinations(range(1, 5), 2):
        was, moved = table(now, pair), np.abs(table(found, pair) - table(now, pair))
        assert (moved <= ALLOWED * np.sqrt(was + noise**2) + 1e-9).all()
        assert (moved[was == 0] == 0).all()


def test_no_row_gets_two_values_that_no_drawn_row_has():
    """A structural zero of this month, which the month before had rows of."""
    _, before, now = matched()
    now[(now[:, 1] == 5) & (now[:, 2] == 0), 2] = 1
    now[(now[:, 3] == 0) & (now[:, 4] == 4), 4] = 3
    assert table(before, (1, 2)).reshape(6, 4)[5, 0] > 20
    partner = partners(before, now, SIZES, costs_of(SIZES, {}, [0]), 3900, np.random.default_rng(1))
    noise = dict.fromkeys(combinations(range(5), 2), 1000.0)
    found = Keeping(SIZES, (0,), ORDER, noise).exchanged(partner, before, now, {}, np.random.default_rng(1))
    assert (found != now).any()
    assert table(found, (1, 2)).reshape(6, 4)[5, 0] == table(found, (3, 4)).reshape(3, 5)[0, 4] == 0


def test_people_change_much_less_and_the_more_noise_there_is_the_less():
    """4,000 rows, drawn apart: changes of four columns sum up to .19; .13, .11 and .09 are left. Seed fixed."""
    partner, before, now = matched()
    was = changes(partner, before, now)[1:].sum()
    sums = []
    for noise in (0.0, 20.0, 100.0):
        kept = Keeping(SIZES, (0,), ORDER, dict.fromkeys(combinations(range(5), 2), noise))
        found = kept.exchanged(partner, before, now, {}, np.random.default_rng(1))
        sums.append(changes(partner, before, found)[1:].sum())
    assert sums[0] < 0.7 * was
    assert sums[2] < 0.9 * sums[1] < 0.8 * sums[0]


def test_nobody_changes_more_columns_than_before_in_all():
    """An exchange undoes a change of one and adds none: who takes the value has changed already, or is new."""
    partner, before, now = matched()
    found = Keeping(SIZES, (0,), ORDER).exchanged(partner, before, now, {}, np.random.default_rng(1))
    stays = partner != NOBODY
    moved = [(before[partner[stays]] != rows[stays]).astype(int) for rows in (now, found)]
    assert (moved[1] <= moved[0]).all()


def test_changes_that_were_measured_stay():
    """As many people as there are to be with each code before and now change still."""
    partner, before, now = matched()
    seen = realised(partner, before, now, 4, 5).astype(float)
    least = seen * 0.9
    noise = dict.fromkeys(combinations(range(5), 2), 1000.0)
    found = Keeping(SIZES, (0,), ORDER, noise).exchanged(partner, before, now, {4: least}, np.random.default_rng(1))
    after = realised(partner, before, found, 4, 5)
    apart = ~np.eye(5, dtype=bool)
    assert (after[apart] >= np.minimum(seen, least)[apart] - 1e-9).all()
    assert after[apart].sum() < seen[apart].sum()
    free = Keeping(SIZES, (0,), ORDER, noise).exchanged(partner, before, now, {}, np.random.default_rng(1))
    assert realised(partner, before, free, 4, 5)[apart].sum() < 0.7 * after[apart].sum()


def test_who_stayed_as_they_were_are_left_alone():
    before = drawn(500, 1)
    found = Keeping(SIZES, (0,), ORDER).exchanged(np.arange(500), before, before, {}, np.random.default_rng(1))
    assert (found == before).all()


def test_columns_tied_by_structural_zeros_of_three_go_together():
    partner, before, now = matched()
    noise = dict.fromkeys(combinations(range(5), 2), 1000.0)
    columns = tuple(Column(f"C{at}", values=tuple(range(size))) for at, size in enumerate(SIZES))
    zero = {"columns": {c.name: {"values": list(c.values)} for c in columns}}
    zero["impossible"] = [{"C1": [5], "C2": [0], "C3": [2]}]
    schema = Schema.from_dict(zero)
    ties = tied(schema, schema.names)
    assert ties == {1: {2, 3}, 2: {1, 3}, 3: {1, 2}}
    kept = Keeping(SIZES, (0,), ORDER, noise, ties).exchanged(partner, before, now, {}, np.random.default_rng(1))
    assert (table(kept, (1, 2, 3)) == table(now, (1, 2, 3))).all()
    free = Keeping(SIZES, (0,), ORDER, noise).exchanged(partner, before, now, {}, np.random.default_rng(1))
    assert (table(free, (1, 2, 3)) != table(now, (1, 2, 3))).any()


def test_pairs_of_more_cells_than_are_followed_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(keeping, "_MOST_CELLS", 19)
    partner, before, now = matched()
    noise = dict.fromkeys(combinations(range(5), 2), 1000.0)
    found = Keeping(SIZES, (0,), ORDER, noise).exchanged(partner, before, now, {}, np.random.default_rng(1))
    for pair in combinations(range(5), 2):
        same = (table(found, pair) == table(now, pair)).all()
        assert same or SIZES[pair[0]] * SIZES[pair[1]] <= 19
    assert changes(partner, before, found).sum() < changes(partner, before, now).sum()


def test_noise_of_pairs_is_that_of_sums_and_of_parts():
    def known(columns, shape, sigma, groups=(), where=()):
        return Former(columns, np.zeros(shape), sigma, groups, where, sigmas=np.full(shape, sigma))

    names, sizes = ("A", "B", "C"), (2, 6, 4)
    assert pair_noise([known(("B", "A"), (6, 2), 5.0)], names, sizes) == {(0, 1): 5.0}
    found = pair_noise([known(("A", "B", "C"), (2, 6, 4), 5.0), known(("A", "C"), (2, 4), 8.0)], names, sizes)
    assert found == {(0, 1): 10.0, (0, 2): 8.0, (1, 2): pytest.approx(50**0.5)}
    merged = known(("A", "B"), (2, 3), 9.0, (None, (0, 0, 1, 1, 2, 2)))
    assert pair_noise([merged], names, sizes) == {(0, 1): pytest.approx(4.5)}
    strata = [known(("A", "B"), (2, 6), 3.0, where=(("C", code),)) for code in range(4)]
    assert pair_noise(strata, names, sizes) == {(0, 1): pytest.approx(6.0)}
    assert pair_noise([known(("A",), (2,), 3.0)], names, sizes) == {}
