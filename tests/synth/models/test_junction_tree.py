"""Tests of junction trees for all structures of the measured cliques."""

from itertools import combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.synth.models.junction_tree import Elimination, JunctionTree, tree_cells

CASES = {
    "nothing measured": ((2, 3, 4), []),
    "one variable": ((5,), []),
    "one variable, measured": ((5,), [(0,)]),
    "singletons": ((2, 3, 4), [(0,), (1,), (2,)]),
    "chain": ((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)]),
    "star": ((2, 3, 4, 5, 2), [(0, 1), (0, 2), (0, 3), (0, 4)]),
    "cycle": ((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "long cycle": ((2,) * 7, [(i, (i + 1) % 7) for i in range(7)]),
    "clique by pairs": ((2, 3, 4, 2), list(combinations(range(4), 2))),
    "clique at once": ((2, 3, 4, 2), [(0, 1, 2, 3)]),
    "disconnected": ((2, 3, 4, 5, 6), [(0, 1), (3, 4)]),
    "duplicates": ((2, 3, 4), [(0, 1), (0, 1), (1, 0), (1, 2)]),
    "nested": ((2, 3, 4, 5), [(0, 1, 2), (0, 1), (2,), (2, 3)]),
    "a value alone": ((1, 3, 1, 2), [(0, 1), (1, 2), (2, 3)]),
    "grid": ((2,) * 9, [(3 * r + c, 3 * r + c + 1) for r in range(3) for c in range(2)]
             + [(3 * r + c, 3 * r + c + 3) for r in range(2) for c in range(3)]),
}  # fmt: skip


def check(sizes, cliques):
    """Build a junction tree and check the properties that are needed for inference."""
    tree = JunctionTree.build(sizes, cliques)
    assert set().union(*tree.cliques) == set(range(len(sizes)))
    assert tree.sizes == tuple(sizes)
    assert tree.cells == sum(prod(sizes[v] for v in clique) for clique in tree.cliques)
    for clique in cliques:
        home = tree.home(clique)
        assert home is not None
        assert set(clique) <= set(tree.cliques[home])
    for a, b in combinations(tree.cliques, 2):  # no clique contains another clique
        assert not set(a) <= set(b)
        assert not set(b) <= set(a)
    assert tree.parents[0] == -1
    for i, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        assert clique == tuple(sorted(clique))
        assert parent < max(i, 0)
        assert (parent == -1) == (i == 0)
        earlier = set().union(*tree.cliques[:i])
        assert set(clique) & earlier == set(tree.separators[i])  # the running intersection property
        if i:
            assert set(tree.separators[i]) <= set(tree.cliques[parent])
    return tree


@pytest.mark.parametrize("case", CASES)
def test_is_a_junction_tree(case):
    check(*CASES[case])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_random_graphs(data):
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=9))
    members = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=min(4, len(sizes)))
    cliques = [tuple(sorted(c)) for c in data.draw(st.lists(members, max_size=12))]
    tree = check(sizes, cliques)
    assert tree == JunctionTree.build(sizes, cliques[::-1])  # the result does not depend on the order of the cliques


def test_a_tree_is_not_triangulated_further():
    for case in ("chain", "star"):
        sizes, cliques = CASES[case]
        assert set(JunctionTree.build(sizes, cliques).cliques) == set(cliques)


def test_a_cycle_gets_the_cheaper_chord():
    tree = JunctionTree.build((9, 2, 9, 2), [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert set(tree.cliques) == {(0, 1, 3), (1, 2, 3)}  # the chord is 1-3 (2 × 2) and not 0-2 (9 × 9)
    assert tree.cells == 72


def test_home_is_the_smallest_clique_or_none():
    tree = JunctionTree.build((2, 9, 3, 2), [(0, 1), (0, 2), (2, 3)])
    assert tree.cliques[tree.home((0,))] == (0, 2)
    assert tree.cliques[tree.home(())] in ((0, 2), (2, 3))
    assert tree.home((1, 3)) is None


def test_independent_parts_have_empty_separators():
    tree = JunctionTree.build((2, 3, 4, 5, 6), [(0, 1), (3, 4)])
    assert sorted(tree.cliques) == [(0, 1), (2,), (3, 4)]
    assert tree.separators == ((), (), ())


def slowly_triangulated(sizes, cliques):
    """Return the cliques of an elimination order by the smallest clique. This is a slow reference implementation."""
    neighbours = {v: set() for v in range(len(sizes))}
    for clique in cliques:
        for v in clique:
            neighbours[v] |= set(clique) - {v}
    found = []
    while neighbours:
        v = min(neighbours, key=lambda u: (prod(sizes[w] for w in neighbours[u]) * sizes[u], u))
        around = neighbours.pop(v)
        for a in around:
            neighbours[a] = (neighbours[a] | around) - {a, v}
        if not any(around | {v} <= other for other in found):
            found.append(around | {v})
    return found


graphs = st.integers(2, 9).flatmap(
    lambda d: st.tuples(
        st.lists(st.integers(1, 6), min_size=d, max_size=d),
        st.lists(st.lists(st.integers(0, d - 1), min_size=2, max_size=3, unique=True).map(tuple), max_size=14),
        st.lists(st.integers(0, d - 1), min_size=2, max_size=2, unique=True),
    )
)


@given(graphs)
def test_counting_only_what_changed_gives_the_same_cliques(graph):
    sizes, cliques, _ = graph
    found = slowly_triangulated(sizes, cliques)
    assert sorted(JunctionTree.build(sizes, cliques).cliques) == sorted(tuple(sorted(clique)) for clique in found)
    assert tree_cells(sizes, cliques) == sum(prod(sizes[v] for v in clique) for clique in found)


@given(graphs)
def test_what_joining_two_variables_makes_of_an_order_is_never_too_little(graph):
    sizes, cliques, (a, b) = graph
    order = Elimination(sizes, cliques)
    neighbours = {
        v: {w for clique in [*cliques, (a, b)] if v in clique for w in clique} - {v} for v in range(len(sizes))
    }
    found = []
    for v in sorted(neighbours, key=order.place.__getitem__):
        around = neighbours.pop(v)
        for w in around:
            neighbours[w] = (neighbours[w] | around) - {w, v}
        if not any(around | {v} <= other for other in found):
            found.append(around | {v})
    exact = sum(prod(sizes[v] for v in clique) for clique in found)
    assert exact <= order.joined(a, b)


def test_parents_are_the_earliest_that_will_do():
    """If the parents were a long chain, each marginal of an independent model would be a product of all columns."""
    assert JunctionTree.build((2,) * 6, []).parents == (-1, 0, 0, 0, 0, 0)
