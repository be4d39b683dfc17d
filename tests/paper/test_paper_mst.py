"""Tests of the MST of the paper: the privacy cost, the selection, and the effect on rare values and small tables."""

from itertools import combinations, product

import numpy as np
import pytest
from small_tables import fit, schema_of, table_of
from spies import Spy, recorded_budgets

import equistrata.synth.mechanisms.session
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.estimation import MirrorDescent
from paper.mst import PaperMST, _choose_tree

FAST = MirrorDescent(iterations=50)


@pytest.fixture
def budgets(monkeypatch):
    """Return a list of the budgets that are used by MST."""
    return recorded_budgets(monkeypatch, equistrata.synth.mechanisms.session)


@pytest.mark.parametrize("rows", [0, 1, 5, 100_000])
@pytest.mark.parametrize("shares", [(1, 1, 1), (0.1, 0.2, 0.7), (3, 1, 2)])
@pytest.mark.parametrize("rho", [0.1, 1 / 3, 0.0149731])
def test_spends_exactly_rho(budgets, rows, shares, rho):
    noise = Spy()
    PaperMST(shares=shares, engine=MirrorDescent(iterations=2)).measure(table_of(rows, (2, 3, 4, 2)), Rho(rho), noise)
    (budget,) = budgets
    assert budget.spent == budget.total == Rho(rho)
    # The noise source must report the same cost, which is the sum of 1/(2σ²) and the cost of the selections.
    through_noise = sum(1 / (2 * s**2) for s in noise.sigmas) + sum(float(r) for _, _, r in noise.selections)
    assert through_noise == pytest.approx(rho, rel=1e-12)


def test_scores_are_the_entrywise_l1_distance_at_sensitivity_one():
    """The MST of OpenDP uses a matrix norm (the largest column sum), which gives a different order of the pairs."""
    table = table_of(5000, (2, 3, 4), seed=2)
    noise = Spy(exact=True)
    mst = PaperMST(engine=MirrorDescent())
    measured = mst.measure(table, Rho(1), noise)
    model = mst.engine.estimate(table.schema, measured[:3])
    pairs = list(combinations("ABC", 2))
    expected = [sum(abs(table.marginal(p)[cell] - model.marginal(p)[cell]) for cell in product(
        *(range(table.schema[n].size) for n in p))) for p in pairs]  # fmt: skip
    scores, _, rho = noise.selections[0]
    np.testing.assert_allclose(scores, expected, atol=12 / 2048)  # each of at most 12 cells is rounded to 1/1024
    np.testing.assert_array_equal(scores * 1024, np.rint(scores * 1024))  # the sums are exact in floating point
    assert [s for _, s, _ in noise.selections] == [1.0, 1.0]
    assert [r for _, _, r in noise.selections] == [Rho(1).split([1, 1, 1])[1].split([1, 1])[0]] * 2
    assert rho * 6 == Rho(1)


def test_one_row_moves_no_score_by_more_than_one():
    table = table_of(60, (2, 3, 2), seed=3)
    schema = table.schema
    model = FAST.estimate(schema, [Measurement((n,), np.full(schema[n].size, 25.0), 3.0) for n in "ABC"])

    def scores(t):
        noise = Spy()
        _choose_tree(Session(t, Rho(1), noise), model, Rho(1))
        return noise.selections[0][0]

    before, moved = scores(table), []
    for row in product(range(2), range(3), range(2)):
        more = CodedTable(np.vstack([table.codes, np.array([row], dtype=np.uint8)]), schema)
        moved.append(np.abs(scores(more) - before).max())
    assert max(moved) == 1.0


def test_merged_rare_values_keep_their_mass():
    """Regression test: smartnoise reduced the share of the rare values from 30 % to 20 %.

    There are 3,000 rows. The first value of column A has 70 % of the rows, and each of the other 30 values has 1 % of
    the rows. The other values are merged because 30 rows are less than 3σ. The noise changes the share of the rare
    values by about 1 %, and the tolerance is 3 %.
    """
    rng = np.random.default_rng(0)
    a = np.where(rng.random(3000) < 0.7, 0, rng.integers(1, 31, 3000))
    b = np.where(a > 0, rng.random(3000) < 0.9, rng.random(3000) < 0.2)
    table = CodedTable(np.stack([a, b, b], axis=1).astype(np.uint8), schema_of(31, 2, 2))
    shares, joint = [], []
    for seed in range(5):
        result = fit(PaperMST(readable=9.0), table, Rho(0.02), SeededNoise(seed))
        groups = [g for m in result.measurements for g in m.groups if g is not None]
        assert groups
        assert max(np.bincount(groups[0])) > 15  # the rare values were merged
        sample = result.model.sample(3000, rng)
        shares.append((sample.column("A") > 0).mean())
        joint.append(sample.column("B")[sample.column("A") > 0].mean())
    assert abs(np.mean(shares) - 0.3) < 0.03
    assert np.mean(joint) > 0.6  # the rare values also have the measured distribution of B


def test_rare_groups():
    mst = PaperMST(rare=3.0)

    def groups(*values):
        return mst._rare_groups(
            "A", [Measurement(("B",), np.zeros(2), 1.0), Measurement(("A",), np.array(values), 2.0)]
        )

    assert groups(10.0, 1.0, 20.0, 5.9, -3.0) == (0, 2, 1, 2, 2)
    assert groups(10.0, 1.0, 20.0) is None  # a single rare value is not merged
    assert groups(10.0, 20.0) is None
    assert groups(1.0, 2.0, -1.0) == (0, 0, 0)
