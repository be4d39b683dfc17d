"""Tails of columns that are drawn by curves: shares and quantiles by group are off by what noise may hide of a tail."""

import numpy as np
import pandas as pd
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases import grouped, implied
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.tails import LongerTail
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.registry import mechanism

SIGMA = 30.0
SPEC = {"UNIT": {"values": [0, 1, 2]}, "BONUS": {"lower": 0, "upper": 250_000, "integer": True}}
SCHEMA = Schema.from_dict({"columns": SPEC}, "staff")


def evidence(seed, part=0.18):
    """3,000 rows of three units alike, of whom a part has a bonus, 2,000 in the middle; and the 99 % of each unit."""
    rng = np.random.default_rng(seed)
    unit = np.repeat([0, 1, 2], [1600, 900, 500])
    bonus = np.where(rng.random(3000) < part, np.round(np.exp(rng.normal(7.6, 0.9, 3000))), 0).clip(0, 250_000)
    table = CodedTable.encode(pd.DataFrame({"UNIT": unit, "BONUS": bonus.astype(int)}), SCHEMA)
    size = SCHEMA["BONUS"].size
    groups = tuple(int(code > 0) for code in range(size))
    found, alone = [], table.marginal(("BONUS",)).astype(float)
    for merging in tree_of(SCHEMA["BONUS"]):
        values = alone if merging is None else np.bincount(merging, alone)
        found.append(Measurement(("BONUS",), values + rng.normal(0, SIGMA, len(values)), SIGMA, (merging,)))
    both = np.array([np.bincount(groups, row) for row in table.marginal(("UNIT", "BONUS")).astype(float)])
    found.append(Measurement(("UNIT",), both.sum(1) + rng.normal(0, SIGMA, 3), SIGMA))
    found.append(Measurement(("UNIT", "BONUS"), both + rng.normal(0, SIGMA, both.shape), SIGMA, (None, groups)))
    tops = [float(np.quantile(bonus[unit == each], 0.99, method="inverted_cdf")) for each in range(3)]
    return Evidence.of(Strata.over(SCHEMA, ("UNIT",)), {(): found}, mechanism("mst")), tops


def answered(statistic, seed=0):
    found, tops = evidence(seed)
    return Answers(found, seed, count=5).estimate(statistic, "BONUS", ["UNIT"], q=0.99), tops


@pytest.mark.slow
def test_quantiles_of_few_bonuses_reach_as_far_as_noise_hides_a_tail(monkeypatch):
    """Of 36 quantiles of twelve seeds 20 were covered, and 9 without what a longer tail says."""
    seeds = range(4)
    having, mean = [answered("quantile", seed) for seed in seeds], answered("mean")[0]
    for module in (grouped, implied):
        monkeypatch.setattr(module, "TAIL", 0.0)
    lacking = [answered("quantile", seed) for seed in seeds]
    for (lines, _), (without, _) in zip(having, lacking, strict=True):
        assert (lines["upper"] >= without["upper"]).all()
        assert (lines["lower"] <= without["lower"]).all()
    with_tail, without_tail = (
        sum((lines["upper"] >= tops).sum() for lines, tops in each) for each in (having, lacking)
    )
    assert with_tail >= without_tail + 3
    assert answered("mean")[0].equals(mean)  # it would reach to the bound


def test_groups_of_codes_keep_their_rows():
    found, _ = evidence(0)
    longer = LongerTail.of(found, "BONUS")
    table = found.model.marginal(("UNIT", "BONUS"))
    other = longer.of_table(table, 1)
    groups = np.asarray(longer.groups)
    for row, moved in zip(table, other, strict=True):
        assert np.bincount(groups, moved) == pytest.approx(np.bincount(groups, row))
        assert moved[-50:].sum() > row[-50:].sum()


def test_columns_without_curves_have_no_longer_tail():
    assert LongerTail.of(evidence(0)[0], "UNIT") is None
    assert LongerTail.of(evidence(0, part=0.8)[0], "BONUS") is None
