"""Tests of the mixed model of the strata."""

from __future__ import annotations

import numpy as np
import pytest

from equistrata.stats.random_effects import effects, project, variances

KEYS = [(sex, race) for sex in (1, 2) for race in range(8)]


def test_effects_are_shared_by_what_the_keys_share():
    sex, race, own = effects(KEYS)
    for i, one in enumerate(KEYS):
        for j, other in enumerate(KEYS):
            assert (sex[i, j], race[i, j], own[i, j]) == (one[0] == other[0], one[1] == other[1], one == other)
    assert len(effects([(1,), (2,)])) == len(effects([(1, 2), (3,)])) == 1


def test_of_three_columns_each_pair_has_effects_too():
    keys = [(a, b, c) for a in (1, 2) for b in (1, 2, 3) for c in (1, 2)]
    kernels = effects(keys)
    assert [int(kernel[0].sum()) for kernel in kernels] == [6, 4, 6, 2, 3, 2, 1]
    for shared, (i, j) in zip(kernels[3:6], [(0, 1), (0, 2), (1, 2)], strict=True):
        assert shared.tolist() == [[one[i] == other[i] and one[j] == other[j] for other in keys] for one in keys]


def test_a_projection_takes_the_mean_out():
    covariance = np.diag([1.0, 2.0, 3.0]) + 0.5
    inverse, projection = project(covariance)
    assert inverse @ covariance == pytest.approx(np.eye(3))
    assert projection @ np.ones(3) == pytest.approx(np.zeros(3))


def test_variances_are_found():
    """The standard error over 400 replicates is 2.5 % for the variance of 8 races and 7 % for the variance of two
    sexes.

    The limits are four times the standard errors.
    """
    rng = np.random.default_rng(0)
    sex, race, own, noise = (rng.normal(0, s, (n, 400)) for s, n in ((3, 2), (2, 8), (1, 16), (0.5, 16)))
    observed = np.array([sex[i - 1] + race[j] for i, j in KEYS]) + own + noise
    found = variances(effects(KEYS), observed, np.full(16, 0.25))
    assert found == pytest.approx([9, 4, 1], rel=0.28)


@pytest.mark.parametrize("seed", range(6))
def test_variances_are_found_beside_strata_that_are_nothing_but_noise(seed):
    """Regression test for the variance of the strata, which was often estimated as 0.

    The number of rows is between 1 and 5,000 for each of the 180 strata, and the standard deviation of the noise is 32
    rows. The variance of the share of a stratum with one row is a thousand times larger than all of the effects.
    """
    rng = np.random.default_rng(seed)
    keys = [(age, other) for age in range(5) for other in range(36)]
    age, own = rng.normal(0, 0.25, (5, 4)), rng.normal(0, 0.06, (180, 4))
    noise = (32 / np.exp(rng.uniform(0, np.log(5000), 180))) ** 2
    observed = age[[key[0] for key in keys]] + own + rng.normal(size=(180, 4)) * noise[:, None] ** 0.5
    assert variances(effects(keys), observed, noise)[-1] == pytest.approx(0.0036, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "limits"), [(1.0, (0.01, 1.5)), (1e3, (0.9, 1.1))])
def test_where_noise_is_all_what_is_expected_of_the_strata_stays(deviation, limits):
    """The estimate of REML is 0 or is as large as the noise.

    If the expected variance is 1, the estimate must not be 0 and must not be large.
    """
    noise = np.full(16, deviation**2)
    tables = [np.random.default_rng(seed).normal(0, deviation, (16, 1)) for seed in range(20)]
    for observed in tables:
        *shared, own = variances(effects(KEYS), observed, noise, expected=(1, 1, 1))
        assert limits[0] < own < limits[1]
        assert max(shared) < 1
    plain = [variances(effects(KEYS), observed, noise)[-1] for observed in tables]
    assert min(plain) < 1e-3 * deviation**2
    assert max(plain) > 0.3 * deviation**2


def test_what_is_expected_hardly_matters_where_much_is_seen():
    observed = np.random.default_rng(0).normal(0, 2, (16, 1))
    plain, expecting = (variances(effects(KEYS), observed, np.full(16, 1e-4), expected=e) for e in (None, (9, 9, 9)))
    assert expecting.sum() == pytest.approx(plain.sum(), rel=0.4)
