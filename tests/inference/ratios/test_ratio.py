"""Tests of private ratios: estimates by equations 1 to 4, corrections, hypothesis tests and errors."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from estimators import private_ratio
from no_noise import NoNoise
from scipy.stats import t as student

from equistrata.errors import InputError
from equistrata.inference.ratios.equality import equal_ratios
from equistrata.inference.ratios.ratio import fieller_from_sums, ratio_from_sums
from equistrata.inference.ratios.sums import RatioSums
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

PRICE = {"epsilon": 1.0, "delta": 1e-6}


def people(n, seed=0, ratio=1.1):
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 2, n)
    return score, (rng.random(n) < score / ratio).astype(int), rng.exponential(1, n).clip(1 / 3, 3)


def by_hand(s, y, w, log):
    """Return the ratio and its variance by equations 1 to 4 of the paper, except for the common factor of the means."""
    total, squares = w.sum(), (w**2).sum()
    mean_s, mean_y = (w * s).sum() / total, (w * y).sum() / total
    shrink = squares / total**2
    var_s = shrink * ((w * s**2).sum() / total - mean_s**2)
    var_y = shrink * ((w * y**2).sum() / total - mean_y**2)
    cov = shrink * ((w * y * s).sum() / total - mean_y * mean_s)
    if log:
        return math.log(mean_s / mean_y), var_s / mean_s**2 - 2 * cov / (mean_s * mean_y) + var_y / mean_y**2
    return mean_s / mean_y, var_s / mean_y**2 - 2 * mean_s / mean_y**3 * cov + mean_s**2 / mean_y**4 * var_y


@pytest.mark.parametrize(
    ("log", "weighted", "binary", "composition"), list(product([0, 1], [0, 1], [0, 1], ["joint", "basic"]))
)
def test_without_noise_it_is_the_textbook_ratio(log, weighted, binary, composition):
    s, y, w = people(400)
    y = y if binary else y * 0.5 + 0.25
    w = w if weighted else np.ones(400)
    found = private_ratio(
        s, y, w if weighted else None, weight_bound=3.0, **PRICE, composition=composition, correction="none",
        log=bool(log), binary=bool(binary), noise=NoNoise(),
    )  # fmt: skip
    value, variance = by_hand(s, y, w, log)
    assert (found.value, found.variance) == pytest.approx((value, variance), rel=1e-6)
    half = 1.959964 * math.sqrt(variance)
    assert (found.lower, found.upper) == pytest.approx((value - half, value + half), rel=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("log", [False, True])
def test_the_corrections_add_the_variance_of_the_noise(mechanism, log):
    """The analytical correction is compared with the delta method, and the Monte Carlo correction with both.

    The tolerance is more than three standard errors for 200 draws. The relative error is √(2/200) = 0.1 for a
    chi-squared distribution and about 0.16 for Laplace noise.
    """
    s, y, _ = people(5000)
    sums = private_ratio(s, y, **PRICE, mechanism=mechanism, noise=SeededNoise(3)).sums
    none, analytical, drawn = (
        ratio_from_sums(sums, correction=kind, log=log) for kind in ("none", "analytical", "monte-carlo")
    )
    r, gradient = sums["ws"] / sums["wy"], np.zeros(5)
    gradient[[sums.names.index("ws"), sums.names.index("wy")]] = 1, -r
    extra = gradient @ sums.covariance @ gradient / sums["wy"] ** 2 / (r**2 if log else 1)
    assert analytical.variance - none.variance == pytest.approx(extra)
    assert drawn.variance - none.variance == pytest.approx(extra, rel=0.5)
    assert none.value == analytical.value == drawn.value
    assert drawn.variance == ratio_from_sums(sums, correction="monte-carlo", log=log).variance  # the draws are the same


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_cover(mechanism, weighted):
    """The test uses 400 intervals at level 95 % for 2000 rows. The probability that fewer than 362 of the intervals
    cover the ratio is less than 10⁻⁴.
    """
    hits = 0
    for i in range(400):
        s, y, w = people(2000, seed=i)
        found = private_ratio(
            s, y, w if weighted else None, weight_bound=3.0, epsilon=0.3, delta=1e-6, mechanism=mechanism,
            noise=SeededNoise(i),
        )  # fmt: skip
        hits += found.lower <= 1.1 <= found.upper
    assert 362 <= hits <= 395


def test_real_noise():
    """The noisy sums are within 6 standard deviations, with a false alarm rate of 10⁻⁸, and are marked as private."""
    s, y, w = people(3000)
    for mechanism, composition in product(("gaussian", "laplace"), ("joint", "basic")):
        found = private_ratio(
            s, y, w, weight_bound=3.0, epsilon=1.0, delta=1e-6, mechanism=mechanism, composition=composition,
            noise=SecureNoise(),
        )  # fmt: skip
        exact = private_ratio(s, y, w, weight_bound=3.0, **PRICE, noise=NoNoise())
        limit = 6 if mechanism == "gaussian" else 30
        deviations = np.sqrt(np.diag(found.sums.covariance))
        assert (np.abs(found.sums.vector - exact.sums.vector) < limit * deviations).all()
        assert found.sums.private


def sums_of(s, y, w=100.0, deviation=5.0):
    vector = np.array([w, y, s, max(s, 0) * 0.6, min(max(s, 0), max(y, 0)) * 0.6])
    return RatioSums(("w", "wy", "ws", "wss", "wys"), vector, deviation**2 * np.eye(5), Rho(0.1))


@pytest.mark.parametrize("correction", ["none", "analytical", "monte-carlo"])
def test_noisy_sums_that_leave_no_value_say_so(correction):
    for log, least in ((False, 0.0), (True, -math.inf)):
        found = ratio_from_sums(sums_of(40.0, -3.0), correction=correction, log=log)
        assert math.isnan(found.value)
        assert (found.lower, found.upper, found.variance) == (least, math.inf, math.inf)
    below = ratio_from_sums(sums_of(-2.0, 40.0), correction=correction)
    assert (below.value, below.lower) == (0.0, 0.0)
    assert math.isnan(ratio_from_sums(sums_of(-2.0, 40.0), correction=correction, log=True).value)


def test_a_logarithm_that_a_draw_may_lose_has_no_finite_monte_carlo_interval():
    found = ratio_from_sums(sums_of(40.0, 6.0), correction="monte-carlo", log=True)
    assert (found.lower, found.upper) == (-math.inf, math.inf)
    assert math.isfinite(ratio_from_sums(sums_of(40.0, 6.0), log=True).upper)


def test_equal_ratios_looks_for_a_ratio_that_both_allow():
    """The result is compared with a search over two million ratios and with Welch's formula."""
    first, second = (ratio_from_sums(sums_of(*pair)) for pair in ((60.0, 50.0), (40.0, 50.0)))
    test = equal_ratios(first, second)
    deviation = math.sqrt(first.variance + second.variance)
    assert test.difference == pytest.approx(60 / 50 - 40 / 50)
    assert (test.lower, test.upper) == pytest.approx(
        (test.difference - 1.959964 * deviation, test.difference + 1.959964 * deviation), rel=1e-5
    )
    r, squares, parts = np.linspace(0.01, 20, 2_000_000), 0.0, []
    for sums in (first.sums, second.sums):
        labels = (sums["wy"] + sums["ws"] / r) / 2
        sampled = sums["wss"] - 2 * r * sums["wys"] * labels / sums["wy"] + r**2 * labels
        whole = sampled + 25 * (1 + r**2)
        squares = squares + (sums["ws"] - r * sums["wy"]) ** 2 / whole
        parts.append((whole, sampled))
    at = int(np.argmin(squares))
    assert test.statistic == pytest.approx(math.sqrt(squares[at]))
    freedom = sum(v[at] for v, _ in parts) ** 2 / sum(s[at] ** 2 / 99 for _, s in parts)
    assert test.p_value == pytest.approx(2 * student.sf(test.statistic, freedom), rel=1e-4)
    assert equal_ratios(second, first).statistic == -test.statistic
    logs = equal_ratios(*(ratio_from_sums(each.sums, log=True, correction="none") for each in (first, second)))
    assert logs.p_value == test.p_value
    silent = equal_ratios(first, ratio_from_sums(sums_of(40.0, -3.0)))
    assert (silent.p_value, silent.lower, silent.upper) == (1.0, -math.inf, math.inf)
    with pytest.raises(InputError, match="in the same way"):
        equal_ratios(first, ratio_from_sums(sums_of(40.0, 50.0), log=True))
    with pytest.raises(InputError, match="in the same way"):
        equal_ratios(first, ratio_from_sums(sums_of(40.0, 50.0), level=0.9))


