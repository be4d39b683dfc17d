"""Shared sums give the marginals that plain sums give, at fewer additions."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from equistrata.synth.models import shared_sums
from equistrata.synth.models.graphical import cell_map
from equistrata.synth.models.junction_tree import JunctionTree
from equistrata.synth.models.shared_sums import ROOT, Additions, SharedSums, plan

SIZES = (5, 4, 3, 2, 6, 2, 3)


@pytest.mark.parametrize("seed", range(8))
def test_sums_are_the_marginals_and_up_is_the_transpose(seed):
    rng = np.random.default_rng(seed)
    wanted = [tuple(sorted(rng.permutation(7)[: rng.integers(1, 5)].tolist())) for _ in range(rng.integers(1, 12))]
    tree = JunctionTree.build(SIZES, wanted)
    sums = SharedSums.of(tree, wanted)
    tables = [rng.random(prod(SIZES[v] for v in clique)) for clique in tree.cliques]
    all_sums = sums.down(np.concatenate(tables))
    assert len(all_sums) == sums.cells
    for part in wanted:
        home = tree.home(part)
        width, first = prod(SIZES[v] for v in part), sums.places[part]
        expected = np.bincount(cell_map(SIZES, tree.cliques[home], part), tables[home], width)
        np.testing.assert_allclose(all_sums[first : first + width], expected)
    pull, other = rng.random(sums.cells), rng.random(tree.cells)
    assert sums.up(pull) @ other == pytest.approx(pull @ sums.down(other))


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_are_counted_out_have_the_bits_of_a_sparse_matrix(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    # Cells that are in several sums, in one, and in none; sums of many cells and of none.
    columns = [rng.permutation(60)[: rng.integers(1, 60)] for _ in range(3)]
    entries = [(rng.integers(0, 9, len(cells)) + 10 * n, np.sort(cells)) for n, cells in enumerate(columns)]
    counted = Additions.of(entries, (30, 60))
    monkeypatch.setattr(shared_sums, "_COUNTED_OUT", 0)
    sparse = Additions.of(entries, (30, 60))
    assert counted.places is not None
    assert sparse.places is None
    cells, sums = rng.normal(size=60) * 10.0 ** rng.integers(-9, 9, 60), rng.normal(size=30)
    dense = sparse.matrix.toarray()
    np.testing.assert_allclose(counted.down(cells), dense @ cells)
    np.testing.assert_allclose(counted.up(sums), dense.T @ sums)
    assert counted.down(cells).tobytes() == sparse.down(cells).tobytes()
    assert counted.up(sums).tobytes() == sparse.up(sums).tobytes()


def test_a_plan_reads_the_large_table_seldom():
    """All 35 triples of seven columns: read one by one, the table of 4,320 cells is read 35 times."""
    clique = tuple(range(7))
    nodes = plan(SIZES, clique, list(combinations(clique, 3)))
    above = {ROOT: clique} | dict(enumerate(node for node, _ in nodes))
    assert all(set(node) < set(above[parent]) for node, parent in nodes)
    additions = sum(prod(SIZES[v] for v in above[parent]) for _, parent in nodes)
    assert additions < 8 * prod(SIZES)


def test_nothing_wanted():
    tree = JunctionTree.build((2, 3), [])
    sums = SharedSums.of(tree, [])
    np.testing.assert_array_equal(sums.down(np.ones(5)), np.ones(5))
    np.testing.assert_array_equal(sums.up(np.ones(5)), np.ones(5))
