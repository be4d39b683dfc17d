"""Tests of means at the bounds of a column, which must be in the interval."""

import numpy as np
import pytest
from estimators import coinpress_mean, hierarchical_coinpress, stratified_coinpress

from equistrata.privacy.noise import SeededNoise

SETTINGS = {"lower": 45.0, "upper": 200.0, "sigma": 14.0, "bounds": (45.0, 200.0), "sizes": "noisy", "beta": 0.05}
ESTIMATORS = {
    "vanilla": lambda values, **given: coinpress_mean(values, **given),
    "strata": lambda values, **given: stratified_coinpress([values[::2], values[1::2]], None, **given),
    "two levels": lambda values, **given: hierarchical_coinpress([values[::2], values[1::2]], None, **given),
    "public weights": lambda values, **given: hierarchical_coinpress([values[::2], values[1::2]], [0.5, 0.5], **given),
}


@pytest.mark.parametrize("bound", [45.0, 200.0])
@pytest.mark.parametrize("at_bound", [1.0, 0.93])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_detection_limit_or_a_top_code_that_nearly_all_rows_have(name, at_bound, bound):
    """The level of the intervals is .95, and there are 40 intervals. The probability that fewer than 34 of the
    intervals contain the mean is 0.003.
    """
    rng, held = np.random.default_rng(1), 0
    inside = rng.uniform(45, 85, 3000) if bound == 45 else rng.uniform(160, 200, 3000)
    values = np.where(rng.random(3000) < at_bound, bound, inside)
    for seed in range(40):
        found = ESTIMATORS[name](values, **SETTINGS, rho=0.002, noise=SeededNoise(seed))
        assert 45 <= found.lower <= found.upper <= 200
        held += found.lower <= values.mean() <= found.upper
    assert held >= 34
