"""Transitions of people: their noise keeps its price, and what is made of them is near the truth where it can be."""

import numpy as np
import pandas as pd
import pytest
from joint_counts import known_counts
from recorder import made_twice
from refutation import HalvedNoise, measured_epsilon

from equistrata.data.units.linking import BEFORE, NOW, Linking
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise, gaussian_sigma
from equistrata.synth.series.following import TwoMonths
from equistrata.synth.series.panel import Panel
from equistrata.synth.series.transitions import (
    CHANGED,
    TURNOVER,
    People,
    Rows,
    joined,
    keeping,
    measure_transitions,
    towards_persistence,
    worth_measuring,
)

NAMES, SIZES = ("JOB", "HOME"), (3, 2)
CLAIM, DELTA = Rho(0.5), 0.05


def months(rows=400, seed=1):
    """The tables of two months: ids and codes of two columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.integers(0, size, rows) for name, size in zip(NAMES, SIZES, strict=True)})
    frame.insert(0, "ID", [f"p{n}" for n in range(rows)])
    later = frame.iloc[20:].copy()
    moved = rng.random(len(later)) < 0.1
    later.loc[moved, "JOB"] = rng.integers(0, 3, int(moved.sum()))
    return frame, later


def with_person(tables, where, seen=((2, 1), (0, 1))):
    """The same tables with one more person, in some of the months."""
    rows = [pd.DataFrame([{"ID": "somebody", "JOB": job, "HOME": home}]) for job, home in seen]
    return tuple(
        pd.concat([table, row], ignore_index=True) if month in where else table
        for month, (table, row) in enumerate(zip(tables, rows, strict=True))
    )


def counts_of(folder, tables):
    """Exact joint counts, by the place of the column."""
    linking = Linking(folder, "ID", len(NAMES))
    for table, frame in zip((BEFORE, NOW), tables, strict=True):
        linking.add(table, frame["ID"], frame[list(NAMES)].to_numpy().astype(np.uint8))
    return linking.joint(SIZES)


def told(folder, tables, noise, rho=CLAIM):
    """Everything that is made of two months' tables, with rows that do not depend on them."""
    counts, budget = counts_of(folder, tables), Budget(rho)
    found = measure_transitions(NAMES, counts.__getitem__, rho, budget, noise)
    assert not budget.remaining
    rng = np.random.default_rng(7)
    before, now = (np.stack([rng.integers(0, size, rows) for size in SIZES], 1) for rows in (390, 385))
    rows = TwoMonths(NAMES, SIZES, before, now, ("JOB",))
    panel, partner, kept = rows.followed(2, Panel.beginning(1, 390, 400.0), {"month": 1}, found, 390.0, rng)
    return [found, panel.summary(), panel.realised, panel.state.known, partner, kept]


@pytest.mark.parametrize("where", [(0, 1), (0,), (1,)], ids=str)
def test_a_person_costs_the_price_at_most_and_nothing_else_is_seen(tmp_path, where):
    """A person in both months, or in one: then no count moves."""
    tables = months()
    found = made_twice(
        lambda each, noise: told(tmp_path, each, noise), tables, with_person(tables, where), tmp_path / "calls"
    )
    assert found.pure
    if where == (0, 1):
        assert found.keeps(CLAIM)
        assert found.cost == pytest.approx(float(CLAIM), rel=1e-9)
    else:
        assert found.cost == 0


def test_a_person_who_repeats_would_cost_more_so_ids_may_not(tmp_path):
    """A planted fault: the person is in one of the months twice, under ids that are taken for one."""
    tables = months()
    one, two = with_person(tables, (0, 1))
    three = with_person((one, two), (0, 1), ((2, 1), (0, 1)))
    faulty = [counts_of(tmp_path, tables), counts_of(tmp_path, (one, two))]
    again = three[0].iloc[[-1]].assign(ID="other"), three[1].iloc[[-1]].assign(ID="other")
    faulty[1] = counts_of(tmp_path, tuple(pd.concat([a, b]) for a, b in zip((one, two), again, strict=True)))
    apart = [float(np.linalg.norm(a - b)) for a, b in zip(*faulty, strict=True)]
    assert min(apart) == 2.0


