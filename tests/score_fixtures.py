"""Functions that compute the scores of two data frames in one call."""

from __future__ import annotations

import pandas as pd

from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.scores import score
from equistrata.eval.scores.tables import Pair, numbers_of
from equistrata.eval.scores.workload import workload_by_stratum, workload_error


def parity_of(real, synthetic, strata, *, min_share=0.001, times=None, **settings):
    return parity_error(Pair.of(real, synthetic, strata, min_share=min_share, times=times), **settings)


def workload_of(real, synthetic, degree=3):
    return workload_error(Pair.of(real, synthetic), degree)


def workload_in(real, synthetic, strata):
    return workload_by_stratum(Pair.of(real, synthetic, strata))


def scores_of(real, test, synthetic, strata, target, **settings):
    return score(real, synthetic, strata, held_out=test, target=target, **settings)


def coded_frame(table):
    """Return a coded table as a data frame with the number of each code."""
    return pd.DataFrame({c.name: numbers_of(c)[table.column(c.name)] for c in table.schema.columns})
