"""The steps of a panel: link two months' rows, measure how people change, and give this month's rows their ids.

The first is part of `steps.reading`, and the second is taken after the charge. The third is part of `steps.drawing`
and post-processing of published numbers and rows. See docs/proofs/panel.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from equistrata.arrays import Counts, Floats
from equistrata.data.sources import ahead, read_frame
from equistrata.data.table import CodedTable
from equistrata.data.units.linking import BEFORE, NOW, Linking
from equistrata.errors import InputError
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.price import TRANSITIONS
from equistrata.flows.release.series import FormerRelease
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement
from equistrata.synth.series.following import TwoMonths
from equistrata.synth.series.identities import NOBODY, Places
from equistrata.synth.series.keeping import pair_noise, tied
from equistrata.synth.series.panel import IDS, PANEL, Panel, read_ids, write_ids
from equistrata.synth.series.state import State, alike
from equistrata.synth.series.transitions import THEN, measure_transitions
from equistrata.synth.strata.model import SAMPLE_BATCH

LINKED = "linked.json"  # exact joint counts, in the private working folder


class Links:
    """The links of the rows that a release reads, as they come; does nothing without a panel."""

    def __init__(self, plan: Plan, work: Workspace) -> None:
        self._plan, self._work, self._panel = plan, work, plan.panel
        self._linking = None if self._panel is None else Linking(work.root, self._panel.id, len(self._panel.measured))

    def add(self, frame: pd.DataFrame, table: CodedTable) -> None:
        """Take in rows of this month, raw and coded."""
        if self._linking is not None and self._panel is not None:
            places = [table.schema.index(name) for name in self._panel.measured]
            self._linking.add(NOW, frame[self._panel.id], table.codes[:, places])

    def close(self) -> None:
        """Read the month before's rows, and keep exact joint counts. Raises InputError where ids repeat."""
        if self._linking is None or self._panel is None:
            return
        sizes = [self._plan.schema[name].size for name in self._panel.measured]
        if self._panel.source is not None:
            raw = self._plan.raw.select(self._panel.measured)
            try:
                for frame in ahead(self._panel.source.batches(self._panel.columns)):
                    self._linking.add(BEFORE, frame[self._panel.id], CodedTable.encode(frame, raw).codes)
            except InputError as error:
                raise InputError(f"the month before's table (panel input): {error}") from None
        self._work.save_json(self._work.root / LINKED, [each.tolist() for each in self._linking.joint(sizes)])


