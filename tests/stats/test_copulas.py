"""Tests of the normal copula for binned data: margins, the distribution function and the estimate
of the correlation.
"""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from equistrata.stats.copulas import MOST_CORRELATION, group_ends, group_scores, normal_copula


def margins(seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(7, 2.0)), rng.dirichlet(np.full(5, 2.0))


@pytest.mark.parametrize("correlation", [-MOST_CORRELATION, -0.5, 0.0, 0.3, 0.9, MOST_CORRELATION])
def test_its_margins_are_those_that_were_given(correlation):
    first, second = margins(1)
    table = normal_copula(first, second, correlation)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(1), first, atol=1e-6)
    np.testing.assert_allclose(table.sum(0), second, atol=1e-6)


@pytest.mark.parametrize("correlation", [-0.95, -0.4, 0.2, 0.8, 0.95])
def test_it_is_the_normal_distribution_function(correlation):
    first, second = margins(2)
    below = normal_copula(first, second, correlation).cumsum(0).cumsum(1)
    law = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])
    for row in range(6):
        for column in range(4):
            point = [norm.ppf(first[: row + 1].sum()), norm.ppf(second[: column + 1].sum())]
            assert below[row, column] == pytest.approx(law.cdf(point), abs=1e-5)


def test_groups_without_rows_have_no_width():
    shares = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    assert group_ends(shares).tolist() == [-8.0, -8.0, 0.0, 0.0, 8.0, 8.0]
    assert group_scores(shares) == pytest.approx([0, -((2 / np.pi) ** 0.5), 0, (2 / np.pi) ** 0.5, 0])
    assert np.isfinite(normal_copula(shares, shares, 0.5)).all()
    assert np.isfinite(normal_copula(np.zeros(3), np.zeros(3), 0.5)).all()
