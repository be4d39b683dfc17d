"""The paper's MST: what it spends, what it decides from, and what it does to rare values and small tables."""

from itertools import combinations, product

import numpy as np
import pytest
from small_tables import fit, grown_ups, schema_of, table_of
from spies import FakeNoise, Spy, recorded_budgets

import equistrata.synth.mechanisms.session
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.estimation import MirrorDescent
from paper.mst import PaperMST, _choose_tree

FAST = MirrorDescent(iterations=50)


@pytest.fixture
def budgets(monkeypatch):
    """Every Budget that MST makes."""
    return recorded_budgets(monkeypatch, equistrata.synth.mechanisms.session)


@pytest.mark.parametrize("rows", [0, 1, 5, 100_000])
@pytest.mark.parametrize("shares", [(1, 1, 1), (0.1, 0.2, 0.7), (3, 1, 2)])
@pytest.mark.parametrize("rho", [0.1, 1 / 3, 0.0149731])
def test_spends_exactly_rho(budgets, rows, shares, rho):
    noise = Spy()
    PaperMST(shares=shares, engine=MirrorDescent(iterations=2)).measure(table_of(rows, (2, 3, 4, 2)), Rho(rho), noise)
    (budget,) = budgets
    assert budget.spent == budget.total == Rho(rho)
    # What reached the noise source says the same: Σ 1/(2σ²) and the selections' own amounts.
    through_noise = sum(1 / (2 * s**2) for s in noise.sigmas) + sum(float(r) for _, _, r in noise.selections)
    assert through_noise == pytest.approx(rho, rel=1e-12)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2, 4), (2, 3, 4, 2, 3, 2)])
def test_measures_every_column_then_a_spanning_tree(sizes):
    table = table_of(100_000, sizes)
    names, d = table.schema.names, len(sizes)
    for seed in range(5):
        measured = PaperMST(engine=FAST).measure(table, Rho(0.1), SeededNoise(seed))
        assert [m.columns for m in measured[:d]] == [(name,) for name in names]
        edges = [m.columns for m in measured[d:]]
        assert len(edges) == d - 1
        reached = {names[0]}
        for _ in edges:
            reached |= {b for a, b in [*edges, *(e[::-1] for e in edges)] if a in reached}
        assert reached == set(names)


def test_picks_the_dependent_pairs_when_noise_is_low():
    """A-B and C-D are copies: a scheme that scored them wrongly would leave one out of the tree."""
    rng = np.random.default_rng(0)
    a, c, e = rng.integers(0, 3, (3, 20_000))
    table = CodedTable(np.stack([a, a, c, c, e], axis=1).astype(np.uint8), schema_of(3, 3, 3, 3, 3))
    measured = PaperMST(engine=FAST).measure(table, Rho(0.5), SeededNoise(0))
    edges = {m.columns for m in measured if len(m.columns) == 2}
    assert {("A", "B"), ("C", "D")} <= edges


def test_scores_are_the_entrywise_l1_distance_at_sensitivity_one():
    """OpenDP's MST scores pairs by a matrix norm (the largest column sum), which ranks pairs differently."""
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
    np.testing.assert_array_equal(scores * 1024, np.rint(scores * 1024))  # so sums are exact in floating point
    assert [s for _, s, _ in noise.selections] == [1.0, 1.0]
    assert [r for _, _, r in noise.selections] == [Rho(1).split([1, 1, 1])[1].split([1, 1])[0]] * 2
    assert rho * 6 == Rho(1)


def test_one_row_moves_no_score_by_more_than_one():
    """For one fixed model (made from noisy numbers), over every row that could be added."""
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


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1,), (1, 1), (1, 2, 1)])
@pytest.mark.parametrize("rows", [0, 1, 5, 5000])
def test_few_columns_and_few_rows(sizes, rows, budgets):
    table = table_of(rows, sizes)
    result = fit(PaperMST(engine=FAST), table, Rho(0.2), SecureNoise())
    assert budgets[0].remaining == Rho(0)
    if len(sizes) == 1:
        assert {m.columns for m in result.measurements} == {("A",)}
    sample = result.model.sample(20, np.random.default_rng(0))
    assert len(sample) == 20
    assert sample.schema == table.schema


def test_small_tables_spend_everything_on_single_columns():
    for rows in (0, 1, 5):
        measured = PaperMST().measure(table_of(rows, (2, 3, 4)), Rho(0.01), SeededNoise(rows))
        assert [m.columns for m in measured] == [("A",), ("B",), ("C",)] * 2
        assert sum(1 / (2 * m.sigma**2) for m in measured) == pytest.approx(0.01)


