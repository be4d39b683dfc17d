"""Noisy counts of units by their number of rows, which show how many rows were left out by the bound.

The counts are only computed if the setting `bound_share` is positive. Each unit is counted once, regardless of its
number of rows. Therefore the noise is calibrated to one unit, or to two units if a unit can be replaced. See
docs/proofs/units.md.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.price import UNIT_SIZES
from equistrata.flows.run.guard import scrub_errors
from equistrata.flows.run.workspace import UNIT_SIZES as FILE
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource


@scrub_errors
def count_units(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Count the units by their number of rows, add noise, and save the counts.

    If the counts are already saved, nothing is measured again.

    Privacy
    -------
    The cost is the whole `budget` under the neighbouring relation of the plan's unit.
    """
    if work.found(UNIT_SIZES).exists():
        return
    work.count_start(UNIT_SIZES)
    counts, sigma = noise.gaussian(partial(_sizes, work), 1.0, budget.remaining, budget, UNIT_SIZES)
    most, at_most = len(counts), plan.unit.at_most
    beyond = np.maximum(np.arange(1, most + 1) - at_most, 0)  # the number of rows of each unit that are left out
    work.keep_found(
        UNIT_SIZES,
        {
            "units": counts.tolist(),
            "most": most,
            "sigma": sigma,
            "rho": float(plan.price.sizes),
            "left_out": {
                "rows": float(beyond @ counts),
                "standard_deviation": float(sigma * np.sqrt((beyond**2).sum())),
                "units": int(counts[at_most:].sum()),
            },
        },
    )


def counted_units(plan: Plan, work: Workspace) -> dict[str, Any] | None:
    """Return the counts in the form of the card, or None if there are none.

    The entries are the numbers of units with 1, 2, … rows. The last one is the number of units with `most` or more
    rows.
    """
    if not plan.price.sizes:
        return None
    found: dict[str, Any] = json.loads(work.found(UNIT_SIZES).read_text("utf-8"))
    return found


def _sizes(work: Workspace) -> Counts:
    return np.array(json.loads((work.root / FILE).read_text("utf-8")), dtype=np.int64)
