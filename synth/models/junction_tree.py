"""Junction trees.

A junction tree arranges cliques so that inference is exact and local [1]_. The variables are the positions 0, …, d − 1
of the columns of a schema.

References
----------
.. [1] Koller and Friedman, Probabilistic Graphical Models, chapter 10.

Examples
--------
>>> tree = JunctionTree.build((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
>>> tree.cliques, tree.cells
(((0, 1, 2), (3,)), 29)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from math import prod

Clique = tuple[int, ...]

CELL_BYTES = 8


@dataclass(frozen=True)
class JunctionTree:
    """A junction tree of maximal cliques.

    Parameters
    ----------
    sizes : tuple of int
        The number of codes of each variable.
    cliques : tuple of tuple of int
        The sorted maximal cliques of a triangulated graph. Each variable is in at least one clique, and each parent
        precedes its children.
    parents : tuple of int
        The position of the parent of each clique, or −1 for the first clique. The running intersection property holds:
        the variables that a clique shares with all previous cliques are in its parent.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The variables that each clique shares with its parent.

        A separator is empty for the first clique and between independent parts.
        """
        return tuple(
            tuple(v for v in clique if parent >= 0 and v in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the children of each clique, in reverse order."""
        backwards = range(len(self.cliques) - 1, -1, -1)
        return tuple(tuple(j for j in backwards if self.parents[j] == i) for i in range(len(self.cliques)))

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """For each clique, the variables of its subtree that are not in its separator.

        These variables are in no other part of the tree.
        """
        found: dict[int, frozenset[int]] = {}
        for i in range(len(self.cliques) - 1, -1, -1):
            inside = set(self.cliques[i]).union(*(found[j] for j in self.children[i]))
            found[i] = frozenset(inside.difference(self.separators[i]))
        return tuple(found[i] for i in range(len(self.cliques)))

    @property
    def cells(self) -> int:
        """The total number of cells of all clique tables, which determines the time and the memory of inference."""
        return sum(prod(self.sizes[v] for v in clique) for clique in self.cliques)

    def home(self, variables: Iterable[int]) -> int | None:
        """Return the position of the smallest clique that contains all of these variables, or None."""
        wanted = set(variables)
        homes = [i for i, clique in enumerate(self.cliques) if wanted.issubset(clique)]
        return min(homes, key=lambda i: prod(self.sizes[v] for v in self.cliques[i]), default=None)

    def without(self, known: Container[int]) -> tuple[JunctionTree, dict[int, int]]:
        """Remove variables from the tree.

        The result is again a junction tree, because a triangulated graph remains triangulated if vertices are removed.

        Parameters
        ----------
        known : container of int
            The variables to remove.

        Returns
        -------
        tree : JunctionTree
            The tree of the other variables.
        place : dict of int to int
            The new position of each of the other variables.
        """
        place = {v: n for n, v in enumerate(v for v in range(len(self.sizes)) if v not in known)}
        left = {frozenset(place[v] for v in clique if v not in known) for clique in self.cliques}
        maximal = sorted(tuple(sorted(clique)) for clique in left if not any(clique < other for other in left))
        sizes = tuple(self.sizes[v] for v in place)
        return JunctionTree(sizes, *_arrange(sizes, maximal)), place

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
        """Build a junction tree by triangulation.

        Variables are eliminated one after the other. The next variable is always the one with the smallest clique, in
        cells.

        Parameters
        ----------
        sizes : sequence of int
            The number of codes of each variable.
        cliques : iterable of tuple of int
            The cliques that the tree must contain.

        Returns
        -------
        JunctionTree
            The junction tree.
        """
        maximal = sorted(_members(clique) for clique in Elimination(sizes, cliques).maximal)
        return cls(tuple(sizes), *_arrange(sizes, maximal))


