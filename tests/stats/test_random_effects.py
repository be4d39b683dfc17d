"""The mixed model of strata."""

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


def test_a_projection_takes_the_mean_out():
    covariance = np.diag([1.0, 2.0, 3.0]) + 0.5
    inverse, projection = project(covariance)
    assert inverse @ covariance == pytest.approx(np.eye(3))
    assert projection @ np.ones(3) == pytest.approx(np.zeros(3))


def test_variances_are_found():
    """400 replicates of 16 strata: the variance of 8 races is known to about 2.5 %, that of two sexes to 7 %; limits
    are 4 times that."""
    rng = np.random.default_rng(0)
    sex, race, own, noise = (rng.normal(0, s, (n, 400)) for s, n in ((3, 2), (2, 8), (1, 16), (0.5, 16)))
    observed = np.array([sex[i - 1] + race[j] for i, j in KEYS]) + own + noise
    found = variances(effects(KEYS), observed, np.full(16, 0.25))
    assert found == pytest.approx([9, 4, 1], rel=0.28)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "limits"), [(1.0, (0.01, 1.5)), (1e3, (0.9, 1.1))])
def test_where_noise_is_all_what_is_expected_of_the_strata_stays(deviation, limits):
    """REML says that nothing is a stratum's own, or as much as the noise; expected to be about 1, it is neither zero
    nor large."""
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