@pytest.mark.parametrize(("level", "pairs"), [(5000, True), (1, False)])
def test_whether_pairs_are_readable_is_decided_from_noisy_numbers_alone(level, pairs):
    """The noisy counts say the opposite of the table's true size, and are believed."""
    table = table_of(1 if pairs else 50_000, (2, 3, 4))
    measured = PaperMST(engine=FAST).measure(table, Rho(0.05), FakeNoise(level))
    assert any(len(m.columns) == 2 for m in measured) == pairs


def test_a_paid_count_is_kept_and_used():
    known = Measurement((), np.array(100_000.0), 0.5)
    measured = PaperMST(engine=FAST).measure(table_of(5, (2, 3, 4)), Rho(0.01), SeededNoise(0), [known])
    assert measured[0] is known
    assert any(len(m.columns) == 2 for m in measured)  # the count says that the table is large


@pytest.mark.parametrize("level", [60, 5000])
def test_with_faked_noise_two_private_tables_give_the_same_bits(level):
    """The strongest form of "nothing but noise is published": nothing else depends on the rows, not even a size."""
    tables = [table_of(0, (2, 3, 4, 2)), table_of(1, (2, 3, 4, 2)), table_of(30_000, (2, 3, 4, 2), seed=9)]
    tables.append(CodedTable(np.zeros((777, 4), dtype=np.uint8), schema_of(2, 3, 4, 2)))
    results = [fit(PaperMST(engine=FAST), table, Rho(0.1), FakeNoise(level)) for table in tables]
    first = results[0]
    for other in results[1:]:
        assert [m.columns for m in other.measurements] == [m.columns for m in first.measurements]
        for a, b in zip(first.measurements, other.measurements, strict=True):
            assert (a.sigma, a.groups) == (b.sigma, b.groups)
            np.testing.assert_array_equal(a.values, b.values)
        assert other.model.total == first.model.total
        for a, b in zip(first.model.conditional, other.model.conditional, strict=True):
            np.testing.assert_array_equal(a, b)
        samples = [r.model.sample(300, np.random.default_rng(1)).codes for r in (first, other)]
        np.testing.assert_array_equal(*samples)


def test_merged_rare_values_keep_their_mass():
    """smartnoise turned a share of 30 % spread over rare values into 20 %.

    Column A: one value with 70 % of 3,000 rows, 30 values with 1 % each (30 rows, under 3σ, so merged). Five seeds; the
    noise of a 31-cell marginal at this ρ puts about 1 % on the rare share, so 3 points are far beyond it.
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
        assert max(np.bincount(groups[0])) > 15  # they were merged
        sample = result.model.sample(3000, rng)
        shares.append((sample.column("A") > 0).mean())
        joint.append(sample.column("B")[sample.column("A") > 0].mean())
    assert abs(np.mean(shares) - 0.3) < 0.03
    assert np.mean(joint) > 0.6  # and what was measured of them together reaches them


def test_rare_groups():
    mst = PaperMST(rare=3.0)

    def groups(*values):
        return mst._rare_groups(
            "A", [Measurement(("B",), np.zeros(2), 1.0), Measurement(("A",), np.array(values), 2.0)]
        )

    assert groups(10.0, 1.0, 20.0, 5.9, -3.0) == (0, 2, 1, 2, 2)
    assert groups(10.0, 1.0, 20.0) is None  # one rare value stays alone
    assert groups(10.0, 20.0) is None
    assert groups(1.0, 2.0, -1.0) == (0, 0, 0)


def test_a_value_that_no_row_has_can_be_sampled():
    """A domain read off the rows would never release it. At ρ = 0.001, σ is some 40 to 50 rows."""
    table = CodedTable(np.zeros((40, 2), dtype=np.uint8), schema_of(3, 3))
    seen = set()
    for seed in range(20):
        sample = fit(PaperMST(engine=FAST), table, Rho(0.001), SeededNoise(seed)).model.sample(
            100, np.random.default_rng(0)
        )
        seen |= set(sample.column("A").tolist())
    assert seen == {0, 1, 2}


def test_the_callers_rows_are_left_as_they_were():
    codes = np.random.default_rng(0).integers(0, 2, (2000, 3)).astype(np.uint8)
    before = codes.copy()
    fit(PaperMST(engine=FAST), CodedTable(codes, schema_of(2, 2, 2)), Rho(1), SeededNoise(0))
    np.testing.assert_array_equal(codes, before)
    assert codes.flags.writeable


def test_structural_zeros_are_never_sampled():
    table, rng = grown_ups(), np.random.default_rng(0)
    for seed, rho in ((0, 0.0001), (1, 0.01), (2, 1)):
        sample = fit(PaperMST(engine=FAST), table, Rho(rho), SeededNoise(seed)).model.sample(3000, rng)
        for zero in table.schema.impossible:
            assert (sample.marginal(zero.columns)[table.schema.zero_mask(zero)] == 0).all()
