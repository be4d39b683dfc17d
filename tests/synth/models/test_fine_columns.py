"""Numeric columns that declare bounds alone: values keep their mean, spread and atoms, at bins that nobody declared."""

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.coarsening import FINE_GROUPS, RUNS, Coarsening, _Counts, runs_of
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import StratifiedSynthesizer

BMI = Column("BMI", lower=10, upper=80, release="draw")
HOURS = Column("HOURS", lower=0, upper=99, integer=True, missing="own", release="draw")
PAY = Column("PAY", lower=0, upper=1_000_000, integer=True, release="draw")
WIDE_PAY = Column("PAY", lower=0, upper=2_000_000, integer=True, release="draw")
SEX = Column("SEX", values=(1, 2))
SCHEMA = Schema("people", (SEX, BMI, HOURS, PAY))


def people(rows, seed=0):
    """BMI about 27, a bit higher in one sex; 40 hours for a third, none for a fifth; pay with a long tail, or none."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(1, 3, rows)
    hours = np.where(rng.random(rows) < 0.35, 40.0, rng.normal(36, 12, rows).clip(1, 99).round())
    hours[rng.random(rows) < 0.2] = np.nan
    pay = np.where(rng.random(rows) < 0.15, 0, np.exp(rng.normal(10.3, 0.9, rows))).clip(0, 1e6).round()
    return pd.DataFrame({"SEX": sex, "BMI": rng.normal(26 + sex, 5, rows).clip(10, 80), "HOURS": hours, "PAY": pay})


@pytest.mark.parametrize(
    ("mechanism", "settings", "rows"),
    [
        ("mst", {}, 5000),
        ("mst", {"strata": ["SEX"]}, 5000),
        ("aim", {"strata": ["SEX"]}, 5000),
        ("mst", {"strata": ["SEX"]}, 60_000),  # each by itself: large strata
        ("mst", {"strata": ["SEX"], "levels": "strata"}, 20_000),
        ("gem", {"strata": ["SEX"]}, 20_000),
    ],
)
def test_released_values_have_the_moments_and_atoms_of_the_rows(mechanism, settings, rows):
    real = people(rows)
    made = StratifiedSynthesizer(mechanism, epsilon=1, seed=1, **settings).fit(real, SCHEMA).sample(rows)
    assert made["BMI"].mean() == pytest.approx(real["BMI"].mean(), rel=0.02)
    assert made["BMI"].std() == pytest.approx(real["BMI"].std(), rel=0.15)
    assert made["HOURS"].isna().mean() == pytest.approx(0.2, abs=0.03)
    assert (made["HOURS"].fillna(-1) == 40).mean() == pytest.approx((real["HOURS"] == 40).mean(), abs=0.04)
    assert (made["PAY"] == 0).mean() == pytest.approx(0.15, abs=0.03)
    assert made["PAY"].median() == pytest.approx(real["PAY"].median(), rel=0.1)
    assert made["PAY"].mean() == pytest.approx(real["PAY"].mean(), rel=0.15)


def test_runs_have_as_many_bins_each_and_the_missing_stand_alone():
    for column in (BMI, HOURS, PAY):
        runs = np.bincount(runs_of(column))
        assert len(runs) == RUNS + (column.missing == "own")
        assert runs[:RUNS].max() - runs[:RUNS].min() <= 1
        assert sorted(runs_of(column)) == list(runs_of(column))
    assert runs_of(Column("X", lower=0, upper=3, integer=True)) == (0, 1, 2, 3)


def measured(column, counts, sigmas, seed):
    rng, runs = np.random.default_rng(seed), runs_of(column)
    noisy = [Measurement((column.name,), counts + rng.normal(0, sigmas[0], len(counts)), sigmas[0])]
    sums = np.bincount(runs, counts)
    return [
        *noisy,
        Measurement((column.name,), sums + rng.normal(0, sigmas[1], len(sums)), sigmas[1], (runs,)),
    ]


def test_sums_over_runs_keep_the_noise_of_many_bins_from_adding_up():
    """The tail above 50, of 300 bins: its noisy sum is off by √300·σ, by runs a fifth of that. Mean of 40 draws."""
    values = np.random.default_rng(0).normal(27, 5, 5000).clip(10, 80)
    counts = CodedTable.encode(pd.DataFrame({"BMI": values}), Schema("b", (BMI,))).marginal(("BMI",)).astype(float)
    tail = np.array(BMI.cuts[1:]) > 50
    far = np.array(
        [
            [abs(_Counts.of(BMI, found[:n]).raw[tail].sum() - counts[tail].sum()) for n in (1, 2)]
            for found in (measured(BMI, counts, (10.0, 10.0), seed) for seed in range(40))
        ]
    ).mean(0)
    assert far[0] == pytest.approx(np.sqrt(tail.sum()) * 10 * np.sqrt(2 / np.pi), rel=0.35)
    assert far[1] < 0.35 * far[0]


def test_the_noise_of_a_sum_of_outer_bins_is_known():
    """Standard deviations over 400 draws, of sums from each bin on, within 15 %."""
    counts = np.zeros(PAY.size)
    found = [_Counts.of(PAY, measured(PAY, counts, (10.0, 15.0), seed)) for seed in range(400)]
    outwards = np.arange(PAY.bins)
    sums = np.array([each.raw[outwards][::-1].cumsum()[::-1] for each in found])
    np.testing.assert_allclose(found[0]._beyond(outwards), sums.std(0), rtol=0.15)


def test_few_rows_of_noise_are_left_far_out_in_a_heavy_tail():
    """Rows above a million, of 20,000 draws of a Pareto law: 9 are there. Mean of 40 draws of noise."""
    pay = np.random.default_rng(0).pareto(2, 20_000) * 22_000
    codes = CodedTable.encode(pd.DataFrame({"PAY": pay.clip(0, 2e6).round()}), Schema("p", (WIDE_PAY,)))
    counts, far = codes.marginal(("PAY",)).astype(float), np.array(WIDE_PAY.cuts[:-1]) >= 1e6
    found = [_Counts.of(WIDE_PAY, measured(WIDE_PAY, counts, (30.0, 30.0), seed)) for seed in range(40)]
    plain = np.mean([np.maximum(each.raw, 0)[: len(far)][far].sum() for each in found])
    tails = np.mean([each.tail(WIDE_PAY, np.arange(300, WIDE_PAY.bins), upper=True)[far[300:]].sum() for each in found])
    assert counts[: len(far)][far].sum() == 9
    assert plain > 80
    assert 3 < tails < 27


def test_groups_are_found_by_what_was_measured_and_runs_do_not_split_them():
    mechanism = shared_selection(MST(), Strata.over(SCHEMA, ["SEX"]))
    found = mechanism.measure(CodedTable.encode(people(20_000), SCHEMA), Rho(0.015), SeededNoise(0))
    runs = [m for m in found if m.groups == (runs_of(PAY),)]
    assert {m.columns for m in runs} == {("PAY",)}
    coarse = Coarsening.of(SCHEMA, found, ("SEX",))
    sizes = dict(zip(SCHEMA.names, coarse.schema.sizes, strict=True))
    assert all(2 < sizes[name] <= FINE_GROUPS for name in ("BMI", "HOURS", "PAY"))
    assert len(coarse.coarse_all(found)) == len(found) - sum(
        m.groups == (runs_of(SCHEMA[m.columns[0]]),)
        for m in found
        if len(m.columns) == 1 and SCHEMA[m.columns[0]].numeric
    )


def test_strata_need_edges():
    with pytest.raises(InputError, match="'PAY' is numeric and has no bins; add 'edges'"):
        Strata.over(SCHEMA, ["PAY"])
