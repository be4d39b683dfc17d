"""Tests of nested strata. The tests check the measured levels, the share of ρ for each level, and the consistency of
the sizes.
"""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement, has_all_codes, sum_groups
from equistrata.synth.mechanisms.levels import NESTED_SHARE, OUTER_SHARE, Levels
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.mechanisms.session import price_of
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.noise_plan import NoisePlan, planned_mechanism
from equistrata.synth.series.state import by_strata
from equistrata.synth.strata.cutting import _sizes, cut, fit_to_stratum_sizes
from equistrata.synth.strata.hierarchy import nested_sizes
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import StratifiedSynthesizer

PLACES = {1: [1, 2, 3], 2: [1, 2], 3: [7]}
NUMBER = 6  # the number of places
DOCUMENT = {
    "columns": {
        "SEX": {"values": [1, 2]},
        "PUMA": {"within": "ST", "values": PLACES},
        "AGE": {"values": [0, 1, 2]},
        "RACE": {"values": [1, 2, 3]},
        "JOB": {"values": [0, 1]},
    },
    "impossible": [{"AGE": [0], "JOB": [1]}],
}
SCHEMA = Schema.from_dict(DOCUMENT)
STRATA = Strata.over(SCHEMA, ["ST/PUMA", "SEX", "RACE"])  # the order is different from the schema
STATES = SCHEMA["PUMA"].levels[0]


