"""Many marginals of one junction tree's tables, by sums that are shared: large tables are read once or twice.

A table of 20,000 cells with 20 measured marginals would be summed 20 times at every step of an estimate. Merged two by
two, the marginals come out of partial sums of a few hundred cells each.

>>> plan((5, 4, 3, 2), (0, 1, 2, 3), [(0, 1), (0, 2), (0,)])
[((0, 1), -1), ((0, 2), -1), ((0,), 1)]
>>> plan((9, 9, 2, 2, 9), (0, 1, 2, 3, 4), [(0, 2), (0, 3)])
[((0, 2), 2), ((0, 3), 2), ((0, 2, 3), -1)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from equistrata.arrays import Floats
from equistrata.synth.models.graphical import cell_map
from equistrata.synth.models.junction_tree import Clique, JunctionTree
from equistrata.synth.models.possible import Indices

ROOT = -1
_COUNTED_OUT = 1000  # ones of a matrix, up to which its sums take less time without it


def plan(sizes: Sequence[int], clique: Clique, wanted: Iterable[Clique]) -> list[tuple[Clique, int]]:
    """Which table each marginal of a clique is summed from: (variables, position of the larger table or ROOT).

    Greedy: two tables that are summed from the clique's own are merged where that saves most additions, either by
    summing one from the other that contains it, or both from a new table over the union. The wanted sets come first,
    in their order; the clique itself must not be among them.
    """
    nodes = [frozenset(part) for part in wanted]
    parents = [ROOT] * len(nodes)
    cells: dict[frozenset[int], int] = {}

    def count(variables: frozenset[int]) -> int:
        if variables not in cells:
            cells[variables] = prod(sizes[v] for v in variables)
        return cells[variables]

    whole = frozenset(clique)

    def offer(a: int, b: int) -> tuple[int, int, int]:
        union = nodes[a] | nodes[b]
        return ((1 if union in (nodes[a], nodes[b]) else 2) * count(union) - count(whole), a, b)

    offers = [offer(a, b) for a in range(len(nodes)) for b in range(a + 1, len(nodes))]
    heapify(offers)
    while offers:
        cost, a, b = heappop(offers)
        if cost >= 0:
            break
        if parents[a] != ROOT or parents[b] != ROOT:
            continue
        union = nodes[a] | nodes[b]
        if union == nodes[a]:
            parents[b] = a
        elif union == nodes[b]:
            parents[a] = b
        else:
            new = len(nodes)
            nodes.append(union)
            parents.append(ROOT)
            parents[a] = parents[b] = new
            for other in range(new):
                if parents[other] == ROOT:
                    heappush(offers, offer(other, new))
    return [(tuple(sorted(node)), parent) for node, parent in zip(nodes, parents, strict=True)]


@dataclass(frozen=True, eq=False)
class SharedSums:
    """Sparse sums from the concatenated clique tables down to every wanted marginal.

    Attributes:
        levels: the n-th maps all tables at depth n − 1 to those at depth n; the cliques are at depth 0.
        places: the first cell of each wanted set among all tables.
        widths: the number of cells at each depth.
    """

    levels: tuple[Additions, ...]
    places: Mapping[Clique, int]
    widths: tuple[int, ...]

    @classmethod
    def of(cls, tree: JunctionTree, wanted: Iterable[Clique]) -> SharedSums:
        """The sums for these sets (sorted, each inside a clique of the tree)."""
        starts = np.cumsum([0, *(prod(tree.sizes[v] for v in clique) for clique in tree.cliques)]).tolist()
        widths = [starts[-1]]
        found_at: dict[Clique, tuple[int, int]] = {}
        by_home: dict[int, list[Clique]] = {}
        for part in dict.fromkeys(wanted):
            home = tree.home(part)
            assert home is not None  # the tree was built on these sets
            if part == tree.cliques[home]:
                found_at[part] = (0, starts[home])
            else:
                by_home.setdefault(home, []).append(part)
        edges: list[list[tuple[Indices, Indices]]] = []
        for home, parts in by_home.items():
            nodes = plan(tree.sizes, tree.cliques[home], parts)
            found: dict[int, tuple[Clique, int, int]] = {ROOT: (tree.cliques[home], 0, starts[home])}
            waiting = list(range(len(nodes)))
            while waiting:
                i = waiting.pop(0)
                variables, above = nodes[i]
                if above not in found:
                    waiting.append(i)
                    continue
                larger, depth, offset = found[above]
                if depth == len(edges):
                    edges.append([])
                    widths.append(0)
                cells = cell_map(tree.sizes, larger, variables)
                edges[depth].append((cells + widths[depth + 1], np.arange(len(cells)) + offset))
                found[i] = (variables, depth + 1, widths[depth + 1])
                widths[depth + 1] += prod(tree.sizes[v] for v in variables)
            found_at |= {part: found[i][1:] for i, part in enumerate(parts)}
        firsts = np.cumsum([0, *widths]).tolist()
        places = {part: firsts[depth] + offset for part, (depth, offset) in found_at.items()}
        levels = tuple(Additions.of(level, (widths[depth + 1], widths[depth])) for depth, level in enumerate(edges))
        return cls(levels, places, tuple(widths))

    @property
    def cells(self) -> int:
        """The number of cells of all tables together, the cliques' first."""
        return sum(self.widths)

    def down(self, tables: Floats) -> Floats:
        """All tables, depth by depth, from the concatenated clique tables."""
        result = [tables]
        for level in self.levels:
            result.append(level.down(result[-1]))
        return np.concatenate(result)

    def up(self, pulls: Floats) -> Floats:
        """The transpose of `down`: what pulls on all tables come to on the clique tables."""
        *above, last = self._depths
        pull = pulls[last]
        for level, depth in zip(self.levels[::-1], above[::-1], strict=True):
            pull = pulls[depth] + level.up(pull)
        return pull

    @cached_property
    def _depths(self) -> list[slice]:
        """Where the tables of each depth lie among all."""
        return [slice(a, b) for a, b in pairwise(np.cumsum([0, *self.widths]).tolist())]


