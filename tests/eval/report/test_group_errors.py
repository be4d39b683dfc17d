"""Tests that an error from a noisy mean has an interval with all values that the interval of the mean allows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber, SyntheticSummary
from equistrata.eval.report.group_errors import (
    NO_SYNTHETIC_ROW,
    NOTABLE_ERROR,
    error_difference,
    relative_error_interval,
    shrunken_errors,
)

CENTRES = st.floats(0.05, 10).flatmap(lambda x: st.sampled_from([x, -x]))
SYNTHETIC = st.none() | st.floats(-10, 10)


@st.composite
def means(draw):
    """Return a noisy mean with an interval that does not contain 0."""
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
    assert errors.min() - found.lower <= 2e-2 * max(errors.max(), 1e-9)  # to the precision of a grid of 2,000 steps
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


def cells_of(seed, bad=0.0, groups=18, columns=8, error=0.08, size_error=20.0):
    """Return the errors of a release before and after shrinkage. The error is .01 for all of the groups, except for the
    first group with an error of `bad`.
    """
    rng = np.random.default_rng(seed)
    real = 2.0 * (1 + rng.normal(0, 0.01, (columns, groups)))
    made = np.full((columns, groups), 2.0)
    made[:, 0] *= 1 + bad
    far, labels = 1.96 * 2 * error, [f"G={number}" for number in range(groups)]
    noisy = real + rng.normal(0, 2 * error, real.shape)
    names = [f"C{number}" for number in range(columns)]
    means = {
        name: {label: NoisyNumber(m, m - far, m + far) for label, m in zip(labels, of, strict=True)}
        for name, of in zip(names, noisy.tolist(), strict=True)
    }
    of_rows = {name: dict(zip(labels, of, strict=True)) for name, of in zip(names, made.tolist(), strict=True)}
    rows = SyntheticSummary(dict.fromkeys(labels, 500), of_rows)
    sizes = {label: NoisyNumber(50.0, 50.0 - size_error, 50.0 + size_error) for label in labels}
    audit = SimpleNamespace(means=means, sizes=sizes, synthetic=rows, level=0.95)
    errors = {n: {g: relative_error_interval(m, of_rows[n][g]) for g, m in of.items()} for n, of in means.items()}
    expected = {name: dict.fromkeys(labels, 0.01) for name in names}
    return errors, shrunken_errors(errors, audit, expected)


def dark(errors):
    return [label for of in errors.values() for label, e in of.items() if not e.note and e.value >= NOTABLE_ERROR]


def test_chance_shows_no_group_as_worse():
    """There are 40 audits with 144 cells, and the noise is eight times as large as the errors.

    The nominal rate is 1 in 20 audits, and the observed rate is 0 in 400. The number of audits in which a cell is shown
    as worse must be at most 4. The probability of a false alarm is 1 in 20 at the nominal rate. Without shrinkage, all
    audits show a cell as worse.
    """
    shown = [cells_of(seed) for seed in range(40)]
    assert sum(bool(dark(after)) for _, after in shown) <= 4
    assert np.mean([bool(dark(before)) for before, _ in shown]) > 0.95


def test_a_group_that_is_served_worse_is_shown():
    """The eight columns of the group have an error of 60 % and a noise of 8 %.

    The test uses 20 audits. All of the cells of the group must be shown as worse, and at most 1 in 100 of the other
    cells.
    """
    found = [dark(cells_of(seed, bad=0.6)[1]) for seed in range(20)]
    assert np.mean([each.count("G=0") for each in found]) > 7.5
    assert np.mean([len(each) - each.count("G=0") for each in found]) < 1.36


def test_a_group_of_an_unknown_number_of_rows_is_not_shown_as_worse():
    """The columns of a group share the noise of its number of rows, so their errors are correlated."""
    errors = cells_of(0, bad=0.6, size_error=30.0)[1]
    assert dark(errors) == []
    assert all(error.note for of in errors.values() for error in of.values())


def test_shrunken_errors_are_nearer_to_the_real_ones():
    before, after = cells_of(3)
    assert np.mean([e.value for of in after.values() for e in of.values()]) < 0.03
    assert np.mean([e.value for of in before.values() for e in of.values()]) > 0.05
