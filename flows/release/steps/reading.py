"""The step that reads the rows, codes them and partitions them into strata.

Some of the rows may be held out. No other step reads the rows from their source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns.cells import bounded_numbers, numbers
from equistrata.data.snapshot import Snapshot
from equistrata.data.sources import ahead
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.bounding import UsedRows, share_of_units
from equistrata.data.units.hashes import unit_ids
from equistrata.data.vocabulary import Vocabulary, encode_open
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import streams
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import HELD_OUT, SNAPSHOT, Workspace
from equistrata.flows.run.workspace import UNIT_SIZES as UNIT_SIZES_FILE

Mask = npt.NDArray[np.bool_]
Outcome = tuple[Floats, Mask]  # the values, and a mask of the cells without a value
# The coded rows, a mask of the rows that are held out, the columns with means, and the survey weights, if any.
_Coded = tuple[CodedTable, Mask, list[Outcome], Floats | None]


@scrub_errors
def partition(plan: Plan, work: Workspace) -> None:
    """Read and code the rows, hold some of them out if requested, and store the rows and the outcomes of each stratum.

    The cells of open columns are coded by a vocabulary, which is stored as well (see
    `equistrata.flows.release.measuring.finding`).

    The rows are read in batches, so that the memory does not depend on the number of rows. At most `at_most` rows of
    each unit are used, and no other step reads the remaining rows (see `equistrata.data.units.bounding`). The result
    for a row depends only on the rows of the same unit, and on a coin of this unit if rows are held out. Neighbouring
    tables therefore remain neighbours.
    """
    raw, snapshot = plan.raw, Snapshot(plan.raw)
    known = {name: Vocabulary() for name in raw.open}
    for name in known:
        snapshot.extend(name, ["\0unwritable", "\0missing"])  # these texts are never kept

    for table, held_out, outcomes, weights in ahead(_coded(plan, work, known, snapshot)):
        kept = ~held_out
        if plan.held_out:
            work.append(work.root / HELD_OUT, table.take(held_out).codes)
            table = table.take(kept)
        strata, fitted = (replace(each, schema=table.schema) if known else each for each in (plan.strata, plan.fitted))
        for position, part in enumerate(fitted.partition(table).values()):
            work.append(work.stratum(position), part.codes)
        if weights is not None:
            fitted_index, weights = fitted.index(table), weights[kept]
            for position in range(len(plan.fitted.keys)):
                work.append(work.weights(position), weights[fitted_index == position])
        if plan.means is None:
            continue
        index = strata.index(table)
        for column, (values, absent) in zip(plan.means.columns, outcomes, strict=True):
            values = np.where(absent, np.nan, values)[kept]
            for position in range(len(plan.strata.keys)):
                work.append(work.outcome(column.name, position), values[index == position])
    work.save_json(work.root / SNAPSHOT, snapshot.digests())
    for name, each in known.items():
        work.save_json(work.vocabulary(name), each.texts)


def _used_rows(plan: Plan, work: Workspace) -> UsedRows:
    """Return the rows from which the release is made. All other rows are ignored."""
    key = b"" if plan.unit.column is None else work.unit_key(streams.generator(plan, streams.UNIT_KEY))
    rows = UsedRows(partial(plan.source.batches, plan.columns), plan.unit, key, work.root)
    if plan.price.sizes:
        work.save_json(work.root / UNIT_SIZES_FILE, rows.sizes.tolist())
    return rows


def _coded(plan: Plan, work: Workspace, known: Mapping[str, Vocabulary], snapshot: Snapshot) -> Iterator[_Coded]:
    """Yield the rows that are used, in batches. The vocabularies and the snapshot are extended."""
    held_out, means = _coins(plan, work), plan.means.columns if plan.means else ()
    weight = None if plan.modelled.survey_weight is None else plan.modelled[plan.modelled.survey_weight]
    for frame, used in ahead(_used_rows(plan, work).batches()):
        before = {name: len(each.texts) for name, each in known.items()}
        table = encode_open(frame, plan.raw, known)
        for name, each in known.items():
            snapshot.extend(name, each.texts[before[name] :])
        snapshot.add(table)
        if plan.modelled.weighed:
            sizes = (used - 1)[:, None].astype(code_dtype(plan.modelled))
            table = CodedTable(np.concatenate([table.codes.astype(sizes.dtype), sizes], axis=1), plan.modelled)
        weights = None if weight is None else bounded_numbers(frame[weight.name], weight)[0]
        yield table, held_out(frame), [numbers(frame[c.name], c) for c in means], weights


def _coins(plan: Plan, work: Workspace) -> Callable[[pd.DataFrame], Mask]:
    """Return a function that selects the held-out rows of a batch, using one coin per unit."""
    name, share = plan.unit.column, plan.held_out
    if not share:
        return lambda frame: np.zeros(len(frame), dtype=bool)
    if name is None:
        coins = work.coins(streams.generator(plan, streams.HOLDING_OUT))
        return lambda frame: coins.random(len(frame)) < share
    key = work.unit_key(streams.generator(plan, streams.UNIT_KEY))
    return lambda frame: share_of_units(unit_ids(frame[name], name, key), share, key)
