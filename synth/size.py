"""How large a fit will be: cells, memory and time, from settings and the schema alone, before any row is looked at or paid for.

What cannot be is refused, for a mechanism that fails half-way has spent its budget. Times are of one processor of 2026, fitted to the
fits in docs/performance.md. They are an upper end: how long choices and estimation go on is decided by noisy numbers, and where noise
leaves little to choose or to fit, a tenth of what is said may do.

>>> from equistrata.data.schema import Column
>>> from equistrata.synth.registry import mechanism
>>> columns = tuple(Column(f"c{n}", values=(1, 2, 3, 4)) for n in range(40))
>>> strata = Strata.over(Schema("wide", columns), ["c0"])
>>> found = size(mechanism("mst"), strata)
>>> found.candidates, found.cells, found.fits
(741, 608, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.synth.mechanisms.aim import AIM, ROUNDS
from equistrata.synth.mechanisms.base import ForeignMechanism, Mechanism
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import model_cliques
from equistrata.synth.models.junction_tree import CELL_BYTES, Clique, cells_in, tree_cells
from equistrata.synth.models.possible import Possible
from equistrata.synth.strata.shared import serving_all

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
    MODEL = 2e-5  # estimating, for each cell of the model
    ROUND = 2e-6  # the same in a round of AIM
    STEP = 1e-3  # of training GEM
    PRODUCT = 6e-10  # the same, for each component and product
    LEAN = 4e-9  # of leaning, for each marginal and cube of the strata
    LEAN_TABLE = 2e-3  # of leaning, for each marginal


@dataclass(frozen=True)
class Size:
    """How large a release's fits are.

    Attributes:
        fits: how many there are: one for each stratum, or one if one choice serves all strata.
        candidates: the sets of columns that one fit may choose from.
        cells: of the largest model that one fit may make.
        memory: bytes that one fit takes at most.
        together: bytes that strata take while they lean on each other.
        fitting: seconds of one processor for all fits, which can be shared among workers.
        leaning: seconds of what cannot.
    """

    fits: int
    candidates: int
    cells: int
    memory: int
    together: int
    fitting: float
    leaning: float

    def seconds(self, workers: int) -> float:
        """How long that takes with so many workers."""
        return self.fitting / max(min(workers, self.fits), 1) + self.leaning


def size(mechanism: Mechanism, strata: Strata, shrinkage: bool = True) -> Size:
    """How large the fits of a mechanism are; with `levels` it takes all strata at once (`equistrata.synth.strata.shared.share`).

    Raises:
        InputError: a fit may fail half-way, because a model or table that it may need is larger than it makes them.
    """
    count = len(strata.keys)
    shared = serving_all(mechanism)
    if shared is not None:
        memory, candidates, cells, fitting = _all_strata(shared, strata)
        fits, told = 1, 4 * len(strata.schema.names)
    else:
        fits, told = count, 2 * len(strata.schema.names)
        found = [_one_stratum(mechanism, rest) for rest in _rests(strata)]
        memory = max(memory for memory, _, _, _ in found)
        candidates = max(candidates for _, candidates, _, _ in found)
        cells = max(cells for _, _, cells, _ in found)
        fitting = max(seconds for _, _, _, seconds in found)
        fitting = count * (fitting + _Seconds.FIT)
    leaning, together = 0.0, 0
    if shrinkage and count >= 3 and not isinstance(mechanism, ForeignMechanism):
        leaning = told * (_Seconds.LEAN_TABLE + _Seconds.LEAN * count**3)
        together = (8 + len(strata.columns)) * CELL_BYTES * count**2
    return Size(fits, candidates, cells, memory, together, fitting, leaning)


_Found = tuple[int, int, int, float]  # bytes, candidates, cells, seconds


def _rests(strata: Strata) -> list[Schema]:
    """The schemas of the other columns that strata have: more than one where structural zeros differ among them."""
    if not strata.schema.impossible:
        return [strata.rest(strata.keys[0])]
    return list({rest.impossible: rest for rest in map(strata.rest, strata.keys)}.values())


def _one_stratum(mechanism: Mechanism, schema: Schema) -> _Found:
    if isinstance(mechanism, MST):
        return _mst(mechanism, schema)
    if isinstance(mechanism, AIM):
        return _aim(mechanism, schema)
    if isinstance(mechanism, GEM):
        return _gem(mechanism, schema)
    cells = prod(schema.sizes)
    most = getattr(mechanism, "most_cells", None)
    if most is not None and cells > most:
        raise InputError(
            f"{mechanism.name} keeps every combination of codes, and {_few(schema.names)} have {_amount(cells)} in a stratum, more "
            f"than {most:,}; release fewer columns, or choose another synthesizer"
        )
    return 0, 0, 0, 0.0


def _mst(mechanism: MST, schema: Schema) -> _Found:
    """One stratum: the tree that it may choose with the most cells, with the cliques that structural zeros make."""
    sizes = schema.sizes
    tree = _widest_tree(sizes)
    cells = tree_cells(sizes, [*model_cliques(schema, []), *tree])
    most = getattr(mechanism.engine, "most_cells", cells)
    if cells > most:
        a, b = max(tree, key=lambda pair: sizes[pair[0]] * sizes[pair[1]])
        raise InputError(
            f"a model of pairs of columns may need {_amount(cells)} cells, more than {most:,}; the largest pair is "
            f"{schema.names[a]} × {schema.names[b]} with {sizes[a] * sizes[b]:,}: use fewer columns or coarser values or bins"
        )
    pairs, scored = comb(len(sizes), 2), _symmetric(sizes, 2)
    widest = max((prod(sizes[v] for v in pair) for pair in tree), default=1)
    seconds = pairs * _Seconds.SET + scored * _Seconds.CELL + len(sizes) * _Seconds.TABLE + cells * _Seconds.MODEL
    return cells * FITTING_BYTES + widest * 6 * CELL_BYTES, pairs, cells, seconds


def _aim(mechanism: AIM, schema: Schema) -> _Found:
    sizes, most = schema.sizes, int(cells_in(mechanism.max_model_size))
    bare = tree_cells(sizes, model_cliques(schema, []))
    if bare > most:
        raise InputError(
            f"a model of {_few(schema.names)} needs {bare:,} cells before anything is measured together, more than AIM's {most:,}; "
            "use fewer columns, coarser values or bins, or fewer impossible combinations that tie columns together"
        )
    candidates = sum(comb(len(sizes), n) for n in range(1, mechanism.degree + 1))
    counted = sum(min(_symmetric(sizes, n), comb(len(sizes), n) * most) for n in range(1, mechanism.degree + 1))
    cells = min(most, prod(sizes))
    rounds = (mechanism.rounds or ROUNDS) * len(sizes) / 4  # prices are raised where little is learned: fewer are run
    seconds = _rounds(rounds, candidates, counted, len(sizes), cells) + cells * _Seconds.MODEL
    return cells * FITTING_BYTES + candidates * CANDIDATE_BYTES + counted * CELL_BYTES, candidates, cells, seconds


def _rounds(rounds: float, candidates: int, counted: int, columns: int, cells: int) -> float:
    """AIM's rounds: at first few candidates are small enough, and the model is small."""
    look = candidates * (_Seconds.SET + columns * _Seconds.TREE) + counted * _Seconds.CELL
    return rounds * (look / 2 + cells / 8 * _Seconds.ROUND)


