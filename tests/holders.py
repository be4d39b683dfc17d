"""Simulated tables of several holders and the plan that they share."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equistrata.data.schema import Schema
from equistrata.inference.federated.protocol import FederatedPlan

SCHEMA = Schema.from_dict(
    {
        "name": "visits",
        "columns": {
            "SEX": {"values": [1, 2]},
            "NEW": {"values": [0, 1, 9]},
            "DAYS": {"lower": 0, "upper": 10},
            "GRADE": {"values": [1, 2, 3]},
            "JOB": {"values": ["yes", "no"]},
        },
    }
)
SCHEMA_FILE = """name: visits
columns:
  SEX: {values: [1, 2]}
  NEW: {values: [0, 1, 9]}
  DAYS: {lower: 0, upper: 10}
  GRADE: {values: [1, 2, 3]}
  JOB: {values: ['yes', 'no']}
"""
EFFECT = 0.8


def tables(count: int, rows: int, seed: int = 0) -> list[pd.DataFrame]:
    """Return `count` tables with `rows` rows each and equal cell sizes. The new treatment adds `EFFECT` to DAYS."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        place = rng.permutation(np.arange(rows))
        frame = pd.DataFrame({"SEX": 1 + place % 2, "NEW": place // 2 % 2})
        frame["DAYS"] = (rng.normal(3 + frame["SEX"], 1) + EFFECT * frame["NEW"]).clip(0, 10)
        found.append(frame)
    return found


def plan(**changes) -> FederatedPlan:
    """Return the plan of three holders, with two strata and two arms."""
    settings = {
        "holders": 3, "strata": ("SEX",), "arm": "NEW", "treated": 1, "control": 0, "epsilon": 1.0, "delta": 1e-6,
        "trials": 64,
    }  # fmt: skip
    settings |= changes
    return FederatedPlan(SCHEMA, settings.pop("outcome", "DAYS"), **settings)
