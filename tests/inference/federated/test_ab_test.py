"""Tests of private differences: coverage, privacy cost, errors and attempts at refutation. The noise has a seed."""

import math

import numpy as np
import pytest
from estimators import private_difference, settle
from no_noise import ForbiddenNoise
from refutation import HalvedNoise, empirical_epsilon

from equistrata.errors import InputError
from equistrata.inference.federated.ab_test import ArmSettings, private_arm
from equistrata.inference.federated.poisson_binomial import PoissonBinomial
from equistrata.inference.federated.renyi import epsilon_of, renyi_exact
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from paper.federated import choose_gaussian_settings

RUNS, DELTA = 20_000, 0.05
ARM = {"radius": 1.0, "epsilon": 1.0, "delta": 1e-6}


def test_a_private_arm_recovers_mean_and_variance():
    rng = np.random.default_rng(0)
    values = rng.normal(-0.3, 0.4, 200_000).clip(-1, 1)
    settings = settle(200_000, **ARM)
    arm = private_arm(settings.reports(values, SeededNoise(1)), settings)
    assert arm.mean == pytest.approx(values.mean(), abs=5 * math.sqrt(arm.noise))
    assert arm.variance == pytest.approx(values.var(), abs=5 * math.sqrt(arm.variance_noise))
    assert math.sqrt(arm.variance_noise) < 0.01


@pytest.mark.parametrize("trials", [1, 3, 50])
def test_the_private_variance_is_unbiased_with_its_stated_noise(trials):
    """The simulation includes small n, for which the correction of the squared mean is important."""
    rng = np.random.default_rng(1)
    n, runs = 30, 40_000
    mean, moment = (PoissonBinomial(trials, 0.25, squares=squares) for squares in (False, True))
    settings = ArmSettings(n, mean, moment)
    values = rng.uniform(-0.2, 1, (runs, n))
    squares = 0.5 + 0.25 * (2 * values**2 - 1)
    totals = [rng.binomial(trials, p).sum(axis=1) for p in (0.5 + 0.25 * values, squares)]
    arm = private_arm(np.stack(totals), settings)
    population = 1.2**2 / 12
    error = arm.variance.std() / math.sqrt(runs)
    assert arm.variance.mean() == pytest.approx(population, abs=5 * error)
    assert arm.variance.var() < 1.3 * arm.variance_noise.mean() + 4 * population / n
    total = arm.noise + (1 - 1 / trials) * population / n
    assert arm.mean.var() == pytest.approx(total.mean(), rel=0.05)


def test_both_moments_together_keep_the_budget():
    settings = settle(500, radius=3.0, epsilon=0.8, delta=1e-7, trials=64)
    assert settings.epsilon(1e-7) == pytest.approx(0.8, rel=1e-5)
    assert settings.epsilon(1e-7) <= 0.8
    exact = epsilon_of(
        lambda order: (
            renyi_exact(500, 64, settings.mean.theta, order) + renyi_exact(500, 64, settings.squares.theta, order)
        ),
        1e-7,
    )
    assert exact <= 0.8
    assert settings.moduli == (500 * 64 + 1, 500 * 64 + 1)


def test_a_share_that_reads_the_variance():
    """With a large budget, the variance has a larger share. With a small budget, it has the 1 % of the paper."""
    tight = settle(500, radius=1.0, epsilon=0.5, delta=1e-6)
    assert tight == settle(500, radius=1.0, epsilon=0.5, delta=1e-6, mean_share=0.99)
    settings = settle(500, radius=1.0, epsilon=4, delta=1e-6)
    omega = math.sqrt(settings.squares.noise(500)) / 500 / settings.mean.noise(500)
    assert omega == pytest.approx(0.5, abs=0.08)
    central = choose_gaussian_settings(500, epsilon=4, delta=1e-6)
    assert central.square_sigma / 500 / central.mean_sigma**2 == pytest.approx(0.5, abs=1e-6)


def test_the_central_baseline_keeps_the_budget():
    settings = choose_gaussian_settings(500, epsilon=1, delta=1e-6, mean_share=0.9)
    rho = (2 / 500) ** 2 / (2 * settings.mean_sigma**2) + (1 / 500) ** 2 / (2 * settings.square_sigma**2)
    assert Rho(rho).epsilon(1e-6) == pytest.approx(1, rel=1e-9)
    all_orders = choose_gaussian_settings(500, epsilon=0.1, delta=1e-6, mean_share=0.9)
    fewer = choose_gaussian_settings(500, epsilon=0.1, delta=1e-6, mean_share=0.9, orders=tuple(range(2, 129)))
    assert fewer.mean_sigma > 1.04 * all_orders.mean_sigma