def _gem(mechanism: GEM, schema: Schema) -> _Found:
    sizes = schema.sizes
    Possible.of(schema)  # refuses what it could not list
    degrees = range(2, mechanism.degree + 1)
    candidates = sum(comb(len(sizes), n) for n in degrees)
    if candidates <= _FEW:
        sets = [each for n in degrees for each in combinations(sizes, n) if prod(each) <= mechanism.most_cells]
        candidates, counted = len(sets), sum(map(prod, sets))
        left = sum(prod(each) // max(each) for each in sets) / max(candidates, 1)
    else:
        counted = sum(min(_symmetric(sizes, n), comb(len(sizes), n) * mechanism.most_cells) for n in degrees)
        left = counted / candidates / max(sizes)
    # A step multiplies what is left of each measured marginal without its widest column by all columns (`equistrata.synth.models.mixture_loss`).
    rounds = min(mechanism.rounds, candidates)
    products = int((1 + rounds * left) * sum(sizes))
    steps = rounds * mechanism.round_steps + mechanism.steps
    seconds = rounds * (candidates * _Seconds.SET / 4 + counted * _Seconds.CELL * 10)
    seconds += steps * (_Seconds.STEP + products * mechanism.components * _Seconds.PRODUCT)
    memory = (
        candidates * CANDIDATE_BYTES + (counted + 4 * products + 4 * mechanism.components * sum(sizes)) * CELL_BYTES
    )
    return memory, candidates, 0, seconds


def _all_strata(mechanism: AIM | MST, strata: Strata) -> _Found:
    """One choice for all strata; what `equistrata.synth.strata.shared` lets through fits into its largest model."""
    schema, levels = strata.schema, mechanism.levels
    assert levels is not None
    names = levels.inner(schema)
    sizes = [schema[name].size for name in names]
    every, most = prod(strata.sizes), int(cells_in(mechanism.max_model_size))
    cells = min(most, prod(schema.sizes))
    offered = len(levels.offered)
    if isinstance(mechanism, MST):
        pairs = comb(len(sizes), 2)
        scored = _symmetric(sizes, 2) * every
        trees = (
            mechanism.trees * len(sizes) * pairs / 2 * len(sizes) * _Seconds.TREE * min(1.0, prod(schema.sizes) / most)
        )
        seconds = pairs * offered * _Seconds.SET + scored * _Seconds.CELL * 2 + trees
        seconds += 3 * len(sizes) * _Seconds.TABLE + cells * _Seconds.MODEL
        return cells * FITTING_BYTES, pairs * offered, cells, seconds
    candidates = sum(comb(len(schema.names), n) for n in range(1, mechanism.degree + 1))
    candidates += sum(comb(len(sizes), n) for n in range(1, mechanism.degree + 1))
    counted = sum(
        min(_symmetric(schema.sizes, n) + every * _symmetric(sizes, n), candidates * most)
        for n in range(1, mechanism.degree + 1)
    )
    rounds = (mechanism.rounds or ROUNDS) * len(schema.names) / 6
    seconds = _rounds(rounds, candidates, counted, len(schema.names), cells) + cells * _Seconds.MODEL
    memory = cells * FITTING_BYTES + candidates * CANDIDATE_BYTES + counted * CELL_BYTES
    return memory, candidates, cells, seconds


def _widest_tree(sizes: Sequence[int]) -> list[Clique]:
    """The spanning tree of columns whose pairs have the most cells: every column with the widest."""
    widest = max(range(len(sizes)), key=lambda v: sizes[v])
    return [(min(v, widest), max(v, widest)) for v in range(len(sizes)) if v != widest]


def _symmetric(sizes: Sequence[int], degree: int) -> int:
    """The cells of all marginals of so many columns together: the elementary symmetric polynomial of the sizes."""
    sums = [1] + [0] * degree
    for each in sizes:
        for n in range(degree, 0, -1):
            sums[n] += sums[n - 1] * each
    return sums[degree]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more columns"


def _amount(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"more than 10^{len(str(count)) - 1}"
