"""Errors and differences from noisy means hold every value that the mean's interval allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.report.findings import NO_SYNTHETIC_ROW, error_difference, relative_error_interval

CENTRES = st.floats(0.05, 10).flatmap(lambda x: st.sampled_from([x, -x]))
SYNTHETIC = st.none() | st.floats(-10, 10)


@st.composite
def means(draw):
    """Noisy means whose interval leaves 0 out."""
    value, below, above = draw(CENTRES), draw(st.floats(0.001, 0.9)), draw(st.floats(0.001, 3))
    ends = sorted((value * (1 - below), value * (1 + above)))
    return NoisyNumber(value, *ends)


def every(mean):
    return np.append(np.linspace(mean.lower, mean.upper, 2001), mean.value)


def error(synthetic, m):
    return np.ones_like(m) if synthetic is None else np.abs(synthetic - m) / np.abs(m)


@given(means(), SYNTHETIC)
def test_an_error_is_anywhere_in_its_interval_and_nowhere_else(mean, synthetic):
    found = relative_error_interval(mean, synthetic)
    errors = error(synthetic, every(mean))
    assert found.lower <= errors.min() + 1e-12
    assert errors.max() - 1e-12 <= found.upper
    assert errors.min() - found.lower <= 2e-2 * max(errors.max(), 1e-9)  # as far as a grid of 2,000 steps tells
    assert found.upper - errors.max() <= 1e-9 * max(errors.max(), 1)
    assert found.value == pytest.approx(error(synthetic, np.array([mean.value]))[0])
    assert (found.note == NO_SYNTHETIC_ROW) == (synthetic is None)


@given(means(), SYNTHETIC, SYNTHETIC)
def test_a_difference_is_anywhere_in_its_interval_and_nowhere_else(mean, one, other):
    assume(not (one is None and other is None))
    found = error_difference(mean, one, other)
    differences = error(one, every(mean)) - error(other, every(mean))
    scale = max(np.abs(differences).max(), 1)
    assert found.lower <= differences.min() + 1e-9 * scale
    assert differences.max() - 1e-9 * scale <= found.upper
    assert differences.min() - found.lower <= 2e-2 * scale
    assert found.upper - differences.max() <= 2e-2 * scale


def test_a_mean_that_may_be_zero_tells_nothing():
    for mean in (NoisyNumber(0.5, -0.1, 1.0), NoisyNumber(None, 0.0, 1.0), NoisyNumber(2.0, 1.0, math.inf)):
        found = relative_error_interval(mean, 0.7)
        assert (found.lower, found.upper, found.note) == (0.0, math.inf, TOO_SMALL)
        difference = error_difference(mean, 0.7, 0.6)
        assert (difference.lower, difference.upper, difference.note) == (-math.inf, math.inf, TOO_SMALL)


def test_a_group_that_both_lost_makes_no_difference():
    assert error_difference(NoisyNumber(1.0, 0.9, 1.1), None, None).value == 0.0
