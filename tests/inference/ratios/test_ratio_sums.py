"""Tests of noisy sums: the sensitivity by a search over rows, the sums by a loop, and the covariance of the noise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from estimators import measure_sums
from no_noise import NoNoise
from refutation import HalvedNoise, empirical_epsilon

from equistrata import ratio
from equistrata.errors import InputError
from equistrata.inference.means.lattice import HALF
from equistrata.inference.ratios.design import Design, PricedDesign
from equistrata.inference.ratios.sums import lattice_sums
from equistrata.privacy.budget import ADD_REMOVE, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

KINDS = list(product([False, True], [False, True]))  # weighted, binary
PRICE = {"epsilon": 0.5, "delta": 1e-6}


def of_price(mechanism="gaussian", composition="joint", weighted=False, binary=True, **price):
    settings = PRICE | price
    return PricedDesign.of_epsilon_delta(
        settings["epsilon"], settings["delta"], mechanism, composition, weighted=weighted, binary=binary
    )


def rows(n, weighted, binary, seed=0):
    """Return scores, labels and weights up to 3. Each fourth number is at an end of its range."""
    rng = np.random.default_rng(seed)
    score, label, weight = rng.random((3, n))
    score[::4], label[::4], weight[::4] = rng.integers(0, 2, (3, len(score[::4])))
    return score, np.rint(label) if binary else label, 3 * weight if weighted else None


def naive(score, label, weight):
    """Return the sums by name. This is a slow reference implementation."""
    sums = dict.fromkeys(("w", "wy", "ws", "wss", "wys", "ww", "wyy"), 0.0)
    for i in range(len(score)):
        s, y, w = score[i], label[i], 1.0 if weight is None else weight[i]
        for name, term in zip(sums, (w, w * y, w * s, w * s * s, w * y * s, w * w, w * y * y), strict=True):
            sums[name] += term
    return sums


@pytest.mark.parametrize(("weighted", "binary"), KINDS)
@pytest.mark.parametrize(("mechanism", "norm"), [("gaussian", 2), ("laplace", 1)])
def test_no_row_is_longer_than_the_joint_sensitivity_and_one_is_as_long(mechanism, norm, weighted, binary):
    grid = np.linspace(0, 1, 41)
    score, label, t = np.meshgrid(grid, [0, 1] if binary else grid, grid if weighted else [1.0])
    features = {
        "w": t, "wy": t * label, "ws": t * score, "wss": t * score**2, "wys": t * label * score, "ww": t**2,
        "wyy": t * label**2,
    }  # fmt: skip
    design = Design.joint(mechanism, weighted=weighted, binary=binary)
    along = design.axes @ np.stack([features[name].ravel() for name in design.names])
    assert np.linalg.norm(along, norm, axis=0).max() == pytest.approx(design.sensitivity, abs=1e-12)


@pytest.mark.parametrize(("mechanism", "exact"), [("gaussian", math.sqrt(13) / 4), ("laplace", 7 / 4)])
def test_the_sensitivity_is_that_of_the_proof(mechanism, exact):
    assert Design.joint(mechanism, weighted=True, binary=False).sensitivity == pytest.approx(exact)


@pytest.mark.parametrize(("weighted", "binary"), KINDS)
@pytest.mark.parametrize(("mechanism", "norm"), [("gaussian", 2), ("laplace", 1)])
@pytest.mark.parametrize("composition", ["joint", "basic"])
def test_whole_numbers_of_a_row_stay_under_the_lattice_sensitivity(composition, mechanism, norm, weighted, binary):
    design = of_price(mechanism, composition, weighted, binary).design
    score, label, weight = rows(4000, weighted, binary)
    one_each = (x[:, None] for x in (score, label))
    whole = lattice_sums(*one_each, None if weight is None else weight[:, None] / 3, design)
    lengths = np.linalg.norm(whole.astype(float), norm, axis=1) if composition == "joint" else np.abs(whole)
    assert lengths.max() <= design.lattice_sensitivity(mechanism)
    assert lengths.max() >= design.sensitivity * HALF * (1 - 1e-9)


@pytest.mark.parametrize(("weighted", "binary"), KINDS)
@pytest.mark.parametrize("composition", ["joint", "basic"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_without_noise_they_are_the_sums(mechanism, composition, weighted, binary):
    score, label, weight = rows(500, weighted, binary)
    price = of_price(mechanism, composition, weighted, binary)
    sums = measure_sums(score, label, price, weight, weight_bound=3.0, noise=NoNoise())
    expected = naive(score, label, weight)
    assert len(sums) == 5 + weighted + (not binary)
    assert dict(sums) == pytest.approx({name: expected[name] for name in sums}, abs=1e-4)


@pytest.mark.parametrize("composition", ["joint", "basic"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_noise_has_the_stated_covariance(mechanism, composition):
    """The test uses 4000 draws. The standard error of each entry is less than 4 % of the scale, and the tolerance is
    four standard errors.
    """
    price = of_price(mechanism, composition, weighted=True, binary=False)
    draws = [measure_sums([], [], price, [], weight_bound=3.0, noise=SeededNoise(i)) for i in range(4000)]
    stated = draws[0].covariance
    scale = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs((np.cov(np.stack([draw.vector for draw in draws]).T) - stated) / scale).max() < 0.16
    assert np.abs(np.mean([draw.vector for draw in draws], axis=0) / np.sqrt(np.diag(stated))).max() < 4 / math.sqrt(
        4000
    )


def test_basic_noise_is_the_papers_but_for_the_square_of_the_weights():
    sums = measure_sums(
        [], [], of_price(composition="basic", weighted=True), [], weight_bound=3.0, noise=SeededNoise(0)
    )
    sigma = 3 * math.sqrt(2 * math.log(1.25 * 6 / 1e-6)) * 6 / 0.5  # eq. 5 at (ε/6, δ/6), Δ = u = 3
    deviations = dict(zip(sums.names, np.sqrt(np.diag(sums.covariance)).tolist(), strict=True))
    assert deviations.pop("ww") == pytest.approx(3 * sigma)  # u², and not u as in the paper
    assert deviations == pytest.approx(dict.fromkeys(("w", "wy", "ws", "wss", "wys"), sigma))


def test_the_price_is_stated():
    for price, rho in (
        (of_price(), Rho.from_epsilon_delta(0.5, 1e-6)),
        (of_price("laplace"), Rho(0.125)),
        (of_price("laplace", "basic"), Rho(0.125)),
    ):
        sums = measure_sums([], [], price, noise=SeededNoise(0))
        assert (sums.rho, sums.relation, sums.epsilon) == (rho, ADD_REMOVE, 0.5)
        assert sums.delta == (1e-6 if price.mechanism == "gaussian" else 0.0)
        assert not sums.private
    assert of_price(composition="basic").rho.epsilon(1e-6) < 0.5  # the composition by zCDP is tighter than in the paper
    assert measure_sums([0.5], [1], of_price(), noise=SecureNoise()).private


def test_sums_of_disjoint_groups_add_up():
    score, label, _ = rows(60, False, True)
    price = of_price()
    first, second, whole = (
        measure_sums(score[part], label[part], price, noise=NoNoise())
        for part in (slice(20), slice(20, None), slice(None))
    )
    both = first + second
    assert dict(both) == pytest.approx(dict(whole), abs=1e-6)
    assert np.allclose(both.covariance, 2 * whole.covariance)
    assert both.rho == whole.rho
    with pytest.raises(InputError, match="designs differ"):
        _ = first + measure_sums(score, label, of_price(binary=False), noise=NoNoise())


def test_the_callers_arrays_stay_as_they_were():
    score, label, weight = rows(50, True, True)
    before = [array.copy() for array in (score, label, weight)]
    for array in (score, label, weight):
        array.flags.writeable = False
    measure_sums(score, label, of_price(weighted=True), weight, weight_bound=3.0, noise=SeededNoise(0))
    assert all(np.array_equal(a, b) for a, b in zip(before, (score, label, weight), strict=True))


CANARY = 0.8841


@pytest.mark.parametrize(
    ("score", "label", "weight", "sentence"),
    [
        ([1 + CANARY], [1], None, "numerator must lie in"),
        ([-CANARY], [1], None, "numerator must lie in"),
        ([math.nan], [1], None, "numerator must lie in"),
        ([0.5], [CANARY], None, "other than 0 and 1"),
        ([0.5], [math.nan], None, "denominator must lie in"),
        ([0.5, CANARY], [1], None, "differ in length"),
        ([0.5], [1], [3 + CANARY], "weights must lie in"),
        ([0.5], [1], [1, 1], "differ in length"),
        ([[0.5]], [1], None, "one-dimensional"),
        ([f"{CANARY}x"], [1], None, "must be numbers"),
    ],
)
def test_bad_rows_are_refused_without_being_quoted(score, label, weight, sentence):
    with pytest.raises(InputError, match=sentence) as raised:
        measure_sums(
            score, label, of_price(weighted=weight is not None), weight, weight_bound=3.0, noise=SeededNoise(0)
        )
    assert "8841" not in str(raised.value)


def test_weights_without_their_bound_are_refused():
    with pytest.raises(InputError, match=r"weights are of type list; give RatioWeights\(values, bound\)"):
        ratio([0.5], [1], [1], epsilon=1, delta=1e-9)


@pytest.mark.parametrize(
    ("price", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 0.0}, "delta is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"epsilon": 1e4}, "epsilon must be a positive number, at most 500"),
        ({"epsilon": 40.0, "composition": "basic"}, "the classical Gaussian mechanism"),
    ],
)
def test_bad_prices_are_refused(price, sentence):
    with pytest.raises(InputError, match=sentence):
        of_price(**price)


# Attempts at refutation with one row and no row, by the best statistic, which is dᵀΣ⁻¹(sums) for Gaussian noise.
RUNS = 4000
DELTA = 0.05
CORNER = {"score": [1.0], "label": [1.0], "weight": [3.0]}
HEAVY = {"score": [1.0], "label": [1.0], "weight": [6.0]}
FREE = {"score": [0.5], "label": [0.0], "weight": [1.5]}  # a long row along the axes without cost


def bound(price, row, fault=False, weight_bound=3.0):
    one = measure_sums(row["score"], row["label"], price, row["weight"], weight_bound=weight_bound, noise=NoNoise())
    change = np.linalg.solve(one.covariance, one.vector)

    def statistics(values, start):
        noises = (SeededNoise(i) for i in range(start, start + RUNS))
        return [
            change @ measure_sums(*values, weight_bound=weight_bound, noise=HalvedNoise(n) if fault else n).vector
            for n in noises
        ]

    without = statistics(([], [], price, []), 0)
    with_row = statistics((row["score"], row["label"], price, row["weight"]), RUNS)
    return empirical_epsilon(np.array(without), np.array(with_row), DELTA)


def gaussian_price(weighted=True):
    return PricedDesign.of_rho(0.5, weighted=weighted, binary=True)


@pytest.mark.slow
@pytest.mark.parametrize("row", [CORNER, FREE])
def test_joint_gaussian_claim_stands(row):
    assert bound(gaussian_price(), row) <= Rho(0.5).epsilon(DELTA)


@pytest.mark.slow
def test_halved_noise_is_caught():
    assert bound(gaussian_price(), CORNER, fault=True) > Rho(0.5).epsilon(DELTA)


@pytest.mark.slow
def test_charging_the_square_of_the_weights_as_the_paper_says_is_caught():
    """The sensitivity of Σw² is u² and not u. With the noise for u, the claimed privacy cost is the same."""
    design = Design.basic(weighted=True, binary=True)
    honest = PricedDesign(design, "gaussian", math.sqrt(6) * HALF, Rho(0.5))  # 1/(2·6) for each of six sums
    axes = design.axes.copy()
    axes[design.names.index("ww")] *= 6
    papers = replace(honest, design=replace(design, axes=axes))
    claim = Rho(0.5).epsilon(DELTA)
    assert bound(honest, HEAVY, weight_bound=6.0) <= claim < bound(papers, HEAVY, weight_bound=6.0)


def laplace_bound(price, row, fault=False):
    """Return the empirical pure ε of the sum of the signs along the axes."""

    change = price.design.axes @ measure_sums(*row, price, noise=NoNoise()).vector

    def statistics(values, start):
        found = []
        for i in range(start, start + RUNS):
            noise = HalvedNoise(SeededNoise(i)) if fault else SeededNoise(i)
            along = price.design.axes @ measure_sums(*values, noise=noise).vector
            found.append(np.minimum(np.maximum(along * np.sign(change), 0), np.abs(change)).sum())
        return np.array(found)

    return empirical_epsilon(statistics(([], [], price), 0), statistics((*row, price), RUNS), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [False, True])
def test_joint_laplace_claim(fault):
    price = PricedDesign.of_epsilon_delta(1.0, 1e-6, "laplace", "joint", weighted=False, binary=True)
    assert (laplace_bound(price, ([1.0], [1.0]), fault) > 1.0) == fault
