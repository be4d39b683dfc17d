"""Numeric columns of few bins over all rows: from all measurements that hold them, and models made of that."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.stats.trees import FEW_BINS
from equistrata.synth.measurements import Measurement, Prediction, total_estimate
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import Alone, tree_of
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.strata import fitting
from equistrata.synth.strata.cutting import cut
from equistrata.synth.strata.ordinal import OverAll, counts_over_all, heeded, raked_over_all
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "SEX": {"values": [1, 2]},
            "AGE": {"lower": 0, "upper": 79, "integer": True, "missing": "own"},
            "PAY": {"lower": 0, "upper": 90_000, "integer": True},
            "JOB": {"values": [0, 1, 2]},
        }
    },
    "people",
)
AGE, STRATA = SCHEMA["AGE"], Strata.over(SCHEMA, ("SEX",))
GROUPS = (*(code // 10 for code in range(80)), 8)


def people(seed, rows=6000):
    rng = np.random.default_rng(seed)
    sex = 1 + (rng.random(rows) < 0.3)
    age = np.clip(rng.normal(30 + 8 * sex, 16, rows), 0, 79).round()
    pay = np.minimum(np.exp(rng.normal(9, 1, rows)), 90_000).round()
    found = pd.DataFrame({"SEX": sex, "AGE": age, "PAY": pay, "JOB": rng.integers(0, 2, rows) + (age > 40)})
    found.loc[rng.random(rows) < 0.1, "AGE"] = np.nan
    return found


def measured(seed, sigma=25.0, pair=15.0):
    """Noisy measurements of ages at the levels of their tree, and by sex and job in groups of ten."""
    rng, table = np.random.default_rng(seed), CodedTable.encode(people(seed), SCHEMA)
    true = np.bincount(table.column("AGE"), minlength=AGE.size).astype(float)
    found = []
    for groups in tree_of(AGE):
        counts = np.bincount(range(AGE.size) if groups is None else groups, true)
        found.append(Measurement(("AGE",), counts + rng.normal(0, sigma, len(counts)), sigma, (groups,)))
    for name in ("SEX", "JOB"):
        counts = np.zeros((SCHEMA[name].size, 9))
        np.add.at(counts, (table.column(name), np.array(GROUPS)[table.column("AGE")]), 1.0)
        noisy = counts + rng.normal(0, pair, counts.shape)
        found.append(Measurement((name, "AGE"), noisy, pair, (None, GROUPS)))
    return found, true


def apart(counts, true):
    left, right = (np.cumsum(each[: AGE.bins]) / each[: AGE.bins].sum() for each in (counts, true))
    return float(np.abs(left - right).sum())


def test_pairs_say_more_of_a_column_than_it_alone_does():
    both, alone = [], []
    for seed in range(10):
        found, true = measured(seed)
        both.append(apart(counts_over_all(SCHEMA, found).counts["AGE"], true))
        alone.append(apart(counts_over_all(SCHEMA, found[:-2]).counts["AGE"], true))
    assert np.mean(both) < 0.9 * np.mean(alone)


def test_what_is_no_measurement_says_nothing():
    """A prediction was made of the measurements: they would count twice."""
    found, _ = measured(0)
    extra = Prediction(("AGE", "JOB"), np.full((AGE.size, 3), 9.0), 0.1, sigmas=np.full((AGE.size, 3), 0.1))
    with_, without = (counts_over_all(SCHEMA, each).counts["AGE"] for each in ([*found, extra], found))
    np.testing.assert_array_equal(with_, without)


def test_only_columns_of_few_bins_that_were_measured_by_themselves():
    found, _ = measured(0)
    pay = Measurement(("PAY",), np.zeros(SCHEMA["PAY"].size), 25.0)
    assert SCHEMA["PAY"].bins > FEW_BINS
    assert list(counts_over_all(SCHEMA, [*found, pay]).counts) == ["AGE"]
    assert not counts_over_all(SCHEMA, found[-2:]).counts


def test_groups_that_mix_bins_and_absent_cells_are_passed_over():
    found, _ = measured(0)
    mixed = Measurement(("AGE", "JOB"), np.full((2, 3), 9e4), 1.0, ((*([0] * 40), *([1] * 41)), None))
    with_, without = (counts_over_all(SCHEMA, each).counts["AGE"] for each in ([*found, mixed], found))
    np.testing.assert_array_equal(with_, without)


def test_a_model_is_made_of_the_counts_in_place_of_the_column_alone():
    """Sums of the counts in the model's groups, four times as sharp, as many rows as before; all else is kept."""
    found, _ = measured(1)
    coarsening = Coarsening.of(SCHEMA, found, STRATA.columns)
    before = coarsening.coarse_all(found)
    wanted = np.linspace(10.0, 1.0, AGE.size)
    after = heeded(before, coarsening, {"AGE": wanted})
    (place,) = (place for place, each in enumerate(before) if each.columns == ("AGE",))
    own, new = before[place], after[place]
    sums = np.bincount(coarsening.groups["AGE"], wanted)
    np.testing.assert_allclose(new.values / new.values.sum(), sums / sums.sum())
    np.testing.assert_allclose(new.cell_sigma, own.cell_sigma / 4)
    assert total_estimate(after)[0] == pytest.approx(total_estimate(before)[0], rel=1e-3)
    assert new.groups == own.groups
    assert all(one is two for one, two in zip(before, after, strict=True) if one is not own)
    assert heeded(before, coarsening, {}) == before


