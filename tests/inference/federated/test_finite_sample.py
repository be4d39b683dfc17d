"""Intervals for any n cover at least as often as they say, also where the others do not. Seeded."""

import numpy as np
import pytest
from estimators import settle

from equistrata.errors import InputError
from equistrata.inference.federated.ab_test import finite_sample_interval, private_arm
from equistrata.inference.federated.arms import combine


def run(rng, sizes, draw, rounds, epsilon=2.0, trials=64, target="pate", level=0.9):
    settings = tuple(settle(n, radius=1.0, epsilon=epsilon, delta=1e-6, trials=trials, mean_share=0.9) for n in sizes)
    values = draw(rng, rounds, sizes)
    arms = []
    for x, chosen in zip(values[:2], settings, strict=True):
        reports = (
            rng.binomial(trials, 0.5 + chosen.mean.theta * x).sum(axis=1),
            rng.binomial(trials, 0.5 + chosen.squares.theta * (2 * x**2 - 1)).sum(axis=1),
        )
        arms.append(private_arm(np.stack(reports), chosen))
    value, half = finite_sample_interval(tuple(arms), settings, level, target=target)
    return np.abs(value - values[2]) <= half, half, combine(arms, [1, -1], level, target=target)[1]


def rare(rng, rounds, sizes):
    """Nearly everybody at −1, one in a hundred at 1: far from normal."""
    draws = [np.where(rng.random((rounds, n)) < 0.01, 1.0, -1.0) for n in sizes]
    return *draws, np.zeros(rounds)


def spread(rng, rounds, sizes):
    draws = [rng.uniform(-1, 1, (rounds, n)) for n in sizes]
    return *draws, np.zeros(rounds)


def these_people(rng, rounds, sizes):
    """Two fixed outcomes for each of the people; only who is treated is drawn."""
    n = sum(sizes)
    treated, control = np.linspace(-1, 1, n), np.linspace(1, -0.5, n)
    order = rng.permuted(np.tile(np.arange(n), (rounds, 1)), axis=1)
    effect = np.full(rounds, (treated - control).mean())
    return treated[order[:, : sizes[0]]], control[order[:, sizes[0] :]], effect


@pytest.mark.parametrize("sizes", [(40, 40), (400, 100)])
@pytest.mark.parametrize(("draw", "target"), [(rare, "pate"), (spread, "pate"), (these_people, "sate")])
def test_coverage_is_at_least_the_level(sizes, draw, target):
    covered, half, _ = run(np.random.default_rng(0), sizes, draw, 2000, target=target)
    assert covered.mean() >= 0.9
    assert (half > 0).all()


def test_the_bound_is_not_idle():
    """A quarter of its width would not cover: the test above can fail."""
    rng = np.random.default_rng(1)
    settings = tuple(settle(400, radius=1.0, epsilon=2.0, delta=1e-6, trials=64, mean_share=0.9) for _ in range(2))
    totals = [
        np.stack(
            [
                rng.binomial(64, 0.5 + s.mean.theta * x).sum(axis=1),
                rng.binomial(64, 0.5 + s.squares.theta * (2 * x**2 - 1)).sum(axis=1),
            ]
        )
        for s, x in zip(settings, rng.uniform(-1, 1, (2, 2000, 400)), strict=True)
    ]
    arms = tuple(private_arm(t, s) for t, s in zip(totals, settings, strict=True))
    value, half = finite_sample_interval(arms, settings, 0.9)
    assert (np.abs(value) <= half / 4).mean() < 0.9


def test_it_is_wider_than_the_other_and_comes_nearer_with_n():
    ratios = []
    for n in (200, 5_000, 200_000):
        _, half, normal = run(np.random.default_rng(2), (n, n), spread, 3, epsilon=1.0)
        ratios.append(float((half / normal).mean()))
    assert ratios[0] > ratios[1] > ratios[2] > 1
    assert ratios[2] < 2


def test_levels_and_targets():
    settings = settle(100, radius=1.0, epsilon=1, delta=1e-6)
    arm = private_arm([100 * 512, 100 * 512], settings)
    pair, both = (arm, arm), (settings, settings)
    assert finite_sample_interval(pair, both, 0.99)[1] > finite_sample_interval(pair, both, 0.9)[1]
    for change in ({"level": 0.0}, {"target": "late"}):
        with pytest.raises(InputError, match=r"level|target"):
            finite_sample_interval(pair, both, **change)
