"""Tests of revised months, which are compared with a dense Gaussian posterior and must not smooth a jump."""

import numpy as np
import pytest

from equistrata.synth.measurements import Measurement
from equistrata.synth.series.drift import filter_month
from equistrata.synth.series.smoothing import smooth_states
from equistrata.synth.series.state import State

SIGMA = 30.0


def course(seed, months=6, jump=0.0, others=()):
    """Yield the true counts and the measurements of A by month. In month 4, `jump` rows are added to the third code."""
    rng, truth = np.random.default_rng([7, seed]), np.array([2000.0, 1500, 900, 400])
    for month in range(1, months + 1):
        truth = truth + rng.normal(0, 1, 4) * np.sqrt(0.06 * truth) + jump * (month == 4) * (np.arange(4) == 2)
        own = [Measurement(("A",), truth + rng.normal(0, SIGMA, 4), SIGMA)]
        yield truth, own + ([Measurement(("B",), np.array([3000.0, 1800.0]), 5.0)] if month in others else [])


def chain(measured):
    first = State.of(1, measured[0])
    state, months = first, []
    for number, own in enumerate(measured[1:], start=2):
        months.append(filter_month((), state, number, own))
        state = months[-1].state
    return first, months


def dense(measured, drifts):
    """Return the posterior mean and variance of x given y, where y = x + noise and the steps of x have the given
    variances.

    The matrix contains all months of a single cell, and the smoother never computes it.
    """
    precision = np.eye(len(measured)) / SIGMA**2
    for step, variance in enumerate(drifts):
        apart = np.zeros(len(measured))
        apart[step : step + 2] = -1, 1
        precision += np.outer(apart, apart) / variance
    inverse = np.linalg.inv(precision)
    return inverse @ np.array(measured) / SIGMA**2, np.diag(inverse)


def test_it_is_the_posterior_given_all_months():
    measured = [own for _, own in course(3)]
    first, months = chain(measured)
    states = [first, *(month.state for month in months)]
    found = smooth_states(first, months)
    for cell in range(4):
        drifts = [
            (month.prior[0].sigmas ** 2 - state.known[0].sigmas ** 2)[cell]
            for state, month in zip(states, months, strict=False)
        ]
        assert all(drift > 0 for drift in drifts)
        mean, variance = dense([own[0].values[cell] for own in measured], drifts)
        assert [each[0].values[cell] for each in found] == pytest.approx(mean.tolist())
        assert [each[0].sigmas[cell] ** 2 for each in found] == pytest.approx(variance.tolist())


def test_the_last_month_stays_and_earlier_ones_gain_with_honest_variances():
    """The mean ratio of squares to variances in 960 cells of 40 runs is 1 ± 0.1."""
    then, now, ratios = 0.0, 0.0, []
    for seed in range(40):
        truths, measured = zip(*course(seed), strict=True)
        first, months = chain(measured)
        found = smooth_states(first, months)
        assert found[-1] == months[-1].state.known
        for truth, state, (each,) in zip(truths, [first, *(month.state for month in months)], found, strict=True):
            then += np.square(state.known[0].values - truth).sum()
            now += np.square(each.values - truth).sum()
            ratios.append(np.square((each.values - truth) / each.sigmas).mean())
    assert now < 0.75 * then
    assert 0.75 < np.mean(ratios) < 1.25


def test_what_jumped_is_not_carried_back():
    """A code of 900 rows has 1,500 additional rows from month 4. The errors of the months before must be due to the
    noise of 30 rows.
    """
    for seed in range(10):
        truths, measured = zip(*course(seed, jump=1500.0), strict=True)
        found = smooth_states(*chain(measured))
        for truth, (each,) in list(zip(truths, found, strict=True))[:3]:
            assert abs(each.values[2] - truth[2]) < 4 * SIGMA


def test_a_marginal_that_was_measured_later_only_is_revised_from_then_on():
    measured = [own for _, own in course(1, months=4, others=(2, 4))]
    found = smooth_states(*chain(measured))
    assert [[each.columns for each in month] for month in found] == [[("A",)], *[[("A",), ("B",)]] * 3]