@dataclass(frozen=True, eq=False)
class Additions:
    """Sums of cells: a matrix of zeros and ones, applied from cells to sums (`down`) and transposed (`up`).

    Of few cells the sums take less time than a call of a sparse matrix, so they are counted out; the bits are the same.

    Attributes:
        places: for each one, its sum and its cell, by sum or cell ascending; or None where there are many.
        matrix, transposed: shape (sums, cells) and (cells, sums).
    """

    places: tuple[Indices, Indices] | None
    matrix: sparse.csr_array
    transposed: sparse.csr_array

    @classmethod
    def of(cls, entries: Sequence[tuple[Indices, Indices]], shape: tuple[int, int]) -> Additions:
        """Ones at these (sums, cells): in each entry each cell is in one sum, and sums ascend from entry to entry."""
        matrix = zeros_and_ones(entries, shape)
        few = 0 < matrix.nnz <= _COUNTED_OUT
        sums, cells = (np.concatenate([entry[i] for entry in entries]) if few else np.zeros(0, np.intp) for i in (0, 1))
        return cls((sums, cells) if few else None, matrix, matrix.T.tocsr())

    def down(self, cells: Floats) -> Floats:
        """The sums of these cells."""
        if self.places is None:
            return np.asarray(self.matrix @ cells)
        of_sum, of_cell = self.places
        return np.asarray(np.bincount(of_sum, cells[of_cell], self.matrix.shape[0]), dtype=np.float64)

    def up(self, sums: Floats) -> Floats:
        """For each cell, what its sums add up to."""
        if self.places is None:
            return np.asarray(self.transposed @ sums)
        of_sum, of_cell = self.places
        return np.asarray(np.bincount(of_cell, sums[of_sum], self.matrix.shape[1]), dtype=np.float64)


def zeros_and_ones(
    entries: Sequence[tuple[Indices, Indices]], shape: tuple[int, int], dtype: npt.DTypeLike = np.float64
) -> Any:
    """A sparse matrix with ones at these (rows, columns)."""
    rows, columns = (np.concatenate([entry[i] for entry in entries] or [np.zeros(0, np.intp)]) for i in (0, 1))
    return sparse.csr_array((np.ones(len(rows), dtype), (rows, columns)), shape=shape)
