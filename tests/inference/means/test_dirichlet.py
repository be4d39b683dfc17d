"""Tests of Theorem 10, Proposition 9 and the fitted α, which are compared with simulation, other fits and the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimators import stratified_error_bound, stratified_laplace_mean
from scipy import stats

from equistrata.errors import InputError
from equistrata.inference.means.laplace import (
    _laplace_tail,
    equal_log_sizes,
    expected_log_sizes,
    fit_alpha,
    least_log_sizes,
)
from equistrata.privacy.noise import SeededNoise

RACE = np.array([138474, 24024, 508, 5, 244, 17030, 72, 10964, 5646])  # New York 2018, RAC1P


@pytest.mark.parametrize(("k", "alpha"), [(2, 1.0), (9, 0.13), (9, 0.5), (18, 3.0)])
def test_theorem_10_is_the_expectation(k, alpha):
    """The mean of Σ log(gᵢn) over 20,000 samples is within five standard errors. Logarithms are used to avoid
    underflow.
    """
    rng = np.random.default_rng(k)
    # The formula log Gamma(α) = log Gamma(α + 1) + log(U)/α is exact for very small shares.
    logs = np.log(rng.gamma(alpha + 1, size=(20_000, k))) + np.log(rng.random((20_000, k))) / alpha
    shares = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
    sums = (shares + math.log(5000)).sum(1)
    error = sums.std() / math.sqrt(len(sums))
    assert abs(sums.mean() - expected_log_sizes(k, alpha, 5000)) < 5 * error


def log_likelihood(alpha, shares):
    return stats.dirichlet.logpdf(shares / shares.sum(), [alpha] * len(shares))


@pytest.mark.parametrize("sizes", [RACE, np.array([3.0, 1.0]), np.arange(1, 40), np.array([1e-9, 1.0, 2.0])])
def test_fit_is_the_maximum_of_the_likelihood(sizes):
    alpha = fit_alpha(sizes)
    best = log_likelihood(alpha, sizes)
    assert all(log_likelihood(alpha * (1 + d), sizes) < best for d in (-0.5, -0.01, 0.01, 0.5))
    assert expected_log_sizes(len(sizes), alpha, sizes.sum()) == pytest.approx(np.log(sizes).sum(), rel=1e-9)


def test_the_papers_table():
    """The paper's α ≈ 0.13 is the fit of Σ g² and not the maximum likelihood.

    The claim of the paper ("80 % better") does not hold for this table.
    """
    assert fit_alpha(RACE, method="moments") == pytest.approx(0.13, abs=0.0005)
    assert fit_alpha(RACE) == pytest.approx(0.2566, abs=0.0001)
    worst, best = equal_log_sizes(9, 196_967), least_log_sizes(9, 196_967)
    gain = [(worst - expected_log_sizes(9, alpha, 196_967)) / (worst - best) for alpha in (0.13, fit_alpha(RACE))]
    assert gain == pytest.approx([0.642, 0.293], abs=0.001)


def test_bound_holds_for_the_estimator_it_is_about():
    """The noise of the stratified Laplace mean is larger than the bound in at most γ of the 400 runs.

    All rows are 0, so no row is clipped and the exact mean is 0. The bound is within a factor of ten of the 95 %
    quantile.
    """
    sizes = (4000, 300, 40, 3)
    groups = [np.zeros(size) for size in sizes]
    settings = {"radius": 1.0, "epsilon": 0.5, "gamma": 0.05}
    errors = np.abs([stratified_laplace_mean(groups, **settings, noise=SeededNoise(seed)).value for seed in range(400)])
    own = stratified_error_bound(4, 4343, sum(map(math.log, sizes)), **settings)
    assert np.mean(errors > own) <= 0.05
    assert own < 10 * np.quantile(errors, 0.95)
    assert own < stratified_error_bound(4, 4343, equal_log_sizes(4, 4343), **settings)


def test_bound_by_hand():
    """The bound is computed from the noise scale of each group with the inequality (a + b)² ≤ 2a² +
    2b² of the paper.
    """
    sizes, radius, sigma, epsilon, gamma = (4000, 300, 40, 3), 1.5, 2.0, 0.5, 0.1
    squares, scales = 0.0, []
    for size in sizes:
        scales.append(2 * (radius + sigma * math.sqrt(math.log(size / gamma))) / epsilon)
        squares += 8 / epsilon**2 * (radius**2 + sigma**2 * math.log(size / gamma))
    assert sum(scale**2 for scale in scales) <= squares
    by_hand = math.sqrt(2 * squares) * (1 + math.log(2 / gamma)) / sum(sizes)
    settings = {"radius": radius, "sigma": sigma, "epsilon": epsilon, "gamma": gamma}
    found = stratified_error_bound(4, sum(sizes), sum(map(math.log, sizes)), **settings)
    assert found == pytest.approx(by_hand)
    assert found >= _laplace_tail(scales, gamma) / sum(
        sizes
    )  # the interval of `equistrata.inference.means.laplace`, which is tighter


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_log_sizes(0, 1.0, 10), "k"),
        (lambda: expected_log_sizes(2, 0.0, 10), "alpha"),
        (lambda: expected_log_sizes(2, math.nan, 10), "alpha"),
        (lambda: expected_log_sizes(2, 1.0, 0), "n is 0"),
        (lambda: least_log_sizes(9, 8), "9 groups"),
        (lambda: fit_alpha([1.0]), "two groups"),
        (lambda: fit_alpha([1.0, 0.0]), "empty groups"),
        (lambda: fit_alpha([1.0, math.inf]), "empty groups"),
        (lambda: fit_alpha([1.0, 2.0], method="guess"), "guess"),
        (lambda: stratified_error_bound(2, 10, 1.0, radius=0, epsilon=1), "radius"),
        (lambda: stratified_error_bound(2, 10, 1.0, radius=1, epsilon=1, gamma=1), "gamma"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
