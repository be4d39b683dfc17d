"""Tests of the privacy cost of each synthesizer at each level, which must be at most its charge.

The tests use `recorder`, which repeats a release of a table on a neighbouring table with an additional row.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from recorder import Recorder, made_twice

import equistrata.privacy.noise
import equistrata.synth.mechanisms.session
import equistrata.synth.synthesizer
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.foreign.smartnoise import SmartNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.strata.fitting import measure_stratum, model_strata
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import StratifiedSynthesizer

SIZES = {"A": 3, "S": 2, "B": 2, "R": 2, "C": 2}
SCHEMA = Schema("small", tuple(Column(name, values=tuple(range(size))) for name, size in SIZES.items()))
CUT = ("S", "R")
STRATA = Strata.over(SCHEMA, CUT)
QUICK = MirrorDescent(iterations=15)
MECHANISMS = {
    "mst": MST(engine=QUICK, readable=1e9),
    "aim": AIM(engine=QUICK, round_engine=replace(QUICK, iterations=5), readable=1e9, rounds=2),
    "gem": GEM(rounds=3, round_steps=3, readable=1e9, engine=MixtureDescent(components=6, steps=10)),
}
EACH = pytest.mark.parametrize("name", MECHANISMS)
RHO, COUNTS = Rho(0.5), Rho(0.05)


def tables(rows=500, seed=0):
    """Return two neighbouring tables. A and B are dependent, and R and C are dependent. The additional row is of a rare
    kind.
    """
    rng = np.random.default_rng(seed)
    a, s, b, r, c = (rng.integers(0, size, rows) for size in SIZES.values())
    b, c = np.where(rng.random(rows) < 0.8, a > 0, b), np.where(rng.random(rows) < 0.8, r > 0, c)
    codes = np.stack([a, s, b, r, c], axis=1).astype(np.uint8)
    return CodedTable(codes, SCHEMA), CodedTable(np.vstack([codes, np.array([[0, 1, 1, 0, 1]], np.uint8)]), SCHEMA)


def assert_kept(found, price):
    assert found.keeps(price)
    assert found.pure


def each_stratum(mechanism):
    """Return the measurement of a release in which the selection is separate for each stratum, with noisy counts."""

    def measure(table, noise):
        budgets = Budget(RHO).parallel(RHO, STRATA.keys, "strata in parallel")
        return [
            measure_stratum(mechanism, part, budgets[key], COUNTS, noise.spawn(place))
            for place, (key, part) in enumerate(STRATA.partition(table).items())
        ]

    return measure


def all_strata(mechanism, levels="auto"):
    """Return the measurement of a release with a single selection for all strata."""
    shared = shared_selection(mechanism, STRATA, "shared", levels)
    return lambda table, noise: measure_stratum(shared, table, Budget(RHO), COUNTS, noise)


@EACH
@pytest.mark.parametrize("rows", [500, 1])
def test_a_synthesizer_for_each_stratum(tmp_path, name, rows):
    assert_kept(made_twice(each_stratum(MECHANISMS[name]), *tables(rows), tmp_path), RHO)


@EACH
@pytest.mark.parametrize("levels", ["auto", "strata", "none"])
def test_one_choice_for_all_strata(tmp_path, name, levels):
    assert_kept(made_twice(all_strata(MECHANISMS[name], levels), *tables(), tmp_path), RHO)


@EACH
def test_strata_that_nest(tmp_path, name):
    """The additional row is in a place with few rows, so it changes a cell of each level."""
    columns = {"PUMA": {"within": "ST", "values": {1: [1, 2], 2: [1]}}}
    columns |= {column.name: {"values": [*column.values]} for column in SCHEMA.columns[:3]}
    schema = Schema.from_dict({"columns": columns})
    rows = np.random.default_rng(0).integers(0, (2, 3, 2, 2), (400, 4)).astype(np.uint8)
    pair = [CodedTable(codes, schema) for codes in (rows, np.vstack([rows, np.array([[2, 0, 1, 1]], np.uint8)]))]
    shared = shared_selection(MECHANISMS[name], Strata.over(schema, ["ST/PUMA", "S"]), "shared", "auto")

    def release(table, noise):
        measured = measure_stratum(shared, table, Budget(RHO), COUNTS, noise)
        assert any(m.columns == ("PUMA", "S") and m.groups[0] == (0, 0, 1) for m in measured)
        return measured, model_strata(Strata.over(schema, ["ST/PUMA", "S"]), measured, shared.engine).weights

    assert_kept(made_twice(release, *pair, tmp_path), RHO)


FORTY = {
    "values": {"values": tuple(range(40))},
    "bounds": {"lower": 0, "upper": 39, "integer": True},
    "bounds apart": {"lower": 0, "upper": 39, "decimals": 0},
}


@EACH
@pytest.mark.parametrize("strata", [(), ("S",)])
@pytest.mark.parametrize("declared", FORTY)
def test_wide_columns(tmp_path, name, strata, declared):
    """The columns have forty codes, which are merged. The additional row has a rare code or is at a bound."""
    schema = Schema("wide", (Column("X", **FORTY[declared]), *SCHEMA.columns[:2]))
    rows = np.random.default_rng(0).integers(0, (30, 3, 2), (400, 3)).astype(np.uint8)
    rows[:, 1] = rows[:, 0] // 10
    rows[:150, 0] *= not schema["X"].bounds_apart
    pair = [CodedTable(codes, schema) for codes in (rows, np.vstack([rows, np.array([[39, 0, 1]], np.uint8)]))]
    mechanism = MECHANISMS[name]
    if strata:
        mechanism = shared_selection(mechanism, Strata.over(schema, strata), "shared", "auto")

    def release(table, noise):
        measured = mechanism.measure(table, RHO, noise)
        merged = [m.groups[0] for m in measured if m.columns[:2] == ("X", "A") and m.groups[0] is not None]
        assert merged
        assert not schema["X"].bounds_apart or all(groups.count(groups[0]) == 1 for groups in merged)
        return measured, mechanism.model(schema, measured).sample(200, np.random.default_rng(1)).codes

    assert_kept(made_twice(release, *pair, tmp_path), RHO)


@pytest.mark.parametrize("name", ["mst", "aim"])
@pytest.mark.parametrize("strata", [(), ("S",)])
@pytest.mark.parametrize("weight", [0, 500, 9000])
def test_survey_weights(tmp_path, name, strata, weight):
    """The weight is measured alone and with each column. The additional row has a weight of 0, at the bound or above
    the bound.
    """
    columns = {"columns": {"A": {"values": [0, 1, 2]}, "S": {"values": [0, 1]}}}
    schema = Schema.from_dict(columns | {"survey_weight": {"column": "W", "upper": 500}})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"A": rng.integers(0, 3, 400), "S": rng.integers(0, 2, 400), "W": rng.gamma(2.0, 20.0, 400)})
    more = pd.concat([frame, pd.DataFrame({"A": [2], "S": [1], "W": [weight]})], ignore_index=True)
    mechanism = MECHANISMS[name]
    if strata:
        mechanism = shared_selection(mechanism, Strata.over(schema, strata), "shared", "auto")

    def release(table, noise):
        measured = mechanism.measure(table, RHO, noise)
        assert {("A", "W"), ("S", "W")} <= {m.columns for m in measured}
        return measured, mechanism.model(schema, measured).sample(200, np.random.default_rng(1)).codes

    assert_kept(made_twice(release, *(CodedTable.encode(each, schema) for each in (frame, more)), tmp_path), RHO)


@EACH
@pytest.mark.parametrize("make", [each_stratum, all_strata])
def test_where_nothing_can_be_read(tmp_path, name, make):
    assert_kept(made_twice(make(replace(MECHANISMS[name], readable=1e-9)), *tables(), tmp_path), RHO)


def fitted_twice(monkeypatch, folder, **settings):
    """Fit a StratifiedSynthesizer to both tables.

    Return the comparison of the measurements, sizes and rows, and the privacy cost.
    """
    price = []

    def fit(table, noise):
        monkeypatch.setattr(equistrata.synth.synthesizer, "noise_source", lambda _: noise)
        made = StratifiedSynthesizer(MECHANISMS["mst"], ["S"], seed=1, epsilon=4, delta=1e-6, **settings).fit(table)
        price.append(made.rho_)
        drawn = made.model_.sample(300, np.random.default_rng(2)).codes
        return made.measurements_, made.model_.weights, made.model_.total, drawn

    return made_twice(fit, *tables(), folder), price[0]


@pytest.mark.parametrize("selection", ["shared", "per-stratum"])
@pytest.mark.parametrize("combined", [True, False])
def test_models_weights_and_drawn_rows(monkeypatch, tmp_path, selection, combined):
    settings = {"weights": PublicWeights({(0,): 0.5, (1,): 0.5}, "test"), "combine_weights": True} if combined else {}
    assert_kept(*fitted_twice(monkeypatch, tmp_path, selection=selection, shrinkage=not combined, **settings))


def test_the_count_of_a_synthesizer_that_is_not_ours(tmp_path):
    assert_kept(made_twice(lambda table, noise: SmartNoise().measure(table, RHO, noise), *tables(), tmp_path), RHO)


# --- Planted faults, which must be detected


CHOOSERS = {  # most of ρ is for selections among marginals of equal weight
    "mst": replace(MECHANISMS["mst"], levels=Levels(columns=0.05, low_noise=0.05), choice=0.85),
    "aim": replace(MECHANISMS["aim"], measured=0.1, degree=2),
    "gem": replace(MECHANISMS["gem"], selection_share=0.9, rounds=8),
}


def assert_choices_kept(folder, name):
    """Several tables are used. In one of them, the additional row increases one of the scores and decreases another, so
    that the selection has the full cost.
    """
    for seed in range(4):
        found = made_twice(
            lambda table, noise: CHOOSERS[name].measure(table, RHO, noise), *tables(60, seed), folder / str(seed), seed
        )
        assert found.keeps(RHO)


@EACH
def test_choices(tmp_path, name):
    assert_choices_kept(tmp_path, name)


@EACH
@pytest.mark.parametrize("noise", ["gaussian_sigma", "selection_epsilon"])
def test_noise_too_small_by_a_tenth_is_caught(monkeypatch, tmp_path, name, noise):
    honest, factor = getattr(equistrata.privacy.noise, noise), 0.9 if noise == "gaussian_sigma" else 1 / 0.9
    monkeypatch.setattr(equistrata.privacy.noise, noise, lambda *price: factor * honest(*price))
    with pytest.raises(AssertionError, match=r"costs"):
        assert_choices_kept(tmp_path, name)


@EACH
def test_a_marginal_that_is_not_charged_is_caught(monkeypatch, tmp_path, name):
    honest = equistrata.synth.mechanisms.session.Session.measure

    def measure(self, columns, price, *rest):
        if len(self.log) == 1:
            measure_marginal(self.table, ("A", "B"), price, Budget(price), self.noise)
        return honest(self, columns, price, *rest)

    monkeypatch.setattr(equistrata.synth.mechanisms.session.Session, "measure", measure)
    found = made_twice(each_stratum(MECHANISMS[name]), *tables(), tmp_path)
    assert found.pure
    assert not found.keeps(RHO)
    assert found.claimed > float(RHO) * 1.01


@EACH
def test_a_score_of_sensitivity_two_is_caught(monkeypatch, tmp_path, name):
    honest = equistrata.synth.mechanisms.session.marginal_score
    monkeypatch.setattr(equistrata.synth.mechanisms.session, "marginal_score", lambda *given: 2 * honest(*given))
    with pytest.raises(AssertionError, match=r"\(select\) moves by 2\.0, not 1"):
        assert_choices_kept(tmp_path, name)


def test_a_score_that_is_not_rounded_is_caught(monkeypatch, tmp_path):
    """Without rounding to a grid, a score can change by slightly more than 1."""
    monkeypatch.setattr(
        equistrata.synth.mechanisms.session,
        "marginal_score",
        lambda truth, modelled, sigma=0.0: float(np.abs(truth - modelled).sum() - sigma),
    )
    with pytest.raises(AssertionError, match=r"\(select\) moves by 1\.0000000"):
        assert_choices_kept(tmp_path, "mst")


def test_a_model_that_knows_the_number_of_rows_is_caught(monkeypatch, tmp_path):
    honest = StratifiedSynthesizer.fit

    def fit(self, table):
        made = honest(self, table)
        made.model_ = replace(made.model_, total=float(len(table)))
        return made

    monkeypatch.setattr(StratifiedSynthesizer, "fit", fit)
    found, price = fitted_twice(monkeypatch, tmp_path)
    assert found.keeps(price)
    assert not found.pure


@pytest.mark.parametrize("what", ["price", "columns"])
def test_a_decision_that_looks_at_rows_is_caught(monkeypatch, tmp_path, what):
    honest = equistrata.synth.mechanisms.session.Session.measure

    def measure(self, columns, price, *rest):
        if len(self.table) % 2:
            columns, price = (columns, price * 0.5) if what == "price" else (("C", "B", "A"), price)
        return honest(self, columns, price, *rest)

    monkeypatch.setattr(equistrata.synth.mechanisms.session.Session, "measure", measure)
    with pytest.raises(AssertionError, match=r"other noise on the neighbour|another call"):
        made_twice(lambda table, noise: MECHANISMS["mst"].measure(table, RHO, noise), *tables(), tmp_path)


# --- The score


def test_one_row_moves_a_score_by_one_at_most_in_floating_point_too():
    """The models and the noise scales have any size. Above 2⁴², the values are bounded, so that sums of floats are
    exact.
    """
    rng = np.random.default_rng(1)
    for _ in range(300):
        cells, size, sigma = rng.integers(2, 60), 10.0 ** rng.uniform(-3, 18), 10.0 ** rng.uniform(-3, 15)
        truth = rng.integers(0, 10 ** rng.integers(1, 8), cells)
        modelled, more = rng.random(cells) * size, truth.copy()
        more[rng.integers(cells)] += 1
        change = equistrata.synth.mechanisms.session.marginal_score(
            more, modelled, sigma
        ) - equistrata.synth.mechanisms.session.marginal_score(truth, modelled, sigma)
        assert abs(change) <= 1.0
        if size < 1e9 and sigma < 1e6:  # the result is the score except for its rounding
            told = np.abs(truth - modelled).sum() - np.sqrt(2 / np.pi) * sigma * cells
            assert equistrata.synth.mechanisms.session.marginal_score(truth, modelled, sigma) == pytest.approx(
                told, abs=(cells + 1) / 2048 + 1e-6
            )


def test_weighed_scores_move_by_one_at_most():
    rng = np.random.default_rng(2)
    for _ in range(300):
        weights = rng.choice([1.0, 1 - 2.0**-30, 1 - 2.0**-17, 0.3, 1e-9], 5) * 10.0 ** rng.uniform(-6, 6)
        scores = np.rint(rng.normal(0, 1, 5) * 2.0**33 * 1024) / 1024
        moved = equistrata.synth.mechanisms.session.weighed(scores + rng.choice([-1.0, 1.0], 5), weights)
        assert np.abs(moved - equistrata.synth.mechanisms.session.weighed(scores, weights)).max() <= 1.0


def test_a_recorder_that_is_asked_twice_by_one_stream_fails(tmp_path):
    noise, one = Recorder(tmp_path), np.array([1])
    for stream in (1, 2):
        noise.spawn(stream).gaussian(one, 1.0, Rho(1), Budget(Rho(1)), "x")
    with pytest.raises(FileExistsError):
        noise.spawn(2).gaussian(one, 1.0, Rho(1), Budget(Rho(1)), "x")
    assert SeededNoise(0).spawn(1).gaussian(one, 1.0, Rho(1), Budget(Rho(1)), "x")[1] == 1 / np.sqrt(2)
