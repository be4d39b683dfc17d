"""Tests of the independence test for noisy counts: the level, the power and the coverage of Cramér's V."""

import numpy as np

from equistrata.stats.independence import independence

ACROSS, DOWN = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.6, 0.4])


def noisy(shares, rows, sigma, rng):
    return rng.multinomial(rows, shares.ravel()).reshape(shares.shape) + rng.normal(0, sigma, shares.shape)


def test_without_a_relation_it_is_rejected_as_often_as_stated():
    """The level of the test is .05, and there are 400 tables. The rejection rate must be at most .085. The probability
    of a false alarm is 0.001.

    A chi-squared distribution would reject most of the tables.
    """
    rng, shares = np.random.default_rng(1), np.outer(ACROSS, DOWN)
    for sigma in (2.0, 30.0):
        found = [independence(noisy(shares, 2000, sigma, rng), sigma**2 * np.eye(8), rng=rng) for _ in range(400)]
        rejected = np.mean([each.p_value <= 0.05 for each in found])
        assert 0.015 <= rejected <= 0.085
        assert np.mean([each.lower == 0 for each in found]) > 0.9


def test_a_relation_is_found_and_its_strength_is_covered():
    rng, shares = np.random.default_rng(2), np.outer(ACROSS, DOWN)
    shares[0] += [0.06, -0.06]
    shares[1] += [-0.06, 0.06]
    product = np.outer(shares.sum(1), shares.sum(0))
    strength = np.sqrt(((shares - product) ** 2 / product).sum())
    found = [independence(noisy(shares, 3000, 10.0, rng), 100.0 * np.eye(8), rng=rng) for _ in range(200)]
    assert np.mean([each.p_value <= 0.05 for each in found]) > 0.98
    assert np.mean([each.lower <= strength <= each.upper for each in found]) >= 0.9
    assert abs(np.mean([each.v for each in found]) - strength) < 0.01


def test_more_sampling_variance_makes_it_careful():
    rng, shares = np.random.default_rng(3), np.outer(ACROSS, DOWN)
    counts = noisy(shares, 2000, 5.0, rng)
    plain, clustered = (
        independence(counts, 25.0 * np.eye(8), rng=np.random.default_rng(0), design_effect=effect) for effect in (1, 4)
    )
    assert clustered.p_value > plain.p_value


def test_a_code_that_nobody_has_hides_no_relation_and_makes_none():
    """Regression test: the statistic was dominated by the noise of a code without rows.

    The level of the test is .05, and there are 300 independent tables. The rejection rate must be at most .10. The
    probability of a false alarm is 0.0001.
    """
    rng, empty = np.random.default_rng(4), np.append(ACROSS, 0.0)
    none, related = np.outer(empty, DOWN), np.outer(empty, DOWN)
    related[:2] += np.array([[0.06, -0.06], [-0.06, 0.06]])
    found = {
        name: [independence(noisy(shares, 3000, 10.0, rng), 100.0 * np.eye(10), rng=rng) for _ in range(300)]
        for name, shares in (("none", none), ("related", related))
    }
    assert np.mean([each.p_value <= 0.05 for each in found["none"]]) <= 0.10
    assert np.mean([each.p_value <= 0.05 for each in found["related"]]) > 0.98
    product = np.outer(related.sum(1), related.sum(0))[:4]
    strength = np.sqrt(((related[:4] - product) ** 2 / product).sum())
    assert np.mean([each.lower <= strength <= each.upper for each in found["related"]]) >= 0.9
