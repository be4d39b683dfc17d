"""Streams of randomness, one for each step, so that a seeded run does not depend on the order of its steps."""

from __future__ import annotations

import numpy as np

from equistrata.flows.release.plan import Plan

SYNTHESIS, MEANS, FINDING, SIZES = 0, 1, 3, 4  # of the source of private noise
HOLDING_OUT, DRAWING, SCORING, UNIT_KEY = 2, 3, 4, 5  # of `generator`


def generator(plan: Plan, stream: int) -> np.random.Generator:
    """Randomness for what is not private noise: which rows are held out, and sampling from models."""
    seed = plan.config.seed
    return np.random.default_rng(None if seed is None else [seed, stream])
