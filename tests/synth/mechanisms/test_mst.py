"""Tests of MST: its budget, its decisions and small tables."""

import time
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from faked_fits import fits_of_the_same_bits
from small_tables import fit, schema_of, table_of
from spies import FakeNoise, Spy, recorded_budgets

import equistrata.synth.mechanisms.mst
import equistrata.synth.mechanisms.session
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.registry import mechanism
from paper.mst import PaperMST

FAST = MirrorDescent(iterations=50)
BOTH = pytest.mark.parametrize("kind", [MST, PaperMST])  # the tests for our MST and for the MST of the paper
ONE_TREE = pytest.mark.parametrize("kind", [partial(MST, trees=1), PaperMST])


@pytest.fixture
def budgets(monkeypatch):
    """Return a list of the budgets that are used by MST."""
    return recorded_budgets(monkeypatch, equistrata.synth.mechanisms.session)


@pytest.mark.parametrize("rows", [0, 1, 5, 100_000])
@pytest.mark.parametrize("parts", [(0.2, 0.1), (0.5, 0.4), (0.1, 0.7)])
@pytest.mark.parametrize("rho", [0.1, 1 / 3, 0.0149731])
def test_spends_exactly_rho(budgets, rows, parts, rho):
    noise = Spy()
    mst = MST(levels=Levels(columns=parts[0], low_noise=parts[0]), choice=parts[1], engine=MirrorDescent(iterations=2))
    mst.measure(table_of(rows, (2, 3, 4, 2)), Rho(rho), noise)
    (budget,) = budgets
    assert budget.spent == budget.total == Rho(rho)
    # The noise source must report the same cost, which is the sum of 1/(2σ²) and the cost of the selections.
    through_noise = sum(1 / (2 * s**2) for s in noise.sigmas) + sum(float(r) for _, _, r in noise.selections)
    assert through_noise == pytest.approx(rho, rel=1e-12)


@ONE_TREE
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2, 4), (2, 3, 4, 2, 3, 2)])
def test_measures_every_column_then_a_spanning_tree(sizes, kind):
    table = table_of(100_000, sizes)
    names, d = table.schema.names, len(sizes)
    for seed in range(5):
        measured = kind(engine=FAST).measure(table, Rho(0.1), SeededNoise(seed))
        assert [m.columns for m in measured[:d]] == [(name,) for name in names]
        edges = [m.columns for m in measured[d:]]
        assert len(edges) == d - 1
        reached = {names[0]}
        for _ in edges:
            reached |= {b for a, b in [*edges, *(e[::-1] for e in edges)] if a in reached}
        assert reached == set(names)


@BOTH
def test_picks_the_dependent_pairs_when_noise_is_low(kind):
    rng = np.random.default_rng(0)
    a, c, e = rng.integers(0, 3, (3, 20_000))
    table = CodedTable(np.stack([a, a, c, c, e], axis=1).astype(np.uint8), schema_of(3, 3, 3, 3, 3))
    measured = kind(engine=FAST).measure(table, Rho(0.5), SeededNoise(0))
    edges = {m.columns for m in measured if len(m.columns) == 2}
    assert {("A", "B"), ("C", "D")} <= edges


def test_scores_are_the_entrywise_l1_distance_less_the_noise_floor():
    """The MST of OpenDP uses a matrix norm (the largest column sum), which gives a different order of the pairs."""
    table = table_of(5000, (2, 3, 4), seed=2)
    noise, mst = Spy(exact=True), MST(trees=1)
    measured = mst.measure(table, Rho(1), noise)
    model = mst.engine.estimate(table.schema, measured[:3])
    pairs = list(combinations("ABC", 2))
    expected = [np.abs(table.marginal(p) - model.marginal(p)).sum() for p in pairs]
    sigma = np.mean([measurement.sigma**-2 for measurement in measured[-2:]]) ** -0.5  # for an equal part of ρ
    floor = [np.sqrt(2 / np.pi) * sigma * table.schema[a].size * table.schema[b].size for a, b in pairs]
    scores, _, rho = noise.selections[0]
    np.testing.assert_allclose(scores, np.subtract(expected, floor), atol=13 / 2048)  # each cell is rounded to 1/1024
    np.testing.assert_array_equal(scores * 1024, np.rint(scores * 1024))  # so that the sums are exact in floating point
    assert [s for _, s, _ in noise.selections] == [1.0, 1.0]
    assert rho * 2 == Rho(1) * mst.choice


def test_pairs_share_the_rest_of_rho_by_their_cells():
    """The sum of the expected noise is smallest if ρ is proportional to the number of cells to the power 2/3."""
    table = table_of(5000, (2, 5, 30), seed=2)
    measured, log = MST(trees=2).measure_with_log(table, Rho(1), SeededNoise(0))
    pairs = [m for m in measured if len(m.columns) == 2]
    assert len(pairs) > 1
    floors = {m.columns: m.sigma * m.values.size for m in pairs}
    prices = {step.columns: float(step.measurement) for step in log if len(step.columns) == 2}
    # At the minimum, the ratio of the expected noise to ρ is the same for all pairs.
    worth = [floors[columns] / prices[columns] for columns in floors]
    np.testing.assert_allclose(worth, worth[0])