def test_absent_cells_that_noise_makes_fewer_than_none_do_not_turn_the_others_over():
    """A column of which nothing is seen: 900 rows fewer than none, as large noise may have it, come to nothing."""
    few = Schema.from_dict({"columns": {"A": {"lower": 0, "upper": 3, "integer": True, "missing": "own"}}}, "few")
    found = [Measurement(("A",), np.array([0.0, 0, 0, 0, -900]), 300.0), Measurement((), np.array(800.0), 3e4)]
    coarsening = Coarsening.of(few, found, ())
    counts = counts_over_all(few, found).counts
    assert counts["A"].sum() < 0
    (column,) = (each for each in heeded(coarsening.coarse_all(found), coarsening, counts) if each.columns)
    assert np.abs(column.values).max() < 1e6


def test_the_column_alone_counts_where_sums_are_too_unlike_in_noise():
    """Two sums of 10⁸ rows with noise of 0.02, and bins with 1,000: a matrix without inverse, or no number at all."""
    few = Schema.from_dict(
        {"columns": {"A": {"lower": 0, "upper": 3, "integer": True}, "J": {"values": [0, 1]}}}, "few"
    )
    rng, bins = np.random.default_rng(0), np.full(4, 2.5e7)
    pair = Measurement(("J", "A"), np.array([[4e7], [6e7]]), 0.02, (None, (0, 0, 0, 0)))
    found = [Measurement(("A",), bins + rng.normal(0, 1000, 4), 1000.0), pair]
    counts = counts_over_all(few, found).counts["A"]
    np.testing.assert_allclose(counts, bins, rtol=1e-3)
    np.testing.assert_array_equal(counts, Alone.of(few["A"], found).smooth)


def test_a_stratified_model_has_the_counts_of_all_rows(monkeypatch):
    """`cut_strata` makes models that add up to them, nearly: six times as near as without, here."""
    fitted = StratifiedSynthesizer("mst", ["SEX"], epsilon=1, seed=0).fit(people(2), SCHEMA)
    wanted = counts_over_all(SCHEMA, fitted.measurements_[()]).counts["AGE"]
    near = apart(fitted.model_.marginal(("AGE",)), wanted)
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "raked_over_all", lambda models, *_: models)
        heeding = fitting.cut_strata(STRATA, fitted.measurements_[()])
    assert near < 0.7 * apart(heeding.marginal(("AGE",)), wanted)  # it goes half the way
    monkeypatch.setattr(fitting, "counts_over_all", lambda *_: OverAll({}))
    assert near < apart(fitting.cut_strata(STRATA, fitted.measurements_[()]).marginal(("AGE",)), wanted) / 3


