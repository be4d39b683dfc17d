"""Tests of large strata, which are measured separately after the columns are measured for all rows.

The cost of a run must be equal to the cost of a single stratum.
"""

from dataclasses import replace

import numpy as np
import pytest
from recorder import made_twice
from spies import Spy

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.levels import COARSE_SHARE, Levels
from equistrata.synth.mechanisms.mst import LARGE_NOISE, MST
from equistrata.synth.mechanisms.session import Session, Step, price_of
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.noise_plan import NoisePlan
from equistrata.synth.size import size
from equistrata.synth.storage import load_measurements, save_measurements
from equistrata.synth.strata.fitting import measure_stratum, model_strata
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.strata.weights import combined_weights
from equistrata.synth.synthesizer import StratifiedSynthesizer

SIZES = {"A": 3, "S": 2, "B": 2, "R": 3, "C": 2}
SCHEMA = Schema("small", tuple(Column(name, values=tuple(range(n))) for name, n in SIZES.items()))
CUT, INNER = ("S", "R"), ("A", "B", "C")
STRATA = Strata.over(SCHEMA, CUT)
MECHANISM = MST(engine=MirrorDescent(iterations=30))
SHARED = shared_selection(MECHANISM, STRATA)
ALWAYS = replace(SHARED, levels=replace(SHARED.levels, large_noise=1e9))
RHO, COUNTS = Rho(0.5), Rho(0.02)


def table_of(rows, seed=0, schema=SCHEMA):
    """Return a table in which B depends on A only for S = 1. The value of R is 2 for one in 50 rows."""
    rng = np.random.default_rng(seed)
    a, s, b, _, c = (rng.integers(0, n, rows) for n in SIZES.values())
    r = rng.choice(3, rows, p=(0.6, 0.38, 0.02))
    b = np.where(rng.random(rows) < 0.8, (a > 0) & (s == 1), b)
    return CodedTable(np.stack([a, s, b, r, c], axis=1).astype(np.uint8), schema)


def edge(rows):
    """Return the ρ at which the noise of a pair in all six strata is LARGE_NOISE of the rows, if two pairs are
    measured.
    """
    return 2 * (6 * 16 / 3 / (LARGE_NOISE * rows)) ** 2 / np.pi


def opened(mechanism, rho, rows=20_000):
    session = Session(table_of(rows), Rho(rho), Spy(exact=True))
    return mechanism.opening(session), session


def test_the_noise_of_pairs_decides():
    opening, session = opened(SHARED, edge(20_000) * 1.05)
    assert opening.each == MECHANISM
    assert {step.columns for step in session.log} == {(name,) for name in SCHEMA.names}
    assert opening.tree == session.budget.remaining
    assert float(opening.tree) == pytest.approx((1 - COARSE_SHARE) * edge(20_000) * 1.05)
    assert opened(SHARED, edge(20_000) * 0.95)[0].each is None


@pytest.mark.parametrize(
    ("selection", "levels"), [("shared", "auto"), (None, "strata"), (None, "none"), ("shared", "none")]
)
def test_a_setting_that_asks_for_one_choice_gets_it(selection, levels):
    shared = shared_selection(MECHANISM, STRATA, selection, levels)
    assert opened(shared, 1.0)[0].each is None


def test_every_stratum_is_measured_as_if_alone_with_what_is_left():
    table, known = table_of(3000), Measurement(CUT, table_of(3000).marginal(CUT) + 0.5, 3.0)
    found, log = ALWAYS.measure_with_log(table, RHO, SeededNoise(1), [known])
    assert found[0] is known
    assert [m.columns for m in found[1:6]] == [(name,) for name in SCHEMA.names]
    assert {m.where for m in found[:6]} == {()}
    assert price_of(log) == RHO
    left, noise = RHO - price_of(log[:5]), SeededNoise(1)
    for place, (key, part) in enumerate(STRATA.partition(table).items()):
        codes = STRATA.codes_of(key)
        own = Measurement((), known.values[tuple(codes.values())], 3.0)
        alone, steps = MECHANISM.measure_with_log(part, left, noise.spawn(place), [own])
        theirs = [m for m in found if m.where == tuple(codes.items())]
        assert [(m.columns, m.sigma) for m in theirs] == [(m.columns, m.sigma) for m in alone[1:]]
        assert all(np.array_equal(a.values, b.values) for a, b in zip(theirs, alone[1:], strict=True))
        assert price_of([step for step in log if step.where == tuple(codes.items())]) == price_of(steps) == left


def test_the_price_of_steps():
    one, two = Rho(1), Rho(2)
    steps = [
        Step(("A",), 1.0, one, two),
        Step(("A",), 1.0, one, one, (("S", 0),)),
        Step((), 1.0, one, two, (("S", 1),)),
    ]
    assert price_of(steps) == Rho(6)
    assert price_of(steps[:1]) == Rho(3)
    assert price_of([]) == Rho(0)


@pytest.mark.parametrize("rows", [500, 1])
def test_a_run_costs_its_price_and_tells_nothing_else(tmp_path, rows):
    """The test uses `recorder` with an additional row. If the strata shared rows, the test would detect it."""

    def release(table, noise):
        measured = measure_stratum(ALWAYS, table, Budget(RHO), COUNTS, noise)
        drawn = model_strata(STRATA, measured, ALWAYS.engine).sample(200, np.random.default_rng(0)).codes
        return measured, drawn

    table = table_of(rows)
    more = CodedTable(np.vstack([table.codes, np.array([[0, 1, 1, 2, 1]], np.uint8)]), SCHEMA)
    found = made_twice(release, table, more, tmp_path)
    assert found.keeps(RHO)
    assert found.pure


