"""Tests of models in files: each kind of model is read back without a change, and an invalid file raises an error."""

import json

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.mixture import ProductMixture
from equistrata.synth.models.storage import load_model, save_model

SCHEMA = Schema(
    "test",
    (Column("A", values=(0, 1, 2)), Column("B", values=(0, 1))),
    impossible=(Impossible(("A", "B"), ((0,), (1,))),),
)
OTHER = Schema("other", (Column("A", values=(0, 1, 2)), Column("B", values=(0, 1))))


def mixture_model():
    rng = np.random.default_rng(0)
    return ProductMixture(SCHEMA, 9.5, rng.dirichlet(np.ones(3)), (rng.random((3, 3)), rng.random((3, 2))))


def graphical_model():
    return MirrorDescent(iterations=3).estimate(SCHEMA, [Measurement(("A",), np.array([5.0, 2.0, 1.0]), 1.0)])


@pytest.mark.parametrize("make", [mixture_model, graphical_model])
def test_a_model_comes_back_as_it_was(make, tmp_path):
    model, path = make(), tmp_path / "model.npz"
    save_model(model, path)
    back = load_model(path, SCHEMA)
    assert type(back) is type(model)
    assert back.total == model.total
    for columns in ("A", "B", "AB"):
        np.testing.assert_array_equal(back.marginal(columns), model.marginal(columns))
    samples = [m.sample(50, np.random.default_rng(0)).codes for m in (model, back)]
    np.testing.assert_array_equal(*samples)


@pytest.mark.parametrize("make", [mixture_model, graphical_model])
def test_broken_files_and_other_schemas_are_refused(make, tmp_path):
    path = tmp_path / "model.npz"
    save_model(make(), path)
    whole = path.read_bytes()
    with pytest.raises(InputError, match="not a model of schema 'other'"):
        load_model(path, OTHER)
    rng = np.random.default_rng(0)
    broken = [b"", b"nothing", whole[: len(whole) // 2], whole[:-30]]
    for place in rng.integers(0, len(whole), 40):  # a damaged byte raises an error or is not used
        broken.append(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    refused = []
    for content in broken:
        path.write_bytes(content)
        try:
            load_model(path, SCHEMA)
            refused.append("")
        except InputError as error:
            refused.append(str(error))
    assert all(refused[:4])
    assert all("is not a model of schema 'test'" in message for message in refused if message)
    with pytest.raises(InputError, match="is not a model"):
        load_model(tmp_path / "absent.npz", SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.ones((2, 2))},
        {"weights": np.ones(2)},
        {"factor1": np.ones((3, 3))},
        {"factor0": np.full((3, 3), -1.0)},
        {"factor0": np.full((3, 3), np.nan)},
        {"head": np.array("[]")},
        {"head": np.array(json.dumps({"format": "equistrata mixture 1", "schema": SCHEMA.digest}))},
        {"factor0": np.array([{"a": 1}], dtype=object)},
    ],
)
def test_archives_that_make_no_sense_are_refused(change, tmp_path):
    path = tmp_path / "model.npz"
    save_model(mixture_model(), path)
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files} | change
    np.savez(path, **content)
    with pytest.raises(InputError, match="is not a model of schema 'test'"):
        load_model(path, SCHEMA)


def test_a_kind_without_a_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="type object cannot be saved"):
        save_model(object(), tmp_path / "model.npz")
