"""Tests of a fitted model, which is compared with the full joint table: marginals, conditioning, sampling and files."""

import json
import zipfile
from itertools import combinations, permutations

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.errors import InputError
from equistrata.synth.models.graphical import GraphicalModel, layout_of
from equistrata.synth.models.junction_tree import JunctionTree
from equistrata.synth.models.projection import cell_map
from equistrata.synth.models.storage import load_model

SIZES = (2, 3, 4, 2, 3)
SHAPES = {
    "independent": [],
    "tree": [(0, 1), (1, 2), (1, 3), (3, 4)],
    "cycle": [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)],
    "clique": [(0, 1, 2, 3, 4)],
    "disconnected": [(0, 2), (1, 4)],
    "nested": [(0, 1, 2), (0, 1), (2, 3, 4)],
}


def schema_of(sizes, impossible=()):
    columns = tuple(Column("ABCDEFGH"[i], values=tuple(range(size))) for i, size in enumerate(sizes))
    return Schema("test", columns, impossible=impossible)


def random_model(shape, sizes=SIZES, seed=0, total=500.0, concentration=0.5, zero_share=0.2):
    """Return a model with random factors on a junction tree, some of which are 0, and the joint table."""
    rng = np.random.default_rng(seed)
    tree = JunctionTree.build(sizes, SHAPES[shape] if isinstance(shape, str) else shape)
    factors, joint = [], np.ones(sizes)
    for clique in tree.cliques:
        cells = [sizes[v] for v in clique]
        factor = rng.gamma(concentration, size=cells) * (rng.random(cells) > zero_share)
        factor.flat[0] += 0.1  # at least one cell is possible
        factors.append(factor.ravel())
        joint = joint * factor.reshape([sizes[v] if v in clique else 1 for v in range(len(sizes))])
    assert joint.sum() > 0
    conditional, mass = layout_of(tree).conditionals(factors)
    assert mass == pytest.approx(joint.sum())
    return GraphicalModel(schema_of(sizes), total, tree, conditional), joint / joint.sum()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_marginal_agrees_with_the_full_joint(shape, seed):
    model, joint = random_model(shape, seed=seed)
    names = model.schema.names
    for size in range(len(names) + 1):
        for variables in combinations(range(len(names)), size):
            marginal = model.marginal([names[v] for v in variables])
            expected = np.einsum(joint, range(joint.ndim), variables) * model.total
            np.testing.assert_allclose(marginal, expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(marginal == 0, expected == 0)  # the zeros are exact


@pytest.mark.parametrize("shape", SHAPES)
def test_axes_come_in_the_order_asked_for(shape):
    model, joint = random_model(shape)
    for wanted in permutations(range(5), 3):
        expected = np.einsum(joint, range(5), wanted) * model.total
        np.testing.assert_allclose(model.marginal([model.schema.names[v] for v in wanted]), expected, atol=1e-9)


@pytest.mark.parametrize("sizes", [(1, 3, 1, 2, 1), (1, 1, 1, 1, 1), (2, 1, 2, 1, 2)])
def test_columns_of_one_value(sizes):
    model, joint = random_model("cycle", sizes=sizes, zero_share=0.0)
    np.testing.assert_allclose(model.marginal(list("ABCDE")), joint * model.total, atol=1e-9)
    assert len(model.sample(7, np.random.default_rng(0))) == 7


def test_far_apart_columns_of_a_wide_table():
    """The 60 columns are a chain in which adjacent columns are equal with probability 90 %.

    The first and the last column are equal with probability (1 + 0.8^59)/2.
    """
    d = 60
    schema = Schema("wide", tuple(Column(f"c{i}", values=(0, 1)) for i in range(d)))
    tree = JunctionTree.build((2,) * d, [(i, i + 1) for i in range(d - 1)])
    factors = [np.array([0.9, 0.1, 0.1, 0.9])] * len(tree.cliques)
    conditional, _ = layout_of(tree).conditionals(factors)
    model = GraphicalModel(schema, 1.0, tree, conditional)
    for a, b in ((0, 59), (59, 3), (10, 12), (30, 31)):
        agreement = np.trace(model.marginal([f"c{a}", f"c{b}"]))
        assert agreement == pytest.approx((1 + 0.8 ** abs(a - b)) / 2, rel=1e-9)


def test_refuses_a_column_twice_or_unknown():
    model, _ = random_model("tree")
    with pytest.raises(InputError, match="twice"):
        model.marginal(["A", "A"])
    with pytest.raises(InputError, match="unknown column"):
        model.marginal(["Z"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("allowed", [{}, {"B": [1]}, {"B": [0, 2], "E": [1]}, {"A": [0], "C": [1, 2, 3], "D": [0, 1]}])
def test_where_agrees_with_conditioning_the_joint(shape, allowed):
    model, joint = random_model(shape, seed=5, zero_share=0.1)
    kept = joint.copy()
    for name, codes in allowed.items():
        axis = model.schema.index(name)
        gone = [code for code in range(SIZES[axis]) if code not in codes]
        kept[(slice(None),) * axis + (gone,)] = 0
    if kept.sum() == 0:
        with pytest.raises(InputError, match="no row can have"):
            model.where(allowed)
        return
    given, mass = model.where(allowed)
    assert mass == pytest.approx(kept.sum())
    assert given.total == pytest.approx(model.total * mass)
    np.testing.assert_allclose(given.marginal(list("ABCDE")), kept * model.total, atol=1e-9)
    np.testing.assert_allclose(model.marginal(list("ABCDE")), joint * model.total, atol=1e-9)  # the model is unchanged


def test_where_nobody_can_be():
    model, _ = random_model("tree", zero_share=0.0)
    with pytest.raises(InputError, match="no row can have"):
        model.where({"A": []})
    layout = layout_of(model.tree)
    factors = [table.copy() for table in model.conditional]
    home = model.tree.home((0, 1))
    a_zero = cell_map(SIZES, model.tree.cliques[home], (0,)) == 0
    b_one = cell_map(SIZES, model.tree.cliques[home], (1,)) == 1
    factors[home][a_zero & b_one] = 0
    impossible = GraphicalModel(model.schema, 1.0, model.tree, layout.conditionals(factors)[0])
    with pytest.raises(InputError, match="no row can have"):
        impossible.where({"A": [0], "B": [1]})


@pytest.mark.parametrize("rows", [0, 1, 2, 17, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_samples_exactly_that_many_rows_and_never_an_impossible_one(shape, rows):
    model, joint = random_model(shape, seed=2)
    table = model.sample(rows, np.random.default_rng(rows))
    assert len(table) == rows
    assert table.schema is model.schema
    assert (joint[tuple(table.codes[:, j] for j in range(5))] > 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_sampled_cells_are_within_rounding_of_their_expectation(shape):
    """Given the parent clique, the error of a cell is less than two for each new column of a clique."""
    model, _ = random_model(shape, seed=3)
    rows, tree = 4000, model.tree
    table = model.sample(rows, np.random.default_rng(1))
    names = model.schema.names
    for i, clique in enumerate(tree.cliques):
        counts = table.marginal([names[v] for v in clique]).ravel()
        own = cell_map(tree.sizes, clique, tree.separators[i])
        above = table.marginal([names[v] for v in tree.separators[i]]).ravel()
        new = len(clique) - len(tree.separators[i])
        assert np.abs(counts - model.conditional[i] * above[own]).max() < 2 * new + 1e-6


@pytest.mark.parametrize("shape", ["cycle", "clique", "nested"])
def test_few_rows_keep_the_counts_of_every_column(shape):
    """A random count of 40 rows has a standard deviation of 2 to 3. If each group is rounded separately, the error is 1
    or 2.
    """
    model, _ = random_model(shape, seed=4)
    names = model.schema.names
    tables = [model.sample(40, np.random.default_rng(seed)) for seed in range(30)]
    off = [[np.abs(t.marginal([n]) - model.marginal([n]) / model.total * 40).max() for n in names] for t in tables]
    assert np.mean(off) < 0.9


def test_samples_agree_with_the_model_outside_the_cliques():
    """Regression test: mbi 1.1 sampled pairs of columns with a correlation of 0.63 instead of 0.017.

    For 400,000 rows, the standard deviation of the correlation of two independent columns is 0.0016. The tolerance of
    0.01 is more than 6 standard deviations, so the probability of a false alarm is less than 1e-8 for each pair. The L1
    distance of a 4 × 4 table is about 0.005. The probability of a distance of 0.03 is less than 1e-9.
    """
    sizes = (4, 4, 4, 4, 4)
    model, joint = random_model([(0, 1), (0, 2), (0, 3), (0, 4)], sizes=sizes, seed=4, concentration=2.0)
    rows = 400_000
    table = model.sample(rows, np.random.default_rng(0))
    for a, b in combinations(range(5), 2):
        expected = np.einsum(joint, range(5), [a, b])
        sampled = table.marginal(["ABCDE"[a], "ABCDE"[b]]) / rows
        assert np.abs(sampled - expected).sum() < 0.03
        steps = np.arange(4)
        mean_a, mean_b = expected.sum(1) @ steps, expected.sum(0) @ steps
        scale = np.sqrt(expected.sum(1) @ (steps - mean_a) ** 2 * (expected.sum(0) @ (steps - mean_b) ** 2))
        correlation = (steps - mean_a) @ expected @ (steps - mean_b) / scale
        assert abs(np.corrcoef(table.codes[:, a], table.codes[:, b])[0, 1] - correlation) < 0.01


def test_independent_columns_are_sampled_independently_row_by_row():
    """A chi-squared test of the 3^5 joint cells of an independent model with 242 degrees of freedom.

    The standard deviation is 22, so 400 is 7 standard deviations above the mean.
    """
    sizes = (3,) * 5
    tree = JunctionTree.build(sizes, [])
    model = GraphicalModel(schema_of(sizes), 1.0, tree, [np.array([0.2, 0.3, 0.5])] * 5)
    rows = 100_000
    expected = model.marginal(list("ABCDE")) * rows
    counts = model.sample(rows, np.random.default_rng(3)).marginal(list("ABCDE"))
    assert ((counts - expected) ** 2 / expected).sum() < 400


@pytest.mark.slow
def test_one_row_at_a_time_follows_the_model():
    """Systematic rounding is unbiased, so the mean of 6,000 samples of one row must be close to the joint table.

    The standard deviation of the L1 distance is far below 0.25.
    """
    model, joint = random_model("tree", sizes=(2, 2, 2, 2, 2), seed=6)
    rng = np.random.default_rng(0)
    counts = sum(model.sample(1, rng).marginal(list("ABCDE")) for _ in range(6000))
    assert np.abs(counts / 6000 - joint).sum() < 0.12


def test_the_generator_decides_everything():
    model, _ = random_model("cycle")
    first, again, other = (model.sample(500, np.random.default_rng(seed)).codes for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint8), (257, np.uint16), (70_000, np.uint32)])
def test_large_domains(size, dtype):
    sizes = (size, 2)
    tree = JunctionTree.build(sizes, [(0, 1)])
    weights = np.arange(size * 2, dtype=float) % 7
    schema = Schema("large", (Column("A", values=tuple(range(size))), Column("B", values=(0, 1))))
    model = GraphicalModel(schema, 1.0, tree, [weights / weights.sum()])
    table = model.sample(3 * size, np.random.default_rng(0))
    assert table.codes.dtype == dtype
    counts = table.marginal(["A", "B"])
    assert np.abs(counts.ravel() - weights / weights.sum() * 3 * size).max() < 3


def test_a_file_gives_the_model_back_without_pickle(tmp_path):
    model, _ = random_model("cycle")
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz", model.schema)
    assert loaded.total == model.total
    assert loaded.tree == model.tree
    for a, b in zip(loaded.conditional, model.conditional, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (loaded.sample(50, np.random.default_rng(1)).codes == model.sample(50, np.random.default_rng(1)).codes).all()
    with zipfile.ZipFile(tmp_path / "m.npz") as archive:
        assert all(b"|O" not in archive.read(name)[:128] for name in archive.namelist())  # there are no object arrays


def test_a_file_of_another_schema_is_refused(tmp_path):
    model, _ = random_model("cycle")
    model.save(tmp_path / "m.npz")
    for other in (schema_of((2, 3, 4, 2)), schema_of(SIZES, (Impossible(("A",), ((0,),)),))):
        with pytest.raises(InputError, match="is not a model of schema"):
            load_model(tmp_path / "m.npz", other)


def broken_files(path):
    """Return a model file that is damaged in different ways."""
    good = path.read_bytes()
    yield b""
    yield b"not an archive"
    yield b"PK\x03\x04 cut off"
    for cut in (10, len(good) // 2, len(good) - 30):
        yield good[:cut]
    for place in range(60, len(good) - 100, 97):
        yield good[:place] + bytes(b ^ 0xFF for b in good[place : place + 8]) + good[place + 8 :]


def test_a_broken_file_is_refused(tmp_path):
    model, _ = random_model("cycle")
    path = tmp_path / "m.npz"
    with pytest.raises(InputError, match="is not a model"):
        load_model(path, model.schema)
    model.save(path)
    for content in list(broken_files(path)):
        path.write_bytes(content)
        try:
            loaded = load_model(path, model.schema)
        except InputError:
            continue
        assert loaded.tree == model.tree  # the damaged bytes are not used
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(InputError, match="is not a model"):
        load_model(tmp_path / "a.npy", model.schema)


@pytest.mark.parametrize("change", ["drop", "shape", "head", "sizes", "clique", "total", "pickle"])
def test_a_file_with_missing_or_misfitting_parts_is_refused(tmp_path, change):
    model, _ = random_model("cycle")
    path = tmp_path / "m.npz"
    model.save(path)
    with np.load(path) as archive:
        parts = dict(archive)
    head = json.loads(str(parts["head"]))
    if change == "drop":
        del parts["conditional0"]
    elif change == "shape":
        parts["conditional0"] = parts["conditional0"][:-1]
    elif change == "head":
        head = [1, 2]
    elif change == "sizes":
        head["sizes"] = [9] * 5
    elif change == "clique":
        head["cliques"][0] = [0, 77]
    elif change == "total":
        head["total"] = None
    elif change == "pickle":
        parts["conditional0"] = np.array([{"a": 1}], dtype=object)
    np.savez(path, **{**parts, "head": np.array(json.dumps(head))})
    with pytest.raises(InputError, match="is not a model"):
        load_model(path, model.schema)
