"""The mixed model of strata."""

from __future__ import annotations

import numpy as np
import pytest

from data.random_effects import effects, project, variances

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
    """400 replicates of 16 strata: the variance of 8 races is known to about 2.5 %, that of two sexes to 7 %; limits are 4 times that."""
    rng = np.random.default_rng(0)
    sex, race, own, noise = (rng.normal(0, s, (n, 400)) for s, n in ((3, 2), (2, 8), (1, 16), (0.5, 16)))
    observed = np.array([sex[i - 1] + race[j] for i, j in KEYS]) + own + noise
    found = variances(effects(KEYS), observed, np.full(16, 0.25))
    assert found == pytest.approx([9, 4, 1], rel=0.28)


def test_adjusted_variances_are_never_zero():
    """Noise alone: REML says that nothing is a stratum's own, adjusted it says that little is."""
    noise = np.full(16, 1.0)
    observed = np.random.default_rng(1).normal(0, 0.7, (16, 1))
    plain, adjusted = (variances(effects(KEYS), observed, noise, adjusted=on)[-1] for on in (False, True))
    assert plain < 1e-3
    assert 0.01 < adjusted < 2
