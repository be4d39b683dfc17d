"""Tests of mixtures of products, which are compared with the full joint table: marginals, zeros, conditioning, sampling
and files.
"""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.mixtures.loss import MixtureLoss
from equistrata.synth.models.mixtures.mixture import ProductMixture, mixture
from equistrata.synth.models.possible import FeasibleCodes

# There is a group of four connected columns (A, B, D, F), and codes 1 and 2 of A are in the same class.
SIZES = {"A": 3, "B": 3, "C": 4, "D": 2, "E": 1, "F": 3}
ZEROS = (
    Impossible(("A", "B"), ((1, 2), (0,))),
    Impossible(("D", "B"), ((1,), (1, 2))),
    Impossible(("F", "A", "D"), ((2,), (0,), (0, 1))),
)


def schema_of(names="ABCDEF", zeros=ZEROS):
    columns = tuple(Column(name, values=tuple(range(SIZES[name]))) for name in names)
    return Schema("test", columns, impossible=tuple(z for z in zeros if set(z.columns) <= set(names)))


def model_of(schema, components=4, seed=0, total=50.0):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.gamma(0.5, size=(components, size)) + 1e-3 for size in schema.sizes)
    return ProductMixture(schema, total, rng.dirichlet(np.ones(components)), factors)


def joint(model):
    """Return the joint table by definition. Each product is restricted to the possible cells and normalised."""
    schema = model.schema
    table = np.zeros(schema.sizes)
    for weight, *rows in zip(model.weights, *model.factors, strict=True):
        cells = np.ones(())
        for row in rows:
            cells = np.multiply.outer(cells, row)
        for zero in schema.impossible:
            for cell in product(*(range(size) for size in schema.sizes)):
                if all(cell[schema.index(n)] in c for n, c in zip(zero.columns, zero.codes, strict=True)):
                    cells[cell] = 0
        table += weight * cells / cells.sum()
    return table


def of_joint(table, schema, columns):
    places = [schema.index(name) for name in columns]
    sums = table.sum(axis=tuple(j for j in range(table.ndim) if j not in places))
    return np.transpose(sums, [sorted(places).index(j) for j in places])


@pytest.mark.parametrize("names", ["ABCDEF", "AB", "CE", "E", "BDAC", "FDA"])
def test_marginals_are_those_of_the_full_joint(names):
    model = model_of(schema_of(names))
    table = joint(model)
    assert table.sum() == pytest.approx(1)
    for size in range(len(names) + 1):
        for columns in permutations(names, size) if size < 3 else combinations(names[::-1], size):
            expected = of_joint(table, model.schema, columns) * model.total
            np.testing.assert_allclose(model.marginal(columns), expected, atol=1e-9)


def test_groups_and_classes():
    possible = FeasibleCodes.of(schema_of())
    assert [group.columns for group in possible.groups] == [(0, 1, 3, 5), (2,), (4,)]
    assert [c.tolist() for c in possible.classes] == [[0, 1, 1], [0, 1, 1], [0] * 4, [0, 1], [0], [0, 0, 1]]
    cells = {tuple(cell) for cell in possible.groups[0].cells.tolist()}
    expected = {
        tuple(int(possible.classes[j][c]) for j, c in zip((0, 1, 3, 5), (a, b, d, f), strict=True))
        for a, b, d, f in product(range(3), range(3), range(2), range(3))
        if not (a > 0 and b == 0) and not (d == 1 and b > 0) and not (f == 2 and a == 0)
    }
    assert cells == expected


def test_a_group_with_too_many_combinations_is_refused():
    columns = tuple(Column(f"X{j}", values=tuple(range(10))) for j in range(6))
    zeros = tuple(Impossible((f"X{i}", f"X{j}"), ((k,), (k,))) for i in range(6) for j in range(i) for k in range(10))
    with pytest.raises(InputError, match="X0, X1, X2, X3, X4, X5, which leaves more than 20,000 possible"):
        FeasibleCodes.of(Schema("wide", columns, impossible=zeros))


def test_a_schema_with_nothing_possible_is_refused():
    with pytest.raises(InputError, match="no possible combination of A"):
        FeasibleCodes.of(schema_of("A", (Impossible(("A",), ((0, 1, 2),)),)))


@pytest.mark.parametrize(
    "allowed", [{"A": [1]}, {"B": [0], "C": [1, 3]}, {"D": [1], "F": [0, 2]}, {"A": [0, 1, 2]}, {}]
)
def test_where_is_the_conditioned_joint(allowed):
    model = model_of(schema_of())
    table = joint(model)
    for name, codes in allowed.items():
        axis = model.schema.index(name)
        keep = np.isin(np.arange(model.schema.sizes[axis]), codes)
        table = table * keep.reshape([-1 if a == axis else 1 for a in range(table.ndim)])
    given_allowed, mass = model.where(allowed)
    assert mass == pytest.approx(table.sum())
    assert given_allowed.total == pytest.approx(model.total * mass)
    for columns in combinations(model.schema.names, 2):
        expected = of_joint(table, model.schema, columns) * model.total
        np.testing.assert_allclose(given_allowed.marginal(columns), expected, atol=1e-9)
    codes = given_allowed.sample(400, np.random.default_rng(0))
    assert all(np.isin(codes.column(name), wanted).all() for name, wanted in allowed.items())


def test_where_twice_is_where_once():
    model = model_of(schema_of())
    once, mass = model.where({"A": [0, 1], "B": [0]})
    first, mass_first = model.where({"A": [0, 1]})
    second, mass_second = first.where({"B": [0]})
    assert mass == pytest.approx(mass_first * mass_second)
    np.testing.assert_allclose(once.marginal("CDF"), second.marginal("CDF"))


