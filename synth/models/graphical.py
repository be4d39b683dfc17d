"""Graphical models that factorise on a junction tree, with marginals, conditioning and sampling.

The state of a model is one conditional table per clique, P(clique | separator to its parent). The clique marginals are
computed from these tables. All tables are flat, in row-major order of the variables of the clique.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.synth.models.archive import Archive, Head, write_archive
from equistrata.synth.models.base import check_distinct, check_possible, indicators
from equistrata.synth.models.junction_tree import Clique, JunctionTree
from equistrata.synth.models.projection import LARGE, Projection, cell_map
from equistrata.synth.models.rounding import assign

Tables = list[Floats]
GRAPHICAL_FORMAT = "equistrata model 1"
_PLAIN_CELLS = 4096  # the largest product of tables that is summed directly, because planning the order takes longer


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of the tables of a junction tree and their projections to the separators.

    Parameters
    ----------
    tree : JunctionTree
        The junction tree.
    own : tuple of Projection
        For each clique, the projection of its table to the separator to its parent.
    up : tuple of Projection
        For each clique, the projection of the table of its parent to the same separator.
    parts : tuple of slice
        For each clique, the position of its cells if all tables are concatenated. Small tables are first.
    small : int
        The number of small tables.
    small_cells : int
        The number of cells of the small tables.
    """

    tree: JunctionTree
    own: tuple[Projection, ...]
    up: tuple[Projection, ...]
    parts: tuple[slice, ...]
    small: int
    small_cells: int

    def joined(self, tables: Tables) -> Floats:
        """Concatenate all tables."""
        result = np.empty(self.tree.cells)
        for part, table in zip(self.parts, tables, strict=True):
            result[part] = table
        return result

    def split(self, joined: Floats) -> Tables:
        """Return views of the table of each clique in the concatenated tables."""
        return [joined[part] for part in self.parts]

    def conditionals(self, factors: Tables) -> tuple[Tables, float]:
        """Collect the messages, and return P(clique | separator) and the total mass.

        The input is one non-negative factor per clique. If there is no mass below a separator cell, its conditional is
        0 because the cell is impossible.
        """
        beliefs = [factor.copy() for factor in factors]
        return beliefs, self.collect(beliefs)

    def collect(self, beliefs: Tables) -> float:
        """Compute `conditionals` in place, and return the total mass."""
        mass = 1.0
        for i in range(len(beliefs) - 1, -1, -1):
            belief = beliefs[i]
            if self.own[i].width == 1:
                total = float(belief.sum())
                mass *= total
                belief *= 1 / total if total > 0 else 0.0
                continue
            message = self.own[i].sums(belief)
            cells, above = self.own[i].beside(belief, np.where(message > 0, message, 1.0))
            cells /= above
            cells, below = self.up[i].beside(beliefs[self.tree.parents[i]], message)
            cells *= below
        return mass

    def marginals(self, conditionals: Tables) -> Tables:
        """Distribute the messages, and return the clique marginals P(clique)."""
        result = [table if own.width == 1 else table.copy() for table, own in zip(conditionals, self.own, strict=True)]
        self.distribute(result)
        return result

    def distribute(self, tables: Tables) -> None:
        """Compute `marginals` in place."""
        for i, table in enumerate(tables):
            if self.own[i].width > 1:
                cells, above = self.own[i].beside(table, self.up[i].sums(tables[self.tree.parents[i]]))
                cells *= above


@lru_cache(maxsize=512)
def layout_of(tree: JunctionTree) -> Layout:
    """Return the layout of a tree.

    The result is cached because strata and rounds share trees.

    Parameters
    ----------
    tree : JunctionTree
        The junction tree.

    Returns
    -------
    Layout
        The layout.
    """
    parents = [tree.cliques[parent] if parent >= 0 else () for parent in tree.parents]
    own, up = (
        tuple(Projection.of(tree.sizes, table, part) for table, part in zip(tables, tree.separators, strict=True))
        for tables in (tree.cliques, parents)
    )
    cells = [prod(tree.sizes[v] for v in clique) for clique in tree.cliques]
    parts, first = [slice(0)] * len(cells), 0
    for i in sorted(range(len(cells)), key=lambda i: (cells[i] >= LARGE, i)):
        parts[i] = slice(first, first + cells[i])
        first += cells[i]
    small = [count for count in cells if count < LARGE]
    return Layout(tree, own, up, tuple(parts), len(small), sum(small))


