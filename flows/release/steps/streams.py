"""Random streams, one for each step, so that a seeded run does not depend on the order of its steps."""

from __future__ import annotations

import numpy as np

from equistrata.flows.release.plan import Plan

SYNTHESIS, MEANS, FINDING, SIZES = 0, 1, 3, 4  # streams of the source of private noise
HOLDING_OUT, DRAWING, SCORING, UNIT_KEY = 2, 3, 4, 5  # streams of `generator`


def generator(plan: Plan, stream: int) -> np.random.Generator:
    """Return a random generator for all steps except private noise, such as holding out rows and sampling."""
    seed = plan.config.seed
    return np.random.default_rng(None if seed is None else [seed, stream])