def test_an_impossible_condition_is_refused():
    with pytest.raises(InputError, match="no row can have this combination of A, B"):
        model_of(schema_of()).where({"A": [1], "B": [0]})


@pytest.mark.parametrize("rows", [0, 1, 7, 3000])
def test_samples_hold_no_impossible_row(rows):
    model = model_of(schema_of(), components=9, seed=1)
    table = model.sample(rows, np.random.default_rng(2))
    assert len(table) == rows
    for zero in model.schema.impossible:
        assert table.marginal(zero.columns)[model.schema.zero_mask(zero)].sum() == 0


def test_samples_follow_the_model_for_all_pairs_and_triples():
    """The error of each cell of 40,000 rows is compared with √(n p), which is the error of multinomial sampling."""
    model = model_of(schema_of(), components=6, seed=3, total=40_000.0)
    table = model.sample(40_000, np.random.default_rng(0))
    for size in (1, 2, 3):
        for columns in combinations(model.schema.names, size):
            expected = model.marginal(columns)
            assert (np.abs(table.marginal(columns) - expected) <= 5 * np.sqrt(expected) + 1).all(), columns


def test_columns_stay_independent_within_a_component():
    schema = schema_of("CA", ())
    model = ProductMixture(schema, 1.0, np.ones(1), (np.full((1, 4), 0.25), np.full((1, 3), 1 / 3)))
    rng = np.random.default_rng(0)
    both = np.array([model.sample(12, rng).marginal("CA") for _ in range(4000)])
    np.testing.assert_allclose(both.mean(axis=0), 1.0, atol=0.06)
    # The variance of the hypergeometric distribution.
    assert both[:, 0, 0].var() == pytest.approx(12 * 0.25 * 0.75 / 3 * 2 / 3 * 12 / 11, rel=0.1)


@pytest.mark.slow
def test_many_components_with_a_row_each_do_not_correlate_columns():
    """The order of the rounding over the components must be different for each column, because columns would otherwise
    be correlated.
    """
    schema = schema_of("DAC", ())
    model = ProductMixture(
        schema, 1.0, np.full(40, 1 / 40), tuple(np.full((40, size), 1 / size) for size in schema.sizes)
    )
    rng = np.random.default_rng(0)
    pairs = np.array([model.sample(40, rng).marginal("DA") for _ in range(2000)])
    np.testing.assert_allclose(pairs.mean(axis=0), 40 / 6, atol=0.15)
    assert pairs.std(axis=0).max() < 2.2
    singles = np.array([model.sample(40, rng).marginal("D") for _ in range(200)])
    assert np.abs(singles - 20).max() <= 1  # the total of each column is within one row


def test_a_marginal_with_too_many_cells_is_refused():
    columns = tuple(Column(f"X{j}", values=tuple(range(50))) for j in range(6))
    schema = Schema("wide", columns)
    model = ProductMixture(schema, 1.0, np.ones(1), tuple(np.ones((1, 50)) for _ in range(6)))
    with pytest.raises(InputError, match="too many cells"):
        model.marginal(schema.names)
    with pytest.raises(InputError, match="twice"):
        model.marginal(["X1", "X1"])


def measurements_of(schema, sets, seed=0):
    rng, found = np.random.default_rng(seed), []
    for columns in sets:
        shape = [schema[name].size for name in columns]
        found.append(Measurement(tuple(columns), rng.uniform(0, 20, shape), rng.uniform(1, 4)))
    return found


SETS = [["A"], ["C"], ["E"], "AB", "CA", "CE", "ABD", "FBA", "CAB", "EAC", "CDF", "ABDF", "FACE", "ABCDEF"]


@pytest.mark.parametrize("sets", [SETS, [["C"]], ["AB"], ["ABD", "C"], ["CE"], []])
def test_the_loss_and_its_gradient(sets):
    schema = schema_of()
    noisy = [*measurements_of(schema, sets), Measurement((), np.array(60.0), 1.0)]
    noisy.append(Measurement(("C", "A"), np.array([[9.0, 3.0], [5.0, 1.0]]), 2.0, ((0, 0, 1, 1), (0, 1, 1))))
    total = 55.0
    logits = np.random.default_rng(1).normal(size=(sum(schema.sizes), 3))

    def exact(at, tolerance):
        model = mixture(schema, total, at)
        gaps = [((m.merged(model.marginal(m.columns)) - m.values) / m.sigma).ravel() for m in noisy if m.columns]
        gap = np.concatenate(gaps)
        return gap, 0.5 * float((np.maximum(np.abs(gap) - tolerance, 0) ** 2).sum())

    loss = MixtureLoss.of(schema, noisy, total)
    for tolerance in (0.0, 1.0):
        value, residual, gradient = loss.value(logits.astype(np.float32), tolerance)
        gap, expected = exact(logits, tolerance)
        np.testing.assert_allclose(residual, gap, atol=2e-4)
        assert value == pytest.approx(expected, rel=1e-4)
        slope = np.zeros_like(logits)
        for cell in np.ndindex(logits.shape):
            step = np.zeros_like(logits)
            step[cell] = 1e-5
            slope[cell] = (exact(logits + step, tolerance)[1] - exact(logits - step, tolerance)[1]) / 2e-5
        np.testing.assert_allclose(gradient, slope, atol=2e-4 * max(1, np.abs(slope).max()))


def test_the_loss_of_nothing():
    schema = schema_of()
    value, residual, gradient = MixtureLoss.of(schema, [], 10.0).value(np.zeros((sum(schema.sizes), 2), np.float32))
    assert value == 0
    assert residual.size == 0
    assert not gradient.any()
