"""Tests of public weights that are combined with noisy counts, which must have a small error and keep all strata."""

from itertools import product

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.synth.measurements import Measurement, Prediction
from equistrata.synth.strata.model import noisy_weights
from equistrata.synth.strata.weights import combined_weights

SCHEMA = Schema(
    "people",
    (
        Column("SEX", values=(1, 2)),
        Column("JOB", values=("no", "yes")),
        Column("RAC1P", values=tuple(range(1, 10))),
    ),
)
STRATA = Strata.over(SCHEMA, ("SEX", "RAC1P"))
# The sizes by race for each sex in an old table and in the current table. One of the races has tripled and most of the
# others differ by a tenth.
OLD = np.tile([70_000.0, 12_000, 270, 2, 120, 8_500, 40, 5_500, 2_800], 2)
NEW = OLD * np.tile([0.9, 0.85, 1.4, 2.0, 1.2, 1.15, 0.8, 1.35, 3.0], 2) * np.where(np.arange(18) < 9, 1.02, 0.98)


def public(sizes=OLD, strata=STRATA, total=True):
    weights = PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, "file 'old.csv'")
    return weights if total else PublicWeights(weights.shares, weights.source)


def readings(sizes, sigma, seed=0, strata=STRATA):
    """Return a noisy count of each stratum."""
    noise = np.random.default_rng(seed).normal(0, sigma, len(sizes))
    return {key: [Measurement((), np.array(size), sigma)] for key, size in zip(strata.keys, sizes + noise, strict=True)}


def vector(weights):
    return np.array(list(weights.shares.values()))


def distance(weights, sizes):
    return float(np.abs(vector(weights) - sizes / sizes.sum()).sum())


def test_the_source_names_both_and_the_shares_are_a_distribution():
    found = combined_weights(STRATA, readings(NEW, 300), public())
    assert found.source == "file 'old.csv' and noisy counts (charged), by inverse variance"
    assert tuple(found.shares) == STRATA.keys
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-12)
    assert found.total == pytest.approx(NEW.sum(), rel=0.02)


@pytest.mark.parametrize("sigma", [5e5, 1e7, 1e12])
@pytest.mark.parametrize("seed", range(5))
def test_public_shares_stand_where_noise_is_huge(sigma, seed):
    assert distance(combined_weights(STRATA, readings(NEW, sigma, seed), public()), OLD) < 1e-3


@pytest.mark.parametrize("sigma", [5.0, 500.0, 5000.0])
def test_public_shares_that_are_right_are_kept_at_any_noise(sigma):
    both, noisy = (
        np.mean([distance(make(readings(OLD * 1.1, sigma, seed)), OLD) for seed in range(20)])
        for make in (lambda r: combined_weights(STRATA, r, public()), lambda r: noisy_weights(STRATA, r))
    )
    assert both < 0.1 * noisy


@pytest.mark.parametrize("sigma", [0.0, 0.01, 1.0])
def test_noisy_counts_win_where_noise_is_small(sigma):
    found, noisy = (
        combined_weights(STRATA, readings(NEW, sigma), public()),
        noisy_weights(STRATA, readings(NEW, sigma)),
    )
    assert np.abs(vector(found) - vector(noisy)).sum() * NEW.sum() < 18 * max(sigma, 0.1)


@pytest.mark.parametrize("sigma", [10, 30, 100, 300, 1000, 1700, 3400])
def test_never_worse_than_the_better_of_the_two(sigma):
    """The error of the counts is between 0.0006 and 0.2 of the population, and the error of the old table is 0.18.

    The errors are means over 20 seeds.
    """
    errors = [
        (
            distance(combined_weights(STRATA, readings(NEW, sigma, seed), public()), NEW),
            distance(noisy_weights(STRATA, readings(NEW, sigma, seed)), NEW),
        )
        for seed in range(20)
    ]
    both, noisy = np.mean(errors, axis=0)
    assert both <= 1.02 * min(noisy, distance(public(), NEW))


def test_in_the_middle_both_are_beaten():
    """With a noise of 1,000, the error of the counts is 0.065 and the error of the old table is 0.18.

    The combined error must be less than 0.6 of the smaller error.
    """
    noisy = np.mean([distance(noisy_weights(STRATA, readings(NEW, 1000, s)), NEW) for s in range(20)])
    both = np.mean([distance(combined_weights(STRATA, readings(NEW, 1000, s), public()), NEW) for s in range(20)])
    assert both < 0.6 * min(noisy, distance(public(), NEW))


def test_one_race_that_has_tripled_is_seen_in_both_sexes():
    """The count of each sex differs by 2.2 standard deviations, and both together by 3.2.

    The two largest strata show that the other shares are correct.
    """
    sizes = np.where(np.tile(np.arange(9), 2) == 8, 3 * OLD, OLD)
    found = vector(combined_weights(STRATA, readings(sizes, 0.0), public()))
    assert found * sizes.sum() == pytest.approx(sizes, rel=1e-3)
    noisy = {key: [Measurement((), np.array(size), 2500.0)] for key, size in zip(STRATA.keys, sizes, strict=True)}
    pair = vector(combined_weights(STRATA, noisy, public()))[[8, 17]] * sizes.sum()
    noisy[STRATA.keys[17]] = [Measurement((), np.array(OLD[17]), 2500.0)]  # the other sex has not increased
    alone = vector(combined_weights(STRATA, noisy, public()))[8] * sizes.sum()
    assert min(pair) > 1.2 * alone


@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("listed", [0.0, 2.0])
def test_a_stratum_that_the_public_table_hardly_knows_is_found(listed, total):
    old, new = OLD.copy(), NEW.copy()
    old[3], new[3] = listed, 10_000
    found = vector(combined_weights(STRATA, readings(new, 400.0, 1), public(old, total=total)))
    assert found[3] * new.sum() == pytest.approx(10_000, rel=0.15)


