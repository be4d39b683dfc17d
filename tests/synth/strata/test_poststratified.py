"""Tests of rows that are adjusted to control totals: exact arithmetic, and cells without rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import Controls
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.strata.model import people_of_rows
from equistrata.synth.strata.poststratified import people, poststratified, rows_of_cell, with_all_cells
from equistrata.synth.synthesizer import StratifiedSynthesizer

DECLARED = {
    "columns": {"SEX": {"values": [1, 2]}, "AGE": {"values": [0, 1, 2]}, "JOB": {"values": [0, 1]}},
    "survey_weight": {"column": "W", "upper": 8},
    "impossible": [{"AGE": [0], "JOB": [1]}],
}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1e-9, 1.0, 7.5])), min_size=1), st.integers(0, 99))
def test_weights_are_those_of_a_loop(rows, seed):
    totals = np.random.default_rng(seed).choice([0.0, 3.0, 1e9], 4)
    cells, weights = (np.array(each) for each in zip(*rows, strict=True))
    found = poststratified(weights, cells, totals)
    for cell in set(cells.tolist()):
        own = weights[cells == cell]
        own = own if own.sum() > 0 else np.ones(len(own))
        assert found[cells == cell] == pytest.approx(own * totals[cell] / own.sum(), rel=1e-12)
    assert (found >= 0).all()


@pytest.fixture(scope="module")
def model():
    """Return a model of rows in which no row has SEX = 2 and AGE = 2. W is 1 for JOB = 0 and 5 for JOB = 1."""
    rng, n = np.random.default_rng(3), 900
    frame = pd.DataFrame({"SEX": rng.integers(1, 3, n), "AGE": rng.integers(0, 3, n)})
    frame = frame[(frame.SEX == 1) | (frame.AGE < 2)]
    frame["JOB"] = (frame.AGE > 0) * rng.integers(0, 2, len(frame))
    frame["W"] = np.where(frame.JOB == 1, 5.0, 1.0)
    schema = Schema.from_dict(DECLARED)
    return StratifiedSynthesizer("mst", ["SEX"], epsilon=200.0, delta=1e-6, seed=1).fit(frame, schema).model_


def totals_of(counts):
    return Controls(("SEX", "AGE"), (None, None), np.array(counts, dtype=float), "these")


def test_each_cell_with_people_gets_a_row_and_no_other_row_moves(model):
    rng = np.random.default_rng(1)
    controls = totals_of([[5, 0, 5], [5, 5, 5]])
    whole = model.sample(400, rng)
    table = whole.take(~((whole.column("SEX") == 1) & (whole.column("AGE") == 1)))
    found, replaced = with_all_cells(table, model, controls, rng, [])
    assert replaced == 2  # there is also no row with SEX 2 and AGE 2
    assert len(found) == len(table)
    assert (found.codes != table.codes).any(axis=1).sum() == 2
    assert set(controls.cells_of(found).tolist()) >= {0, 2, 3, 4, 5}
    assert not found.ruled_out().any()


def test_people_are_as_many_as_the_totals_of_each_cell(model):
    controls, rng = totals_of([[10.4, 20.4, 0.2], [0, 5, 64]]), np.random.default_rng(1)
    names = ("SEX", "AGE", "JOB")
    found = people(model, controls, None, names, rng, [])
    assert found.schema.names == names
    assert np.bincount(controls.cells_of(found), minlength=6).tolist() == [11, 20, 0, 0, 5, 64]
    assert np.bincount(controls.cells_of(people(model, controls, 50, names, rng, [])), minlength=6).sum() == 50
    assert not found.ruled_out().any()


def test_a_model_without_anybody_in_a_cell_borrows_rows_and_rules_are_kept(model):
    rng, empty = np.random.default_rng(1), CodedTable(np.zeros((0, 4), dtype=np.uint8), model.strata.schema)

    class Nobody:
        strata = model.strata

        def batches(self, count, rng, where, changed):
            raise InputError("no row can have this")

        def sample(self, count, rng):
            return model.sample(count, rng) if count else empty

    controls = Controls(("AGE", "JOB"), (None, None), np.ones((3, 2)), "these")
    assert len(rows_of_cell(Nobody(), controls, 5, 7, ("AGE", "JOB"), rng, [])) == 7
    with pytest.raises(InputError, match="satisfies the rules of schema"):
        rows_of_cell(Nobody(), controls, 1, 7, ("AGE", "JOB"), rng, [])


def test_expanded_rows_are_people_in_proportion_to_the_weight(model):
    schema = model.strata.schema.expanded()
    strata = Strata.over(schema.modelled, ["SEX"])
    found = people_of_rows(type(model)(strata, model.models, model.weights, model.total))
    rows = model.marginal(["SEX", "AGE", "JOB", "W"])
    numbers = (np.array(schema.expanded_by.cuts[1:]) + np.array(schema.expanded_by.cuts[:-1])) / 2
    expected = rows @ numbers
    assert found.total == pytest.approx(expected.sum(), rel=0.01)
    assert found.marginal(["SEX", "AGE", "JOB"]) == pytest.approx(expected, rel=0.02, abs=2)
    assert model.strata.schema.expanded().names == ("SEX", "AGE", "JOB")
