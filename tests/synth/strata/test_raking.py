"""Tests of models that are raked to known means, which must not change other margins or add mass at the bound."""

from typing import cast

import numpy as np
import pytest

from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.expanded import ExpandedModel
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.strata.model import StratifiedModel
from equistrata.synth.strata.raking import KnownMean, raked

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "SEX": {"values": [1, 2]},
            "PAY": {"lower": 0, "upper": 1_000_000, "integer": True, "missing": "own"},
            "JOB": {"values": [0, 1, 2]},
        }
    },
    "pay",
)
STRATA = Strata.over(SCHEMA, ("SEX",))
PAY = SCHEMA["PAY"]
NUMBERS = drawn_numbers(PAY)


def people(seed, rows=4000, middle=9.0):
    rng = np.random.default_rng(seed)
    pay = np.minimum(np.exp(rng.normal(middle, 1.3, rows)), 1_000_000)
    codes = np.minimum(np.searchsorted(PAY.cuts, pay) - 1, PAY.bins - 1)
    codes[rng.random(rows) < 0.2] = PAY.bins
    job = np.where(rng.random(rows) < 0.6, codes % 3, 0)
    return np.stack([np.clip(codes, 0, None), job], axis=1)


def of_cliques(counts):
    return MirrorDescent().estimate(STRATA.rest((1,)), [Measurement(("PAY", "JOB"), counts, 1.0)])


def of_mixture(counts):
    return MixtureDescent(steps=40).estimate(STRATA.rest((1,)), [Measurement(("PAY", "JOB"), counts, 1.0)])


def of_groups(counts):
    groups = tuple(np.minimum(np.arange(PAY.size) // 40, 15).tolist())
    groups = (*groups[: PAY.bins], max(groups[: PAY.bins]) + 1)
    table = np.zeros((max(groups) + 1, 3))
    np.add.at(table, np.array(groups), counts)
    schema = Schema.from_dict(
        {"columns": {"PAY": {"values": list(range(len(table)))}, "JOB": {"values": [0, 1, 2]}}}, "groups"
    )
    model = MirrorDescent().estimate(schema, [Measurement(("PAY", "JOB"), table, 1.0)])
    alone, held = counts.sum(1), table.sum(1)
    shares = np.where(held[list(groups)] > 0, alone / np.maximum(held[list(groups)], 1), 0)
    return ExpandedModel(STRATA.rest((1,)), model, {"PAY": groups}, {"PAY": shares})


def joined(make):
    models = {}
    for sex in (1, 2):
        counts = np.zeros((PAY.size, 3))
        np.add.at(counts, tuple(people(sex, middle=8.8 + 0.2 * sex).T), 1.0)
        models[(sex,)] = make(counts)
    return StratifiedModel(STRATA, models, PublicWeights({(1,): 0.75, (2,): 0.25}, "test"), 10_000.0)


def law(model, key=None):
    """Return P(bin) for a stratum or for all rows, and the count of rows without a number."""
    if key is None:
        marginal = model.marginal(["PAY"]) / model.total
    else:
        marginal = model.models[key].marginal(("PAY",)) / model.models[key].total
    return marginal[: PAY.bins] / marginal[: PAY.bins].sum(), marginal[PAY.bins]


def mean_of(model, key=None):
    return float(law(model, key)[0] @ NUMBERS)


def interval(key, value, part=0.05):
    return KnownMean("PAY", key, value, value * (1 - part), value * (1 + part))


@pytest.mark.parametrize("make", [of_cliques, of_mixture, of_groups])
def test_means_come_into_their_intervals_and_nothing_else_moves(make):
    model = joined(make)
    one, two = mean_of(model, (1,)), mean_of(model, (2,))
    means = [interval(None, (0.75 * one + 0.25 * two) * 1.2), interval((1,), one * 1.3), interval((2,), two * 0.7)]
    found, moved = raked(model, means)
    assert moved == {("PAY", (1,)), ("PAY", (2,))}
    for each in means:
        low, high = each.ends
        assert low * (1 - 1e-6) <= mean_of(found, each.stratum) <= high * (1 + 1e-6)
    assert mean_of(found, (1,)) == pytest.approx(means[1].ends[0], rel=0.08)  # the smallest possible change
    for key in model.models:
        # The same number of rows without a number.
        assert law(found, key)[1] == pytest.approx(law(model, key)[1], abs=1e-4)
        before, after = (each.models[key].marginal(("PAY", "JOB")) for each in (model, found))
        clear = before.sum(1) > 5
        before, after = (each[clear] / each[clear].sum(1, keepdims=True) for each in (before, after))
        np.testing.assert_allclose(after, before, atol=0.05)  # the distribution of jobs for a given pay
    assert found.weights is model.weights
    assert found.total == model.total


def test_what_agrees_is_left_alone():
    model = joined(of_cliques)
    means = [interval(None, mean_of(model) * 1.01), interval((2,), mean_of(model, (2,)) * 0.97)]
    found, moved = raked(model, means)
    assert moved == set()
    assert found.models == model.models
    only, moved = raked(model, [interval((2,), mean_of(model, (2,)) * 0.9)])
    assert moved == {("PAY", (2,))}
    assert only.models[(1,)] is model.models[(1,)]


def test_a_heavy_tail_grows_without_a_heap_at_its_bound():
    model = joined(of_cliques)
    found, _ = raked(model, [interval(None, mean_of(model) * 1.3, 0.001)])
    assert mean_of(found) == pytest.approx(mean_of(model) * 1.3, rel=0.002)
    before, after = law(model)[0], law(found)[0]
    assert after[NUMBERS > 500_000].sum() < 20 * before[NUMBERS > 500_000].sum() + 1e-5
    # The total variation, because most of the distribution must not change.
    assert 0.5 * np.abs(after - before).sum() < 0.05


def test_means_that_cannot_be_reached_are_come_near():
    model = joined(of_cliques)
    found, _ = raked(model, [KnownMean("PAY", (1,), 999_990.0, 999_980.0, 1_000_000.0)])
    assert mean_of(model, (1,)) < mean_of(found, (1,)) <= 1_000_000
    empty, moved = raked(StratifiedModel(STRATA, model.models, model.weights, 0.0), [interval(None, 1.0)])
    assert moved
    assert np.isfinite(empty.models[(1,)].marginal(("PAY",))).all()


def test_rows_agree_too():
    model = joined(of_groups)
    found, _ = raked(model, [interval(None, mean_of(model) * 0.8, 0.02)])
    table = cast(CodedTable, found.sample(20_000, np.random.default_rng(1)))
    codes = table.column("PAY")
    assert NUMBERS[codes[codes < PAY.bins]].mean() == pytest.approx(mean_of(model) * 0.81, rel=0.04)
