"""Junction trees: how a set of cliques is arranged so that inference is exact and local.

Koller and Friedman, Probabilistic Graphical Models, chapter 10. Variables are positions 0..d-1 of a schema's columns.

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
    """Maximal cliques in an order in which parents come first.

    Attributes:
        sizes: the number of codes of each variable.
        cliques: sorted maximal cliques of a triangulated graph; every variable is in one.
        parents: the position of each clique's parent; -1 for the first. The running intersection property holds:
            what a clique shares with all earlier ones it shares with its parent.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """What each clique shares with its parent; empty for the first and between independent parts."""
        return tuple(
            tuple(v for v in clique if parent >= 0 and v in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each clique's children, the last first."""
        backwards = range(len(self.cliques) - 1, -1, -1)
        return tuple(tuple(j for j in backwards if self.parents[j] == i) for i in range(len(self.cliques)))

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """The variables of each clique and all under it that are not in its separator, and so nowhere else."""
        found: dict[int, frozenset[int]] = {}
        for i in range(len(self.cliques) - 1, -1, -1):
            inside = set(self.cliques[i]).union(*(found[j] for j in self.children[i]))
            found[i] = frozenset(inside.difference(self.separators[i]))
        return tuple(found[i] for i in range(len(self.cliques)))

    @property
    def cells(self) -> int:
        """The number of cells of all clique tables together: what inference costs in time and memory."""
        return sum(prod(self.sizes[v] for v in clique) for clique in self.cliques)

    def home(self, variables: Iterable[int]) -> int | None:
        """The position of the smallest clique that contains all these variables, or None."""
        wanted = set(variables)
        homes = [i for i, clique in enumerate(self.cliques) if wanted.issubset(clique)]
        return min(homes, key=lambda i: prod(self.sizes[v] for v in self.cliques[i]), default=None)

    def without(self, known: Container[int]) -> tuple[JunctionTree, dict[int, int]]:
        """The tree of the other variables, and where each of them is in it.

        Vertices taken out of a triangulated graph leave one that is triangulated.
        """
        place = {v: n for n, v in enumerate(v for v in range(len(self.sizes)) if v not in known)}
        left = {frozenset(place[v] for v in clique if v not in known) for clique in self.cliques}
        maximal = sorted(tuple(sorted(clique)) for clique in left if not any(clique < other for other in left))
        sizes = tuple(self.sizes[v] for v in place)
        return JunctionTree(sizes, *_arrange(sizes, maximal)), place

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
        """Triangulate by eliminating, each time, the variable whose clique would have the fewest cells."""
        maximal = sorted(_members(clique) for clique in Elimination(sizes, cliques).maximal)
        return cls(tuple(sizes), *_arrange(sizes, maximal))


def tree_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """The number of cells of the junction tree of these cliques, without arranging it.

    >>> tree_cells((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
    29
    """
    return Elimination(sizes, cliques).cells


def cells_in(mebibytes: float) -> float:
    """The number of cells of tables that take so much memory."""
    return mebibytes * 2**20 / CELL_BYTES


class Elimination:
    """How a graph is triangulated: the order in which variables are eliminated, and the clique of each.

    Each time it is the variable whose clique would have the fewest cells, the first of them. Sets are bits of a number.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = sizes = tuple(sizes)
        around = [0] * len(sizes)  # each variable's neighbours that are not eliminated
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
            for a in _members(near):  # only their cliques are others than before
                new = near & ~around[a] & ~(1 << a)
                around[a] = (around[a] | new) & ~(1 << v)
                changed = cells[a] // sizes[v] * _product(sizes, new)
                if changed != cells[a]:
                    cells[a] = changed
                    heappush(waiting, (changed, a))
            candidate = near | 1 << v
            if not any(candidate & other == candidate for other in self.maximal):
                self.maximal.append(candidate)
        self.later, self._each = around, cells  # of each variable: its neighbours that go after it; its clique's cells
        self.cells = sum(_product(sizes, clique) for clique in self.maximal)

    def joined(self, a: int, b: int) -> int:
        """At least the cells that this order gives if two variables are joined as well, and not much more."""
        v, more = (a, 1 << b) if self.place[a] < self.place[b] else (b, 1 << a)
        added = 0
        while more & ~self.later[v]:
            added += self._each[v] * _product(self.sizes, more & ~self.later[v])
            after = self.later[v] | more
            v = min(_members(after), key=self.place.__getitem__)
            more = after & ~(1 << v)
        return self.cells + added


@lru_cache(maxsize=1 << 16)  # a choice triangulates hundreds of graphs that differ by an edge or three
def _product(sizes: tuple[int, ...], bits: int) -> int:
    return prod([sizes[v] for v in _members(bits)])


@lru_cache(maxsize=1 << 16)
def _members(bits: int) -> Clique:
    """The variables in a set, ascending."""
    members = []
    while bits:
        lowest = bits & -bits
        members.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(members)


def _arrange(sizes: Sequence[int], maximal: list[Clique]) -> tuple[tuple[Clique, ...], tuple[int, ...]]:
    """A maximum spanning tree on the number of shared variables is a junction tree (Prim's algorithm).

    Of cliques that would do as the parent, the earliest is it: flat trees are quick to walk.
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
