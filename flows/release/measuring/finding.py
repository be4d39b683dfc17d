"""The values of open columns, which are found in the rows by noisy counts and are then used to code the rows.

These steps follow the charge and precede the fits. They use the rows that `steps.reading` has stored in the private
working folder. These rows are coded by a vocabulary that contains every text. The noise alone determines which texts
are kept. See docs/proofs/open-categories.md.
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
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import HELD_OUT, Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource
from equistrata.privacy.thresholds import often


@scrub_errors
def find_values(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Find the frequent values of open columns and save them.

    If the values of a column are already saved, they are not measured again.

    Privacy
    -------
    The cost is the whole `budget` under adding or removing one row, so that a unit pays its parts in `plan.parts`. The
    cost of the δ in `plan.openings` is included.
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
        # Sort the values by their texts. The order decides between equal noisy counts, and must not depend on the rows.
        by_text = sorted(range(len(texts)), key=texts.__getitem__)
        ours = [place for place in by_text if texts[place] not in (column.others, column.missing)]
        counts = partial(_counts_of, plan, work, column.name, ours)
        source = noise.spawn(place)
        kept, threshold = often(counts, opening.rho.per_row(rows), opening.delta, share, source, part, rows)
        found = sorted((texts[ours[each]] for each in kept[:MOST_FOUND]), key=_in_order)
        entry = {"column": column.name, "values": found, "others": column.others, "rho": float(opening.rho)}
        work.keep_found(part, entry | {"rho_of_delta": float(opening.paid), **asdict(threshold)})


def _counts_of(plan: Plan, work: Workspace, name: str, places: Sequence[int]) -> Counts:
    """Return the number of rows with each of these texts in the vocabulary of an open column."""
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
    """Return the values of each open column in the form of the card."""
    return [json.loads(work.found(part).read_text("utf-8")) for part in plan.openings]


@scrub_errors
def recode(plan: Plan, work: Workspace) -> None:
    """Code the rows of this run with the values that were found. The plan must be the result of `Plan.opened`."""
    lookups = {
        name: codes_once_found(json.loads(work.vocabulary(name).read_text("utf-8")), plan.schema[name])
        for name in plan.raw.open
        if work.vocabulary(name).exists()  # otherwise no row was needed
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