@pytest.mark.parametrize("target", ["pate", "sate"])
def test_coverage_of_the_whole_thing(target):
    """The test uses 300 runs and intervals at level 90 %. The tolerance of 0.06 is 3.5 standard errors.

    The effects are constant, so the interval for SATE is tight.
    """
    rng = np.random.default_rng(2)
    covered = 0
    for run in range(300):
        people = rng.uniform(-1, 0.8, 1500)
        found = private_difference(
            people[:600] + 0.2, people[600:], radius=1, epsilon=2, delta=1e-6, trials=64, target=target,
            noise=SeededNoise(run),
        )  # fmt: skip
        covered += found.lower <= 0.2 <= found.upper
    assert 0.84 <= covered / 300 <= 0.96


def test_the_unit_of_the_values_does_not_matter():
    rng = np.random.default_rng(3)
    t, c = rng.uniform(-1, 1, 500), rng.uniform(-1, 1, 400)
    small = private_difference(t, c, **ARM, noise=SeededNoise(1))
    large = private_difference(1000 * t, 1000 * c, **ARM | {"radius": 1000.0}, noise=SeededNoise(1))
    assert (large.value, large.upper) == pytest.approx((1000 * small.value, 1000 * small.upper))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"treated": [0.1, 1.1]}, "declared range"),
        ({"control": [0.1, -1.1]}, "declared range"),
        ({"control": [0.1, math.nan]}, "declared range"),
        ({"treated": [0.1]}, "at least two rows"),
        ({"control": [0.1]}, "at least two rows"),
        ({"control": []}, "at least two rows"),
        ({"trials": 0}, "number of trials"),
        ({"trials": -3}, "number of trials"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"radius": -1}, "declared range|radius"),
        ({"mean_share": 1.0}, "share"),
    ],
)
def test_bad_input_is_refused_before_any_noise_is_drawn(change, sentence):
    given = {"treated": [0.1, 0.2, 0.3], "control": [0.0, 0.1, 0.2], **ARM, "noise": ForbiddenNoise()} | change
    with pytest.raises(InputError, match=sentence) as caught:
        private_difference(given.pop("treated"), given.pop("control"), **given)
    assert "1.1" not in str(caught.value)


@pytest.mark.parametrize("rows", [1, 0, -1, 2.0, True])
def test_arms_that_are_none_are_refused(rows):
    with pytest.raises(InputError, match="at least two rows"):
        settle(rows, **ARM)


# Attempts at refutation. Each has a false alarm rate of 10⁻³, and the seeds are fixed.

EPSILON = 1.0
LOW, MOVED = np.full(6, -1.0), np.append(np.full(5, -1.0), 1.0)
SMALL, GROWN = np.zeros(6), np.append(np.zeros(5), 1.0)
CLAIMS = [  # the sum with the largest loss and a share of the budget that is almost all for this sum
    pytest.param(0, 0.99, LOW, MOVED, id="mean"),
    pytest.param(1, 0.01, SMALL, GROWN, id="squares"),
]


def bound(which, share, values, neighbour, fault=False):
    settings = settle(6, radius=1.0, epsilon=EPSILON, delta=DELTA, trials=40, mean_share=share)
    noise = SeededNoise(11)
    source = HalvedNoise(noise) if fault else noise
    first, second = (
        np.array([settings.reports(rows, source)[which] for _ in range(RUNS)]) for rows in (values, neighbour)
    )
    return empirical_epsilon(first, second, DELTA)


@pytest.mark.parametrize(("which", "share", "values", "neighbour"), CLAIMS)
def test_the_claim_stands(which, share, values, neighbour):
    assert bound(which, share, values, neighbour) <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(("which", "share", "values", "neighbour"), CLAIMS)
def test_twice_the_signal_is_caught(which, share, values, neighbour):
    assert bound(which, share, values, neighbour, fault=True) > EPSILON


@pytest.mark.slow
def test_a_theta_for_more_people_than_there_are_is_caught():
    """The server claims that there are 60 people instead of 6. The value of θ does not protect these people."""
    settings = settle(60, radius=1.0, epsilon=EPSILON, delta=DELTA, trials=40)
    noise = SeededNoise(12)
    first, second = (np.array([settings.mean.reports(rows, noise).sum() for _ in range(RUNS)]) for rows in (LOW, MOVED))
    assert empirical_epsilon(first, second, DELTA) > EPSILON
