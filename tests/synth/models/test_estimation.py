"""Tests of the engine, which is compared with mirror descent on the full joint table."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.estimation import MirrorDescent, model_cliques

COLUMNS = (
    Column("A", values=(0, 1)),
    Column("B", values=(0, 1, 2)),
    Column("C", values=(0, 1, 2, 3)),
    Column("D", values=(0, 1)),
)
PLAIN = Schema("plain", COLUMNS)
ZEROS = Schema(
    "zeros", COLUMNS, impossible=(Impossible(("A", "B"), ((0,), (1, 2))), Impossible(("D", "C"), ((1,), (0, 1))))
)
CLIQUES = {
    "singles": [("A",), ("B",), ("C",), ("D",)],
    "missing": [("A",), ("C", "B")],
    "tree": [("A", "B"), ("C", "B"), ("C", "D")],
    "cycle": [("A", "B"), ("B", "C"), ("D", "C"), ("A", "D")],
    "triple": [("A", "B", "C"), ("D", "A")],
    "twice": [("A", "B"), ("B", "A"), ("A", "B"), ("B",)],
    "nested": [("A", "B", "C"), ("A", "B"), ("C",), ("D",)],
    "all": [("A", "B", "C", "D")],
}
ENGINE = MirrorDescent(iterations=20_000, tolerance=1e-11)


def possible(schema):
    """Return a joint table that is 1 for each combination that is allowed by the schema."""
    allowed = np.ones(schema.sizes)
    for zero in schema.impossible:
        mask = schema.zero_mask(zero)
        axes = [schema.index(name) for name in zero.columns]
        order = np.argsort(axes)
        shape = [n if v in axes else 1 for v, n in enumerate(schema.sizes)]
        allowed *= ~np.transpose(mask, order).reshape(shape)
    return allowed


def measured(schema, cliques, seed, groups=None, sigma=5.0, rows=400):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(int(np.prod(schema.sizes)), 0.4)).reshape(schema.sizes) * possible(schema)
    joint *= rows / joint.sum()
    result = []
    for columns in cliques:
        counts = np.einsum(joint, range(joint.ndim), [schema.index(name) for name in columns])
        maps = tuple((groups or {}).get(name) for name in columns)
        counts = Measurement(columns, np.zeros((1,) * len(columns)), sigma, maps).merged(counts)
        result.append(Measurement(columns, counts + rng.normal(0, sigma, counts.shape), sigma, maps))
    return result


def oracle(schema, measurements, total, steps=20_000):
    """Return the maximum-entropy table by exponentiated gradient descent with a line search. This is a slow reference
    implementation.
    """
    axes = [[schema.index(name) for name in m.columns] for m in measurements]

    def loss(p):
        value, gradient = 0.0, np.zeros(p.shape)
        for m, a in zip(measurements, axes, strict=True):
            gap = (m.merged(np.einsum(p, range(p.ndim), a)) * total - m.values) / m.sigma
            value += 0.5 * float((gap**2).sum())
            pull = gap / m.sigma * total
            for axis, groups in enumerate(m.groups):  # the gradient of a group is added to each of its codes
                if groups is not None:
                    pull = np.take(pull, groups, axis=axis)
            order = np.argsort(a)
            gradient += np.transpose(pull, order).reshape([n if v in a else 1 for v, n in enumerate(p.shape)])
        return value, gradient

    p = possible(schema) / possible(schema).sum()
    value, gradient = loss(p)
    step = 1e-4
    for _ in range(steps):
        while True:
            q = p * np.exp(-step * (gradient - gradient.min()))
            q /= q.sum()
            new_value, new_gradient = loss(q)
            if new_value <= value + 0.5 * float((gradient * (q - p)).sum()) or step < 1e-12:
                break
            step /= 2
        if np.abs(q - p).sum() < 1e-9:
            break
        p, value, gradient, step = q, new_value, new_gradient, step * 1.5
    return p * total


def check(schema, measurements, tolerance=2e-3):
    model = ENGINE.estimate(schema, measurements)
    expected = oracle(schema, measurements, model.total)
    joint = model.marginal(schema.names)
    assert joint.sum() == pytest.approx(model.total)
    assert (joint[possible(schema) == 0] == 0).all()
    for pair in combinations(range(len(schema.names)), 2):
        ours = model.marginal([schema.names[v] for v in pair])
        gap = np.abs(ours - np.einsum(expected, range(expected.ndim), pair)).sum() / model.total
        assert gap < tolerance, pair
    return model


@pytest.mark.parametrize("schema", [PLAIN, ZEROS], ids=lambda schema: schema.name)
@pytest.mark.parametrize("shape", CLIQUES)
def test_agrees_with_the_full_joint(shape, schema):
    check(schema, measured(schema, CLIQUES[shape], seed=1))


@pytest.mark.parametrize("schema", [PLAIN, ZEROS], ids=lambda schema: schema.name)
@pytest.mark.parametrize("shape", ["singles", "tree", "cycle", "triple"])
def test_agrees_when_values_were_merged(shape, schema):
    merged = measured(schema, CLIQUES[shape], 2, {"B": (1, 0, 1), "C": (0, 1, 1, 1)})
    check(schema, [*merged, *measured(schema, [("A",), ("C",)], 2)])


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.permutations("ABCD").flatmap(lambda p: st.integers(1, 3).map(lambda k: tuple(p[:k]))), max_size=4),
       st.integers(0, 1000), st.booleans())  # fmt: skip
def test_agrees_on_random_structures(cliques, seed, zeros):
    schema = ZEROS if zeros else PLAIN
    check(schema, measured(schema, cliques, seed), tolerance=5e-3)


@pytest.mark.parametrize("schema", [PLAIN, ZEROS], ids=lambda schema: schema.name)
@pytest.mark.parametrize("known", [[], [Measurement((), np.array(120.0), 3.0)]], ids=["nothing", "only a count"])
def test_nothing_measured_means_uniform_over_what_is_possible(schema, known):
    model = MirrorDescent().estimate(schema, known)
    assert model.total == (120.0 if known else 1.0)
    expected = np.einsum(possible(schema), range(4), [0, 2]) / possible(schema).sum() * model.total
    np.testing.assert_allclose(model.marginal(["A", "C"]), expected)
    assert len(model.sample(10, np.random.default_rng(0))) == 10


def test_impossible_combinations_have_no_mass_whatever_was_measured():
    """The noisy counts of impossible cells are not 0, and the model and its samples must be 0."""
    rng = np.random.default_rng(0)
    noisy = [Measurement(c, rng.normal(30, 5, [ZEROS[n].size for n in c]), 5.0) for c in (("A", "B"), ("C", "D"))]
    model = MirrorDescent().estimate(ZEROS, noisy)
    sample = model.sample(20_000, rng)
    for zero in ZEROS.impossible:
        mask = ZEROS.zero_mask(zero)
        assert (model.marginal(zero.columns)[mask] == 0).all()
        assert (sample.marginal(zero.columns)[mask] == 0).all()


def test_exact_marginals_are_fitted():
    measurements = measured(PLAIN, CLIQUES["tree"], 3, sigma=1e-3)
    model = MirrorDescent().estimate(PLAIN, measurements)
    for m in measurements:
        assert np.abs(model.marginal(m.columns) - m.values).sum() < 1.0  # of 400 rows


def test_a_public_marginal_is_taken_at_its_word():
    public = Measurement(("A",), np.array([30.0, 70.0]), 0.0)
    model = MirrorDescent().estimate(PLAIN, [public, Measurement(("A", "D"), np.full((2, 2), 25.0), 5.0)])
    assert model.total == 100
    np.testing.assert_allclose(model.marginal(["A"]), [30, 70], atol=0.1)


def test_the_total_comes_from_the_measurements_not_below_one():
    assert MirrorDescent().estimate(PLAIN, [Measurement(("A",), np.array([-30.0, -9.0]), 5.0)]).total == 1.0
    model = MirrorDescent().estimate(PLAIN, [Measurement(("A",), np.array([30.0, 9.0]), 5.0)])
    assert model.total == 39
    assert model.marginal(["B", "D"]).sum() == pytest.approx(39)


@pytest.mark.parametrize("schema", [PLAIN, ZEROS], ids=lambda schema: schema.name)
def test_a_warm_start_ends_where_a_cold_one_does(schema):
    """The first model can have a different junction tree."""
    first = ENGINE.estimate(schema, measured(schema, CLIQUES["tree"], 4))
    for shape in ("tree", "cycle", "all", "singles"):
        later = measured(schema, CLIQUES[shape], 5)
        warm, cold = ENGINE.estimate(schema, later, first), ENGINE.estimate(schema, later)
        for columns in CLIQUES[shape]:
            gap = np.abs(warm.marginal(columns) - cold.marginal(columns)).sum()
            assert gap < 4e-3 * cold.total
        for zero in schema.impossible:
            assert (warm.marginal(zero.columns)[schema.zero_mask(zero)] == 0).all()


def test_a_warm_start_can_raise_what_the_first_model_found_to_be_nothing():
    """If a noisy count is negative, the probability is 0. It must be increased if there is a more
    precise measurement.
    """
    engine = MirrorDescent()
    first = engine.estimate(PLAIN, [Measurement(("A",), np.array([1000.0, -300.0]), 1.0)])
    assert first.marginal(["A"])[1] < 1e-6
    later = engine.estimate(PLAIN, [Measurement(("A",), np.array([700.0, 300.0]), 0.5)], first)
    np.testing.assert_allclose(later.marginal(["A"]), [700, 300], atol=1)


def test_a_better_start_saves_steps_when_steps_are_few():
    measurements = measured(PLAIN, CLIQUES["cycle"], 6)
    good = ENGINE.estimate(PLAIN, measurements)
    few = MirrorDescent(iterations=3)

    def misfit(model):
        return sum(float(((model.marginal(m.columns) - m.values) ** 2).sum()) for m in measurements)

    assert misfit(few.estimate(PLAIN, measurements, good)) < misfit(few.estimate(PLAIN, measurements))


def test_model_cliques_are_what_was_measured_and_the_structural_zeros():
    measurements = [Measurement((), np.array(3.0), 1.0), *measured(ZEROS, [("C", "A"), ("A", "C"), ("B",)], 0)]
    assert model_cliques(ZEROS, measurements) == [(0, 1), (0, 2), (1,), (2, 3)]


def test_the_measurements_are_left_as_they_were():
    measurements = measured(PLAIN, CLIQUES["cycle"], 8)
    before = [m.values.copy() for m in measurements]
    MirrorDescent().estimate(PLAIN, measurements)
    for m, values in zip(measurements, before, strict=True):
        np.testing.assert_array_equal(m.values, values)


def test_a_wide_table_is_fitted_without_underflow():
    """The 40 columns are a chain with a strong dependence and little noise, so products over cliques can underflow."""
    d, rows = 40, 5000
    rng = np.random.default_rng(0)
    schema = Schema("wide", tuple(Column(f"c{i}", values=(0, 1, 2)) for i in range(d)))
    codes = np.zeros((rows, d), dtype=int)
    codes[:, 0] = rng.integers(0, 3, rows)
    for i in range(1, d):
        codes[:, i] = np.where(rng.random(rows) < 0.97, codes[:, i - 1], rng.integers(0, 3, rows))
    measurements = []
    for i in range(d - 1):
        counts = np.bincount(codes[:, i] * 3 + codes[:, i + 1], minlength=9).reshape(3, 3)
        measurements.append(Measurement((f"c{i}", f"c{i + 1}"), counts + rng.normal(0, 1, (3, 3)), 1.0))
    model = MirrorDescent().estimate(schema, measurements)
    assert max(np.abs(model.marginal(m.columns) - m.values).sum() for m in measurements) < 0.01 * rows


def test_a_code_that_noise_took_away_comes_back():
    """The second code of A is measured as −12 ± 10 rows, and the pairs measure 30 rows."""
    alone = [Measurement(("A",), np.array([1012.0, -12.0]), 10.0)]
    pairs = [Measurement(("A", "B"), np.array([[323.0] * 3, [10.0] * 3]), 8.0) for _ in range(2)]
    left = MirrorDescent().estimate(PLAIN, [*alone, *pairs]).marginal("A")[1]
    assert 5 < left < 30