def test_strata_that_share_rows_are_caught(monkeypatch, tmp_path):
    monkeypatch.setattr(Strata, "partition", lambda self, table: {key: table.select(INNER) for key in self.keys})
    table = table_of(500)
    more = CodedTable(np.vstack([table.codes, np.array([[0, 1, 1, 2, 1]], np.uint8)]), SCHEMA)
    assert not made_twice(lambda rows, noise: ALWAYS.measure(rows, RHO, noise), table, more, tmp_path).keeps(RHO)


def test_models_are_those_of_strata_that_choose_for_themselves():
    rows = 60_000
    made = StratifiedSynthesizer(MECHANISM, CUT, epsilon=5, delta=1e-6, seed=2).fit(table_of(rows))
    (measured,) = made.measurements_.values()
    assert {m.where for m in measured} == {(), *(tuple(STRATA.codes_of(key).items()) for key in STRATA.keys)}
    for columns in (("A", "B"), ("C",), ("A", "S"), ("A", "S", "B"), ("S", "R")):
        far = np.abs(made.model_.marginal(columns) - table_of(rows).marginal(columns)).sum()
        assert far < 0.02 * rows
    small = table_of(rows).marginal(("R", "A"))[2]
    assert np.abs(made.model_.marginal(("R", "A"))[2] - small).sum() < 0.1 * small.sum()


def test_a_file_keeps_the_stratum(tmp_path):
    measured = ALWAYS.measure(table_of(2000), RHO, SeededNoise(0))
    save_measurements(measured, tmp_path / "all.json")
    loaded = load_measurements(tmp_path / "all.json")
    assert [m.where for m in loaded] == [m.where for m in measured]
    first, again = (model_strata(STRATA, found, ALWAYS.engine) for found in (measured, loaded))
    np.testing.assert_array_equal(first.marginal(SCHEMA.names), again.marginal(SCHEMA.names))


def test_public_weights_are_joined_with_the_sizes_of_strata_measured_apart():
    public = PublicWeights(dict.fromkeys(STRATA.keys, 1 / 6), "test")
    measured = measure_stratum(ALWAYS, table_of(5000), Budget(RHO), COUNTS, SeededNoise(0))
    apart = {(): [m for m in measured if not m.where]}
    for key in STRATA.keys:
        where = tuple(STRATA.codes_of(key).items())
        apart[key] = [replace(m, where=()) for m in measured if m.where == where]
    joined = combined_weights(STRATA, {(): measured}, public)
    assert joined.shares == pytest.approx(combined_weights(STRATA, apart, public).shares)
    exact = table_of(5000).marginal(CUT).ravel() / 5000
    assert list(joined.shares.values()) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("shrinkage", [True, False])
def test_impossible_strata_and_cells_stay_impossible(shrinkage):
    schema = replace(SCHEMA, impossible=(Impossible(CUT, ((0,), (2,))), Impossible(("S", "A"), ((1,), (0,)))))
    strata, codes = Strata.over(schema, CUT), table_of(5000).codes
    table = CodedTable(
        codes[~((codes[:, 1] == 0) & (codes[:, 3] == 2)) & ~((codes[:, 1] == 1) & (codes[:, 0] == 0))], schema
    )
    model = model_strata(strata, ALWAYS.measure(table, RHO, SeededNoise(0)), ALWAYS.engine, shrinkage)
    assert len(model.models) == 5
    assert model.marginal(CUT)[0, 2] == 0
    assert model.marginal(("S", "A"))[1, 0] == 0


def test_a_plan_of_large_strata_expects_what_each_measures():
    rows, rho = 20_000, Rho(edge(20_000) * 2)
    table = table_of(rows)
    parts = STRATA.partition(table)
    plan = NoisePlan(SHARED, STRATA, {key: len(part) for key, part in parts.items()}, rho)
    _, log = SHARED.measure_with_log(table, rho, Spy(exact=True))
    assert plan.selection == "per-stratum"
    for key in STRATA.keys:
        own = [step for step in log if step.where == tuple(STRATA.codes_of(key).items())]
        floors = []
        for name in INNER:
            precision = sum(step.sigma**-2 for step in own if step.columns == (name,))
            floors.append(np.sqrt(2 / np.pi / precision) * SIZES[name])
        assert plan.one_way(key)[CUT] == pytest.approx(np.mean(floors))
        pairs = [step for step in own if len(step.columns) == 2]
        assert bool(plan.two_way(key)) == bool(pairs)
        # The shares are as planned up to a constant factor, because the number of pairs and the number of their cells
        # are different.
        noise = [np.sqrt(2 / np.pi) * step.sigma * SIZES[step.columns[0]] * SIZES[step.columns[1]] for step in pairs]
        ratios = [each / plan.pairs(key)[step.columns] for each, step in zip(noise, pairs, strict=True)]
        assert ratios == pytest.approx(ratios[:1] * len(ratios))
        assert all(ratio < 1.35 for ratio in ratios)
    assert plan.choices == max(
        2,
        *(
            NoisePlan(MECHANISM, Strata.over(STRATA.rest(key), ()), {(): len(part)}, rho).choices
            for key, part in parts.items()
        ),
    )
    assert len(plan.readable_pairs) == 10
    assert NoisePlan(SHARED, STRATA, plan.sizes, rho * 0.4).selection == "shared"
    assert all(plan.smallest_rho().values())


def test_the_time_of_a_fit_counts_every_stratum():
    assert (
        size(SHARED, STRATA).fitting > 6 * size(MECHANISM, Strata.over(STRATA.rest(STRATA.keys[0]), ())).fitting * 0.9
    )
    assert size(SHARED, STRATA).fitting > size(replace(SHARED, levels=Levels(CUT)), STRATA).fitting
