"""The groups of a column's bins by which a question was measured, and their counts: see `grouped`.

Groups are those that other columns were measured with: of all rows together, or of each stratum where these were
measured one by one. There a stratum may lack a pair: it has what the model says, with the relation of other strata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from equistrata.analysis.axes import holds
from equistrata.analysis.bases.grounds import Grounds
from equistrata.analysis.bases.implied import IN_COMMON
from equistrata.analysis.questions import MOST_SUMS, Question, widened
from equistrata.analysis.uncertainty.apart import MOST_NUMBERS, StratumCounts, stratum_groups
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.analysis.uncertainty.misfit import BELIEF, as_related, misfit_variance
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, cells_where
from equistrata.synth.strata.model import StratifiedModel

FEWEST_MEASURED = 0.5  # of an answer's rows: with less, it is the model's
ELSEWHERE, BY_OTHERS = 0.02, 0.15  # τ² (docs/experiments/estimates.md)


@dataclass(frozen=True, eq=False)
class Completed:
    """Groups' counts of strata that measured them, and of others what the model says, as if measured with its errors.

    Attributes:
        known: of the strata that measured them.
        rest: the groups of the others.
        modelled, covariance: of these, by the model.
    """

    known: StratumCounts
    rest: npt.NDArray[np.intp]
    modelled: Floats
    covariance: Floats

    def counts(self, values: Sequence[Floats]) -> Floats:
        """See `LeastSquares.counts`."""
        found = self.known.counts(values)
        found[self.rest] = self.modelled
        return found

    def has(self, functionals: Floats) -> npt.NDArray[np.bool_]:
        """See `LeastSquares.has`."""
        measured = functionals.copy()
        measured[:, self.rest] = 0.0
        return self.known.has(measured)

    def spread(self, functionals: Floats) -> Floats:
        """See `LeastSquares.spread`."""
        found = self.known.spread(functionals)
        found[:, self.rest] = functionals[:, self.rest] @ self.covariance
        return found


@dataclass(frozen=True, eq=False)
class Grouping:
    """A question about cells, of which the sums over groups were measured.

    Attributes:
        columns: one axis of the table of cells each.
        label: the group of each cell, shape (cells,).
        bins: the group of bins that each group of cells is of, shape (groups,): f is a part of its rows.
        every: all rows in each group of bins.
        known: the groups' counts.
        values: of the measurements that `known` was solved by.
        top, bottom, squares, assumed: as in the question, over cells.
        unlike: τ².
    """

    columns: Columns
    label: npt.NDArray[np.intp]
    bins: npt.NDArray[np.intp]
    every: Floats
    known: LeastSquares | StratumCounts | Completed
    values: list[Floats]
    top: Floats
    bottom: Floats
    squares: Floats
    assumed: Floats | None
    unlike: float

    def sums(self, part: Floats, weights: Floats) -> Floats:
        """Of cells times weights, over each group, shape (n, groups)."""
        return np.array([np.bincount(self.label, each * weights, len(self.bins)) for each in part])

    def rows(self, counts: Floats) -> Floats:
        """Cells' counts over each group."""
        return np.bincount(self.label, counts, len(self.bins)).astype(np.float64)

    def shares(self, counts: Floats) -> Floats:
        """The part of its group that each cell is."""
        counts = np.maximum(counts, 1e-9)
        return np.asarray(counts / self.rows(counts)[self.label])


def grouping(grounds: Grounds, asked: Question) -> Grouping | None:
    """Of a question about one column of fine bins with others that have none, or where each stratum measured it."""
    schema, columns = grounds.evidence.strata.schema, asked.columns
    fine = [name for name in columns if schema[name].fine]
    if asked.merged or asked.bottom is None or len(fine) != 1 or (len(columns) < 2 and not grounds.apart):
        return None
    return (_by_stratum if grounds.apart else _together)(grounds, asked, fine[0])


def _together(grounds: Grounds, asked: Question, name: str) -> Grouping | None:
    """By the finest groups of the column that were measured with the rest."""
    schema, columns = grounds.evidence.strata.schema, asked.columns
    finest: list[tuple[int, ...]] = []
    for each in grounds.evidence.published:
        if holds(each, columns, schema) and set(columns) <= set(each.columns):
            kinds = dict(zip(each.columns, each.groups, strict=True))
            own = kinds.pop(name)
            if own is not None and all(kinds[other] is None for other in columns if other != name):
                finest.append(own)
    if not finest:
        return None
    groups = max(finest, key=max)
    axis, merged = columns.index(name), ((name, groups),)
    known = grounds.table(columns, merged)
    if known is None:
        return None
    index = np.indices([schema[each].size for each in columns])
    index[axis] = np.asarray(groups)[index[axis]]
    label = np.ravel_multi_index(tuple(index), known.shape).ravel()
    bins = np.indices(known.shape)[axis].ravel()
    model = grounds.narrow(columns).evidence.model
    every = np.bincount(groups, np.maximum(model.marginal((name,)), 0.0)).astype(np.float64)
    assert asked.bottom is not None
    return Grouping(
        columns, label, bins, every, known, grounds.values_in(merged),
        asked.top, asked.bottom, asked.squares, asked.assumed, _unlike(grounds, columns, name),
    )  # fmt: skip