def rejections(sizes, shape, factor, runs=300):
    """Return the number of rejections at 5 % by `equal_ratios` and by Wald's test.

    The ratio of the second group is `factor` times the ratio of the first group.
    """
    rng, noise, found = np.random.default_rng(9), SeededNoise(9), [0, 0]
    for _ in range(runs):
        pair = []
        for size, times in zip(sizes, (1.0, factor), strict=True):
            score = rng.beta(*shape, size)
            label = (rng.random(size) < score / 1.1 / times).astype(int)
            pair.append(private_ratio(score, label, epsilon=10.0, delta=1e-6, noise=noise))
        apart = pair[0].value - pair[1].value
        found[0] += equal_ratios(*pair).p_value <= 0.05
        found[1] += abs(apart) > 1.96 * math.sqrt(pair[0].variance + pair[1].variance)
    return found


def test_equal_ratios_keeps_its_level_where_one_group_has_three_labels():
    """The test uses 400 pairs and the level 5 %. The probability of more than 33 rejections is .002. The number of
    rejections of Wald's test is twice as large.
    """
    now, wald = rejections((60, 3000), (0.3, 6.0), 1.0, runs=400)
    assert now <= 33 < wald


def test_equal_ratios_sees_a_difference_where_labels_are_few():
    """The groups have 14 and 9 labels. There are 300 pairs. For Wald's test, the number of rejections is 0. For this
    test, it is about a fifth.

    The tolerance of .07 is three standard errors.
    """
    now, wald = rejections((300, 300), (0.3, 6.0), 1.6)
    assert wald < 5
    assert now >= 30


