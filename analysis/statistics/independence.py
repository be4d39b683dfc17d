"""Cramér's V of two columns, with a test of their independence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equistrata.analysis.derived import parts_of
from equistrata.analysis.statistics.pair import Pair
from equistrata.stats.independence import independence


def answer(pair: Pair) -> pd.DataFrame:
    """Compute Cramér's V, and test whether the columns are independent.

    Only measured counts are used, because the model assumes that columns which were not measured together are
    independent.
    """
    rng = np.random.default_rng(pair.seed)
    found = independence(pair.counts, pair.covariance, rng=rng, level=pair.level, design_effect=pair.design_effect)
    parts = parts_of(found.standard_error, 1 - found.sampled, found.sampled)
    line = pair.line((found.v, found.lower, found.upper, found.standard_error, *parts))
    line.insert(list(line).index("basis"), "p_value", [found.p_value])
    return line
