"""How many units have how many rows, by noisy counts: what tells how many rows the bound on them left out.

Bought only where a part of ρ is set aside for it (`bound_share`). A unit is one of these counts however many rows it
has, so noise is for one unit, or for two where another takes its place. See docs/proofs/units.md.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from equistrata.arrays import Counts
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.price import UNIT_SIZES
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import UNIT_SIZES as FILE
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource


@scrubbed
def count_units(plan: Plan, work: Workspace, budget: Budget, noise: NoiseSource) -> None:
    """Count units by their rows, with noise, and save that; what was saved is not bought again.

    Cost: the whole of `budget`, by the relation of the plan's unit.
    """
    if work.found(UNIT_SIZES).exists():
        return
    work.count_start(UNIT_SIZES)
    counts, sigma = noise.gaussian(partial(_sizes, work), 1.0, budget.remaining, budget, UNIT_SIZES)
    most, at_most = len(counts), plan.unit.at_most
    beyond = np.maximum(np.arange(1, most + 1) - at_most, 0)  # rows of such a unit that are left out
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
    """What was counted, as on the card: units with 1, 2, … rows and at last `most` or more; None if nothing was."""
    if not plan.price.sizes:
        return None
    found: dict[str, Any] = json.loads(work.found(UNIT_SIZES).read_text("utf-8"))
    return found


def _sizes(work: Workspace) -> Counts:
    return np.array(json.loads((work.root / FILE).read_text("utf-8")), dtype=np.int64)
