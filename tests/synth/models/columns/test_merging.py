"""Tests of groups of adjacent codes: the number of groups, single codes, and noise without rows."""

import numpy as np
import pytest

from equistrata.data.schema import Column
from equistrata.synth.models.columns.merging import LOW_PAIR_NOISE, TRIPLE_CELLS, groups_at, groups_for, merge_codes

SIZE = 40
X = Column("X", values=tuple(range(SIZE)))


def test_codes_of_a_part_of_the_rows_stay_alone():
    counts = np.full(SIZE, 1.0)
    counts[7] = 100
    groups = merge_codes(X, counts, 4, np.zeros(SIZE, np.intp))
    assert [groups.count(group) for group in range(3)] == [7, 1, SIZE - 8]


@pytest.mark.parametrize("total", [0.0, 1e-14, 1e-11])
def test_noise_that_sums_to_nothing_is_no_rows_at_all(total):
    """Regression test: the fit failed if the noisy counts of an empty stratum had a sum near 0."""
    counts = np.random.default_rng(0).normal(0, 20, SIZE)
    counts[0] -= counts.sum() - total
    assert counts.sum() == pytest.approx(total, abs=1e-12)
    groups = merge_codes(X, counts, 4, np.zeros(SIZE, np.intp))
    assert max(groups.count(group) for group in groups) <= SIZE // 4 + 1


def test_less_noise_leaves_more_groups():
    assert groups_for(1e-6, 1000, 3) == 2
    assert groups_for(0.001, 100_000, 3) > groups_for(0.0005, 100_000, 3) > groups_for(0.0005, 10_000, 3) > 2
    # For many columns, the number of groups is limited by the noise, but there is enough room for three columns.
    assert groups_for(0.01, 10_000, 30) == pytest.approx((TRIPLE_CELLS / 30) ** (1 / 3))
    assert groups_for(0.01, 1_000_000, 30) == groups_at(0.01, 1_000_000, LOW_PAIR_NOISE)
