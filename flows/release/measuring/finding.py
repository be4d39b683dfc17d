"""The values of open columns: found in the rows by noisy counts, and the rows coded by them.

A release takes these steps after its charge and before its fits. They work on what `steps.reading` has left in the
private working folder: rows coded by a vocabulary of every text. What is kept of that is chosen by noise alone. See
docs/proofs/open-categories.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.data.columns.column import MOST_FOUND, number_in
from equistrata.data.table import CHUNK_ROWS, code_dtype
from equistrata.data.vocabulary import OWN, codes_once_found
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import HELD_OUT, Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource
from equistrata.privacy.thresholds import often


@scrubbed
def find_values(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Find the values of open columns that many rows hold, and save them; what was saved is not bought again.

    Cost: the whole of `budget`, add/remove, which pays for the δ of `plan.openings` as well.
    """
    for place, (part, opening) in enumerate(plan.openings.items()):
        rows = plan.unit.at_most
        share = budget.part(plan.parts[part].per_row(rows), part)
        share.spend(opening.paid.per_row(rows), f"δ of the {part}")
        if work.found(part).exists():
            continue
        work.count_start(part)
        column = plan.raw[opening.column]
        texts = json.loads(work.vocabulary(column.name).read_text("utf-8"))
        # By their texts: the first of equal noisy counts is kept, and by the file's order a row would decide which.
        by_text = sorted(range(len(texts)), key=texts.__getitem__)
        ours = [place for place in by_text if texts[place] not in (column.others, column.missing)]
        counts = partial(_counts_of, plan, work, column.name, ours)
        source = noise.spawn(place)
        kept, threshold = often(counts, opening.rho.per_row(rows), opening.delta, share, source, part, rows)
        found = sorted((texts[ours[each]] for each in kept[:MOST_FOUND]), key=_in_order)
        entry = {"column": column.name, "values": found, "others": column.others, "rho": float(opening.rho)}
        work.keep_found(part, entry | {"rho_of_delta": float(opening.paid), **asdict(threshold)})


def _counts_of(plan: Plan, work: Workspace, name: str, places: Sequence[int]) -> Counts:
    """How many rows hold each of these texts of an open column's vocabulary."""
    size = max(places, default=-1) + 1 + OWN
    counts = np.zeros(size, dtype=np.int64)
    for position, key in enumerate(plan.fitted.keys):
        table = work.load(work.stratum(position))
        codes = table[:, plan.fitted.rest(key).index(name)]
        for start in range(0, len(codes), CHUNK_ROWS):
            chunk = codes[start : start + CHUNK_ROWS]
            counts += np.bincount(chunk[chunk < size], minlength=size)
    return counts[np.array(places, dtype=np.intp) + OWN]


def _in_order(text: str) -> tuple[bool, float, str]:
    number = number_in(text)
    return number is None, number or 0.0, text


def found_values(plan: Plan, work: Workspace) -> list[dict[str, Any]]:
    """What was found of each open column, as on the card."""
    return [json.loads(work.found(part).read_text("utf-8")) for part in plan.openings]


@scrubbed
def recode(plan: Plan, work: Workspace) -> None:
    """Code the rows that this run has read by the values that were found. The plan is the opened one."""
    lookups = {
        name: codes_once_found(json.loads(work.vocabulary(name).read_text("utf-8")), plan.schema[name])
        for name in plan.raw.open
        if work.vocabulary(name).exists()  # else no row was needed
    }
    parts = [(work.stratum(i), plan.fitted.rest(key)) for i, key in enumerate(plan.fitted.keys)]
    for path, schema in [*parts, (work.root / HELD_OUT, plan.modelled)] if lookups else []:
        if not path.exists():
            continue
        rows, recoded = work.load(path), path.with_suffix(".recoded")
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            codes = np.array(rows[start : start + CHUNK_ROWS])
            for name, lookup in lookups.items():
                place = schema.index(name)
                codes[:, place] = lookup[codes[:, place]]
            work.append(recoded, codes.astype(code_dtype(plan.modelled)))
        recoded.replace(path)
