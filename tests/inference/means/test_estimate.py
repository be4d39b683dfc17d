"""An estimate is refused when it contradicts itself."""

import math

import pytest

from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.privacy.budget import REPLACE_ONE, Rho


@pytest.mark.parametrize(("value", "lower", "upper"), [(3.0, 0.0, 2.0), (1.0, 0.0, math.inf), (math.nan, 0.0, 2.0)])
def test_value_lies_in_a_finite_interval(value, lower, upper):
    with pytest.raises(ValueError, match="interval"):
        Estimate(value, lower, upper, Rho(1), REPLACE_ONE)


def test_strata_and_weights_go_together():
    stratum = Estimate(1.0, 0.0, 2.0, Rho(1), REPLACE_ONE)
    with pytest.raises(ValueError, match="one weight for every stratum"):
        StratifiedEstimate(1.0, 0.0, 2.0, Rho(1), REPLACE_ONE, strata={"a": stratum}, weights={"b": 1.0})
