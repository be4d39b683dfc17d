"""Tests of a single mixture for all strata: the models of the strata, the weights in the training, and large strata."""

from dataclasses import replace

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement, Prediction
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.models.mixtures.descent import Adam, MixtureDescent
from equistrata.synth.models.mixtures.mixture import ProductMixture
from equistrata.synth.strata.cutting import split_by_strata
from equistrata.synth.strata.fitting import Fitting
from equistrata.synth.strata.selection import shared_selection

COLUMNS = (
    Column("A", values=(0, 1, 2)),
    Column("S", values=(0, 1)),
    Column("B", values=(0, 1)),
    Column("R", values=(0, 1)),
)
ZEROS = (Impossible(("S", "A"), ((0,), (2,))), Impossible(("A", "B"), ((1,), (1,))))
QUICK = MixtureDescent(components=20, steps=400)


def mixture_of(schema, components=5, seed=0):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.gamma(0.5, size=(components, size)) + 1e-3 for size in schema.sizes)
    return ProductMixture(schema, 90.0, rng.dirichlet(np.ones(components)), factors)


@pytest.mark.parametrize("zeros", [(), ZEROS])
def test_a_stratum_s_mixture_is_the_whole_s_given_the_stratum(zeros):
    schema = Schema("small", COLUMNS, zeros)
    model, strata = mixture_of(schema), Strata.over(schema, ("S", "R"))
    whole = model.marginal(["S", "R", "A", "B"])
    models = split_by_strata(model, strata, dict.fromkeys(strata.keys, 7.0))
    for key in strata.keys:
        codes = strata.codes_of(key)
        part = whole[codes["S"], codes["R"]]
        np.testing.assert_allclose(models[key].marginal(["A", "B"]), 7 * part / part.sum(), atol=1e-12)


def test_a_stratum_of_probability_zero_is_left_out():
    schema = Schema("small", COLUMNS)
    model, strata = mixture_of(schema), Strata.over(schema, ("S",))
    nobody = replace(model, factors=(model.factors[0], model.factors[1] * [1, 0], *model.factors[2:]))
    assert list(split_by_strata(nobody, strata, dict.fromkeys(strata.keys, 1.0))) == [strata.keys[0]]


def test_predictions_count_by_the_deviation_of_each_cell():
    schema = Schema("small", COLUMNS[:2])
    measured = Measurement(("A",), np.array([100.0, 100.0, 100.0]), 5.0)
    values = np.array([[90.0, 10.0], [10.0, 90.0], [999.0, 999.0]])
    sigmas = np.array([[1.0, 1.0], [1.0, 1.0], [np.inf, np.inf]])
    predicted = Prediction(("A", "S"), values, 1.0, sigmas=sigmas)
    found = replace(QUICK, optimizer=Adam(discrepancy=0)).estimate(schema, [measured, predicted]).marginal(["A", "S"])
    np.testing.assert_allclose(found[:2], values[:2], atol=2)
    # The value 999 is not used because its standard deviation is infinite.
    assert found[2].sum() == pytest.approx(100, abs=3)


def test_training_ends_before_it_fits_noise():
    """The columns are independent and the pair is mostly noise. Without the discrepancy, the model fits the noise."""
    schema = Schema("wide", tuple(Column(name, values=tuple(range(8))) for name in "AB"))
    noise = np.random.default_rng(0).normal(0, 40, (8, 8))
    told = [
        *(Measurement((name,), np.full(8, 800.0), 10.0) for name in "AB"),
        Measurement(("A", "B"), 100 + noise, 40.0),
    ]

    def off(discrepancy):
        made = replace(QUICK, optimizer=Adam(discrepancy=discrepancy)).estimate(schema, told)
        return np.abs(made.marginal(["A", "B"]) - 100).sum() / 6400

    assert off(0.65) < 0.7 * off(0.0)


def people(rows, seed=0):
    """Return rows in which B depends on A, with the opposite sign for R = 1. Only a few rows have R = 1."""
    rng = np.random.default_rng(seed)
    a, s, r = rng.integers(0, 3, rows), rng.integers(0, 2, rows), (rng.random(rows) < 0.2).astype(int)
    b = np.where(rng.random(rows) < 0.9, (a > 0) ^ (r > 0), rng.integers(0, 2, rows))
    return CodedTable(np.stack([a, s, b, r], axis=1).astype(np.uint8), Schema("people", COLUMNS))


@pytest.mark.parametrize(("rows", "rho", "own"), [(4000, 0.01, False), (40_000, 0.5, True)])
def test_one_choice_serves_all_strata_unless_all_are_large(rows, rho, own):
    table, strata = people(rows), Strata.over(Schema("people", COLUMNS), ("R",))
    gem = GEM(rounds=4, engine=QUICK)
    fitting = Fitting(gem, strata, shared_selection(gem, strata))
    measured, model = fitting.fit(table, Budget(Rho(rho)), Rho(rho / 50), SeededNoise(0))
    assert set(measured) == {()}
    assert any(each.where for each in measured[()]) == own
    for key in strata.keys:
        exact = table.marginal(["R", "A", "B"])[strata.codes_of(key)["R"]]
        found = model.models[key].marginal(["A", "B"])
        # The distance is 1.6 for the relation of the other stratum.
        assert np.abs(found / found.sum() - exact / exact.sum()).sum() < 0.25


def test_levels_decide_what_may_be_chosen():
    schema, strata = Schema("people", COLUMNS), Strata.over(Schema("people", COLUMNS), ("S", "R"))

    def chosen(levels):
        shared = shared_selection(GEM(), strata, "shared", levels)
        return {frozenset(columns) for columns in shared.candidates(schema)}

    assert chosen("strata") == {frozenset("SRAB")}
    assert frozenset("SRAB") not in chosen("none")
    assert chosen("auto") == chosen("none") | chosen("strata")