def tree_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Count the cells of the junction tree of some cliques, without arranging the tree.

    Parameters
    ----------
    sizes : sequence of int
        The number of codes of each variable.
    cliques : iterable of tuple of int
        The cliques that the tree must contain.

    Returns
    -------
    int
        The number of cells.

    Examples
    --------
    >>> tree_cells((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
    29
    """
    return Elimination(sizes, cliques).cells


def cells_in(mebibytes: float) -> float:
    """Return the number of cells of tables that need the given memory, in MiB."""
    return mebibytes * 2**20 / CELL_BYTES


class Elimination:
    """The triangulation of a graph: the order in which variables are eliminated, and the clique of each variable.

    The next variable is always the one with the smallest clique, in cells. If several cliques have the same size, the
    first variable is used. Sets of variables are represented by the bits of an integer.

    Parameters
    ----------
    sizes : sequence of int
        The number of codes of each variable.
    cliques : iterable of tuple of int
        The cliques of the graph.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = sizes = tuple(sizes)
        around = [0] * len(sizes)  # for each variable, its neighbours that are not eliminated
        for clique in cliques:
            together = sum(1 << v for v in clique)
            for v in clique:
                around[v] |= together
        cells = []
        for v in range(len(sizes)):
            around[v] &= ~(1 << v)
            cells.append(sizes[v] * _product(sizes, around[v]))
        waiting = [(cells[v], v) for v in range(len(sizes))]
        heapify(waiting)
        self.place, done = [-1] * len(sizes), 0
        self.maximal: list[int] = []
        while waiting:
            count, v = heappop(waiting)
            if self.place[v] >= 0 or count != cells[v]:
                continue
            self.place[v], done = done, done + 1
            near = around[v]
            for a in _members(near):  # only the cliques of these variables change
                new = near & ~around[a] & ~(1 << a)
                around[a] = (around[a] | new) & ~(1 << v)
                changed = cells[a] // sizes[v] * _product(sizes, new)
                if changed != cells[a]:
                    cells[a] = changed
                    heappush(waiting, (changed, a))
            candidate = near | 1 << v
            if not any(candidate & other == candidate for other in self.maximal):
                self.maximal.append(candidate)
        # For each variable, the neighbours that are eliminated after it, and the number of cells of its clique.
        self.later, self._each = around, cells
        self.cells = sum(_product(sizes, clique) for clique in self.maximal)

    def joined(self, a: int, b: int) -> int:
        """Compute an upper bound on the number of cells if two variables are joined in addition.

        The bound is for the same elimination order, and it is close to the exact number for this order.
        """
        v, more = (a, 1 << b) if self.place[a] < self.place[b] else (b, 1 << a)
        added = 0
        while more & ~self.later[v]:
            added += self._each[v] * _product(self.sizes, more & ~self.later[v])
            after = self.later[v] | more
            v = min(_members(after), key=self.place.__getitem__)
            more = after & ~(1 << v)
        return self.cells + added


@lru_cache(maxsize=1 << 16)  # a selection triangulates hundreds of graphs that differ by one to three edges
def _product(sizes: tuple[int, ...], bits: int) -> int:
    return prod([sizes[v] for v in _members(bits)])


@lru_cache(maxsize=1 << 16)
def _members(bits: int) -> Clique:
    """Return the variables of a set in ascending order."""
    members = []
    while bits:
        lowest = bits & -bits
        members.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(members)


def _arrange(sizes: Sequence[int], maximal: list[Clique]) -> tuple[tuple[Clique, ...], tuple[int, ...]]:
    """Arrange maximal cliques as a junction tree.

    A maximum spanning tree on the number of shared variables is a junction tree (Prim's algorithm). If there are
    several possible parents, the first one is used, because flat trees are faster to traverse.
    """
    start = max(range(len(maximal)), key=lambda i: (prod(sizes[v] for v in maximal[i]), -i))
    order, parents = [start], [-1]
    shared = {i: (len(set(clique).intersection(maximal[start])), 0) for i, clique in enumerate(maximal) if i != start}
    while shared:
        i = max(shared, key=lambda i: (shared[i][0], -i))
        order.append(i)
        parents.append(shared.pop(i)[1])
        last = set(maximal[i])
        for j, (most, _) in shared.items():
            common = len(last.intersection(maximal[j]))
            if common > most:
                shared[j] = (common, len(order) - 1)
    return tuple(maximal[i] for i in order), tuple(parents)
