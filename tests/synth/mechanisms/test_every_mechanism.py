"""Tests for all mechanisms: the rules of the schema, unchanged input rows, and small tables."""

import numpy as np
import pytest
from small_tables import fit, grown_ups, schema_of, table_of

from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.names import OURS
from equistrata.synth.registry import mechanism
from paper.mst import PaperMST

FAST = [
    MST(engine=MirrorDescent(iterations=50)),
    PaperMST(engine=MirrorDescent(iterations=50)),
    AIM(engine=MirrorDescent(iterations=20), round_engine=MirrorDescent(iterations=10)),
    GEM(rounds=4, round_steps=4, engine=MixtureDescent(components=6, steps=20)),
]
FAST += [each for each in map(mechanism, OURS) if type(each) not in map(type, FAST)]
EVERY = pytest.mark.parametrize("mechanism", FAST, ids=[type(each).__name__ for each in FAST])


@EVERY
def test_structural_zeros_are_never_sampled(mechanism):
    table, rng = grown_ups(), np.random.default_rng(0)
    for seed, rho in ((0, 0.0001), (1, 0.01), (2, 1)):
        sample = fit(mechanism, table, Rho(rho), SeededNoise(seed)).model.sample(3000, rng)
        for zero in table.schema.impossible:
            assert (sample.marginal(zero.columns)[table.schema.zero_mask(zero)] == 0).all()


@EVERY
def test_the_callers_rows_are_left_as_they_were(mechanism):
    codes = np.random.default_rng(0).integers(0, 2, (2000, 3)).astype(np.uint8)
    before = codes.copy()
    fit(mechanism, CodedTable(codes, schema_of(2, 2, 2)), Rho(1), SeededNoise(0))
    np.testing.assert_array_equal(codes, before)
    assert codes.flags.writeable


@EVERY
def test_small_tables_spend_everything_on_single_columns(mechanism):
    for rows in (0, 1, 5):
        measured = mechanism.measure(table_of(rows, (2, 3, 4)), Rho(0.01), SeededNoise(rows))
        assert {m.columns for m in measured} == {("A",), ("B",), ("C",)}
        assert sum(1 / (2 * m.sigma**2) for m in measured) == pytest.approx(0.01)
