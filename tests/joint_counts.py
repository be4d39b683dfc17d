"""Joint counts of two months of a column, as a series knows them."""

import numpy as np

from equistrata.synth.measurements import Measurement
from equistrata.synth.series.state import known
from equistrata.synth.series.transitions import THEN


def known_counts(name, values, sigma):
    """Joint counts of a column with one σ, as a state knows them."""
    return known(Measurement((THEN.format(name), name), values, sigma), values, np.full(values.shape, sigma**2))
