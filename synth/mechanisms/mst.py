"""MST: every column, then privately chosen spanning trees of pairs of columns, one choice for all strata.

After McKenna, Miklau and Sheldon, "Winning the NIST Contest" (arXiv:2108.04978), section 3. Where we leave the paper:
pairs may be measured within strata as well as over all rows (`equistrata.synth.mechanisms.levels`); up to `trees`
trees are measured, as many as can be read; a choice subtracts the noise floor of what it would measure; and rare
values are not merged. The paper's own algorithm is `paper.mst.PaperMST`.
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
from equistrata.synth.measurements import Columns, Measurement, at_level, total_estimate, varying
from equistrata.synth.mechanisms.base import Opening, SharingMechanism
from equistrata.synth.mechanisms.levels import Levels, largest_share
from equistrata.synth.mechanisms.session import NOTHING, Session, Step
from equistrata.synth.models.estimation import Estimator, MirrorDescent, model_cliques
from equistrata.synth.models.junction_tree import Clique, Elimination, cells_in, tree_cells
from equistrata.synth.noise_floors import pairs_readable

Edge = tuple[str, str]

FIRST_TREE_CELLS = 2_000_000  # of a model with the first tree, which spans the columns if it can
# Parts of ρ for columns within strata, as `Levels.columns` and `Levels.low_noise`: a few trees of pairs leave much
# unsaid, so columns get more than in AIM (docs/experiments/levels.md).
STRATA_COLUMNS, STRATA_LOW_NOISE = 0.45, 0.6
MANY = 11  # as `Levels.many` (docs/experiments/levels.md)
# Pairs share what is left by their cells to this power: the least sum of noise floors (docs/experiments/nist.md).
PAIR_POWER = 2 / 3
MODEL_SIZE, STRATA_MODEL_SIZE = 8.0, 16.0  # MiB, without and with strata (docs/experiments/selection.md)
LARGE_NOISE = 0.035  # as `Levels.large_noise` (docs/experiments/levels.md)


@dataclass(frozen=True)
class MST(SharingMechanism):
    """The MST synthesizer.

    Attributes:
        readable: n trees of pairs are measured only if the noise floor of a pair (expected L1 norm, mean over pairs)
            is at most this fraction, over n, of the number of rows. If not even one tree can be read, all of ρ goes
            to columns.
        levels: the strata, and at which levels marginals may be measured; one level, all rows, without strata.
        trees: how many trees of pairs may be measured at most; no pair is in two of them.
        choice: the part of ρ for choosing pairs.
        max_model_size: the largest model that the second tree and later ones may make, in MiB of its tables; None for
            8, or 16 with strata.
        engine: how measurements become a model.
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
            raise InputError(f"MST's choice is {self.choice}; give a part of ρ above 0 that leaves a part for pairs")
        if self.trees < 1 or not self.readable > 0 or not self.model_size > 0:
            raise InputError("MST needs one tree or more, and a readable and a max_model_size above 0")

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
        """Measure first marginals (`opening`), choose pairs (`_choose_pairs`), measure what was chosen.

        Of large strata (`Levels.large`) each does so by itself, after columns were measured over all rows.

        Cost: `rho` in zCDP; neighbours differ by one added or removed row. See docs/proofs/mst.md.
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
        """See `SharingMechanism.opening`: `Levels` decide what is measured first, then as many trees as can be read."""
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
        """How many trees of pairs the rest of the budget can pay to be read: see `readable`. Post-processing."""
        schema, left = session.table.schema, session.budget.remaining
        rows = total_estimate(session.measurements)[0]
        most = min(self.trees, (len(names) + 1) // 2)  # half as many as columns hold all pairs
        counts = range(most, 0, -1) if len(names) > 1 else ()
        return next((n for n in counts if pairs_readable(schema, left * Fraction(1, n), rows, self.readable / n)), 0)

    def _choose_pairs(self, session: Session, opening: Opening) -> list[tuple[Columns, Rho]]:
        """Spanning trees of pairs in Kruskal's order, each pair at one level; and what each choice cost.

        Cost: `choice` times what the session shares out, by the exponential mechanism: one price for all strata.
        From the second tree on "no pair" is offered as well, with score 0: what cannot be read is not bought. So it is
        from the first on where strata are served by coarser levels alone: noise on a pair of a column and a stratum
        column would be the small strata's.
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
                if not options:  # public: it follows from the schema and former choices
                    break
                pick = session.choose(partial(_scores, score, options, optional or tree > 0), price)
                if pick < len(options):
                    pair, columns = options[pick]
                    forest.add(pair, columns)
                    chosen.append((columns, price))
                else:
                    session.chose_nothing(price)
        return chosen


class _Forest:
    """Spanning trees of columns as they grow, edge by edge, within a bound on the model's size."""

    def __init__(self, schema: Schema, cliques: Iterable[Clique]) -> None:
        self.schema, self.cliques = schema, set(cliques)
        self.model = Elimination(schema.sizes, self.cliques)
        self.most: dict[Edge, int] = {}  # bounds from above on the cells of the model with each pair
        self.part: dict[str, str] = {}  # column → the name of its part of the tree
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
        old, new = (self.part[name] for name in pair)
        self.part = {name: new if root == old else root for name, root in self.part.items()}

    def _may_pass(self, pair: Edge, most_cells: float) -> bool:
        """Whether a pair's model must be worked out: a new junction tree for every pair takes minutes.

        Joining two columns puts one of them into some of the cliques, which multiplies the cells by at most its size.
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


def _scores(score: Callable[[Columns], float], options: Sequence[tuple[Edge, Columns]], none: bool) -> list[float]:
    """The options' scores, and that of choosing nothing if it is offered."""
    return [*(score(columns) for _, columns in options), *([0.0] * none)]
