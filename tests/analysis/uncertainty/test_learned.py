"""Tests of the misfit, which is estimated from the measured pairs."""

import numpy as np
import pytest

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.learned import ModelMisfit
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def test_what_sets_of_three_columns_say_of_the_misfit_is_of_their_pairs():
    """Regression test: the misfit was estimated from the cells of sets of three columns, and it was half of the true
    value.

    The nine columns are dependent because of an unobserved column, and they are measured in a chain of sets of three.
    """
    rng, names = np.random.default_rng(0), "ABCDEFGHI"
    schema = Schema("alike", tuple(Column(name, values=tuple(range(8))) for name in names))
    kind = rng.integers(0, 8, 3000)
    drawn = [np.where(rng.random(3000) < 0.35, kind, rng.integers(0, 8, 3000)) for _ in names]
    table = CodedTable(np.column_stack(drawn).astype(np.uint8), schema)
    counts = {each: table.marginal(each) for each in map(tuple, [*names, "ABC", "DEF", "GHI", "ADG"])}
    found = [Measurement(each, of + rng.normal(0, 2.0, of.shape), 2.0) for each, of in counts.items()]
    evidence = Evidence.of(Strata.over(schema, []), {(): found}, mechanism("mst"))
    pair = table.marginal(("B", "F"))
    off = pair - pair.sum(1, keepdims=True) * pair.sum(0) / 3000
    assert ModelMisfit(evidence).share == pytest.approx(np.sqrt((off**2).mean()) / 3000, rel=0.3)
