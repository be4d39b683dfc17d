"""The MST mechanism.

MST measures every column, and then privately selects spanning trees of pairs of columns. One selection serves all
strata.

The implementation is based on section 3 of McKenna, Miklau and Sheldon, "Winning the NIST Contest" (arXiv:2108.04978).
There are four differences from the paper:

- Pairs can be measured within strata as well as over all rows (`equistrata.synth.mechanisms.levels`).
- Up to `trees` trees are measured, but only as many as can be measured with little noise.
- The score of a selection subtracts the noise floor of the marginal.
- Rare values are not merged.

The algorithm of the paper is `paper.mst.PaperMST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import inf, prod
from typing import Self

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import Columns, Measurement, join_level_columns, total_estimate, varying
from equistrata.synth.mechanisms.base import Opening, SharingMechanism
from equistrata.synth.mechanisms.levels import Levels, largest_share
from equistrata.synth.mechanisms.session import NOTHING, Session, Step
from equistrata.synth.models.estimation import Estimator, MirrorDescent, model_cliques
from equistrata.synth.models.junction_tree import Clique, Elimination, cells_in, tree_cells
from equistrata.synth.noise_floors import pairs_readable

Edge = tuple[str, str]

FIRST_TREE_CELLS = 2_000_000  # the maximum number of cells of a model with the first tree
# The fractions of ρ for columns within strata (`Levels.columns` and `Levels.low_noise`). They are larger than in AIM
# because a few trees of pairs leave out many relations.
STRATA_COLUMNS, STRATA_LOW_NOISE = 0.45, 0.6
MANY = 11  # the value of `Levels.many`
# Pairs share the remaining ρ by their cells to this power, which minimises the sum of the noise floors
# (docs/experiments/selection.md).
PAIR_POWER = 2 / 3
MODEL_SIZE, STRATA_MODEL_SIZE = 8.0, 16.0  # in MiB, without and with strata (docs/experiments/selection.md)
LARGE_NOISE = 0.035  # the value of `Levels.large_noise` (docs/experiments/levels.md)


@dataclass(frozen=True)
class MST(SharingMechanism):
    """The MST synthesizer.

    Parameters
    ----------
    readable : float, default=0.5
        The maximum noise floor of a pair, as a fraction of the number of rows. A number of n trees of pairs is measured
        only if the noise floor is at most this fraction divided by n. The noise floor is the mean over pairs of the
        expected L1 norm of the noise. If a single tree is too noisy, all of ρ is spent on single columns.
    levels : Levels
        The strata, and the levels at which marginals can be measured. If there are no strata, the only level is all
        rows.
    trees : int, default=4
        The maximum number of trees of pairs. No pair is in two trees.
    choice : float, default=0.05
        The fraction of ρ for the selection of pairs.
    max_model_size : float or None, default=None
        The maximum size of the model that the second tree and later trees can make, in MiB of its tables. If None, it
        is 8, or 16 if there are strata.
    engine : Estimator
        The engine that estimates the model.

    Raises
    ------
    InputError
        If a setting has an invalid value.
    """

    readable: float = 0.5
    levels: Levels = field(default_factory=Levels)
    trees: int = 4
    choice: float = 0.05
    max_model_size: float | None = None
    engine: Estimator = field(default_factory=MirrorDescent)

    name = "MST"

    def __post_init__(self) -> None:
        if not 0 < self.choice < 1 - self.levels.first_share:
            raise InputError(f"MST's choice is {self.choice}; give a part of ρ above 0 that leaves some ρ for pairs")
        if self.trees < 1 or not self.readable > 0 or not self.model_size > 0:
            raise InputError("MST needs at least one tree, and needs readable and max_model_size above 0")

    @property
    def model_size(self) -> float:
        """See `SharingMechanism.model_size`."""
        if self.max_model_size is not None:
            return self.max_model_size
        return STRATA_MODEL_SIZE if self.strata else MODEL_SIZE

    def with_levels(self, strata: Columns, coarse: bool, fine: bool, each: bool = True) -> Self:
        """See `SharingMechanism.with_levels`."""
        large = LARGE_NOISE if each else 0.0
        columns = {"columns": STRATA_COLUMNS, "low_noise": STRATA_LOW_NOISE, "largest": largest_share(self.choice)}
        return replace(self, levels=Levels(strata, coarse, fine, **columns, many=MANY, large_noise=large))

    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure the first marginals, select pairs, and measure the selected pairs.

        If all strata are large (`Levels.large`), the columns are measured over all rows first. Each stratum is then
        measured separately in the same way.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        measurements : list of Measurement
            The known measurements and the new measurements.
        log : list of Step
            The steps of the run, which add up to `rho`.

        Privacy
        -------
        The new measurements are `rho`-zCDP. Neighbouring tables differ by one added or removed row. See
        docs/proofs/mst.md.
        """
        session = Session(table, rho, noise, known)
        opening = self.opening(session)
        if opening.each is not None:
            session.measure_each(self.strata, opening.each.measure_with_log)
            return session.found, session.log
        chosen = self._choose_pairs(session, opening)
        if not chosen:
            session.measure_again(opening.first)
        else:
            cells = [prod(session.table.schema[name].size for name in columns) for columns, _ in chosen]
            parts = session.budget.remaining.split([count**PAIR_POWER for count in cells])
            for (columns, paid), part in zip(chosen, parts, strict=True):
                session.measure(columns, part, paid)
        return session.found, session.log

    def opening(self, session: Session) -> Opening:
        """See `SharingMechanism.opening`.

        The first marginals are determined by `levels`. The number of trees is then set to the number that can be
        measured with little noise.
        """
        first = self.levels.measure_over_all(session)
        if self.levels.large(session):
            names, alone = self.levels.inner(session.table.schema), replace(self, levels=Levels())
            within = replace(self.levels, coarse=False)
            return Opening(first, names, within, session.budget.remaining, 0, NOTHING, alone)
        first, schema = self.levels.measure_within(session, first), session.table.schema
        levels, left = self.levels.reached(session.measurements), session.budget.remaining
        names = varying(schema, levels.inner(schema) if levels.fine else schema.unweighted)
        choices = (len(names) - 1) * self._readable_trees(session, names)
        price = (left - session.shared * self.choice) * Fraction(1, choices) if choices else NOTHING
        return Opening(first, names, levels, left, choices, price, power=PAIR_POWER)

    def _readable_trees(self, session: Session, names: Sequence[str]) -> int:
        """Compute the number of trees of pairs that the remaining budget can measure with little noise (see
        `readable`).
        """
        schema, left = session.table.schema, session.budget.remaining
        rows = total_estimate(session.measurements)[0]
        most = min(self.trees, (len(names) + 1) // 2)  # n / 2 trees of n columns contain all pairs
        counts = range(most, 0, -1) if len(names) > 1 else ()
        return next((n for n in counts if pairs_readable(schema, left * Fraction(1, n), rows, self.readable / n)), 0)

    def _choose_pairs(self, session: Session, opening: Opening) -> list[tuple[Columns, Rho]]:
        """Select spanning trees of pairs in the order of Kruskal's algorithm, with one level per pair.

        The result is a list of the selected pairs and the cost of each selection. The selections use the exponential
        mechanism and cost `choice` times the shared budget, once for all strata.

        From the second tree on, "no pair" is also an option. It has score 0, so that pairs below the noise floor are
        not measured. If the strata are served only by coarser levels, it is also an option for the first tree. In this
        case, the noise on a pair of a column and a stratum column would affect mainly the small strata.
        """
        schema, levels, names = session.table.schema, opening.levels, opening.names
        chosen: list[tuple[Columns, Rho]] = []
        if not opening.choices:
            return chosen
        model = self.engine.estimate(schema, levels.modelled(session.measurements))
        price = session.shared * self.choice * Fraction(1, opening.choices)
        sigma = gaussian_sigma(opening.price)
        offers = _offers(schema, names, levels)
        score = cache(lambda columns: session.score(columns, model, sigma))
        engine_cells = getattr(self.engine, "most_cells", inf)
        optional = bool(levels.strata) and not levels.fine
        forest = _Forest(schema, model_cliques(schema, session.measurements))
        for tree in range(opening.choices // (len(names) - 1)):
            forest.begin_tree(names)
            most_cells = min(cells_in(self.model_size) if tree else FIRST_TREE_CELLS, engine_cells)
            for _ in names[1:]:
                pairs = forest.open_pairs(most_cells)
                options = [(pair, columns) for pair, columns in offers if pair in pairs]
                if not options:  # this condition is public because it follows from the schema and former selections
                    break
                pick = session.choose(partial(_scores, score, options, optional or tree > 0), price)
                if pick < len(options):
                    pair, columns = options[pick]
                    forest.add(pair, columns)
                    chosen.append((columns, price))
                else:
                    session.record_empty_selection(price)
        return chosen


class _Forest:
    """Spanning trees of columns that grow edge by edge while the model stays below a maximum size."""

    def __init__(self, schema: Schema, cliques: Iterable[Clique]) -> None:
        self.schema, self.cliques = schema, set(cliques)
        self.model = Elimination(schema.sizes, self.cliques)
        self.most: dict[Edge, int] = {}  # for each pair, an upper bound on the cells of the model with the pair
        self.part: dict[str, str] = {}  # for each column, the name of its part of the tree
        self.used: set[Edge] = set()  # the pairs that are in a tree or too large for the model

    def begin_tree(self, names: Sequence[str]) -> None:
        """Start another tree over the given columns."""
        self.part = {name: name for name in names}

    def open_pairs(self, most_cells: float) -> set[Edge]:
        """Return the pairs that can be added to the current tree.

        These pairs join two parts of the tree, are not in any tree, and keep the model small enough.
        """
        pairs = {pair for pair in combinations(self.part, 2) if self.part[pair[0]] != self.part[pair[1]]} - self.used
        large = {pair for pair in pairs if self._may_pass(pair, most_cells) and self._cells(pair) > most_cells}
        self.used |= large  # these pairs stay too large because the model never shrinks and the bounds never grow
        return pairs - large

    def add(self, pair: Edge, columns: Iterable[str]) -> None:
        """Add a pair to the tree. The pair is measured together with the other `columns`."""
        self.used.add(pair)
        self.cliques.add(tuple(sorted(map(self.schema.index, columns))))
        self.model = Elimination(self.schema.sizes, self.cliques)
        growth = max(self.schema[name].size for name in pair)
        self.most = {each: most * growth for each, most in self.most.items()}
        old, new = (self.part[name] for name in pair)
        self.part = {name: new if root == old else root for name, root in self.part.items()}

    def _may_pass(self, pair: Edge, most_cells: float) -> bool:
        """Return True if the size of the model with a pair must be computed exactly.

        The function first uses upper bounds, because a new junction tree for every pair would take minutes. If two
        columns are joined, one of them is added to some cliques. The number of cells is then multiplied by at most the
        size of this column.
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
    """Return every pair at every level, together with its columns."""
    return [
        (pair, join_level_columns(schema, pair, level)) for pair in combinations(names, 2) for level in levels.offered
    ]


def _scores(score: Callable[[Columns], float], options: Sequence[tuple[Edge, Columns]], none: bool) -> list[float]:
    """Return the scores of the options, and the score 0 of selecting no pair if that is allowed."""
    return [*(score(columns) for _, columns in options), *([0.0] * none)]
