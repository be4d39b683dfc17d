"""Marginals of the tables of a junction tree by shared sums.

The partial sums are shared so that large tables are read only once or twice. For example, a table of 20,000 cells with
20 measured marginals would be summed 20 times in every step of an estimation. If the marginals are merged in pairs,
they are computed from partial sums of a few hundred cells each.

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
import scipy

from equistrata.arrays import Floats, Indices
from equistrata.synth.models.graphical import Layout
from equistrata.synth.models.junction_tree import Clique
from equistrata.synth.models.projection import Projection

ROOT = -1
_COUNTED_OUT = 1000  # the maximum number of ones of a matrix for which `bincount` is faster than a matrix product


def plan(sizes: Sequence[int], clique: Clique, wanted: Iterable[Clique]) -> list[tuple[Clique, int]]:
    """Plan the sums that compute the marginals of a clique.

    The algorithm is greedy. At first, all marginals are summed from the table of the clique. The algorithm then merges
    the two sums that save the most additions. If one of the two tables contains the variables of the other, the other
    is summed from it. Otherwise, both are summed from a new table over all of their variables.

    Parameters
    ----------
    sizes : sequence of int
        The number of codes of each variable.
    clique : tuple of int
        The variables of the clique.
    wanted : iterable of tuple of int
        The variables of the marginals, which must not be all variables of the clique.

    Returns
    -------
    list of (tuple of int, int)
        For each table, its variables and the position of the table from which it is summed. The position is ROOT for
        the table of the clique. The wanted marginals come first, in their order.
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
    """Sums from the concatenated tables of a junction tree (`Layout.joined`) to every wanted marginal.

    The small tables of the cliques are at depth 0. The sums of the tables at depth n − 1 are at depth n, and the sums
    of large tables are at depth 1.

    Parameters
    ----------
    levels : tuple of Level
        The sums from each depth to the next depth.
    places : mapping of tuple of int to int
        For each wanted set of variables, the position of its first cell among the tables of all depths.
    widths : tuple of int
        The number of cells at each depth.
    small : int
        The number of tables at depth 0.
    """

    levels: tuple[Level, ...]
    places: Mapping[Clique, int]
    widths: tuple[int, ...]
    small: int

    @classmethod
    def of(cls, layout: Layout, wanted: Iterable[Clique]) -> SharedSums:
        """Create the sums for the given sets of variables, which must be sorted and inside a clique of the tree."""
        sizes, cliques, parts = layout.tree.sizes, layout.tree.cliques, layout.parts
        widths = [layout.small_cells]
        found_at: dict[Clique, tuple[int, int]] = {}
        by_home: dict[int, list[Clique]] = {}
        edges: list[list[Edge]] = []

        def add(larger: Clique, depth: int, first: int, variables: Clique) -> tuple[int, int]:
            """Add the sum of a table, and return the depth and the first cell of the result."""
            if depth == len(edges):
                edges.append([])
                widths.append(0)
            edge = Edge.of(sizes, (larger, first), (variables, widths[depth + 1]))
            edges[depth].append(edge)
            widths[depth + 1] += edge.by.width
            return depth + 1, edge.smaller.start

        for part in dict.fromkeys(wanted):
            home = layout.tree.home(part)
            assert home is not None  # because the tree was built from these sets
            if part != cliques[home]:
                by_home.setdefault(home, []).append(part)
            elif parts[home].start < widths[0]:
                found_at[part] = (0, parts[home].start)
            else:
                found_at[part] = add(part, 0, parts[home].start, part)
        for home, inside in by_home.items():
            nodes = plan(sizes, cliques[home], inside)
            found: dict[int, tuple[Clique, int, int]] = {ROOT: (cliques[home], 0, parts[home].start)}
            waiting = list(range(len(nodes)))
            while waiting:
                i = waiting.pop(0)
                variables, above = nodes[i]
                if above in found:
                    found[i] = (variables, *add(*found[above], variables))
                else:
                    waiting.append(i)
            found_at |= {part: found[i][1:] for i, part in enumerate(inside)}
        firsts = np.cumsum([0, *widths]).tolist()
        places = {part: firsts[depth] + first for part, (depth, first) in found_at.items()}
        levels = tuple(Level.of(level, (widths[depth + 1], widths[depth])) for depth, level in enumerate(edges))
        return cls(levels, places, tuple(widths), layout.small)

    @property
    def cells(self) -> int:
        """The number of cells of the tables of all depths."""
        return sum(self.widths)

    def down(self, tables: Floats) -> Floats:
        """Compute the tables of all depths from the concatenated tables of the tree."""
        result, above = [tables[: self.widths[0]]], tables
        for level in self.levels:
            above = level.down(above)
            result.append(above)
        return np.concatenate(result)

    def tilted(self, tables: Floats, logs: Floats, out: Floats) -> Floats:
        """Multiply the concatenated tables by factors.

        The logarithms of the factors are given for each cell of all depths, so this is the transpose of `down`. The
        factors are scaled to be at most 1 so that they do not overflow. The result is written to `out` and returned.
        """
        *depths, last = self._depths
        pull = logs[last]
        np.copyto(out, tables)
        for level, depth in zip(self.levels[:0:-1], depths[:0:-1], strict=True):
            pull = level.up(pull, logs[depth])
        first = self.levels[0] if self.levels else None
        if self.small:
            out[: self.widths[0]] *= _factors_of(first.up_small(pull, logs[depths[0]]) if first else pull)
        for edge in first.large if first else ():
            table, beside = edge.by.beside(out[edge.larger], _factors_of(pull[edge.smaller]))
            table *= beside
        return out

    @cached_property
    def _depths(self) -> list[slice]:
        """The positions of the tables of each depth among all tables."""
        return [slice(a, b) for a, b in pairwise(np.cumsum([0, *self.widths]).tolist())]