def table_of(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    place = rng.choice(NUMBER, rows, p=[0.4, 0.2, 0.1, 0.15, 0.1, 0.05])
    race = np.where(rng.random(rows) < 0.1 + 0.1 * place, rng.integers(0, 3, rows), 0)
    age, job = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    codes = np.stack([rng.integers(0, 2, rows), place, age, race, np.where(age == 0, 0, job)], axis=1)
    return CodedTable(codes.astype(np.uint8), SCHEMA)


def measured(table, columns, sigma, outer=None, seed=1):
    groups = tuple(outer if name == "PUMA" else None for name in columns)
    blank = Measurement(tuple(columns), np.zeros((1,) * len(columns)), 0.0, groups)
    counts = blank.merged(table.marginal(columns)).astype(float)
    noise = np.random.default_rng(seed).normal(0, sigma, counts.shape)
    return Measurement(blank.columns, counts + noise, sigma, groups)


def test_levels_of_a_nested_list():
    levels = Levels(STRATA.columns)
    found = levels.hierarchy(SCHEMA)
    of_sizes = [(columns, groups) for columns, groups, _ in found if set(columns) <= set(STRATA.columns)]
    assert of_sizes == [
        (("SEX", "PUMA"), (None, None)),
        (("PUMA", "RACE"), (None, None)),
        (("SEX", "PUMA", "RACE"), (None, None, None)),
        (("SEX", "PUMA", "RACE"), (None, STATES, None)),
    ]
    by_state = [(columns, groups) for columns, groups, _ in found if (columns, groups) not in of_sizes]
    assert by_state == [
        (("PUMA", "AGE"), (STATES, None)),
        (("PUMA", "JOB"), (STATES, None)),
    ]
    parts = [share for *_, share in found]
    assert sum(parts[:4]) == pytest.approx(NESTED_SHARE)
    assert sum(parts[4:]) == pytest.approx(OUTER_SHARE)
    # The sizes are not measured again.
    assert levels.within_strata(SCHEMA, Rho(1), 1000.0)[0][0] != ("SEX", "PUMA", "RACE")


@pytest.mark.parametrize("strata", [("SEX", "RACE"), ()])
def test_strata_that_do_not_nest_have_no_hierarchy(strata):
    assert Levels(strata).hierarchy(SCHEMA) == []


def test_there_is_none_without_coarser_levels():
    assert Levels(STRATA.columns, coarse=False).hierarchy(SCHEMA) == []


def test_three_levels_and_places_alone():
    nested = {"N": {1: [1, 2], 2: [1]}, "S": {3: [1]}}
    columns = {"PUMA": {"within": ["REGION", "ST"], "values": nested}, "JOB": {"values": [0, 1]}}
    schema = Schema.from_dict({"columns": columns})
    sizes = [(columns, groups) for columns, groups, _ in Levels(("PUMA",)).hierarchy(schema) if len(columns) == 1]
    assert sizes == [(("PUMA",), (None,)), (("PUMA",), ((0, 0, 0, 1),)), (("PUMA",), ((0, 0, 1, 2),))]


def test_a_state_is_not_its_pumas():
    table = table_of()
    assert has_all_codes(measured(table, ["PUMA", "AGE"], 1.0), ["PUMA"])
    assert not has_all_codes(measured(table, ["PUMA", "AGE"], 1.0, STATES), ["PUMA"])
    assert not has_all_codes(measured(table, ["AGE"], 1.0), ["PUMA"])


def test_sizes_that_are_known_are_found():
    table = table_of()
    fine = measured(table, ["RACE", "PUMA", "SEX"], 1e-3)
    sizes = nested_sizes(STRATA, [fine])
    assert np.abs(sizes - table.marginal(STRATA.columns)).max() < 1


def test_sums_over_a_level_are_that_level():
    table = table_of()
    states = measured(table, ["SEX", "PUMA", "RACE"], 1e-3, STATES)
    known = [measured(table, ["SEX", "PUMA", "RACE"], 60.0), measured(table, ["PUMA", "JOB"], 40.0), states]
    sizes = nested_sizes(STRATA, known)
    truth = table.marginal(STRATA.columns)
    assert np.abs(sum_groups(sizes, 0, STATES) - sum_groups(truth, 0, STATES)).max() < 2
    assert sizes.sum() == pytest.approx(len(table), abs=2)
    assert (sizes > 0).all()
    assert np.abs(sizes - truth).max() > 5
    shaped = _sizes(STRATA, known, MirrorDescent(), True)
    assert [shaped[key] for key in STRATA.keys] == pytest.approx(sizes.ravel().tolist())


def test_without_shrinkage_sizes_are_what_was_measured():
    """Only the cells are measured. The values of the cells are much larger than zero, so they are not changed by least
    squares.
    """
    fine = measured(table_of(200_000), STRATA.columns, 60.0)
    assert fine.values.min() > 300
    assert nested_sizes(STRATA, [fine], shrinkage=False) == pytest.approx(fine.values, rel=1e-6)
    assert np.abs(nested_sizes(STRATA, [fine]) - fine.values).max() > 5
    _, sizes = cut(STRATA, [fine], MirrorDescent(), shrinkage=False)
    assert [sizes[key] for key in STRATA.keys] == pytest.approx(fine.values.ravel().tolist(), rel=1e-6)


def test_without_shrinkage_levels_agree_and_no_stratum_is_dropped():
    table = table_of()
    states = measured(table, STRATA.columns, 1e-3, STATES)
    fine = measured(table, STRATA.columns, 400.0)
    assert (fine.values < 0).any()
    sizes = nested_sizes(STRATA, [fine, states], shrinkage=False)
    truth = table.marginal(STRATA.columns)
    assert (sizes > 0).all()
    assert sum_groups(sizes, 0, STATES) == pytest.approx(sum_groups(truth, 0, STATES), abs=20)
    shrunk = nested_sizes(STRATA, [fine, states])
    assert ((shrunk - truth) ** 2).mean() < 0.5 * ((sizes - truth) ** 2).mean(), "what shrinkage is for"


def test_levels_above_make_sizes_better():
    """There are many small places that are similar within a state.

    The noise of each of the 600 cells is σ = 20, and the noise of each state is 10.
    """
    places = {state: list(range(50)) for state in (1, 2)}
    columns = {"PUMA": {"within": "ST", "values": places}, "RACE": {"values": [*range(6)]}, "JOB": {"values": [0, 1]}}
    schema = Schema.from_dict({"columns": columns})
    strata, rng = Strata.over(schema, ["ST/PUMA", "RACE"]), np.random.default_rng(0)
    place = rng.integers(0, 100, 20_000)
    shares = np.array([[0.8, 0.1, 0.05, 0.05, 0, 0], [0.1, 0.2, 0.2, 0.3, 0.2, 0]])[place // 50]
    race = (rng.random(len(place))[:, None] > np.cumsum(shares, axis=1)).sum(axis=1)
    table = CodedTable(np.stack([place, race, 0 * race], axis=1).astype(np.uint8), schema)
    fine, above = (
        measured(table, ["PUMA", "RACE"], 20.0),
        measured(table, ["PUMA", "RACE"], 10.0, schema["PUMA"].levels[0]),
    )
    truth = table.marginal(strata.columns)

    def error(sizes):
        return float(np.sqrt(((sizes - truth) ** 2).mean()))

    found = error(nested_sizes(strata, [fine, above]))
    assert found < 0.5 * error(np.maximum(fine.values, 0))
    assert found < 0.9 * error(nested_sizes(strata, [fine]))


def test_strata_that_cannot_be_have_no_size():
    ruled = Schema.from_dict({**DOCUMENT, "impossible": [{"PUMA": ["2/1"], "RACE": [3]}]})
    strata = Strata.over(ruled, STRATA.columns)
    sizes = nested_sizes(strata, [measured(table_of(), ["PUMA", "SEX", "RACE"], 30.0)])
    assert sizes[3, :, 2].tolist() == [0.0, 0.0]
    assert np.delete(sizes.reshape(NUMBER, -1), 3, axis=0).min() > 0


def test_measurements_by_state_are_reconciled_with_the_strata():
    table = table_of()
    sizes = dict(zip(STRATA.keys, table.marginal(STRATA.columns).ravel().astype(float).tolist(), strict=True))
    [found] = fit_to_stratum_sizes([measured(table, ["PUMA", "AGE"], 50.0, STATES)], STRATA, sizes)
    truth = sum_groups(table.marginal(["PUMA"]), 0, STATES)
    assert found.values.sum(axis=1) == pytest.approx(truth)


def test_what_is_measured_by_state_is_not_measured_within_strata():
    """If the places are the only strata, both measurements have the same columns."""
    table, alone = table_of(), Strata.over(SCHEMA, ["ST/PUMA"])
    by_state, by_place = measured(table, ["PUMA", "AGE"], 1.0, STATES), measured(table, ["PUMA", "AGE"], 1.0)
    levels = Levels(alone.columns)
    assert (levels.reached([by_state]).fine, levels.reached([by_state, by_place]).fine) == (False, True)
    key = alone.keys[-1]
    assert [each.columns for each in by_strata(alone, [by_state, by_place], [key])[key]] == [("AGE",)]


def test_a_plan_knows_noise_by_place_from_noise_by_state():
    sizes = dict.fromkeys(STRATA.keys, 1000.0)
    plan = NoisePlan(planned_mechanism(MST(), STRATA), STRATA, sizes, Rho(1e-4))
    assert () in plan.one_way(STRATA.keys[0])
    assert ("PUMA",) not in plan.one_way(STRATA.keys[0])


@pytest.mark.parametrize("rho", [0.02, 0.5])
def test_the_steps_add_up_to_the_price(rho):
    """The cost of each level must be charged exactly once, because each row is in one of the cells of a level."""
    shared = shared_selection(MST(engine=MirrorDescent(iterations=20)), STRATA)
    found, log = shared.measure_with_log(table_of(), Rho(rho), SeededNoise(0))
    assert price_of(log) == Rho(rho)
    steps = Counter(step.columns for step in log)
    assert steps["SEX", "PUMA", "RACE"] >= 2
    for each in found:
        if each.groups[:1] and any(each.groups):
            more = each.merged(np.ones([SCHEMA[name].size for name in each.columns]))
            assert more.sum() == np.prod([SCHEMA[name].size for name in each.columns])  # each cell is in one group


def test_wide_columns_are_paid_before_and_leave_enough():
    """The two columns have a hundred values, so their measurement has the largest possible share of the budget."""
    wide = {name: {"values": [*range(100)]} for name in ("A", "B")}
    schema = Schema.from_dict({"columns": {**DOCUMENT["columns"], **wide}})
    codes = np.hstack([table_of(300).codes.astype(np.uint16), np.random.default_rng(0).integers(0, 100, (300, 2))])
    shared = shared_selection(MST(engine=MirrorDescent(iterations=5)), Strata.over(schema, STRATA.columns))
    _, log = shared.measure_with_log(CodedTable(codes.astype(np.uint16), schema), Rho(0.5), SeededNoise(0))
    assert float(sum(step.measurement.exact for step in log if step.columns in (("A",), ("B",)))) > 0.3 * 0.5
    assert price_of(log) == Rho(0.5)


def test_pairs_that_are_too_large_within_strata_are_measured_at_coarser_levels():
    wide = {name: {"values": [*range(300)]} for name in ("A", "B")}
    schema = Schema.from_dict({"columns": {**DOCUMENT["columns"], **wide}})
    shared = shared_selection(MST(), Strata.over(schema, STRATA.columns))
    assert shared.levels.offered == ((),)
    assert shared_selection(MST(), Strata.over(schema, ["SEX", "RACE", "AGE"])) is None
    assert shared_selection(MST(), STRATA).levels.fine


def test_the_default_is_one_choice_also_where_strata_are_large():
    shared = shared_selection(MST(engine=MirrorDescent(iterations=20)), STRATA)
    _, log = shared.measure_with_log(table_of(), Rho(1000), SeededNoise(0))
    assert not any(step.where for step in log)


@pytest.mark.parametrize("mechanism", ["mst", "aim", "gem"])
def test_a_release_by_the_api(mechanism):
    table = table_of(6000)
    frame = table.decode(np.random.default_rng(0))
    parts = frame.pop("PUMA").str.split("/", expand=True).astype(int)
    people = frame.assign(ST=parts[0], PUMA=parts[1])
    made = StratifiedSynthesizer(mechanism, ["ST/PUMA", "SEX", "RACE"], epsilon=2, delta=1e-6, seed=1)
    made.fit(people, SCHEMA)
    assert made.name == f"{mechanism.upper()}_PUMA_SEX_RACE"
    drawn = made.sample()
    assert set(drawn["PUMA"]) <= set(SCHEMA["PUMA"].values)
    assert not ((drawn["AGE"] == 0) & (drawn["JOB"] == 1)).any()
    real = pd.Series(STATES, SCHEMA["PUMA"].values)
    found = drawn["PUMA"].map(real).value_counts().sort_index()
    assert np.abs(found.to_numpy() - people["ST"].value_counts().sort_index().to_numpy()).max() < 150
