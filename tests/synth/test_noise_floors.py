import math

import numpy as np
import pytest

from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Measurement
from equistrata.synth.noise_floors import below_floor, sum_noise


def test_the_floor_of_sizes_is_lower_where_strata_are_many_more_than_their_columns_values():
    """There are 180 strata if the columns have 2, 9, 5 and 2 values. The limit is then .5·18/180 of the number of rows.

    If the columns have 2 and 9 values, the limit is a quarter of the number of rows.
    """
    few, many = (2, 9), (2, 9, 5, 2)
    for values, most in ((few, 0.25), (many, 0.05)):
        sigma = most * 1000 / (NOISE_L1 * math.prod(values))
        assert not below_floor(sigma * 0.999, values, 1000)
        assert below_floor(sigma * 1.001, values, 1000)
    assert below_floor(math.inf, few, 1000)


def test_the_noise_of_sums_is_that_of_all_measurements_of_them_together():
    within = Measurement(("A", "R", "S"), np.ones((3, 2, 2)), 2.0)
    sizes, public = (Measurement(("R", "S"), np.ones((2, 2)), sigma) for sigma in (3.0, 0.0))
    assert sum_noise([within, sizes, public], ("R", "S")) == pytest.approx((1 / 12 + 1 / 9) ** -0.5)
    assert sum_noise([within, sizes], ["R"]) == pytest.approx((1 / 24 + 1 / 18) ** -0.5)
    assert sum_noise([public], ("R", "S")) == sum_noise([], ("R",)) == math.inf
