"""Tests of merged codes: their selection, the measurements, the structural zeros and the model."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement, Prediction, total_estimate
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.coarsening import WIDE, Coarsening
from equistrata.synth.models.columns.merging import merge_codes
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.models.storage import load_model, save_model

SIZE = 40
SCHEMA = Schema(
    "wide", (Column("X", values=tuple(range(SIZE))), Column("Y", values=(0, 1, 2)), Column("Z", values=(0, 1)))
)
ZEROS = Schema("zeros", SCHEMA.columns, impossible=(Impossible(("X", "Z"), (tuple(range(25, SIZE)), (1,))),))
GROUPS = tuple(code // 10 for code in range(SIZE))


def table(rows=20_000, schema=SCHEMA, seed=0):
    """Return rows in which Y depends on X, and Z is 0 for large X."""
    rng = np.random.default_rng(seed)
    x = np.minimum(rng.geometric(0.08, rows) - 1, SIZE - 1)
    y = np.where(rng.random(rows) < 0.8, x // 14, rng.integers(0, 3, rows))
    z = rng.integers(0, 2, rows) * (x < 25)
    return CodedTable(np.stack([x, y, z], axis=1).astype(np.uint8), schema)


def exact(rows, *columns, sigma=1.0):
    return [Measurement(each, rows.marginal(each).astype(float), sigma) for each in columns]


def merged_pair(rows, sigma=1.0):
    """Return a measurement of X and Y, in which X is in groups of ten."""
    coarse = Coarsening(rows.schema, {"X": GROUPS}).merged(rows)
    return Measurement(("X", "Y"), coarse.marginal(["X", "Y"]).astype(float), sigma, (GROUPS, None))


def test_missing_values_and_structural_zeros_stay_apart():
    column = Column("X", lower=0, upper=40, edges=tuple(range(41)), missing="own")
    groups = merge_codes(column, np.full(41, 1.0), 2, np.repeat([0, 1], [30, 11]))
    assert len(set(groups)) == 4
    assert groups.count(groups[40]) == 1
    assert groups[29] != groups[30]
    coarse = Coarsening.chosen(ZEROS, exact(table(schema=ZEROS), ("X",)), 2)
    merged = coarse.merged(table(schema=ZEROS))
    assert coarse.schema.zero_mask(coarse.schema.impossible[0]).any()
    assert not merged.marginal(["X", "Z"])[coarse.schema.zero_mask(coarse.schema.impossible[0])].any()


def test_narrow_columns_and_those_that_are_kept_are_not_merged():
    narrow = Schema("n", (Column("X", values=tuple(range(WIDE))), Column("Y", values=(0, 1))))
    found = [Measurement(("X",), np.ones(WIDE), 1.0)]
    assert not Coarsening.chosen(narrow, found, 2).groups
    assert not Coarsening.of(narrow, found).groups
    assert not Coarsening.chosen(SCHEMA, exact(table(), ("X",)), 2, kept=("X",)).groups
    assert not Coarsening.of(SCHEMA, exact(table(), ("X",)), kept=("X",)).groups
    # The codes are needed for the pair with Y.
    assert not Coarsening.of(SCHEMA, exact(table(), ("X",), ("X", "Y"))).groups


def test_what_was_measured_is_what_the_merged_model_is_made_of():
    rows = table()
    measurements = [*exact(rows, ("X",), ("Y",), ("Z",), ("Y", "Z")), merged_pair(rows)]
    coarse = Coarsening.of(SCHEMA, measurements)
    assert coarse.groups == {"X": GROUPS}
    engine = MirrorDescent(iterations=3000, tolerance=1e-9)
    whole = engine.estimate(SCHEMA, measurements)
    merged = [coarse.coarse(measurement) for measurement in measurements]
    assert total_estimate(merged) == pytest.approx(total_estimate(measurements))
    expanded = coarse.expanded(engine.estimate(coarse.schema, merged), measurements)
    for columns in (["X"], ["Y"], ["X", "Y"], ["X", "Y", "Z"]):
        assert np.abs(expanded.marginal(columns) - whole.marginal(columns)).sum() < 0.01 * len(rows)


def test_sums_of_cells_carry_the_noise_of_all_of_them():
    coarse = Coarsening(SCHEMA, {"X": GROUPS})
    found = coarse.coarse(Measurement(("Z", "X"), np.ones((2, SIZE)), 3.0))
    np.testing.assert_allclose(found.values, np.full((2, 4), 10.0))
    np.testing.assert_allclose(found.cell_sigma, np.full((2, 4), 3 * np.sqrt(10)))
    prediction = Prediction(("X",), np.ones(SIZE), 1.0, sigmas=np.ones(SIZE))
    assert isinstance(coarse.coarse(prediction), Prediction)
    assert coarse.coarse(merged_pair(table())).groups == (None, None)
    assert coarse.measured(coarse.coarse(merged_pair(table()))).groups == (GROUPS, None)


def expanded_model(schema=SCHEMA):
    rows = table(schema=schema)
    measurements = [*exact(rows, ("X",), ("Y",), ("Z",), sigma=2.0), merged_pair(rows)]
    return MST().model(schema, measurements)


def test_a_condition_on_codes_is_bayes_rule():
    model = expanded_model()
    given, mass = model.where({"X": [3, 4, 12], "Z": [0]})
    joint = model.marginal(["X", "Y", "Z"])
    kept = np.zeros_like(joint)
    kept[[3, 4, 12], :, 0] = joint[[3, 4, 12], :, 0]
    assert mass == pytest.approx(kept.sum() / joint.sum())
    np.testing.assert_allclose(given.marginal(["X", "Y", "Z"]), kept, atol=1e-6)
    assert set(given.sample(500, np.random.default_rng(0)).column("X")) <= {3, 4, 12}
    with pytest.raises(InputError, match="no row can have"):
        given.where({"X": [5]})


def test_drawn_rows_follow_the_model_and_structural_zeros():
    model = expanded_model(ZEROS)
    drawn = model.sample(50_000, np.random.default_rng(0))
    assert not drawn.marginal(["X", "Z"])[25:, 1].any()
    for columns, most in ((["X"], 0.002), (["X", "Y"], 0.03)):
        assert np.abs(drawn.marginal(columns) / 50_000 - model.marginal(columns) / model.total).sum() < most


def test_it_comes_back_from_disk(tmp_path):
    model = expanded_model(ZEROS)
    save_model(model, tmp_path / "model.npz")
    back = load_model(tmp_path / "model.npz", ZEROS)
    for columns in (["X"], ["X", "Y", "Z"]):
        np.testing.assert_array_equal(back.marginal(columns), model.marginal(columns))
    with pytest.raises(InputError, match="not a model of schema 'wide'"):
        load_model(tmp_path / "model.npz", SCHEMA)
    whole = (tmp_path / "model.npz").read_bytes()
    for content in (whole[:-40], whole[:200]):
        (tmp_path / "model.npz").write_bytes(content)
        with pytest.raises(InputError, match="not a model of schema 'zeros'"):
            load_model(tmp_path / "model.npz", ZEROS)


@pytest.mark.parametrize(
    "mechanism", [MST(), AIM(), GEM(rounds=8, engine=MixtureDescent(30, 200))], ids=lambda m: m.name
)
def test_a_pair_of_a_wide_column_is_measured_where_all_codes_would_drown(mechanism):
    """If all of the codes are used, the noise is too large for a relation in 2,000 rows. The total cost must be the
    same.
    """
    rows = table(2000)
    measured, log = mechanism.measure_with_log(rows, Rho(0.02), SeededNoise(1))
    pairs = [m for m in measured if {"X", "Y"} <= set(m.columns)]
    assert pairs
    assert all(m.groups[m.columns.index("X")] is not None for m in pairs)
    assert sum((s.measurement + s.selection for s in log), Rho(0)).exact == Rho(0.02).exact
    model = mechanism.model(SCHEMA, measured)
    truth = rows.marginal(["X", "Y"]) / 2000
    alone = truth.sum(1, keepdims=True) * truth.sum(0)
    assert np.abs(model.marginal(["X", "Y"]) / model.total - truth).sum() < 0.8 * np.abs(alone - truth).sum()


def test_where_nothing_is_chosen_codes_are_told_apart_again():
    session = Session(table(100), Rho(1e-4), SeededNoise(0))
    first = session.measure_all([(("X",), Rho(1e-5))])
    session.coarsen(Rho(1e-5))
    assert session.table.schema["X"].size < SIZE
    session.measure_again(first)
    assert session.found[-1].values.shape == (SIZE,)
    assert session.budget.remaining.exact == 0


def test_a_measurement_of_finer_groups_than_these_adds_up():
    schema = Schema("x", (Column("X", values=tuple(range(6))), Column("SEX", values=(1, 2))))
    finer = Measurement(("SEX", "X"), np.arange(8.0).reshape(2, 4), 3.0, (None, (0, 1, 1, 2, 2, 3)))
    found = Coarsening(schema, {"X": (0, 0, 0, 1, 1, 1)}).coarse(finer)
    assert found.groups == (None, None)
    np.testing.assert_array_equal(found.values, [[1, 5], [9, 13]])
    np.testing.assert_allclose(found.cell_sigma, 3 * np.sqrt(2))
    assert Coarsening(schema, {"X": (0, 1, 1, 2, 2, 3)}).coarse(finer).groups == (None, None)
    kept = Coarsening(schema, {"X": (0, 1, 2, 3, 3, 4)}).coarse(finer)
    assert kept.groups == (None, (0, 1, 1, 2, 3))
    assert kept.values is finer.values


def test_a_rest_between_two_heaps_stays():
    schema = Schema("one", (Column("HOURS", lower=0, upper=39, integer=True, release="draw"),))
    rows = np.full(40, 20.0)
    rows[20:23] = 300, 2, 300
    groups = Coarsening.chosen(schema, [Measurement(("HOURS",), rows, 0.01)], 5.0).groups["HOURS"]
    assert [groups.count(groups[code]) for code in (20, 21, 22)] == [1, 1, 1]
