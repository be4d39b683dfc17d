"""Tests that a column with a single code is not used in pairs and selections."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST

NAMES = ("A", "LAND", "B", "S", "UNIT", "C")
SCHEMA = Schema("constant", tuple(Column(n, values=(0,) if len(n) > 1 else tuple(range(4))) for n in NAMES))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 6000)
    zero = np.zeros(len(a), dtype=np.int64)
    codes = [a, zero, np.where(rng.random(len(a)) < 0.8, a, 0), rng.integers(0, 4, len(a)), zero, (a + 1) % 4]
    return CodedTable(np.stack(codes, axis=1).astype(np.uint8), SCHEMA)


@pytest.mark.parametrize("strata", [(), ("S",)])
@pytest.mark.parametrize("mechanism", [MST(), AIM(), GEM(rounds=8)], ids=lambda each: each.name)
def test_no_choice_is_spent_on_a_constant(mechanism, strata, table):
    if strata:
        mechanism = mechanism.with_levels(strata, coarse=True, fine=True)
    found, log = mechanism.measure_with_log(table, Rho(0.05), SeededNoise(1))
    together = [set(m.columns) - set(strata) for m in found if len(set(m.columns) - set(strata)) > 1]
    assert len(together) >= 2
    assert not any({"LAND", "UNIT"} & columns for columns in together)
    assert not any({"LAND", "UNIT"} & set(step.columns) for step in log if step.selection > Rho(0))


@pytest.mark.parametrize("mechanism", [MST(), AIM(), GEM(rounds=8)], ids=lambda each: each.name)
def test_a_table_of_constants_alone(mechanism, table):
    found = mechanism.measure(table.select(["LAND", "UNIT"]), Rho(0.05), SeededNoise(1))
    assert {m.columns for m in found} == {("LAND",), ("UNIT",)}
    assert mechanism.model(table.select(["LAND", "UNIT"]).schema, found).total == pytest.approx(6000, abs=200)
