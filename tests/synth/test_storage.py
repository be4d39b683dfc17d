"""Tests of measurements in files: valid files are read back, and invalid files raise an error."""

import json

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import Measurement
from equistrata.synth.storage import load_measurements, save_measurements

SCHEMA = Schema("small", (Column("A", values=(0, 1)), Column("B", values=(0, 1, 2, 3)), Column("C", values=("x",))))


@pytest.fixture
def table():
    return CodedTable(np.random.default_rng(0).integers(0, (2, 4, 1), (1000, 3)).astype(np.uint8), SCHEMA)


def test_a_file_gives_back_what_was_saved(tmp_path, table):
    noise, budget = SeededNoise(3), Budget(Rho(9))
    saved = [
        measure_marginal(table, (), Rho(1), budget, noise),
        measure_marginal(table, ("B", "A"), Rho(0.3), budget, noise, ((0, 1, 1, 1), None)),
        Measurement(("A",), np.array([0.5, -1.25]), 0.1),
        Measurement(("A",), np.array([3.0, 4.0]), 0.1, where=(("B", 3),)),
    ]
    save_measurements(saved, tmp_path / "m.json")
    loaded = load_measurements(tmp_path / "m.json")
    for a, b in zip(saved, loaded, strict=True):
        assert (a.columns, a.sigma, a.groups, a.where) == (b.columns, b.sigma, b.groups, b.where)
        np.testing.assert_array_equal(a.values, b.values)
        assert b.values.shape == a.values.shape


REFUSED = r"m\.json.* (is not a measurements file|cannot be read|lacks|has|is no mapping)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "null",
        "{}",
        '{"format": "something else", "measurements": []}',
        '{"format": "equistrata measurements 1"}',
        '{"format": "equistrata measurements 1", "measurements": [{}]}',
        '{"format": "equistrata measurements 1", "measurements": [[1]]}',
        '{"format": "equistrata measurements 1", "measurements": 3}',
    ],
)
def test_a_broken_file_is_an_input_error(tmp_path, text):
    path = tmp_path / "m.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=REFUSED):
        load_measurements(path)


def test_a_file_with_impossible_numbers_or_no_file_is_an_input_error(tmp_path):
    path = tmp_path / "m.json"
    with pytest.raises(InputError, match=REFUSED):
        load_measurements(path)
    save_measurements([Measurement(("A",), np.array([1.0, 2.0]), 1.0)], path)
    good = json.loads(path.read_text("utf-8"))
    for change in (
        {"sigma": -1},
        {"shape": [3]},
        {"values": [1, "x"]},
        {"values": [1, None]},
        {"groups": [None, 1]},
        {"where": {"A": 1}},
        {"where": 3},
    ):
        bad = {**good, "measurements": [{**good["measurements"][0], **change}]}
        path.write_text(json.dumps(bad), "utf-8")
        with pytest.raises(InputError, match=REFUSED):
            load_measurements(path)