def test_no_stratum_is_dropped():
    old, new = OLD.copy(), NEW.copy()
    old[3] = new[3] = 0
    for sigma in (1.0, 300.0, 3000.0, 1e9):
        found = vector(combined_weights(STRATA, readings(new, sigma, 2), public(old)))
        assert (found > 0).all()
        assert found[3] * new.sum() < 3 * sigma + 1


def test_a_stratum_whose_people_have_left_is_not_dropped():
    """The stratum has 5,500 people in the public table and is now empty, so half of the noisy counts are negative."""
    new = NEW.copy()
    new[7] = 0
    found = [vector(combined_weights(STRATA, readings(new, 30.0, seed), public()))[7] * new.sum() for seed in range(20)]
    assert sum(readings(new, 30.0, seed)[STRATA.keys[7]][0].values < 0 for seed in range(20)) > 4
    assert min(found) > 1
    assert max(found) < 150


def test_counts_that_tell_nothing_leave_the_public_shares():
    nobody = {key: [Measurement((), np.array(-5.0), 3.0)] for key in STRATA.keys}
    for measurements in (nobody, {key: [] for key in STRATA.keys}, {(): []}):
        found = combined_weights(STRATA, measurements, public())
        assert vector(found) == pytest.approx(OLD / OLD.sum(), abs=1e-12)
        assert found.source.endswith("by inverse variance")


def test_marginals_of_the_whole_table_say_what_strata_by_themselves_say():
    """A count by strata is the same as a count of each stratum.

    If a marginal has several cells for each stratum, the cells and their variances are added.
    """
    one = readings(NEW, 300.0, 3)
    values = np.array([float(ms[0].values) for ms in one.values()]).reshape(2, 9)
    whole = {(): [Measurement(("SEX", "RAC1P"), values, 300.0)]}
    split = {(): [Measurement(("SEX", "JOB", "RAC1P"), np.stack([values - 7, values * 0 + 7], 1), 300.0 / 2**0.5)]}
    guess = Prediction(("SEX", "RAC1P"), values * 9, 1.0, sigmas=np.ones((2, 9)))
    expected = vector(combined_weights(STRATA, one, public()))
    for measurements in (whole, split, {(): [*whole[()], guess]}):
        assert vector(combined_weights(STRATA, measurements, public())) == pytest.approx(expected, rel=1e-9)


def test_coarser_levels_are_heard():
    fine = readings(NEW, 2000.0, 4)
    race = Measurement(("RAC1P",), NEW.reshape(2, 9).sum(0), 1.0)
    found = vector(combined_weights(STRATA, fine | {(): [race]}, public())).reshape(2, 9).sum(0)
    assert found * NEW.sum() == pytest.approx(NEW.reshape(2, 9).sum(0), abs=60)
    assert np.abs(vector(combined_weights(STRATA, fine, public())).reshape(2, 9).sum(0) - found).sum() > 0.01
    groups = (0, 1, 1, 1, 1, 1, 1, 1, 1)
    merged = Measurement(("RAC1P",), np.array([race.values[0], race.values[1:].sum()]), 1.0, (groups,))
    found = vector(combined_weights(STRATA, fine | {(): [merged]}, public())).reshape(2, 9).sum(0)
    assert found[0] * NEW.sum() == pytest.approx(NEW[0] + NEW[9], abs=60)


def test_impossible_strata_and_one_column():
    schema = Schema("people", SCHEMA.columns, impossible=(Impossible(("SEX", "RAC1P"), ((1,), (2,))),))
    strata = Strata.over(schema, ("SEX", "RAC1P"))
    sizes = np.array([100.0 * (i + 1) for i in range(len(strata.keys))])
    table = np.full((2, 9), 1e6)  # the impossible cell contains only noise
    for key, size in zip(strata.keys, sizes, strict=True):
        codes = strata.codes_of(key)
        table[codes["SEX"], codes["RAC1P"]] = size
    measured = {(): [Measurement(("SEX", "RAC1P"), table, 0.5)]}
    found = vector(combined_weights(strata, measured, public(np.ones(17), strata)))
    assert found * sizes.sum() == pytest.approx(sizes, abs=2)
    races = Strata.over(SCHEMA, ("RAC1P",))
    old, new = OLD[:9] * 2, NEW.reshape(2, 9).sum(0)
    error = [
        np.mean([distance(make(seed), new) for seed in range(20)])
        for make in (
            lambda seed: combined_weights(races, readings(new, 1500.0, seed, races), public(old, races)),
            lambda seed: noisy_weights(races, readings(new, 1500.0, seed, races)),
        )
    ]
    assert error[0] < 0.9 * error[1] < distance(public(old, races), new)


def test_many_strata_of_four_columns():
    columns = [Column(name, values=tuple(range(size))) for name, size in zip("ABCDE", (2, 5, 3, 2, 2), strict=True)]
    strata = Strata.over(Schema("wide", tuple(columns)), tuple("ABCD"))
    rng = np.random.default_rng(0)
    assert len(strata.keys) == len(list(product(range(2), range(5), range(3), range(2))))
    old = rng.dirichlet(np.full(60, 0.5)) * 1e5 + 1
    new = old * np.exp(rng.normal(0, 0.2, 60))
    for sigma in (50.0, 200.0):
        found = combined_weights(strata, readings(new, sigma, 5, strata), public(old, strata))
        assert distance(found, new) < 0.9 * min(
            distance(noisy_weights(strata, readings(new, sigma, 5, strata)), new), distance(public(old, strata), new)
        )