def _factors_of(logs: Floats) -> Floats:
    """Compute factors from their logarithms, and divide them by the largest factor."""
    factors = logs - float(logs.max())
    return np.asarray(np.exp(np.maximum(factors, -60.0, out=factors), out=factors))


@dataclass(frozen=True, eq=False)
class Edge:
    """A sum from one table to another, with the positions of both tables at their depths."""

    by: Projection
    larger: slice
    smaller: slice

    @classmethod
    def of(cls, sizes: Sequence[int], larger: tuple[Clique, int], smaller: tuple[Clique, int]) -> Edge:
        """Create the sum from a larger to a smaller set of variables, each with the position of its first cell."""
        by = Projection.of(sizes, larger[0], smaller[0])
        cells = prod(sizes[v] for v in larger[0])
        return cls(by, slice(larger[1], larger[1] + cells), slice(smaller[1], smaller[1] + by.width))


@dataclass(frozen=True, eq=False)
class Level:
    """The sums from one depth to the next.

    Parameters
    ----------
    small : Additions
        The sums of small tables, which are computed together.
    large : tuple of Edge
        The sums of large tables, which are computed one after the other.
    """

    small: CellSums
    large: tuple[Edge, ...]

    @classmethod
    def of(cls, edges: Sequence[Edge], shape: tuple[int, int]) -> Level:
        """Create the sums of one depth.

        The shape is (sums, cells). Cells with a larger index belong to large cliques.
        """
        small, large = list[tuple[Indices, Indices]](), list[Edge]()
        for edge in edges:
            if edge.by.cells is None or edge.larger.start >= shape[1]:
                large.append(edge)
            else:
                cells = np.arange(edge.larger.start, edge.larger.stop)
                small.append((edge.by.cells + edge.smaller.start, cells))
        return cls(CellSums.of(small, shape), tuple(large))

    def down(self, cells: Floats) -> Floats:
        """Compute the sums of the cells."""
        sums = self.small.down(cells[: self.small.matrix.shape[1]])
        for edge in self.large:
            sums[edge.smaller] = edge.by.sums(cells[edge.larger])
        return sums

    def up(self, sums: Floats, start: Floats) -> Floats:
        """Add to each cell the total of the values of its sums."""
        cells = self.up_small(sums, start)
        for edge in self.large:
            table, added = edge.by.beside(cells[edge.larger], sums[edge.smaller])
            table += added
        return cells

    def up_small(self, sums: Floats, start: Floats) -> Floats:
        """Perform `up` for small tables only."""
        return start + self.small.up(sums)


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of cells as a matrix of zeros and ones.

    The matrix is applied from cells to sums (`down`), and its transpose from sums to cells (`up`). If there are few
    cells, the sums are computed with `bincount` because this is faster than a sparse matrix product. The results are
    identical to the last bit.

    Parameters
    ----------
    places : tuple of ndarray of int or None
        For each entry of the matrix, its sum and its cell, in ascending order. It is None if there are many entries.
    matrix, transposed : sparse array
        The matrix of shape (sums, cells) and its transpose.
    """

    places: tuple[Indices, Indices] | None
    matrix: scipy.sparse.csr_array
    transposed: scipy.sparse.csr_array

    @classmethod
    def of(cls, entries: Sequence[tuple[Indices, Indices]], shape: tuple[int, int]) -> CellSums:
        """Create the matrix from the positions of its ones, which are pairs of sums and cells.

        In each entry, each cell is in one sum. The sums ascend from entry to entry.
        """
        matrix = indicator_matrix(entries, shape)
        few = 0 < matrix.nnz <= _COUNTED_OUT
        sums, cells = (np.concatenate([entry[i] for entry in entries]) if few else np.zeros(0, np.intp) for i in (0, 1))
        return cls((sums, cells) if few else None, matrix, matrix.T.tocsr())

    def down(self, cells: Floats) -> Floats:
        """Compute the sums of the cells."""
        if self.places is None:
            return np.asarray(self.matrix @ cells)
        of_sum, of_cell = self.places
        return np.asarray(np.bincount(of_sum, cells[of_cell], self.matrix.shape[0]), dtype=np.float64)

    def up(self, sums: Floats) -> Floats:
        """Return for each cell the total of the values of its sums."""
        if self.places is None:
            return np.asarray(self.transposed @ sums)
        of_sum, of_cell = self.places
        return np.asarray(np.bincount(of_cell, sums[of_sum], self.matrix.shape[1]), dtype=np.float64)


def indicator_matrix(
    entries: Sequence[tuple[Indices, Indices]], shape: tuple[int, int], dtype: npt.DTypeLike = np.float64
) -> Any:
    """Create a sparse matrix with ones at the given rows and columns."""
    rows, columns = (np.concatenate([entry[i] for entry in entries] or [np.zeros(0, np.intp)]) for i in (0, 1))
    return scipy.sparse.csr_array((np.ones(len(rows), dtype), (rows, columns)), shape=shape)
