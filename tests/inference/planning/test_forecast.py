"""Tests of forecasts of intervals: the medians and the bounds with a given confidence."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from estimators import stratified_coinpress

from equistrata.inference.means.settings import CoinpressSettings
from equistrata.inference.planning.forecast import CONFIDENCE, MEAN_SPREAD, Forecast, _found
from equistrata.inference.planning.mean_question import MeanQuestion
from equistrata.inference.planning.strata import plan_strata
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise

INCOME = {"lower": 0.0, "upper": 500_000.0, "sigma": 80_000.0, "bounds": (-19_998.0, 4_209_995.0)}
AGE = {"lower": 0.0, "upper": 99.0, "sigma": 23.0, "bounds": (0.0, 99.0)}
RHO = Rho.from_epsilon_delta(1.0, 1e-9)


def forecast(columns, reference, **others):
    return Forecast(CoinpressSettings(**columns, sizes="noisy"), reference, 0.05, **others)


@pytest.mark.parametrize("tail", [0.0, 0.007])
@pytest.mark.parametrize("sizes", [(), (20_000.0, 3000.0, 900.0, 12.0)])
def test_a_bound_is_made_of_its_causes(tail, sizes):
    """Each cause makes the interval wider, and the squares of the logarithms are added."""
    found = forecast(INCOME, 60_000.0, tail=tail, sizes=sizes)
    for rows in (3000.0, 20_000.0):
        half = found.median(rows, RHO).half_width
        causes = list(found.worlds(rows))
        assert len(causes) == 5 + bool(tail)
        wider = [max(max(_found(found, rows, RHO, each).half_width for each in cause) / half, 1) for cause in causes]
        together = half * math.exp(math.sqrt(sum(math.log(each) ** 2 for each in wider)))
        assert found.bound(rows, RHO).half_width == pytest.approx(together)
        assert found.bound(rows, RHO).noise >= found.median(rows, RHO).noise
        assert max(wider) > 1.01


@pytest.mark.parametrize(
    ("columns", "reference", "tail"), [(AGE, 40.0, 0.0), (INCOME, 60_000.0, 0.0), (INCOME, 60_000.0, 0.007)]
)
def test_a_bound_holds_with_its_confidence(columns, reference, tail):
    """The test uses 150 strata with a mean and a tail from the prior. The share of the strata below the bound must be
    equal to the confidence, with a tolerance of three standard errors.

    The number of strata below the median must be about half of the strata. The seeds are fixed.
    """
    rng = np.random.default_rng(5)
    rows, below_bound, below_median = 4000, [], []
    found = forecast(columns, reference, tail=tail)
    median, bound = found.median(rows, RHO).half_width, found.bound(rows, RHO).half_width
    reach = 3.7 * columns["sigma"]
    for seed in range(150):
        mean = reference + MEAN_SPREAD * columns["sigma"] * rng.normal()
        share = tail * math.exp(0.9 * rng.normal())
        values = rng.normal(mean, 0.5 * columns["sigma"], rows)
        if tail:
            values[: rng.binomial(rows, share)] = mean + reach * rng.uniform(1.0, 2.0)
        values = np.clip(values, *columns["bounds"])
        estimate = stratified_coinpress(
            {"a": values}, None, **columns, sizes="noisy", rho=RHO, noise=SeededNoise(seed)
        ).strata["a"]  # fmt: skip
        below_bound.append(estimate.half_width <= 1.05 * bound)
        below_median.append(estimate.half_width <= median)
    error = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / 150)
    assert np.mean(below_bound) >= CONFIDENCE - 3 * error
    assert 0.25 <= np.mean(below_median) <= 0.75


def test_what_is_readable_is_so_with_confidence():
    """Between the median and the bound, a stratum is not readable. Its smallest ε makes the stratum readable."""
    asked = MeanQuestion(**INCOME, reference=60_000.0, relative_error=0.1, alpha=0.01, about="rows", tail=0.007)
    middle = math.sqrt(asked.half_width(9000, 1.0) * asked.half_width_at_most(9000, 1.0)) / 60_000
    asked = replace(asked, relative_error=middle)
    (part,) = plan_strata(asked, {"a": 9000}, 1.0)
    assert part.half_width < middle * 60_000 < part.half_width_at_most
    assert (part.status, part.reached) == ("unreadable", pytest.approx(part.half_width_at_most / 60_000))
    assert part.rows_needed > 9000
    (later,) = plan_strata(asked, {"a": 9000}, part.smallest_epsilon)
    assert later.status == "readable"
    (earlier,) = plan_strata(asked, {"a": 9000}, 0.999 * part.smallest_epsilon)
    assert earlier.status == "unreadable"