def coarse_models(seed):
    """Models of merged codes of men and women, before they are raked."""
    ms = StratifiedSynthesizer("mst", ["SEX"], epsilon=1, seed=seed).fit(people(seed), SCHEMA).measurements_[()]
    coarsening, over_all = Coarsening.of(SCHEMA, ms, ("SEX",)), counts_over_all(SCHEMA, ms)
    own = heeded(coarsening.coarse_all(ms), coarsening, over_all.counts)
    return cut(Strata.over(coarsening.schema, ("SEX",)), own, MirrorDescent())[0], coarsening, over_all


def test_smooth_columns_of_all_strata_are_spread_half_as_the_counts_and_no_other_moves():
    models, coarsening, over_all = coarse_models(3)
    assert over_all.smooth == {"AGE"}
    raked = raked_over_all(models, coarsening, over_all)
    groups = np.asarray(coarsening.groups["AGE"])[: AGE.bins]
    wanted = np.bincount(groups, over_all.counts["AGE"][: AGE.bins])

    def sums(of, name):
        return sum(model.marginal((name,)) for model in of.values())

    before, after = (sums(of, "AGE")[: len(wanted)] for of in (models, raked))
    now, known = before / before.sum(), wanted / wanted.sum()
    np.testing.assert_allclose(after / after.sum(), (now + known) / 2, atol=1e-5)
    assert np.abs(now - known).max() > 3e-4
    for name in ("PAY", "JOB"):
        np.testing.assert_allclose(sums(raked, name), sums(models, name), atol=0.002 * sums(models, name).sum())
    assert {key: model.total for key, model in raked.items()} == {key: model.total for key, model in models.items()}
    for key in models:
        rows, same = (of[key].marginal(("AGE",))[len(wanted) :] for of in (models, raked))
        np.testing.assert_allclose(same, rows, atol=2)


def test_a_column_that_is_not_smooth_is_left_as_it_is():
    models, coarsening, over_all = coarse_models(3)
    raked = raked_over_all(models, coarsening, OverAll(over_all.counts))
    assert all(raked[key] is models[key] for key in models)


def test_a_stratum_where_none_is_expected_keeps_its_rows():
    models, coarsening, over_all = coarse_models(3)
    key, groups = (2,), np.asarray(coarsening.groups["AGE"])
    alone = (np.arange(groups.max() + 1) == 0).astype(float)
    models[key] = replace(models[key].tilted({"AGE": alone})[0], total=models[key].total)
    nowhere = np.where(groups == 0, 0.0, over_all.counts["AGE"])
    raked = raked_over_all(models, coarsening, OverAll({"AGE": nowhere}, frozenset({"AGE"})))
    np.testing.assert_allclose(raked[key].marginal(("AGE",)), models[key].total * alone, atol=1e-6)


@pytest.mark.slow
def test_released_ages_are_nearer(monkeypatch):
    """Twelve releases, the same measurements with and without: .92 of the distance, with these seeds."""
    found = {"with": [], "without": []}
    for seed in range(12):
        rows = people(seed, 12_000)
        ages = np.bincount(CodedTable.encode(rows, SCHEMA).column("AGE"), minlength=AGE.size)
        fitted = StratifiedSynthesizer("mst", ["SEX"], epsilon=1, seed=seed).fit(rows, SCHEMA)
        found["with"].append(apart(fitted.model_.marginal(("AGE",)), ages))
        with monkeypatch.context() as patched:
            patched.setattr(fitting, "counts_over_all", lambda *_: OverAll({}))
            model = fitting.cut_strata(STRATA, fitted.measurements_[()])
        found["without"].append(apart(model.marginal(("AGE",)), ages))
    assert np.mean(found["with"]) < 0.96 * np.mean(found["without"])
