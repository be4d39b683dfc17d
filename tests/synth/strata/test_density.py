"""Shapes within merged bins, by stratum: they add up to the whole's, and follow a smooth ratio of densities."""

import numpy as np
import pytest

from equistrata.synth.strata.density import tilted


def strata(seed=0, bins=60, k=4):
    """Counts of strata whose densities are those of all, tilted; groups of 10 bins."""
    rng = np.random.default_rng(seed)
    base, at = rng.gamma(3, 1, bins), np.linspace(-1, 1, bins)
    counts = np.array(
        [size * base * np.exp(tilt * at) for size, tilt in zip((9, 3, 1, 1), (0, 0.8, -1, 1.5), strict=True)][:k]
    )
    return counts, np.arange(bins) // 10


def found(counts, groups):
    rows = np.array([np.bincount(groups, each) for each in counts])
    whole = counts.sum(0)
    shares = whole / np.bincount(groups, whole)[groups]
    return rows, shares, tilted(groups, shares, rows)


def test_rows_of_all_strata_together_keep_the_shares():
    counts, groups = strata()
    rows, shares, parts = found(counts, groups)
    for each in parts:
        np.testing.assert_allclose(np.bincount(groups, each), 1)
    np.testing.assert_allclose((rows[:, groups] * parts).sum(0), rows.sum(0)[groups] * shares, rtol=1e-4)


def test_tilted_densities_are_nearer_to_the_strata_than_the_shape_of_all_rows():
    counts, groups = strata()
    rows, shares, parts = found(counts, groups)
    plain, near = (np.abs(rows[:, groups] * each - counts).sum() for each in (shares, parts))
    assert near < 0.5 * plain


def test_alike_strata_and_one_group_keep_the_shape():
    counts, groups = strata()
    alike = counts.sum(0) * np.array([[0.7], [0.2], [0.1]])
    shares = found(alike, groups)[1]
    np.testing.assert_allclose(found(alike, groups)[2], np.tile(shares, (3, 1)))
    one = np.zeros(60, dtype=np.intp)
    np.testing.assert_allclose(found(counts, one)[2], np.tile(found(counts, one)[1], (4, 1)))


def test_groups_without_rows_keep_the_shape():
    counts, groups = strata()
    rows = np.array([np.bincount(groups, each) for each in counts])
    rows[2, 3] = 0
    rows[:, 5] = 0
    shares = np.full(60, 0.1)
    parts = tilted(groups, shares, rows)
    assert np.isfinite(parts).all()
    np.testing.assert_allclose(np.bincount(groups, parts[1]), 1)
    assert parts[2, 50:] == pytest.approx(shares[50:])