@scrubbed
def measure_links(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Measure joint counts of two months, and save them; what was saved is not bought again.

    Cost: the whole of `budget`, by the relation of the plan's unit, of which a person is one. See docs/proofs/panel.md.
    """
    assert plan.panel is not None
    if work.found(TRANSITIONS).exists():
        return
    work.count_start(TRANSITIONS)
    found = measure_transitions(plan.panel.measured, partial(_linked, work), budget.remaining, budget, noise)
    work.keep_found(TRANSITIONS, [{"sigma": each.sigma, "counts": each.values.tolist()} for each in found])


def _linked(work: Workspace, place: int) -> Counts:
    return np.array(json.loads((work.root / LINKED).read_text("utf-8"))[place], dtype=np.int64)


def with_ids(
    plan: Plan,
    work: Workspace,
    drawn: Iterator[CodedTable],
    total: float,
    rng: np.random.Generator,
    rounded: Mapping[str, Floats],
) -> Iterator[tuple[CodedTable, pd.DataFrame]]:
    """The drawn rows of a panel, coded and as released, once `panel.json` and `panel.csv` are written.

    Rows are as they were drawn, but exchange values so that people change less (`equistrata.synth.series.keeping`), and
    a number that is drawn within its bin is that of the month before where somebody stays in the bin, which is as good
    a draw: people do not move about within a bin. Post-processing, no cost.

    Args:
        rounded: as `CodedTable.decode` takes it.
    """
    assert plan.panel is not None
    assert plan.month is not None
    table = CodedTable.concatenate(list(drawn))
    former, kept = plan.panel.former, None
    if former is None or former.panel is None:
        panel = Panel.beginning(plan.month.number, len(table), total)
        ids = panel.ids(np.full(len(table), NOBODY, dtype=np.intp), [])
    else:
        before = Before.read(former)
        panel, partner, table = _followed(plan, work, before, former.panel, table, total)
        ids, kept = panel.ids(partner, before.ids), (before, partner)
    panel.save(work.staging / PANEL)
    write_ids(ids, work.staging / IDS)
    for start in range(0, max(len(table), 1), SAMPLE_BATCH):
        part = table.take(slice(start, start + SAMPLE_BATCH))
        frame = part.decode(rng, rounded)
        yield part, frame if kept is None else kept[0].keeping(frame, part, kept[1][start : start + SAMPLE_BATCH])


@dataclass(frozen=True, eq=False)
class Before:
    """The rows that were released in the month before: as released, coded, and the ids of their people."""

    release: FormerRelease
    frame: pd.DataFrame
    table: CodedTable
    ids: Sequence[str]

    @classmethod
    def read(cls, release: FormerRelease) -> Before:
        """Read what a release's folder holds."""
        frame = read_frame(release.folder / "synthetic.parquet")
        coded = CodedTable.encode(frame, release.schema.coded())
        return cls(release, frame, CodedTable(coded.codes, release.schema), read_ids(release.folder / IDS))

    def keeping(self, frame: pd.DataFrame, table: CodedTable, partner: Places) -> pd.DataFrame:
        """Rows with the numbers of the month before where somebody stays in a bin."""
        for column in table.schema.columns:
            if not column.numeric or column.name not in self.frame or self.release.schema[column.name] != column:
                continue
            then, now = self.table.column(column.name)[partner], table.column(column.name)
            old = self.frame[column.name].iloc[partner].set_axis(frame.index)
            cells = frame[column.name].where((partner == NOBODY) | (then != now), old)
            frame[column.name] = cells.astype(frame[column.name].dtype)
        return frame


def _measured(plan: Plan, work: Workspace) -> list[Measurement]:
    """What was measured of transitions in this month."""
    if not plan.price.transitions or plan.panel is None:
        return []
    found = json.loads(work.found(TRANSITIONS).read_text("utf-8"))
    return [
        Measurement((THEN.format(name), name), np.array(each["counts"], dtype=np.float64), each["sigma"])
        for name, each in zip(plan.panel.measured, found, strict=True)
    ]


def _followed(
    plan: Plan, work: Workspace, before: Before, panel: Panel, table: CodedTable, total: float
) -> tuple[Panel, Places, CodedTable]:
    """The panel of a month after the first, where the person of each of its rows was in the month before, and rows."""
    assert plan.month is not None
    assert plan.panel is not None
    schema, former = plan.schema, before.release
    names = alike(schema, before.table.schema)
    other = [name for name in schema.names if name not in names]
    every = (*names, *other)
    sizes = [schema[name].size for name in every]
    known = State.load(work.state).known if work.state.exists() else ()
    months = TwoMonths(
        names,
        sizes[: len(names)],
        before.table.select(names).codes,
        table.select(names).codes,
        plan.panel.named,
        plan.strata.columns,
        table.codes[:, [schema.index(name) for name in other]],
        sizes[len(names) :],
        pair_noise(known, every, sizes),
        tied(schema, every),
    )
    said = {"month": former.month, "release_id": former.release, "panel": former.panel_digest}
    rng, measured = public_rng(plan.config.seed), _measured(plan, work)
    found, partner, rows = months.followed(plan.month.number, panel, said, measured, total, rng)
    order = [every.index(name) for name in schema.names]
    return found, partner, CodedTable(np.asfortranarray(rows[:, order].astype(table.codes.dtype)), schema)


def public_rng(seed: int | None) -> np.random.Generator:
    """Randomness for ids, which protects nothing."""
    return np.random.default_rng(None if seed is None else [seed, 6])