def statistics(noise, runs=20_000):
    """How far noisy counts lie towards those with the person, over many runs, with the person and without."""
    whole = [np.array([[40, 3, 2], [1, 50, 4], [0, 2, 30]]), np.array([[60, 5], [2, 65]])]
    more = [each.copy() for each in whole]
    more[0][2, 0] += 1
    more[1][1, 1] += 1
    found = np.empty((2, runs))
    for side, counts in enumerate((whole, more)):
        for run in range(runs):
            one, two = measure_transitions(NAMES, counts.__getitem__, CLAIM, Budget(CLAIM), noise.spawn(2 * run + side))
            found[side, run] = one.values[2, 0] - counts[0][2, 0] + two.values[1, 1] - counts[1][1, 1] + 2 * side
    return found


@pytest.mark.slow
def test_the_price_is_not_refuted_and_half_the_noise_is():
    """20,000 runs a side; a true claim is refuted at a rate of 10⁻³ (the seed is fixed, so never)."""
    claim = CLAIM.epsilon(DELTA)
    assert measured_epsilon(statistics(SeededNoise(11)), claim, DELTA) <= claim
    assert measured_epsilon(statistics(HalvedNoise(SeededNoise(11))), claim, DELTA) > claim


def test_columns_share_the_price_equally():
    counts = [np.full((size, size), 10) for size in SIZES]
    one, two = measure_transitions(NAMES, counts.__getitem__, CLAIM, Budget(CLAIM), SeededNoise(1))
    assert one.sigma == two.sigma == pytest.approx(gaussian_sigma(float(CLAIM) / 2))
    assert one.columns == ("JOB before", "JOB")


def test_what_noise_would_hide_is_not_measured():
    sizes = {"SEX": 2, "JOB": 6, "AGE": 100}
    assert worth_measuring(sizes, 1.0, 100_000, 12) == ("SEX", "JOB", "AGE")
    assert worth_measuring(sizes, 0.0001, 20_000, 12) == ("SEX", "JOB")
    assert worth_measuring(sizes, 0.0001, 20_000, 1) == ("SEX",)
    assert worth_measuring(sizes, 0.0001, 1_000, 12) == ()
    assert worth_measuring({}, 1.0, 100, 1) == ()


def truth(people=20_000):
    """Joint counts of 3 % turnover, in which 4 % of the people change."""
    stayed = 0.97 * people
    counts = np.array([[0.5, 0.015, 0.01], [0.01, 0.3, 0.0], [0.005, 0.0, 0.16]])
    return counts * stayed, counts.sum(1)


def people_of(sigma, seed, people=20_000):
    counts, shares = truth(people)
    noisy = counts + np.random.default_rng(seed).normal(0, sigma, counts.shape)
    return People.of([known_counts("JOB", noisy, sigma)], Rows(people, people, people, people), [shares])


@pytest.mark.parametrize(("sigma", "off", "cells"), [(1, 0.001, 0.02), (20, 0.006, 0.2)])
def test_transitions_that_can_be_told_are_near_the_truth(sigma, off, cells):
    """At σ = 1 and 20, where 4 % of 20,000 people change; seed fixed. Standard errors of the share: .0001 and .0025."""
    counts, _ = truth()
    for seed in range(10):
        found = people_of(sigma, seed)
        (each,) = found.transitions
        assert each.changed == pytest.approx(0.04, abs=off)
        assert found.stayed == pytest.approx(19_400, abs=4 * 3 * sigma + 20)
        moved = ~np.eye(3, dtype=bool)
        assert np.abs(each.counts - counts)[moved].sum() < cells * counts[moved].sum() + 2 * sigma
        assert each.counts.sum() == pytest.approx(found.stayed, rel=1e-6)
        assert (each.counts >= 0).all()


