"""Tests of a model that is a pool of rows, which is compared with a slow reference implementation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.models.pool import SampledModel
from equistrata.synth.models.storage import load_model, save_model

SCHEMA = Schema.load("acs_employment").select(["SEX", "MAR", "ESR"])


def model(seed=0, rows=40, total=100.0):
    codes = np.random.default_rng(seed).integers(0, SCHEMA.sizes, (rows, 3)).astype(np.uint8)
    return SampledModel(total, CodedTable(codes, SCHEMA))


@given(st.integers(0, 10**6), st.integers(1, 60), st.permutations(["SEX", "MAR", "ESR"]), st.integers(0, 3))
def test_marginals_are_the_pools_shares(seed, rows, names, width):
    m, names = model(seed, rows), names[:width]
    counts = np.zeros([SCHEMA[name].size for name in names])
    for row in m.pool.codes:
        counts[tuple(row[SCHEMA.index(name)] for name in names)] += 100.0 / rows
    np.testing.assert_allclose(m.marginal(names), counts)


@given(st.integers(0, 10**6), st.sets(st.integers(0, 4), min_size=1), st.sets(st.integers(0, 1), min_size=1))
def test_conditions_keep_the_rows_that_meet_them(seed, mar, esr):
    m = model(seed)
    allowed = {"MAR": sorted(mar), "ESR": sorted(esr)}
    kept = [row for row in m.pool.codes.tolist() if row[1] in mar and row[2] in esr]
    if not kept:
        with pytest.raises(InputError, match="no row can have this combination of MAR, ESR"):
            m.where(allowed)
        return
    conditioned, mass = m.where(allowed)
    assert conditioned.pool.codes.tolist() == kept
    assert mass == pytest.approx(len(kept) / 40)
    assert conditioned.total == pytest.approx(100 * mass)


@pytest.mark.parametrize("rows", [0, 1, 39, 40, 41, 120, 130])
def test_every_row_of_the_pool_is_drawn_as_often_as_the_others(rows):
    m = SampledModel(1.0, CodedTable(np.arange(40, dtype=np.uint8)[:, None], _forty()))
    counts = m.sample(rows, np.random.default_rng(0)).marginal(["V"])
    assert counts.sum() == rows
    assert counts.max() - counts.min() <= 1
    assert counts.min() == rows // 40


def test_draws_come_in_random_order():
    m = SampledModel(1.0, CodedTable(np.arange(40, dtype=np.uint8)[:, None], _forty()))
    first = [int(m.sample(80, np.random.default_rng(seed)).codes[0, 0]) for seed in range(50)]
    assert len(set(first)) > 20


def test_a_repeated_column_and_an_empty_pool_are_refused():
    with pytest.raises(InputError, match="twice"):
        model().marginal(["SEX", "SEX"])
    with pytest.raises(ValueError, match="at least one row"):
        model(rows=0)


def test_it_is_saved_and_read_back_by_its_kind(tmp_path):
    m = model()
    save_model(m, tmp_path / "m.npz")
    back = load_model(tmp_path / "m.npz", SCHEMA)
    assert isinstance(back, SampledModel)
    assert back.total == m.total
    np.testing.assert_array_equal(back.pool.codes, m.pool.codes)
    with pytest.raises(InputError, match="not a model of schema"):
        load_model(tmp_path / "m.npz", SCHEMA.select(["SEX", "MAR"]))
    (tmp_path / "broken.npz").write_bytes((tmp_path / "m.npz").read_bytes()[:100])
    with pytest.raises(InputError, match="not a model of schema"):
        load_model(tmp_path / "broken.npz", SCHEMA)
    with pytest.raises(InputError, match="not a model of schema"):
        load_model(tmp_path / "nowhere.npz", SCHEMA)


def _forty():
    return Schema.from_dict({"columns": {"V": {"values": list(range(40))}}})