def test_settings_that_make_no_sense_are_refused():
    for bad in ({"trees": 0}, {"choice": 0.0}, {"choice": 0.6}, {"readable": 0.0}, {"max_model_size": -1.0}):
        with pytest.raises(InputError, match="MST"):
            MST(**bad)


@BOTH
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1,), (1, 1), (1, 2, 1)])
@pytest.mark.parametrize("rows", [0, 1, 5, 5000])
def test_few_columns_and_few_rows(sizes, rows, budgets, kind):
    table = table_of(rows, sizes)
    result = fit(kind(engine=FAST), table, Rho(0.2), SecureNoise())
    assert budgets[0].remaining == Rho(0)
    if len(sizes) == 1:
        assert {m.columns for m in result.measurements} == {("A",)}
    sample = result.model.sample(20, np.random.default_rng(0))
    assert len(sample) == 20
    assert sample.schema == table.schema


@BOTH
@pytest.mark.parametrize(("level", "pairs"), [(5000, True), (1, False)])
def test_whether_pairs_are_readable_is_decided_from_noisy_numbers_alone(level, pairs, kind):
    """The noisy counts contradict the true size of the table, and the decision must follow the noisy counts."""
    table = table_of(1 if pairs else 50_000, (2, 3, 4))
    measured = kind(engine=FAST).measure(table, Rho(0.05), FakeNoise(level))
    assert any(len(m.columns) == 2 for m in measured) == pairs


@BOTH
def test_a_paid_count_is_kept_and_used(kind):
    known = Measurement((), np.array(100_000.0), 0.5)
    measured = kind(engine=FAST).measure(table_of(5, (2, 3, 4)), Rho(0.01), SeededNoise(0), [known])
    assert measured[0] is known
    assert any(len(m.columns) == 2 for m in measured)  # the table is large according to the count


@BOTH
@pytest.mark.parametrize("level", [60, 5000])
def test_with_faked_noise_two_private_tables_give_the_same_bits(level, kind):
    fits_of_the_same_bits(kind(engine=FAST), level, lambda model: model.conditional)


@BOTH
def test_a_value_that_no_row_has_can_be_sampled(kind):
    """Since the value is declared in the schema, it can be sampled although there is no row with this value. The noise
    scale is about 40 to 50 rows for ρ = 0.001.
    """
    table = CodedTable(np.zeros((40, 2), dtype=np.uint8), schema_of(3, 3))
    seen = set()
    for seed in range(20):
        model = fit(kind(engine=FAST), table, Rho(0.001), SeededNoise(seed)).model
        seen |= set(model.sample(100, np.random.default_rng(0)).column("A").tolist())
    assert seen == {0, 1, 2}


def test_by_name():
    assert mechanism("MST").name == mechanism("mst").name == MST().name == "MST"
    with pytest.raises(ValueError, match="unknown synthesizer"):
        mechanism("nothing")
    with pytest.raises(ValueError, match="unknown engine"):
        mechanism("mst", "nothing")


@pytest.mark.parametrize("most", [60, 200, 1000, 10_000])
def test_pairs_that_would_make_the_model_too_large_are_found_without_a_tree_for_each(most):
    """The result is compared with a junction tree for each pair.

    The fast check uses an elimination order that can be better than the order of the junction tree. In these rare
    cases, the model can be slightly larger than the limit.
    """
    rng = np.random.default_rng(most)
    odd = seen = 0
    for _ in range(6):
        sizes = rng.integers(2, 6, 9).tolist()
        schema = Schema("nine", tuple(Column(f"c{n}", values=tuple(range(k))) for n, k in enumerate(sizes)))
        forest = equistrata.synth.mechanisms.mst._Forest(schema, [(0, v) for v in range(1, 9)])
        names = schema.names[1:]
        for _ in range(2):
            forest.begin_tree(names)
            for _ in names[1:]:
                parts, used = forest.part, set(forest.used)
                pairs = {pair for pair in combinations(names, 2) if parts[pair[0]] != parts[pair[1]]} - used
                slow = {pair for pair in pairs if forest._cells(pair) <= most}
                found = forest.open_pairs(most)
                assert slow <= found
                assert all(forest._cells(pair) <= 2 * most for pair in found)
                odd, seen = odd + len(found - slow), seen + len(pairs)
                if not found:
                    break
                pair = sorted(found)[int(rng.integers(len(found)))]
                forest.add(pair, [schema.names[0], *pair])
    assert odd <= 0.02 * seen


def test_trees_over_forty_columns_within_four_strata_take_seconds():
    """Regression test: a junction tree for each open pair in each step took minutes."""
    schema = Schema("wide", tuple(Column(f"c{n}", values=(0, 1, 2, 3)) for n in range(41)))
    forest = equistrata.synth.mechanisms.mst._Forest(schema, [(0, v) for v in range(1, 41)])
    begun = time.process_time()
    rng = np.random.default_rng(0)
    forest.begin_tree(schema.names[1:])
    for _ in range(39):
        found = sorted(forest.open_pairs(2_000_000))
        forest.add(pair := found[int(rng.integers(len(found)))], ["c0", *pair])
    forest.begin_tree(schema.names[1:])
    assert forest.open_pairs(262_144)
    assert time.process_time() - begun < 4