def test_transitions_that_cannot_be_told_are_drawn_towards_persistence():
    """σ = 2,000: what is measured of the share of changed people has an error of a quarter. 200 seeds."""
    found = [people_of(2_000, seed) for seed in range(200)]
    changed = np.array([each.transitions[0].changed for each in found])
    raw = 2_000 * np.sqrt(6) / 19_400
    assert changed.mean() < 0.1 * raw
    assert changed.max() < 0.5 * raw
    left = 1 - np.array([each.stayed for each in found]) / 20_000
    assert left.mean() == pytest.approx(TURNOVER, abs=0.01)
    assert left.max() < 3 * TURNOVER


def test_persistence_is_by_all_columns_together():
    shares = towards_persistence(np.array([0.04, 0.05]), np.array([0.001, 0.05]))
    assert shares[0] == pytest.approx(0.04, rel=0.01)
    assert 0 < shares[1] < 0.03
    assert (towards_persistence(np.array([-0.3]), np.array([0.2])) == 0).all()
    assert towards_persistence(np.array([CHANGED]), np.array([1e-6]))[0] == pytest.approx(CHANGED)


def test_nothing_known_is_all_who_can_stay():
    found = People.of([], Rows(1000, 900, 1000, 900), [])
    assert (found.stayed, found.transitions) == (900, ())


@pytest.mark.parametrize(
    ("before", "now", "stayed"), [(10_000, 10_000, 9_700), (5_000, 20_000, 4_850), (20_000, 500, 485)]
)
def test_releases_of_other_numbers_of_rows_than_their_tables(before, now, stayed):
    """Shares are of people, and who stays is that share of the rows, or of as many as there are."""
    counts, shares = truth()
    found = People.of([known_counts("JOB", counts, 1.0)], Rows(before, now, 20_000, 20_000), [shares])
    assert found.stayed == pytest.approx(stayed, rel=0.001)
    assert found.transitions[0].changed == pytest.approx(0.04, abs=0.001)
    assert found.transitions[0].counts.sum() == pytest.approx(found.stayed)


def test_months_together_know_more_than_one_and_a_jump_is_believed():
    """σ = 150, as of a twelfth of ε = 1: eleven months of 4 % who change, then one in which 10 % more lose their work.
    Twenty seeds; errors of the share of changed people over those of one month alone."""
    counts, shares = truth()
    shock = counts.copy()
    shock[0, 1] += 0.1 * counts[0].sum()
    shock[0, 0] -= 0.1 * counts[0].sum()
    alone, together, jumps = [], [], []
    for seed in range(20):
        noise, state = SeededNoise(seed), None
        for month in range(2, 13):
            now = (shock if month == 12 else counts).round().astype(int)
            rho = Rho(1 / (2 * 150**2))
            found = measure_transitions(("JOB",), [now].__getitem__, rho, Budget(rho), noise.spawn(month))
            state = joined(state, month, found)
            if month >= 11:
                told = [People.of(known, Rows(20_000, 20_000, 20_000, 20_000), [shares]).transitions[0].changed
                        for known in (joined(None, month, found).known, state.known)]  # fmt: skip
            if month == 11:
                alone.append((told[0] - 0.04) ** 2)
                together.append((told[1] - 0.04) ** 2)
            if month == 12:
                jumps.append(told[1])
    assert np.mean(together) < 0.5 * np.mean(alone)
    assert np.mean(jumps) == pytest.approx(0.04 + 0.1 * 0.525, abs=0.02)


def test_a_month_in_which_nothing_is_measured_goes_on_from_the_former_ones():
    state = joined(None, 2, [known_counts("JOB", truth()[0], 10.0)])
    later = joined(state, 4, [])
    assert later.month == 4
    assert (later.known[0].values == state.known[0].values).all()
    assert (later.known[0].sigmas > state.known[0].sigmas).all()
    assert keeping(later, ["HOME"]).known == ()
    assert joined(keeping(later, ["HOME"]), 5, [known_counts("HOME", np.eye(2), 1.0)]).month == 5