def _by_stratum(grounds: Grounds, asked: Question, name: str) -> Grouping | None:
    """By each stratum's own groups of the column."""
    strata, columns = grounds.evidence.strata, grounds.by_strata(asked.columns)
    shape = tuple(strata.schema[each].size for each in columns)
    over_all = np.maximum(grounds.narrow(asked.columns).evidence.model.marginal((name,)), 0.0)
    groups = stratum_groups(strata, grounds.evidence.all, name, over_all)
    known = grounds.of_groups(columns, name, groups)
    if known is None or len(asked.top) * prod(shape) > MOST_SUMS:
        return None
    places, label = np.arange(prod(shape)).reshape(shape), np.zeros(prod(shape), dtype=np.intp)
    bins, every = list[npt.NDArray[np.intp]](), list[float]()
    inner = tuple(each for each in columns if each not in strata.columns)
    for part, found in zip(known.parts, groups.values(), strict=True):
        index = np.indices([strata.schema[each].size for each in inner])
        axis = inner.index(name)
        index[axis] = found[index[axis]]
        sizes = [int(each.max()) + 1 for each in index]
        label[places[cells_where(columns, part.codes)].ravel()] = (
            part.cells[0] + np.ravel_multi_index(tuple(index), sizes).ravel()
        )
        bins.append(len(every) + np.indices(sizes)[axis].ravel())
        every.extend(np.bincount(found, over_all).tolist())
    assert asked.bottom is not None
    top, bottom, squares = (
        widened(each, asked.columns, columns, shape) for each in (asked.top, asked.bottom, asked.squares)
    )
    assumed = None if asked.assumed is None else widened(asked.assumed, asked.columns, columns, shape)
    return Grouping(
        columns, label, np.concatenate(bins), np.array(every), known, grounds.values,
        top, bottom, squares, assumed, _unlike(grounds, columns, name),
    )  # fmt: skip


def _unlike(grounds: Grounds, columns: Columns, name: str) -> float:
    """τ² of rows by these columns."""
    return ELSEWHERE if {*columns} <= {name, *grounds.evidence.strata.columns} else BY_OTHERS


def completed(
    grounds: Grounds, found: Grouping, known: StratumCounts, sums: Floats, rows: Floats
) -> StratumCounts | Completed | None:
    """With the model's counts, and what replicates and the misfit say of them, of strata that did not measure them all.

    None if no stratum did, or for no answer FEWEST_MEASURED of its rows: replicates would be made for nothing. What the
    model is off by is in part the same in all strata, as in `implied`.

    Args:
        sums: over groups, that are asked for, what is above and then what is below, shape (2n, groups).
        rows: of each group, by the model.
    """
    lacking = []
    for part in known.parts:
        asked = sums[:, part.cells]
        if asked.any() and not (part.known is not None and part.known.has(asked).all()):
            lacking.append(part)
    if not lacking:
        return known
    rest = np.concatenate([part.cells for part in lacking])
    if len(lacking) == len(known.parts) or len(rest) ** 2 > MOST_NUMBERS:
        return None
    if unmeasured(sums[len(sums) // 2 :], rows, rest).all():
        return None
    models = (model for model, _ in grounds.replicated())
    moved = np.array([found.rows(grounds.over(model, found.columns).ravel())[rest] for model in models]) - rows[rest]
    sizes = [float(rows[part.cells].sum()) for part in lacking]
    variances = zip(lacking, sizes, strict=True)
    off = np.concatenate([misfit_variance(rows[part.cells], BELIEF * size) for part, size in variances])
    covariance = moved.T @ moved / len(moved) + (1 - IN_COMMON) * np.diag(off)
    cell = np.concatenate([np.arange(len(part.cells)) for part in lacking])
    covariance += IN_COMMON * np.sqrt(np.outer(off, off)) * (cell[:, None] == cell)
    modelled = _as_elsewhere(grounds, found, [part.codes for part in lacking], rows)[rest]
    gap = (modelled - rows[rest]) / 2
    covariance += np.outer(gap, gap)
    left = replace(known, parts=tuple(part for part in known.parts if all(part is not each for each in lacking)))
    return Completed(left, rest, modelled, covariance)


def unmeasured(bottom: Floats, rows: Floats, rest: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Of which answers less than FEWEST_MEASURED of the rows are outside `rest`, shape (n,): they are the model's."""
    return np.asarray(bottom[:, rest] @ rows[rest] > (1 - FEWEST_MEASURED) * (bottom @ rows))


def _as_elsewhere(grounds: Grounds, found: Grouping, lacking: Sequence[dict[str, int]], rows: Floats) -> Floats:
    """Groups' rows by the model, in strata that did not measure two columns together with the relation of the others.

    There the model has them independent (`relation_elsewhere`).
    """
    strata = grounds.evidence.strata
    inner = tuple(name for name in found.columns if name not in strata.columns)
    relation = grounds.elsewhere(inner) if len(inner) == 2 else None
    if relation is None:
        return rows
    table = np.maximum(grounds.over(grounds.evidence.model, found.columns), 0.0)
    for codes in lacking:
        cells = cells_where(found.columns, codes)
        table[cells] = as_related(np.maximum(table[cells], 1e-9), relation)
    return found.rows(table.ravel())


def located(grounds: Grounds, model: StratifiedModel, found: Grouping) -> Floats:
    """How a model has rows in the cells of each group, shape (cells,): as all rows, or as the stratum by itself."""
    if grounds.apart:
        return model.marginal(found.columns).ravel()
    name = fine_name(grounds, found)
    sizes = [grounds.evidence.strata.schema[each].size if each == name else 1 for each in found.columns]
    shape = [grounds.evidence.strata.schema[each].size for each in found.columns]
    return np.broadcast_to(model.marginal((name,)).reshape(sizes), shape).ravel()


def fine_name(grounds: Grounds, found: Grouping) -> str:
    """The column with fine bins."""
    (name,) = (name for name in found.columns if grounds.evidence.strata.schema[name].fine)
    return name
