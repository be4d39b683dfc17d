"""Tests of distances on scales and of their expected values."""

import numpy as np
import pytest

from equistrata.data.schema import Column
from equistrata.stats.scales import Scale

NUMBERS = Column("X", lower=0, upper=10, edges=(0, 1, 2, 4, 10), codes={"N": "none"})


def test_the_expectation_is_that_of_gaussian_errors_of_shares():
    """The test uses 20,000 draws. The tolerance of 1.5 % is three standard errors of the mean. The probability of a
    false alarm is less than 1 in 100.
    """
    scale, rng = Scale.of(NUMBERS), np.random.default_rng(0)
    shares, deviations = np.array([0.2, 0.3, 0.25, 0.15, 0.1]), np.array([0.004, 0.001, 0.003, 0.002, 0.0])
    errors = rng.normal(0, deviations, (20_000, 5))
    errors -= errors.sum(1, keepdims=True) * deviations**2 / (deviations**2).sum()
    drawn = np.mean([scale.distance(shares, shares + error) for error in errors])
    assert scale.expected_distance(deviations**2) == pytest.approx(drawn, rel=0.015)


def test_what_is_missing_counts_by_itself():
    scale = Scale.of(NUMBERS)
    assert scale.expected_distance(np.array([0, 0, 0, 0, 0.01**2])) == pytest.approx(0.01 * np.sqrt(2 / np.pi))
    assert scale.expected_distance(np.zeros(5)) == 0
    assert scale.expected_distance(np.full((3, 5), 9.0)).tolist() == [1, 1, 1]


def test_groups_of_codes_have_a_place_in_their_middle_and_missing_ones_come_last():
    scale, order = Scale.of(NUMBERS).merged((1, 1, 3, 2, 0))
    assert scale.places.tolist() == [1.0, 3.0, 7.0]
    assert order == [1, 3, 2, 0]
    assert scale.range == 10


def test_errors_within_groups_of_codes_count_too():
    """The errors within the groups are included in the expected distance.

    The test uses 20,000 draws and three groups of six bins. If the middle of each group is used, the distance is a
    quarter smaller.
    """
    scale = Scale.of(Column("X", lower=0, upper=6, edges=range(7), codes={"N": "none"}))
    groups = (0, 0, 1, 1, 1, 2, 3)
    shares, rng = np.array([0.1, 0.1, 0.15, 0.1, 0.15, 0.3, 0.1]), np.random.default_rng(0)
    deviations, inside = np.array([0.003, 0.004, 0.002, 0.0]), np.array([4e-4, 2e-4, 3e-4, 0.0])
    off = rng.normal(0, deviations, (20_000, 4))
    off -= off.sum(1, keepdims=True) * deviations**2 / (deviations**2).sum()
    changed = np.empty((20_000, 7))
    for group in range(4):
        codes = np.flatnonzero(np.equal(groups, group))
        part = shares[codes] / shares[codes].sum()
        own = rng.multivariate_normal(
            np.zeros(len(part)), inside[group] * (np.diag(part) - np.outer(part, part)), 20_000
        )
        changed[:, codes] = off[:, [group]] * part + shares[codes].sum() * own
    drawn = np.mean([scale.distance(shares, shares + error) for error in changed])
    found = scale.expected_within(np.stack([deviations**2] * 2), groups, np.stack([shares] * 2), np.stack([inside] * 2))
    assert found == pytest.approx([drawn, drawn], rel=0.015)
    merged, order = scale.merged(groups)
    assert merged.expected_distance(deviations[order] ** 2) < 0.8 * drawn