def multiply(tree: JunctionTree, factors: Tables, part: Clique, table: Floats) -> None:
    """Multiply a table over some variables into a factor.

    The factor is that of the smallest clique that contains the variables. If there is no such clique, nothing is
    changed.
    """
    home = tree.home(part)
    if home is not None:
        factors[home] *= table[cell_map(tree.sizes, tree.cliques[home], part)]


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A fitted graphical model.

    The model is post-processing of measurements, so its use has no privacy cost.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    total : float
        The number of rows that the model represents, which is noisy or public.
    tree : JunctionTree
        The junction tree.
    conditional : list of ndarray
        The flat table P(clique | separator to its parent) of each clique of the tree.
    """

    schema: Schema
    total: float
    tree: JunctionTree
    conditional: Tables

    @cached_property
    def clique_marginals(self) -> Tables:
        """The flat table P(clique) of each clique of the tree."""
        return layout_of(self.tree).marginals(self.conditional)

    def marginal(self, columns: Sequence[str]) -> Floats:
        """See `Model.marginal`."""
        check_distinct(columns)
        wanted = tuple(self.schema.index(name) for name in columns)
        home = self.tree.home(wanted)
        if home is None:
            return self._eliminate(wanted) * self.total
        clique = self.tree.cliques[home]
        table = self.clique_marginals[home].reshape([self.tree.sizes[v] for v in clique])
        return _contract([(table, clique)], wanted) * self.total

    def _eliminate(self, wanted: Clique) -> Floats:
        """Compute a marginal by variable elimination on the smallest subtree that contains all of its variables.

        The message of a clique is all ones if the subtree below it does not contain any of the variables, so this
        clique is left out.
        """
        tree, root = self.tree, 0
        while True:
            below = [i for i in tree.children[root] if tree.below[i].intersection(wanted)]
            here = set(tree.cliques[root]).intersection(wanted)
            if len(below) != 1 or not here.issubset(tree.cliques[below[0]]):
                break
            root = below[0]
        top = self.clique_marginals[root].reshape([tree.sizes[v] for v in tree.cliques[root]])
        return _contract([(top, tree.cliques[root]), *self._messages(root, wanted)], wanted)

    def _messages(self, clique: int, wanted: Clique) -> list[tuple[Floats, Clique]]:
        """Return the messages of the children of a clique.

        A message is a table over the separator and the variables of the marginal below it. Messages are cached because
        marginals of many sets of columns share them.
        """
        tree, found = self.tree, []
        for i in tree.children[clique]:
            inside = tuple(sorted(tree.below[i].intersection(wanted)))
            if not inside:
                continue
            if (i, inside) not in self._sent:
                table = self.conditional[i].reshape([tree.sizes[v] for v in tree.cliques[i]])
                out = tuple(sorted({*tree.separators[i], *inside}))
                self._sent[i, inside] = _contract([(table, tree.cliques[i]), *self._messages(i, inside)], out), out
            found.append(self._sent[i, inside])
        return found

    @cached_property
    def _sent(self) -> dict[tuple[int, Clique], tuple[Floats, Clique]]:
        return {}

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[GraphicalModel, float]:
        """See `Model.where`."""
        return self.tilted(indicators(self.schema, allowed))

    def tilted(self, weights: Mapping[str, Floats]) -> tuple[GraphicalModel, float]:
        """See `Tilting.tilted`."""
        factors = [table.copy() for table in self.conditional]
        for name, of_codes in weights.items():
            multiply(self.tree, factors, (self.schema.index(name),), of_codes)
        conditional, mass = layout_of(self.tree).conditionals(factors)
        check_possible(mass, weights)
        return GraphicalModel(self.schema, self.total * mass, self.tree, conditional), mass

    def given(self, codes: Mapping[str, int], rest: Schema) -> tuple[GraphicalModel, float]:
        """See `Tilting.given`.

        The remaining parts of the cliques are again a junction tree.
        """
        known = {self.schema.index(name): code for name, code in codes.items()}
        tree, place = self.tree.without(known)
        factors = [np.ones(prod(tree.sizes[v] for v in clique)) for clique in tree.cliques]
        for clique, table in zip(self.tree.cliques, self.conditional, strict=True):
            cells = tuple(known.get(v, slice(None)) for v in clique)
            left = table.reshape([self.tree.sizes[v] for v in clique])[cells]
            multiply(tree, factors, tuple(place[v] for v in clique if v not in known), left.ravel())
        conditional, mass = layout_of(tree).conditionals(factors)
        check_possible(mass, codes)
        return GraphicalModel(rest, self.total * mass, tree, conditional), mass

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw synthetic rows.

        The columns are drawn one after the other from the root of the tree to the leaves, with systematically rounded
        counts (`rounding`). The count of a value is rounded in each cell of the previous columns and over all rows, so
        that the means of small groups are preserved. The rows of a cell that get a value are random. Therefore, columns
        that share no clique remain independent given the separator.

        Parameters
        ----------
        rows : int
            The number of rows.
        rng : numpy.random.Generator
            The random number generator.

        Returns
        -------
        CodedTable
            The synthetic rows.
        """
        sizes = self.tree.sizes
        codes = np.zeros((rows, len(sizes)), dtype=code_dtype(self.schema), order="F")
        for clique, separator, flat in zip(self.tree.cliques, self.tree.separators, self.conditional, strict=True):
            known = list(separator)
            rest = [v for v in clique if v not in separator]
            table = np.transpose(flat.reshape([sizes[v] for v in clique]), [clique.index(v) for v in known + rest])
            for v in rest:
                group = np.zeros(rows, dtype=np.intp)
                for u in known:
                    group = group * sizes[u] + codes[:, u]
                shares = table.reshape(prod(sizes[u] for u in known), sizes[v], -1).sum(axis=-1)
                codes[:, v] = assign(group, shares, rng)
                known.append(v)
        return CodedTable(codes, self.schema)

    def save(self, path: Path | BinaryIO) -> None:
        """Write the tables and the tree to a file (see `archive`)."""
        tree = {"sizes": self.tree.sizes, "cliques": self.tree.cliques, "parents": self.tree.parents}
        tables = {f"conditional{i}": table for i, table in enumerate(self.conditional)}
        write_archive(path, GRAPHICAL_FORMAT, self.schema, self.total, tables, tree)

    @classmethod
    def read(cls, head: Head, archive: Archive, schema: Schema) -> GraphicalModel:
        """Read the model that `save` wrote. If the file is not consistent, `read_archive` raises InputError."""
        cliques = tuple(tuple(clique) for clique in head["cliques"])
        tree = JunctionTree(tuple(head["sizes"]), cliques, tuple(head["parents"]))
        conditional = [archive[f"conditional{i}"] for i in range(len(cliques))]
        cells = [prod(tree.sizes[v] for v in clique) for clique in cliques]
        if tree.sizes != schema.sizes or [table.shape for table in conditional] != [(c,) for c in cells]:
            raise ValueError
        return cls(schema, float(head["total"]), tree, conditional)


def _contract(terms: Sequence[tuple[Floats, Clique]], out: Clique) -> Floats:
    """Multiply tables and sum over the variables that are not in `out`."""
    sizes = {v: size for table, part in terms for v, size in zip(part, table.shape, strict=True)}
    label = {v: n for n, v in enumerate(sorted(sizes))}  # because einsum supports only 52 labels
    operands: list[Any] = []
    for table, part in terms:
        operands += [table, [label[v] for v in part]]
    optimize = "greedy" if len(terms) > 1 and prod(sizes.values()) > _PLAIN_CELLS else False
    return np.asarray(np.einsum(*operands, [label[v] for v in out], optimize=optimize))
