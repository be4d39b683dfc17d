"""How large a fit will be: cells, memory and time, from settings and the schema alone, before a row is read.

What would fail half-way is refused, since its budget would be spent. Times are of one processor of 2026, fitted to the
fits in docs/performance.md. They are upper bounds: where noise leaves little to choose or to fit, a tenth may do.

>>> from equistrata.data.schema import Column
>>> from equistrata.synth.registry import mechanism
>>> columns = tuple(Column(f"c{n}", values=(1, 2, 3, 4)) for n in range(40))
>>> strata = Strata.over(Schema("wide", columns), ["c0"])
>>> found = size(mechanism("mst"), strata)
>>> found.candidates, found.cells, found.fits
(741, 1048576, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb, log2, prod

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.synth.foreign.base import ForeignSynthesizer
from equistrata.synth.mechanisms.aim import AIM, ROUNDS
from equistrata.synth.mechanisms.base import Mechanism, serving_all
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.mst import FIRST_TREE_CELLS, MST
from equistrata.synth.models.coarsening import merged_sizes
from equistrata.synth.models.estimation import check_cells, model_cliques
from equistrata.synth.models.junction_tree import CELL_BYTES, cells_in, tree_cells
from equistrata.synth.models.possible import Possible
from equistrata.synth.strata.shrinkage import MOST_STRATA

FITTING_BYTES = 100  # of each cell of a model while it is estimated
CANDIDATE_BYTES = 400  # of each set of columns that AIM or GEM may choose: names, weight, exact counts' array

_FEW = 50_000  # sets of columns that are looked at one by one


class _Seconds:
    """Of one processor, each once."""

    FIT = 0.15  # a fit's task, files and start
    SET = 6e-4  # looking at a set of columns that may be chosen
    CELL = 2e-8  # of such a set
    TREE = 5e-6  # working out a junction tree, for each of its columns
    TABLE = 2e-3  # estimating, for each clique
    MODEL = 1e-5  # estimating, for each cell of the model
    ROUND = 1e-6  # the same in a round of AIM
    STEP = 1e-3  # of training GEM
    PRODUCT = 6e-10  # the same, for each component and product
    BORROW = 4e-9  # of borrowing, for each marginal and cube of the strata
    BORROW_TABLE = 2e-3  # of borrowing, for each marginal


@dataclass(frozen=True)
class Size:
    """How large a release's fits are.

    Attributes:
        fits: how many there are: one for each stratum, or one if one choice serves all strata.
        candidates: the sets of columns that one fit may choose from.
        cells: of the largest model that one fit may make.
        memory: bytes that one fit takes at most.
        together: bytes that strata take while they borrow from each other.
        fitting: seconds of one processor for all fits, which can be shared among workers.
        borrowing: seconds of what cannot.
    """

    fits: int
    candidates: int
    cells: int
    memory: int
    together: int
    fitting: float
    borrowing: float

    def seconds(self, workers: int) -> float:
        """How long that takes with so many workers."""
        return self.fitting / max(min(workers, self.fits), 1) + self.borrowing


def size(mechanism: Mechanism, strata: Strata, shrinkage: bool = True) -> Size:
    """How large the fits of a mechanism are: of all strata at once if it serves them all, or of one after the other.

    Raises:
        InputError: a fit may fail half-way, because a model or table that it may need is larger than it makes them.
    """
    count, columns, at_once = len(strata.keys), len(strata.schema.names), serving_all(mechanism) is not None
    found = [_found(mechanism, schema) for schema in ([strata.schema] if at_once else _rests(strata))]
    memories, options, models, seconds = zip(*found, strict=True)
    fits, marginals, fitting = count, 2 * columns, count * (max(seconds) + _Seconds.FIT)
    if at_once:
        fits, marginals, fitting = 1, 4 * columns, max(seconds)
        if isinstance(mechanism, MST | GEM) and mechanism.levels.may_be_large(strata.schema):  # one after the other
            alone = replace(mechanism, levels=Levels())
            fitting = max(fitting, count * (max(_found(alone, rest)[3] for rest in _rests(strata)) + _Seconds.FIT))
    borrowing, together = 0.0, 0
    if shrinkage and 3 <= count <= MOST_STRATA and mechanism.keeps_measurements:
        borrowing = marginals * (_Seconds.BORROW_TABLE + _Seconds.BORROW * count**3)
        together = (8 + len(strata.columns)) * CELL_BYTES * count**2
    return Size(fits, max(options), max(models), max(memories), together, fitting, borrowing)


_Found = tuple[int, int, int, float]  # bytes, candidates, cells, seconds


def _rests(strata: Strata) -> list[Schema]:
    """The schemas of the other columns that strata have: more than one where structural zeros differ among them."""
    if not strata.schema.impossible:
        return [strata.rest(strata.keys[0])]
    return list({rest.impossible: rest for rest in map(strata.rest, strata.keys)}.values())


def _found(mechanism: Mechanism, schema: Schema) -> _Found:
    if isinstance(mechanism, MST):
        return _mst(mechanism, schema)
    if isinstance(mechanism, AIM):
        return _aim(mechanism, schema)
    if isinstance(mechanism, GEM):
        return _gem(mechanism, schema)
    if isinstance(mechanism, ForeignSynthesizer):
        mechanism.check_cells(schema)
    return 0, 0, 0, 0.0


def _mst(mechanism: MST, schema: Schema) -> _Found:
    strata, names = mechanism.strata, mechanism.levels.inner(schema)
    sizes, every = [schema[name].size for name in names], prod(schema[name].size for name in strata)
    bare = tree_cells(merged_sizes(schema, mechanism.strata), model_cliques(schema, [], mechanism.levels.tied(schema)))
    most = getattr(mechanism.engine, "most_cells", bare)
    check_cells(schema, bare, most)
    pairs, offered = comb(len(sizes), 2), len(mechanism.levels.offered)
    first_tree = min(_widest_tree_cells(sizes) * every, FIRST_TREE_CELLS)
    largest = cells_in(mechanism.model_size)
    cells = max(min(int(largest), prod(schema.sizes)), first_tree, bare)
    share = min(1.0, prod(schema.sizes) / largest)
    trees = mechanism.trees * len(sizes) * pairs / 2 * len(sizes) * _Seconds.TREE * share
    seconds = pairs * offered * _Seconds.SET + _symmetric(sizes, 2) * every * _Seconds.CELL * 2 + trees
    filled = cells * min(1.0, len(sizes) / 30)  # trees of few columns seldom fill the largest model
    seconds += 3 * len(sizes) * _Seconds.TABLE + filled * _Seconds.MODEL
    return cells * FITTING_BYTES + first_tree * 6 * CELL_BYTES, pairs * offered, cells, seconds


def _aim(mechanism: AIM, schema: Schema) -> _Found:
    strata, sizes, most = mechanism.strata, schema.sizes, int(cells_in(mechanism.model_size))
    bare = tree_cells(merged_sizes(schema, mechanism.strata), model_cliques(schema, [], mechanism.levels.tied(schema)))
    check_cells(schema, bare, most)
    degree = max(map(len, mechanism.workload)) if mechanism.workload else mechanism.degree
    degrees, cells = range(1, degree + 1), min(most, prod(sizes))
    candidates = sum(comb(len(sizes), n) for n in degrees)
    counted = sum(min(_symmetric(sizes, n), comb(len(sizes), n) * most) for n in degrees)
    if strata:  # sets within strata are candidates too
        inner = [schema[name].size for name in mechanism.levels.inner(schema)]
        every = prod(schema[name].size for name in strata)
        candidates += sum(comb(len(inner), n) for n in degrees)
        counted = sum(min(_symmetric(sizes, n) + every * _symmetric(inner, n), candidates * most) for n in degrees)
    # Prices are raised where little is learned, so fewer rounds are run than ρ could pay for.
    rounds = (mechanism.rounds or ROUNDS) * len(sizes) / (6 if strata else 4)
    look = candidates * (_Seconds.SET + len(sizes) * _Seconds.TREE) + counted * _Seconds.CELL
    # At first few candidates are small enough, and the model is small.
    seconds = rounds * (look / 2 + cells / 8 * _Seconds.ROUND) + cells * _Seconds.MODEL
    larger = mechanism.larger_sets(schema)
    seconds += log2(rounds + 2) * len(larger) * _Seconds.SET
    candidates += len(larger)
    return cells * FITTING_BYTES + candidates * CANDIDATE_BYTES + counted * CELL_BYTES, candidates, cells, seconds


def _gem(mechanism: GEM, schema: Schema) -> _Found:
    sizes = schema.sizes
    Possible.of(schema)  # refuses what it could not list
    degrees = range(2, mechanism.degree + 1)
    candidates = sum(comb(len(sizes), n) for n in degrees)
    if candidates <= _FEW:
        sets = [[schema[name].size for name in columns] for columns in mechanism.candidates(schema)]
        candidates, counted = len(sets), sum(map(prod, sets))
        left = sum(prod(each) // max(each) for each in sets) / max(candidates, 1)
    else:
        counted = sum(min(_symmetric(sizes, n), comb(len(sizes), n) * mechanism.most_cells) for n in degrees)
        left = counted / candidates / max(sizes)
    # A step multiplies each measured marginal, without its widest column, by all columns (`mixtures.loss`).
    rounds = min(mechanism.rounds, candidates)
    products = int((1 + rounds * left) * sum(sizes))
    if mechanism.strata:  # columns and a tree of pairs within strata, measured or predicted
        inner = [schema[name].size for name in mechanism.levels.inner(schema)]
        products += prod(schema[name].size for name in mechanism.strata) * (1 + sum(inner)) * sum(sizes)
    steps = rounds * mechanism.round_steps + mechanism.engine.steps
    seconds = rounds * (candidates * _Seconds.SET / 4 + counted * _Seconds.CELL * 10)
    seconds += steps * (_Seconds.STEP + products * mechanism.engine.components * _Seconds.PRODUCT)
    arrays = counted + 4 * products + 4 * mechanism.engine.components * sum(sizes)
    return candidates * CANDIDATE_BYTES + arrays * CELL_BYTES, candidates, 0, seconds


def _widest_tree_cells(sizes: Sequence[int]) -> int:
    """The cells of the spanning tree of columns whose pairs have the most: every column with the widest."""
    widest = max(sizes)
    return widest * (sum(sizes) - widest)


def _symmetric(sizes: Sequence[int], degree: int) -> int:
    """The cells of all marginals of so many columns together: the elementary symmetric polynomial of the sizes."""
    sums = [1] + [0] * degree
    for each in sizes:
        for n in range(degree, 0, -1):
            sums[n] += sums[n - 1] * each
    return sums[degree]
