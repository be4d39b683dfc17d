"""A small simulated table and its schema."""

from __future__ import annotations

import numpy as np
import pandas as pd

PEOPLE_SCHEMA = """
name: people
target: JOB
default: [SEX, GROUP, AGE, JOB]
columns:
  SEX: {values: [1, 2]}
  GROUP: {values: [a, b, c]}
  AGE: {lower: 0, upper: 120, edges: [0, 17, 39, 64, 120], integer: true}
  JOB: {values: ['no', 'yes']}
  PAY: {lower: 0, upper: 1000000, sigma: 25000}
"""


def made_up_people(rows):
    """Return a table with this number of rows, in which one group is small and men are more likely to have a job."""
    rng = np.random.default_rng(7)
    sex = rng.integers(1, 3, rows)
    return pd.DataFrame(
        {
            "SEX": sex,
            "GROUP": rng.choice(["a", "b", "c"], rows, p=[0.8, 0.195, 0.005]),
            "AGE": rng.integers(0, 100, rows),
            "JOB": np.where(rng.random(rows) < 0.3 + 0.3 * (sex == 1), "yes", "no"),
            "PAY": np.round(rng.gamma(2.0, 15000.0, rows), 2),
        }
    )
