"""A simulated table and its schema, with places, households, absent cells, and codes for numbers and dates."""

from __future__ import annotations

import numpy as np
import pandas as pd

PLACES_SCHEMA = """
name: people
target: JOB
default: [AREA, SEX, AGE, PAY, BORN, JOB]
columns:
  AREA: {within: ST, values: {1: [10, 11, 12], 2: [10, 20]}}
  SEX: {values: [1, 2]}
  AGE: {lower: 0, upper: 99, integer: true, sigma: 25, codes: {-1: refused}, missing: own}
  PAY: {lower: 0, upper: 1000000, sigma: 25000, codes: {999999999: refused}, missing: own}
  BORN: {type: date, format: "%Y-%m-%d", lower: "1930-01-01", upper: "2010-12-31", missing: own, codes: {never: never}}
  JOB: {values: ['no', 'yes', 'none'], missing: 'none'}
"""

# A rare kind of person with codes and absent cells and with the largest possible PAY.
ANOTHER = {"ST": 1, "AREA": 12, "SEX": 2, "AGE": -1, "PAY": 1e6, "BORN": "never", "JOB": None, "HOME": 10**6}


def people_in_places(rows: int) -> pd.DataFrame:
    """Return a table with this number of rows, where the number of people in a household is about three.

    One of the places is small.
    """
    rng = np.random.default_rng(3)
    state, days = rng.integers(1, 3, rows), pd.to_timedelta(rng.integers(0, 29_000, rows), unit="D")
    first, second = rng.choice([10, 11, 12], rows, p=[0.8, 0.19, 0.01]), rng.choice([10, 20], rows)
    frame = pd.DataFrame(
        {
            "ST": state,
            "AREA": np.where(state == 1, first, second),
            "SEX": rng.integers(1, 3, rows),
            "AGE": rng.integers(0, 95, rows).astype(object),
            "PAY": np.round(rng.gamma(2.0, 15_000.0, rows), 2).astype(object),
            "BORN": (pd.Timestamp("1930-01-01") + days).strftime("%Y-%m-%d").astype(object),
            "JOB": np.where(rng.random(rows) < 0.4, "yes", "no").astype(object),
            "HOME": np.sort(rng.integers(0, rows // 2, rows)),
        }
    )
    for name, code in (("AGE", -1), ("PAY", 999_999_999), ("BORN", "never")):
        frame.loc[rng.random(rows) < 0.05, name] = code
    for name in ("AGE", "PAY", "BORN", "JOB"):
        frame.loc[rng.random(rows) < 0.05, name] = None
    return frame
