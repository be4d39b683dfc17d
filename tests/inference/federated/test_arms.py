"""Tests of intervals from several arms, which are compared with the formulas of the paper and with loops."""

import math

import numpy as np
import pytest

from equistrata.errors import InputError
from equistrata.inference.federated.arms import Arm, combine
from equistrata.stats.noisy_variance import normal_quantile
from paper.federated import exact_arm

RNG = np.random.default_rng(5)
T, C = RNG.normal(0.4, 0.3, 70), RNG.normal(0.1, 0.8, 30)


def test_exact_arm():
    arm = exact_arm(T)
    assert (arm.rows, arm.mean, arm.variance) == (70, pytest.approx(T.mean()), pytest.approx(T.var(ddof=1)))
    runs = exact_arm(np.stack([T, 2 * T]))
    assert runs.mean.tolist() == pytest.approx([T.mean(), 2 * T.mean()])


def test_pate_is_the_unpooled_z_interval():
    value, half = combine([exact_arm(T), exact_arm(C)], [1, -1], 0.9)
    assert value == pytest.approx(T.mean() - C.mean())
    assert half == pytest.approx(1.6448536 * math.sqrt(T.var(ddof=1) / 70 + C.var(ddof=1) / 30))


def test_sate_is_algorithm_1s_formula():
    _, half = combine([exact_arm(T), exact_arm(C)], [1, -1], 0.95, target="sate")
    inner = math.sqrt(T.var(ddof=1)) / 70 + math.sqrt(C.var(ddof=1)) / 30
    assert half == pytest.approx(1.959964 * math.sqrt(70 * 30 / 100) * inner)
    _, pate = combine([exact_arm(T), exact_arm(C)], [1, -1], 0.95)
    assert half < pate


def test_overlap_takes_off_what_coins_and_people_share():
    _, half = combine([Arm(50, 0.0, 0.5, noise=0.02, overlap=0.25)], [1.0], 0.9)
    assert half == pytest.approx(normal_quantile(0.9) * math.sqrt(0.02 + 0.75 * 0.5 / 50))


def test_a_variance_that_tells_nothing_is_taken_at_its_largest():
    """The noise of the variance is ω = 3/50/0.001 = 60, so the interval uses the largest variance R²."""
    _, half = combine([Arm(50, 0.0, -4.0, noise=0.001, variance_noise=9.0, radius=2.0)], [1.0], 0.9)
    assert half == pytest.approx(normal_quantile(0.9) * math.sqrt(0.001 + 4 / 50))


def test_a_noisy_variance_near_its_noise_does_not_narrow_sate():
    """If the difference of two variances may be due to noise, it must not reduce the interval."""
    noisy = {"noise": 1e-3, "variance_noise": 0.04, "radius": 1.0}
    arms = [Arm(100, 0.0, 0.3, **noisy), Arm(100, 0.0, 0.0, **noisy)]
    assert combine(arms, [1, -1], 0.9, target="sate")[1] == combine(arms, [1, -1], 0.9)[1]
    sure = [
        Arm(100, 0.0, 0.3, **noisy | {"variance_noise": 1e-6}),
        Arm(100, 0.0, 0.0, **noisy | {"variance_noise": 1e-6}),
    ]
    assert combine(sure, [1, -1], 0.9, target="sate")[1] < combine(sure, [1, -1], 0.9)[1]


def test_arrays_give_what_each_entry_would():
    variances = np.array([0.2, -0.1, 0.5])
    noisy = {"noise": 1e-3, "variance_noise": 1e-3, "radius": 1.0}
    together = combine([Arm(90, np.array([0.1, 0.2, 0.3]), variances, **noisy), exact_arm(C)], [1, -1], 0.9)
    for i, (mean, variance) in enumerate(zip((0.1, 0.2, 0.3), variances, strict=True)):
        value, half = combine([Arm(90, mean, variance, **noisy), exact_arm(C)], [1, -1], 0.9)
        assert (together[0][i], together[1][i]) == (pytest.approx(value), pytest.approx(half))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: exact_arm([0.5]), "at least two rows"),
        (lambda: Arm(1, 0.0, 0.0), "at least two rows"),
        (lambda: combine([exact_arm(T)], [1.0], 1.0), "level"),
        (lambda: combine([exact_arm(T)], [1.0], 0.9, target="sate"), "two arms"),
        (lambda: combine([exact_arm(T), exact_arm(C)], [1, 1], 0.9, target="sate"), "coefficients"),
        (lambda: combine([exact_arm(T), exact_arm(C)], [1, -1], 0.9, target="late"), "target"),
    ],
)
def test_what_is_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
