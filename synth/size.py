"""Estimates of the size of a fit: cells, memory and time.

The estimates use only the settings and the schema, so they are made before a row is read. If a fit could fail after its
budget is spent, it is refused. The times are for one processor of 2026 and are fitted to the fits in
docs/performance.md. They are upper bounds: a fit can take a tenth of this time if the noise leaves little to select or
to fit.

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
from equistrata.synth.mechanisms.base import Mechanism, shared_mechanism
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.mst import FIRST_TREE_CELLS, MST
from equistrata.synth.models.coarsening import merged_sizes
from equistrata.synth.models.estimation import check_cells, model_cliques
from equistrata.synth.models.junction_tree import CELL_BYTES, cells_in, tree_cells
from equistrata.synth.models.possible import FeasibleCodes
from equistrata.synth.strata.shrinkage import MOST_STRATA

FITTING_BYTES = 100  # per cell of a model, during estimation
CANDIDATE_BYTES = 400  # per candidate of AIM or GEM, for its names, its weight and the array of its exact counts

_FEW = 50_000  # the maximum number of column sets that are examined one by one


class _Seconds:
    """Times on one processor, in seconds per unit of work."""

    FIT = 0.15  # per fit, to start its task and to write its files
    SET = 6e-4  # per candidate set of columns
    CELL = 2e-8  # per cell of a candidate
    TREE = 5e-6  # per column, to find a junction tree
    TABLE = 2e-3  # per clique, to estimate a model
    MODEL = 1e-5  # per cell of the model, to estimate it
    ROUND = 1e-6  # per cell of the model, to estimate it in a round of AIM
    STEP = 1e-3  # per training step of GEM
    PRODUCT = 6e-10  # per component and product, in a training step of GEM
    BORROW = 4e-9  # per marginal and cubed number of strata, for shrinkage
    BORROW_TABLE = 2e-3  # per marginal, for shrinkage


@dataclass(frozen=True)
class Size:
    """The size of the fits of a release.

    Attributes
    ----------
    fits : int
        The number of fits. It is the number of strata, or 1 if all strata share one selection.
    candidates : int
        The number of column sets that one fit can select from.
    cells : int
        The number of cells of the largest model that one fit can make.
    memory : int
        The maximum memory of one fit, in bytes.
    together : int
        The memory that is used for shrinkage across strata, in bytes.
    fitting : float
        The time for all fits on one processor, in seconds. This work can be shared among workers.
    borrowing : float
        The time for shrinkage across strata, in seconds. This work cannot be shared among workers.
    """

    fits: int
    candidates: int
    cells: int
    memory: int
    together: int
    fitting: float
    borrowing: float

    def seconds(self, workers: int) -> float:
        """Return the total time for the given number of workers, in seconds."""
        return self.fitting / max(min(workers, self.fits), 1) + self.borrowing


def size(mechanism: Mechanism, strata: Strata, shrinkage: bool = True) -> Size:
    """Estimate the size of the fits of a mechanism.

    If the mechanism serves all strata with one selection, the strata are fitted together. Otherwise, they are fitted
    one after the other.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism to fit.
    strata : Strata
        The strata and the schema.
    shrinkage : bool, default=True
        If True, the estimates include shrinkage across strata.

    Returns
    -------
    Size
        The estimates, which are upper bounds.

    Raises
    ------
    InputError
        If a fit could fail after its budget is spent, because a model or table could be larger than the mechanism
        allows.
    """
    count, columns, at_once = len(strata.keys), len(strata.schema.names), shared_mechanism(mechanism) is not None
    found = [_found(mechanism, schema) for schema in ([strata.schema] if at_once else _rests(strata))]
    memories, options, models, seconds = zip(*found, strict=True)
    fits, marginals, fitting = count, 2 * columns, count * (max(seconds) + _Seconds.FIT)
    if at_once:
        fits, marginals, fitting = 1, 4 * columns, max(seconds)
        # If all strata turn out to be large, they are fitted one after the other.
        if isinstance(mechanism, MST | GEM) and mechanism.levels.may_be_large(strata.schema):
            alone = replace(mechanism, levels=Levels())
            fitting = max(fitting, count * (max(_found(alone, rest)[3] for rest in _rests(strata)) + _Seconds.FIT))
    borrowing, together = 0.0, 0
    if shrinkage and 3 <= count <= MOST_STRATA and mechanism.keeps_measurements:
        borrowing = marginals * (_Seconds.BORROW_TABLE + _Seconds.BORROW * count**3)
        together = (8 + len(strata.columns)) * CELL_BYTES * count**2
    return Size(fits, max(options), max(models), max(memories), together, fitting, borrowing)


_Found = tuple[int, int, int, float]  # memory in bytes, candidates, cells, time in seconds


def _rests(strata: Strata) -> list[Schema]:
    """Return the schemas of the columns that do not define the strata.

    There is more than one schema if the strata have different structural zeros.
    """
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
    filled = cells * min(1.0, len(sizes) / 30)  # a tree of few columns is usually smaller than the largest model
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
    if strata:  # column sets within strata are also candidates
        inner = [schema[name].size for name in mechanism.levels.inner(schema)]
        every = prod(schema[name].size for name in strata)
        candidates += sum(comb(len(inner), n) for n in degrees)
        counted = sum(min(_symmetric(sizes, n) + every * _symmetric(inner, n), candidates * most) for n in degrees)
    # AIM raises the price of a round that learns little, so there are fewer rounds than ρ could pay for.
    rounds = (mechanism.rounds or ROUNDS) * len(sizes) / (6 if strata else 4)
    look = candidates * (_Seconds.SET + len(sizes) * _Seconds.TREE) + counted * _Seconds.CELL
    # In the first rounds, the model is small and only a few candidates are small enough.
    seconds = rounds * (look / 2 + cells / 8 * _Seconds.ROUND) + cells * _Seconds.MODEL
    larger = mechanism.larger_sets(schema)
    seconds += log2(rounds + 2) * len(larger) * _Seconds.SET
    candidates += len(larger)
    return cells * FITTING_BYTES + candidates * CANDIDATE_BYTES + counted * CELL_BYTES, candidates, cells, seconds


def _gem(mechanism: GEM, schema: Schema) -> _Found:
    sizes = schema.sizes
    FeasibleCodes.of(schema)  # raises InputError if the possible combinations are too many to list
    degrees = range(2, mechanism.degree + 1)
    candidates = sum(comb(len(sizes), n) for n in degrees)
    if candidates <= _FEW:
        sets = [[schema[name].size for name in columns] for columns in mechanism.candidates(schema)]
        candidates, counted = len(sets), sum(map(prod, sets))
        left = sum(prod(each) // max(each) for each in sets) / max(candidates, 1)
    else:
        counted = sum(min(_symmetric(sizes, n), comb(len(sizes), n) * mechanism.most_cells) for n in degrees)
        left = counted / candidates / max(sizes)
    # A training step multiplies each measured marginal, without its widest column, by all columns (`mixtures.loss`).
    rounds = min(mechanism.rounds, candidates)
    products = int((1 + rounds * left) * sum(sizes))
    if mechanism.strata:  # single columns and a tree of pairs within strata, which are measured or predicted
        inner = [schema[name].size for name in mechanism.levels.inner(schema)]
        products += prod(schema[name].size for name in mechanism.strata) * (1 + sum(inner)) * sum(sizes)
    steps = rounds * mechanism.round_steps + mechanism.engine.steps
    seconds = rounds * (candidates * _Seconds.SET / 4 + counted * _Seconds.CELL * 10)
    seconds += steps * (_Seconds.STEP + products * mechanism.engine.components * _Seconds.PRODUCT)
    arrays = counted + 4 * products + 4 * mechanism.engine.components * sum(sizes)
    return candidates * CANDIDATE_BYTES + arrays * CELL_BYTES, candidates, 0, seconds


def _widest_tree_cells(sizes: Sequence[int]) -> int:
    """Count the cells of the largest spanning tree, in which every column is paired with the widest column."""
    widest = max(sizes)
    return widest * (sum(sizes) - widest)


def _symmetric(sizes: Sequence[int], degree: int) -> int:
    """Count the cells of all marginals of `degree` columns: the elementary symmetric polynomial of the column sizes."""
    sums = [1] + [0] * degree
    for each in sizes:
        for n in range(degree, 0, -1):
            sums[n] += sums[n - 1] * each
    return sums[degree]
