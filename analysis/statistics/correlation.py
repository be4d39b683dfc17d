"""Pearson's correlation of two numeric columns."""

from __future__ import annotations

import pandas as pd

from equistrata.analysis.statistics.pair import Pair
from equistrata.stats.correlation import correlation


def answer(pair: Pair) -> pd.DataFrame:
    """Compute Pearson's correlation from the measured counts."""
    (x, spread_x), (y, spread_y) = pair.numbers
    found = correlation(pair.counts, pair.covariance, (x, y), (spread_x, spread_y), pair.level, pair.sampled)
    if found is None:
        return pair.refused()
    return pair.line((found.r, found.lower, found.upper, found.standard_error, found.noise_error, found.sampling_error))
