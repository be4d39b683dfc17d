"""Junction trees: how a set of cliques is arranged so that inference is exact and local.

Koller and Friedman, Probabilistic Graphical Models, chapter 10. Variables are positions 0..d-1 of a schema's columns.

>>> tree = JunctionTree.build((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
>>> tree.cliques, tree.cells
(((0, 1, 2), (3,)), 29)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
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

    @property
    def cells(self) -> int:
        """The number of cells of all clique tables together: what inference costs in time and memory."""
        return sum(prod(self.sizes[v] for v in clique) for clique in self.cliques)

    def home(self, variables: Iterable[int]) -> int | None:
        """The position of the smallest clique that contains all these variables, or None."""
        wanted = set(variables)
        homes = [i for i, clique in enumerate(self.cliques) if wanted.issubset(clique)]
        return min(homes, key=lambda i: prod(self.sizes[v] for v in self.cliques[i]), default=None)

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
        """Triangulate by eliminating, each time, the variable whose clique would have the fewest cells."""
        maximal = _triangulate(sizes, cliques)
        return cls(tuple(sizes), *_arrange(sizes, maximal))


def tree_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """The number of cells of the junction tree of these cliques, without arranging it.

    >>> tree_cells((2, 3, 4, 5), [(0, 1), (1, 2), (0, 2)])
    29
    """
    return sum(prod(sizes[v] for v in clique) for clique in _triangulate(sizes, cliques))


def cells_in(mebibytes: float) -> float:
    """The number of cells of tables that take so much memory."""
    return mebibytes * 2**20 / CELL_BYTES


def _triangulate(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[Clique]:
    neighbours: dict[int, set[int]] = {v: set() for v in range(len(sizes))}
    for clique in cliques:
        for a, b in combinations(clique, 2):
            neighbours[a].add(b)
            neighbours[b].add(a)
    found: list[set[int]] = []
    while neighbours:
        v = min(neighbours, key=lambda u: (prod(sizes[w] for w in neighbours[u]) * sizes[u], u))
        around = neighbours.pop(v)
        for a in around:
            neighbours[a] |= around
            neighbours[a] -= {a, v}
        candidate = around | {v}
        if not any(candidate <= other for other in found):
            found.append(candidate)
    return sorted(tuple(sorted(clique)) for clique in found)


def _arrange(sizes: Sequence[int], maximal: list[Clique]) -> tuple[tuple[Clique, ...], tuple[int, ...]]:
    """A maximum spanning tree on the number of shared variables is a junction tree (Prim's algorithm)."""
    start = max(range(len(maximal)), key=lambda i: (prod(sizes[v] for v in maximal[i]), -i))
    order, parents, waiting = [start], [-1], [i for i in range(len(maximal)) if i != start]
    while waiting:
        _, _, i, position = max(
            (len(set(maximal[i]).intersection(maximal[order[p]])), -i, i, p) for i in waiting for p in range(len(order))
        )
        order.append(i)
        parents.append(position)
        waiting.remove(i)
    return tuple(maximal[i] for i in order), tuple(parents)
