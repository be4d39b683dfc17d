"""Tests of the clipped Laplace mean. The tests check the value, the noise and the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimators import laplace_mean, stratified_laplace_mean

from equistrata.privacy.budget import REPLACE_ONE, Rho
from equistrata.privacy.noise import SeededNoise


def normal(rows: int, mean: float = 0.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1, rows)


@pytest.mark.parametrize("sigma", [1.0, 20.0])
def test_value_and_noise_are_the_papers(sigma):
    values = sigma * np.append(normal(99), 50.0)
    clip = 2 * sigma + sigma * math.sqrt(math.log(100 / 0.05))
    scale = 2 * clip / (100 * 0.7)
    runs = [
        laplace_mean(values, radius=2 * sigma, epsilon=0.7, sigma=sigma, noise=SeededNoise(i)).value
        for i in range(4000)
    ]
    assert np.mean(runs) == pytest.approx(np.clip(values, -clip, clip).mean(), abs=5 * scale / math.sqrt(2000))
    assert np.mean(np.abs(runs - np.mean(runs))) == pytest.approx(scale, rel=0.05)


def test_account():
    found = laplace_mean(normal(10), radius=2, epsilon=0.5, noise=SeededNoise(1))
    assert (found.epsilon, found.rho, found.relation) == (0.5, Rho(0.125), REPLACE_ONE)
    assert found.entries == (("clipped mean", Rho(0.125)),)


@pytest.mark.parametrize("rows", [1, 20, 1000])
def test_interval_covers_the_population_mean(rows):
    misses = 0
    for i in range(400):
        found = laplace_mean(normal(rows, seed=i), radius=1, epsilon=1, gamma=0.1, noise=SeededNoise(i))
        misses += not found.lower <= 0.5 <= found.upper
    assert misses <= 40


def test_stratified_recombines_by_size():
    groups = {"b": normal(300), "a": normal(100, -0.5), "c": np.empty(0)}
    found = stratified_laplace_mean(groups, radius=1, epsilon=1, noise=SeededNoise(1))
    assert found.weights == {"b": 0.75, "a": 0.25, "c": 0.0}
    assert found.value == pytest.approx(sum(found.weights[key] * found.strata[key].value for key in groups))
    assert found.strata["c"].value == 0
    again = stratified_laplace_mean(dict(sorted(groups.items())), radius=1, epsilon=1, noise=SeededNoise(1))
    assert again.strata == dict(found.strata)
    assert (again.value, again.half_width) == pytest.approx((found.value, found.half_width))


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"radius": 0}, "radius"), ({"epsilon": -1}, "epsilon"), ({"gamma": 0}, "gamma"), ({"sigma": math.inf}, "sigma")],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        laplace_mean(normal(9), **{"radius": 1, "epsilon": 1} | setting, noise=SeededNoise(1))


def test_empty_groups_need_weights():
    with pytest.raises(ValueError, match="give the weights"):
        stratified_laplace_mean({"a": []}, radius=1, epsilon=1, noise=SeededNoise(1))
