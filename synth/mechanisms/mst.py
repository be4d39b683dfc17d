"""MST: 1-way marginals, then a privately chosen maximum spanning tree of 2-way marginals.

McKenna, Miklau and Sheldon, "Winning the NIST Contest" (arXiv:2108.04978), section 3 and algorithm 1-2, with two
corrections of what implementations have lost: merged rare values keep their mass (their measurement is of the sum,
and the 1-way measurement of every single value stays), and the L1 score is entrywise.

With `levels`, pairs may be measured within strata as well as over all rows, one choice serves all strata, and more
than one tree is measured where it pays; see `equistrata.synth.mechanisms.levels`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import inf

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import Groups, Measurement, pairs_readable, total_estimate
from equistrata.synth.mechanisms.books import Books, Columns, Step
from equistrata.synth.mechanisms.levels import Levels, at_level, ties
from equistrata.synth.models.estimation import Estimator, MirrorDescent, model_cliques
from equistrata.synth.models.graphical import GraphicalModel
from equistrata.synth.models.junction_tree import Clique, Elimination, cells_in, tree_cells

Edge = tuple[str, str]

_FIRST_TREE_CELLS = 2_000_000  # of a model with the first tree, which spans the columns if it can


@dataclass(frozen=True)
class MST:
    """The MST synthesizer.

    Attributes:
        shares: without levels, parts of ρ for the 1-way marginals, the choice of the tree, and its 2-way marginals.
        rare: without levels, values whose noisy count is under this many σ are merged before pairs are measured.
        readable: pairs are chosen and measured only if the noise expected on a pair (mean L1 norm over pairs) is at
            most this fraction of the number of rows, as the paid-for marginals estimate it. In a smaller table all
            of ρ goes to 1-way marginals, which it can still read. With levels, n trees share what is left of ρ, and need
            this fraction, over n, of the rows: more trees only where they are read well.
        levels: at which levels of strata marginals may be measured; None for the paper's MST.
        trees: with levels, how many trees of pairs may be measured at most; no pair is in two of them.
        choice: with levels, the part of ρ for choosing pairs.
        max_model_size: with levels, the largest model that further trees may make, in MiB of its tables.
        engine: how measurements become a model.
    """

    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    rare: float = 3.0
    readable: float = 0.5
    levels: Levels | None = None
    trees: int = 3
    choice: float = 0.1
    max_model_size: float = 2.0
    engine: Estimator = field(default_factory=MirrorDescent)

    def __post_init__(self) -> None:
        if self.levels is not None and not 0 < self.choice < 1 - self.levels.first_share:
            raise ValueError(
                "with levels, MST needs a choice above 0 that, with what they measure first, leaves a part of ρ for pairs"
            )

    @property
    def name(self) -> str:
        """MST."""
        return "MST"

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure a table. Costs `rho` in zCDP; neighbours differ by one added or removed row. See `measure_with_log`."""
        return self.measure_with_log(table, rho, noise, known)[0]

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure a table, and say what each step cost. Costs `rho` in zCDP under adding or removing one row.

        Proof sketch: 1-way marginals cost `shares[0]` of ρ by Gaussian noise at sensitivity 1 each. Whether pairs
        are readable, and which values are rare, is decided from noisy numbers alone. Each of the d − 1 choices
        scores pairs by ‖true − model‖₁, where the model is made from noisy numbers, so the score has sensitivity 1
        (`equistrata.synth.mechanisms.books.score`; it is not monotone), and the exponential mechanism at ε = √(8ρ') costs ρ'. The d − 1 pair
        marginals are Gaussian again. All steps compose adaptively to ρ; the budget object raises if they would pass it.
        With levels: see `_measure_levels`.

        Returns:
            The measurements, `known` first, and a Step for each of the others and for each choice of nothing; the amounts
            add up to `rho`.

        Source: arXiv:2108.04978, algorithms 1 and 2.
        """
        books = Books(table, rho, noise, known)
        if self.levels is not None:
            self._measure_levels(self.levels, books)
            return books.measurements, books.log
        names = table.schema.names
        single_rho, choice_rho, pair_rho = rho.split(self.shares)
        first = [((name,), price) for name, price in zip(names, single_rho.split([1] * len(names)), strict=True)]
        for columns, price in first:
            books.measure(columns, price)
        rows = total_estimate(books.measurements)[0]
        if len(names) == 1 or not pairs_readable(table.schema, pair_rho, rows, self.readable):
            books.measure_again(first)
            return books.measurements, books.log
        model = self.engine.estimate(table.schema, books.measurements)
        edges = _choose_tree(books, model, choice_rho)
        groups = {name: self._rare_groups(name, books.measurements) for name in names}
        for (edge, paid), share in zip(edges, pair_rho.split([1] * len(edges)), strict=True):
            books.measure(edge, share, paid, [groups[name] for name in edge])
        return books.measurements, books.log

    def _measure_levels(self, levels: Levels, books: Books) -> None:
        """First marginals by `Levels`, then up to `trees` spanning trees of pairs, each pair at one level. Costs the budget.

        Proof sketch: a pair at a level is a marginal of the whole table, so as in `measure_with_log`: Gaussian noise at
        sensitivity 1, and choices whose scores ‖true − model‖₁ − √(2/π)·σ·cells have sensitivity 1, for the model is made from
        noisy numbers, and σ and cells are public. How many trees there are is decided from noisy numbers too. From the second
        tree on "no pair" may be chosen, with the constant score 0, so that noise nobody can read is not bought; what it would
        have cost goes to the chosen pairs. Which pairs are open, and so how many choices are made, follows from former choices
        and the schema. The last marginals share what is left.
        """
        budget, schema, rho = books.budget, books.table.schema, books.budget.total
        first = levels.measure_first(schema, rho, books.measurements, books.measure)
        names = levels.inner(schema) if levels.fine else schema.names
        choice_rho = rho * self.choice
        chosen: list[tuple[Columns, Rho]] = []
        rows = total_estimate(books.measurements)[0]
        counts = range(self.trees, 0, -1) if len(names) > 1 else ()
        trees = next(
            (n for n in counts if pairs_readable(schema, budget.remaining * Fraction(1, n), rows, self.readable / n)), 0
        )
        if trees:
            model = self.engine.estimate(schema, books.measurements)
            steps = (len(names) - 1) * trees
            price = choice_rho * Fraction(1, steps)
            sigma = gaussian_sigma((budget.remaining - choice_rho) * Fraction(1, steps))
            offers = _offers(schema, names, levels)
            score = cache(lambda columns: books.score(columns, model, sigma))
            cliques = model_cliques(schema, books.measurements) + [
                tuple(map(schema.index, columns)) for columns in ties(schema, levels.strata)
            ]
            forest = _Forest(schema, cliques)
            for tree in range(trees):
                forest.begin_tree(names)
                most_cells = cells_in(self.max_model_size) if tree else _FIRST_TREE_CELLS
                for _ in names[1:]:
                    pairs = forest.open_pairs(most_cells)
                    options = [(pair, columns) for pair, columns in offers if pair in pairs]
                    if not options:  # public: it follows from the schema and former choices
                        break
                    none = [0.0] * (tree > 0)
                    pick = books.choose(partial(_scores, score, [columns for _, columns in options], none), price)
                    if pick < len(options):
                        pair, columns = options[pick]
                        forest.add(pair, columns)
                        chosen.append((columns, price))
                    else:
                        books.chose_nothing(price)
        if not chosen:
            books.measure_again(first)
            return
        for (columns, paid), part in zip(chosen, budget.remaining.split([1] * len(chosen)), strict=True):
            books.measure(columns, part, paid)

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> GraphicalModel:
        """See `Mechanism.model`."""
        return self.engine.estimate(schema, measurements)

    def _rare_groups(self, name: str, measurements: Iterable[Measurement]) -> Groups:
        """Codes in groups: every common value alone, the rare ones together; None if there is nothing to merge."""
        single = next(m for m in measurements if m.columns == (name,))
        rare = single.values < self.rare * single.sigma
        if rare.sum() < 2:
            return None
        common = np.cumsum(~rare) - 1
        return tuple(np.where(rare, int((~rare).sum()), common).tolist())


class _Forest:
    """Spanning trees of columns as they grow, edge by edge, within a bound on the model's size."""

    def __init__(self, schema: Schema, cliques: Iterable[Clique]) -> None:
        self.schema, self.cliques = schema, set(cliques)
        self.model = Elimination(schema.sizes, self.cliques)
        self.most: dict[
            Edge, int
        ] = {}  # cells of the model with each pair: so many when they were worked out, or fewer
        self.part: dict[str, str] = {}
        self.used: set[Edge] = set()  # in a tree already, or too large for the model

    def begin_tree(self, names: Sequence[str]) -> None:
        """Start another tree over these columns."""
        self.part = {name: name for name in names}

    def open_pairs(self, most_cells: float) -> set[Edge]:
        """The pairs that join two parts of this tree, are in none yet, and leave the model in bounds."""
        pairs = {pair for pair in combinations(self.part, 2) if self.part[pair[0]] != self.part[pair[1]]} - self.used
        large = {pair for pair in pairs if self._may_pass(pair, most_cells) and self._cells(pair) > most_cells}
        self.used |= large  # it never shrinks, and later trees have no wider bounds
        return pairs - large

    def add(self, pair: Edge, columns: Iterable[str]) -> None:
        """Put a pair into the tree; it is measured together with `columns`."""
        self.used.add(pair)
        self.cliques.add(tuple(sorted(map(self.schema.index, columns))))
        self.model = Elimination(self.schema.sizes, self.cliques)
        growth = max(self.schema[name].size for name in pair)
        self.most = {each: most * growth for each, most in self.most.items()}
        self.part = _joined(self.part, pair)

    def _may_pass(self, pair: Edge, most_cells: float) -> bool:
        """Whether it must be worked out if a pair makes the model too large: a new junction tree for every pair takes minutes.

        To join two columns puts one of them into some of the cliques, so it multiplies the cells by no more than its size.
        """
        a, b = (self.schema.index(name) for name in pair)
        if self.model.cells * max(self.schema.sizes[a], self.schema.sizes[b]) <= most_cells:
            return False
        if self.most.get(pair, inf) > most_cells:
            self.most[pair] = self.model.joined(a, b)
        return self.most[pair] > most_cells

    def _cells(self, pair: Edge) -> int:
        clique = {self.schema.index(name) for name in pair}
        if any(clique <= set(other) for other in self.cliques):
            return 0
        return tree_cells(self.schema.sizes, [*self.cliques, tuple(sorted(clique))])


def _offers(schema: Schema, names: Sequence[str], levels: Levels) -> list[tuple[Edge, Columns]]:
    """Every pair at every level, and its columns."""
    return [(pair, at_level(schema, pair, level)) for pair in combinations(names, 2) for level in levels.offered]


def _scores(score: Callable[[Columns], float], options: Sequence[Columns], others: Sequence[float] = ()) -> Floats:
    return np.array([*map(score, options), *others])


def _choose_tree(books: Books, model: GraphicalModel, rho: Rho) -> list[tuple[Edge, Rho]]:
    """A spanning tree of columns, one edge at a time by the exponential mechanism (Kruskal's order); and what each cost."""
    names = books.table.schema.names
    score = cache(lambda edge: books.score(edge, model))
    part = {name: name for name in names}
    edges: list[tuple[Edge, Rho]] = []
    for price in rho.split([1] * (len(names) - 1)):
        options = [edge for edge in combinations(names, 2) if part[edge[0]] != part[edge[1]]]
        edge = options[books.choose(partial(_scores, score, options), price)]
        edges.append((edge, price))
        part = _joined(part, edge)
    return edges


def _joined(part: Mapping[str, str], edge: Edge) -> dict[str, str]:
    """The parts of a forest (column → the name of its part) once an edge has made two of them one."""
    old, new = part[edge[0]], part[edge[1]]
    return {name: new if root == old else root for name, root in part.items()}
