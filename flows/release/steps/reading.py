"""Rows are read, coded, held out and cut into strata: the only step that reads them where they are from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns.cells import numbers
from equistrata.data.snapshot import Snapshot
from equistrata.data.sources import ahead
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.bounding import Bounding, share_of_units
from equistrata.data.units.hashes import contents, text_hashes, unit_ids
from equistrata.data.vocabulary import Vocabulary, encode_open
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import streams
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import HELD_OUT, SNAPSHOT, Workspace
from equistrata.flows.run.workspace import UNIT_SIZES as UNIT_SIZES_FILE

Mask = npt.NDArray[np.bool_]
Outcome = tuple[Floats, Mask]  # values, and which cells have none


@scrubbed
def partition(plan: Plan, work: Workspace) -> None:
    """Read the rows, code them, hold some out if asked, and keep each stratum's rows and outcomes.

    Cells of open columns get codes of a vocabulary, which is kept too (`equistrata.flows.release.measuring.finding`).

    A batch at a time, so memory does not grow with the rows. Of each unit, at most `at_most` rows are kept
    (`equistrata.data.units.bounding`). What becomes of a row depends on the rows of its unit alone (and on a coin of
    the unit's own, if rows are held out), so neighbouring tables stay neighbours. The snapshot covers all rows.
    """
    raw, snapshot = plan.raw, Snapshot(plan.raw)
    known = {name: Vocabulary() for name in raw.open}
    for name in known:
        snapshot.extend(name, ["\0unwritable", "\0missing"])  # no text that is kept

    read = _by_row if plan.unit.column is None else _by_unit
    for table, held_out, outcomes in read(plan, work, _coded(plan, known, snapshot)):
        kept = ~held_out
        if plan.held_out:
            work.append(work.root / HELD_OUT, table.take(held_out).codes)
            table = table.take(kept)
        strata, fitted = (replace(each, schema=table.schema) if known else each for each in (plan.strata, plan.fitted))
        for position, part in enumerate(fitted.partition(table).values()):
            work.append(work.stratum(position), part.codes)
        if plan.means is None:
            continue
        index = strata.index(table)
        for column, (values, absent) in zip(plan.means.columns, outcomes, strict=True):
            values, present = values[kept], ~absent[kept]
            for position in range(len(plan.strata.keys)):
                work.append(work.outcome(column.name, position), values[present & (index == position)])
    work.save_json(work.root / SNAPSHOT, snapshot.digests())
    for name, each in known.items():
        work.save_json(work.vocabulary(name), each.texts)


class _Batch(NamedTuple):
    frame: pd.DataFrame  # raw
    table: CodedTable
    outcomes: list[Outcome]  # of the columns that have means


_Kept = tuple[CodedTable, Mask, list[Outcome]]  # the second says which rows are held out


def _coded(plan: Plan, known: Mapping[str, Vocabulary], snapshot: Snapshot) -> Iterator[_Batch]:
    """All rows, a batch at a time; vocabularies and snapshot grow."""
    for frame in ahead(plan.source.batches(plan.columns)):
        before = {name: len(each.texts) for name, each in known.items()}
        table = encode_open(frame, plan.raw, known)
        for name, each in known.items():
            snapshot.extend(name, each.texts[before[name] :])
        snapshot.add(table)
        yield _Batch(frame, table, [numbers(frame[c.name], c) for c in plan.means.columns] if plan.means else [])


def _by_row(plan: Plan, work: Workspace, batches: Iterator[_Batch]) -> Iterator[_Kept]:
    """All rows, each of them a unit."""
    coins = work.coins(streams.generator(plan, streams.HOLDING_OUT)) if plan.held_out else None
    for _, table, outcomes in batches:
        held_out = np.zeros(len(table), dtype=bool) if coins is None else coins.random(len(table)) < plan.held_out
        yield table, held_out, outcomes


def _by_unit(plan: Plan, work: Workspace, batches: Iterator[_Batch]) -> Iterator[_Kept]:
    """The rows of each unit that are used, in other batches; whole units are held out."""
    name, key, schema = str(plan.unit.column), work.unit_key(streams.generator(plan, streams.UNIT_KEY)), plan.schema
    bounding, closed = (
        Bounding(work.root, plan.unit, key),
        [n for n in plan.raw.names if n not in plan.raw.open],
    )
    for frame, table, outcomes in ahead(batches):
        schema = table.schema  # the last one has every text of open columns
        values = [array for both in outcomes for array in both]
        # The code of a text follows from the rows before it, so of open columns the texts themselves count.
        texts = [text_hashes(frame[each], key) for each in plan.raw.open]
        ids, content = unit_ids(frame[name], name, key), contents([*map(table.column, closed), *texts, *values], key)
        bounding.add(ids, content, [table.codes, share_of_units(ids, plan.held_out, key), *values])
    for used, codes, held_out, *arrays in ahead(bounding.bounded()):
        table = CodedTable(codes, schema)
        if plan.modelled is not plan.schema:
            sizes = (used - 1)[:, None].astype(code_dtype(plan.modelled))
            table = CodedTable(np.concatenate([codes.astype(sizes.dtype), sizes], axis=1), plan.modelled)
        yield table, held_out, list(zip(arrays[::2], arrays[1::2], strict=True))
    if plan.price.sizes:
        work.save_json(work.root / UNIT_SIZES_FILE, bounding.sizes.tolist())
