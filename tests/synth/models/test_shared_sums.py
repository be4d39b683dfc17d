"""Tests that shared sums are equal to the marginals and need fewer additions."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from equistrata.synth.models import graphical, projection, shared_sums
from equistrata.synth.models.graphical import layout_of
from equistrata.synth.models.junction_tree import JunctionTree
from equistrata.synth.models.projection import LARGE, cell_map
from equistrata.synth.models.shared_sums import ROOT, CellSums, SharedSums, plan

SIZES = (5, 4, 3, 2, 6, 2, 3)


@pytest.fixture(params=[LARGE, 40, 2], ids=["small tables", "both", "large tables"])
def large(request, monkeypatch):
    """Set the number of cells above which tables are summed one by one."""
    for module in (projection, graphical):
        monkeypatch.setattr(module, "LARGE", request.param)
    layout_of.cache_clear()
    yield request.param
    layout_of.cache_clear()


@pytest.mark.parametrize("seed", range(8))
def test_sums_are_the_marginals_and_tilting_is_the_transpose(seed, large):
    rng = np.random.default_rng(seed)
    wanted = [tuple(sorted(rng.permutation(7)[: rng.integers(1, 5)].tolist())) for _ in range(rng.integers(1, 12))]
    layout = layout_of(JunctionTree.build(SIZES, wanted))
    tree, sums = layout.tree, SharedSums.of(layout, wanted)
    tables = [rng.dirichlet(np.ones(prod(SIZES[v] for v in clique))) for clique in tree.cliques]
    joined = layout.joined(tables)
    all_sums = sums.down(joined)
    assert len(all_sums) == sums.cells
    for part in wanted:
        home = tree.home(part)
        width, first = prod(SIZES[v] for v in part), sums.places[part]
        expected = np.bincount(cell_map(SIZES, tree.cliques[home], part), tables[home], width)
        np.testing.assert_allclose(all_sums[first : first + width], expected)
    logs, before = rng.normal(size=sums.cells), joined.copy()
    tilted = sums.tilted(joined, logs, np.empty_like(joined))
    assert (tilted <= joined).all()
    assert (joined == before).all()
    other = layout.joined([rng.dirichlet(np.ones(len(table))) for table in tables])
    # Each table has a sum of 1, so the divisors of the factors cancel.
    assert np.log(tilted / joined) @ (other - joined) == pytest.approx(logs @ (sums.down(other) - all_sums))


@pytest.mark.parametrize("seed", range(6))
def test_a_model_is_the_same_by_small_and_by_large_tables(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    tree = JunctionTree.build(SIZES, [(0, 1, 4), (1, 2, 4), (2, 3), (4, 5, 6)])
    factors = [rng.random(prod(SIZES[v] for v in clique)) for clique in tree.cliques]
    found = []
    for cells in (LARGE, 2):
        monkeypatch.setattr(projection, "LARGE", cells)
        layout_of.cache_clear()
        conditional, mass = layout_of(tree).conditionals(factors)
        found.append((mass, np.concatenate([*conditional, *layout_of(tree).marginals(conditional)])))
    layout_of.cache_clear()
    assert found[0][0] == pytest.approx(found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1])


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_are_counted_out_have_the_bits_of_a_sparse_matrix(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    # Cells in several sums, in a single sum and in no sum, and sums of many cells and of no cell.
    columns = [rng.permutation(60)[: rng.integers(1, 60)] for _ in range(3)]
    entries = [(rng.integers(0, 9, len(cells)) + 10 * n, np.sort(cells)) for n, cells in enumerate(columns)]
    counted = CellSums.of(entries, (30, 60))
    monkeypatch.setattr(shared_sums, "_COUNTED_OUT", 0)
    sparse = CellSums.of(entries, (30, 60))
    assert counted.places is not None
    assert sparse.places is None
    cells, sums = rng.normal(size=60) * 10.0 ** rng.integers(-9, 9, 60), rng.normal(size=30)
    dense = sparse.matrix.toarray()
    np.testing.assert_allclose(counted.down(cells), dense @ cells)
    np.testing.assert_allclose(counted.up(sums), dense.T @ sums)
    assert counted.down(cells).tobytes() == sparse.down(cells).tobytes()
    assert counted.up(sums).tobytes() == sparse.up(sums).tobytes()


def test_a_plan_reads_the_large_table_seldom():
    """A direct sum of the 35 triples of seven columns reads the table of 4,320 cells 35 times."""
    clique = tuple(range(7))
    nodes = plan(SIZES, clique, list(combinations(clique, 3)))
    above = {ROOT: clique} | dict(enumerate(node for node, _ in nodes))
    assert all(set(node) < set(above[parent]) for node, parent in nodes)
    additions = sum(prod(SIZES[v] for v in above[parent]) for _, parent in nodes)
    assert additions < 8 * prod(SIZES)


def test_nothing_wanted():
    sums = SharedSums.of(layout_of(JunctionTree.build((2, 3), [])), [])
    np.testing.assert_array_equal(sums.down(np.ones(5)), np.ones(5))
    tilted = sums.tilted(np.ones(5), np.zeros(5), np.empty(5))
    np.testing.assert_array_equal(tilted, np.ones(5))
