"""Consistent sums against least squares done in one go with a design matrix."""

from __future__ import annotations

import numpy as np
import pytest

from equistrata.errors import InputError
from equistrata.inference.ratios.design import PricedDesign
from equistrata.inference.ratios.hierarchy import consistent_sums
from equistrata.inference.ratios.sums import RatioSums, measure_sums
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

NAMES = ("w", "wy", "ws", "wss", "wys")
TREE = {"nation": ["north", "south"], "north": ["a", "b", "c"], "south": ["d", "e"]}
LEAVES = ["a", "b", "c", "d", "e"]


def some_sums(rng, rho=0.1):
    root = rng.normal(size=(5, 5))
    return RatioSums(NAMES, rng.normal(50, 20, 5), root @ root.T + 0.1 * np.eye(5), Rho(rho), 0.1, 1e-6)


def below(node):
    return [leaf for child in TREE[node] for leaf in below(child)] if node in TREE else [node]


def all_at_once(measured):
    """Generalised least squares for the leaves; then every node and its covariance."""
    design, answers, precision = [], [], []
    for node, sums in measured.items():
        design.append(np.hstack([np.eye(5) if leaf in below(node) else np.zeros((5, 5)) for leaf in LEAVES]))
        answers.append(sums.vector)
        precision.append(np.linalg.inv(sums.covariance))
    information = sum(x.T @ p @ x for x, p in zip(design, precision, strict=True))
    covariance = np.linalg.inv(information)
    leaves = covariance @ sum(x.T @ p @ y for x, p, y in zip(design, precision, answers, strict=True))
    found = {}
    for node in [*TREE, *LEAVES]:
        x = np.hstack([np.eye(5) if leaf in below(node) else np.zeros((5, 5)) for leaf in LEAVES])
        found[node] = (x @ leaves, x @ covariance @ x.T)
    return found


@pytest.mark.parametrize("inner", [[], ["nation"], ["north"], ["north", "south"], ["nation", "north", "south"]])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_least_squares_in_one_go(inner, seed):
    rng = np.random.default_rng(seed)
    measured = {node: some_sums(rng) for node in [*LEAVES, *inner]}
    found, expected = consistent_sums(measured, TREE), all_at_once(measured)
    assert found.keys() == expected.keys()
    for node, (vector, covariance) in expected.items():
        assert np.allclose(found[node].vector, vector)
        assert np.allclose(found[node].covariance, covariance)
    for node, parts in TREE.items():
        assert np.allclose(found[node].vector, sum(found[part].vector for part in parts))


def test_without_measured_inner_nodes_they_are_plain_sums():
    rng = np.random.default_rng(0)
    measured = {leaf: some_sums(rng) for leaf in LEAVES}
    north = consistent_sums(measured, TREE)["north"]
    plain = measured["a"] + measured["b"] + measured["c"]
    assert np.allclose(north.vector, plain.vector)
    assert np.allclose(north.covariance, plain.covariance)


def test_several_trees_and_lone_groups():
    rng = np.random.default_rng(0)
    measured = {node: some_sums(rng) for node in ("a", "b", "lone", "top")}
    found = consistent_sums(measured, {"top": ["a", "b"]})
    assert np.array_equal(found["lone"].vector, measured["lone"].vector)
    assert np.allclose(found["top"].vector, found["a"].vector + found["b"].vector)


def test_price_is_that_of_the_dearest_path():
    rng = np.random.default_rng(0)
    prices = {"a": 0.1, "b": 0.1, "c": 0.3, "d": 0.1, "e": 0.1, "north": 0.2, "nation": 0.4, "south": 0.5}
    found = consistent_sums({node: some_sums(rng, rho) for node, rho in prices.items()}, TREE)
    assert float(found["a"].rho) == pytest.approx(0.4 + 0.5 + 0.1)
    assert found["a"].epsilon is None  # that of one measurement no longer holds
    assert not found["a"].private


def test_real_noise_stays_marked():
    price = PricedDesign.of_rho(0.1, weighted=False, binary=True)
    measured = {leaf: measure_sums([0.5], [1], price, noise=SecureNoise()) for leaf in ("a", "b")}
    assert consistent_sums(measured, {"top": ["a", "b"]})["top"].private
    measured["b"] = measure_sums([0.5], [1], price, noise=SeededNoise(0))
    assert not consistent_sums(measured, {"top": ["a", "b"]})["top"].private


def test_hierarchies_that_are_none():
    rng = np.random.default_rng(0)
    sums = {node: some_sums(rng) for node in "abc"}
    for children, sentence in (
        ({"x": ["a"], "y": ["a"]}, "two parents"),
        ({"x": ["x"]}, "two parents"),
        ({"x": ["y"], "y": ["x"]}, "circle"),
        ({"x": ["a", "unmeasured"]}, "'unmeasured' has no children"),
        ({"x": []}, "empty list"),
    ):
        with pytest.raises(InputError, match=sentence):
            consistent_sums(sums, children)
    other = RatioSums((*NAMES, "wyy"), np.zeros(6), np.eye(6), Rho(0.1))
    with pytest.raises(InputError, match="different sums"):
        consistent_sums(sums | {"b": other}, {"x": ["a", "b"]})