def test_equal_ratios_keeps_its_level():
    """The test uses 400 pairs with equal ratios and the level 5 %. The probability of more than 40 rejections is less
    than 10⁻⁴, and so is the probability of fewer than 5.
    """
    rejected = 0
    for i in range(400):
        pair = []
        for part in (0, 1):
            s, y, _ = people(1500, seed=2 * i + part)
            pair.append(private_ratio(s, y, epsilon=0.5, delta=1e-6, noise=SeededNoise(2 * i + part)))
        rejected += equal_ratios(*pair).p_value < 0.05
    assert 5 <= rejected <= 40


def test_fieller_agrees_with_wald_where_the_denominator_is_plain():
    s, y, w = people(20_000)
    for weights in (None, w):
        found = private_ratio(s, y, weights, weight_bound=3.0, **PRICE, noise=SeededNoise(2))
        assert fieller_from_sums(found.sums) == pytest.approx(
            (found.lower, found.upper), abs=0.1 * (found.upper - found.lower)
        )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mechanism": "cauchy"}, "mechanism is 'cauchy'"),
        ({"composition": "advanced"}, "composition is 'advanced'"),
        ({"correction": "bootstrap"}, "correction is 'bootstrap'"),
        ({"level": 1.0}, "level is 1"),
        ({"epsilon": -1.0}, "epsilon is -1"),
    ],
)
def test_bad_settings_are_refused_before_rows_are_read(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        private_ratio([2.0], [3.0], **(PRICE | settings), noise=SeededNoise(0))
