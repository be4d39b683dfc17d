"""Tests of the validation of an estimate."""

import math

import numpy as np
import pytest

from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.estimate import Estimate, Interval, StratifiedEstimate
from equistrata.privacy.budget import REPLACE_ONE, Rho
from equistrata.privacy.noise import SeededNoise


@pytest.mark.parametrize(("value", "lower", "upper"), [(3.0, 0.0, 2.0), (1.0, 0.0, math.inf), (math.nan, 0.0, 2.0)])
def test_value_lies_in_a_finite_interval(value, lower, upper):
    with pytest.raises(ValueError, match="interval"):
        Estimate(value, lower, upper, Rho(1), REPLACE_ONE)


def test_strata_and_weights_go_together():
    stratum = Estimate(1.0, 0.0, 2.0, Rho(1), REPLACE_ONE)
    with pytest.raises(ValueError, match="one weight for every stratum"):
        StratifiedEstimate(1.0, 0.0, 2.0, Rho(1), REPLACE_ONE, strata={"a": stratum}, weights={"b": 1.0})


@pytest.mark.parametrize(("rows", "nothing"), [(5, True), (2000, False)])
def test_a_mean_by_public_weights_of_small_strata_says_that_it_says_nothing(rows, nothing):
    """Intervals are cut to the declared range, so an interval of the whole range must be marked as uninformative."""
    rng, settings = np.random.default_rng(0), Coinpress(0, 99, 14, sizes="noisy", bounds=(0, 99))
    groups = {place: rng.normal(40, 12, rows) for place in range(18)}
    whole = settings.by_strata(groups, dict.fromkeys(groups, 1 / 18), 0.02, SeededNoise(1))
    assert whole.uninformative(0, 99) is nothing
    assert any(each.uninformative(0, 99) for each in whole.strata.values()) is nothing


def test_an_interval_near_an_end_is_judged_by_its_longer_arm():
    assert Interval(5.0, 0.0, 20.0).uninformative(0, 99) is False
    assert Interval(5.0, 0.0, 54.5).uninformative(0, 99) is True
    assert Interval(7.0, 7.0, 7.0).uninformative(7, 7) is False  # the declared range contains only the mean
