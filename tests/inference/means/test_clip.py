"""Tests of the clipping interval, which is selected with noisy counts of the tails."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from equistrata.inference.means import clip as clips
from equistrata.inference.means.clip import (
    GROWTH,
    MOST_BEYOND,
    TAIL_INDEX,
    Clip,
    Shells,
    _candidates,
    expected_loss,
    shell_edges,
)
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.lattice import GaussianCharge, noisy_histogram
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import SeededNoise

FREE = (-math.inf, math.inf)


def choose(values, seed=1, bounds=FREE, variance=None):
    """Return a clipping interval that contains [-20, 20], for a mean with ρ = 0.3 and a histogram with a noise of 5
    rows.
    """
    shells = Shells.around(Clip(-20.0, 20.0), 10.0, bounds)
    purchase = GaussianCharge(Rho(0.04), Budget(Rho(0.04)), SeededNoise(seed), "tail histogram")
    counts, sigma = noisy_histogram(values, shells.edges, REPLACE_ONE, purchase)
    variance = variance or (lambda low, high: ((high - low) / len(values)) ** 2 / 0.6)
    return shells.best_clip(counts, sigma, len(values), variance)


def test_clip_of_a_large_table_stays_near_where_nothing_lies_beyond():
    widths = [(c := choose(np.zeros(200_000), seed)).upper - c.lower for seed in range(100)]
    assert np.median(widths) < 1.3 * 40


def test_clip_of_a_small_table_allows_for_a_tail_that_noise_hides(monkeypatch):
    """There are 2,000 rows. In one of the tables, 20 rows are in the tail, which is four standard deviations of the
    noise.

    A prior without tails does not find them.
    """
    near = np.zeros(2000)
    far = np.append(near[20:], np.full(20, 32.0))
    upper = {
        name: [choose(rows, seed).upper for seed in range(100)] for name, rows in {"near": near, "far": far}.items()
    }
    assert np.quantile(upper["far"], 0.1) >= 29
    assert 20 <= np.median(upper["near"]) < 26
    monkeypatch.setattr(clips, "MOST_BEYOND", 1e-4)
    assert np.quantile([choose(far, seed).upper for seed in range(100)], 0.1) < 29


def test_clip_moves_on_the_heavy_side_only():
    values = np.append(np.zeros(200_000), np.linspace(20, 150, 800))
    clip = choose(values)
    assert clip.lower > -26.0
    assert clip.upper > 100
    mirrored = choose(-values)
    assert mirrored.upper < 26.0
    assert mirrored.lower < -100


def test_clip_stays_in_the_bounds():
    values = np.append(np.zeros(5000), np.linspace(20, 150, 800))
    assert choose(values, bounds=(-20.0, 90.0)).upper <= 90.0
    assert choose(values, bounds=(-10.0, 12.0)).upper <= 20.0


def test_clip_makes_what_is_expected_least():
    """Both tails are equal, and the side with the larger cost of noise must be clipped more."""
    far = np.linspace(20, 40, 100)
    values = np.concatenate([np.zeros(20_000), far, -far])
    clip = choose(values, variance=lambda low, high: (low**2 + 100 * high**2) / 1e7)
    assert clip.upper < 30 < -clip.lower


@pytest.mark.parametrize("bound", [math.inf, 90.0, 31.0])
def test_a_loss_is_what_evenly_spread_rows_lose(bound):
    """The loss of clipping 1,000 rows that are uniform in each shell, or at a bound. This is a slow reference
    implementation.
    """
    edges = shell_edges(20.0, 10.0, bound)
    candidates, lost = _candidates(edges)
    rows = [np.linspace(a, b, 1001)[:-1] + (b - a) / 2000 for a, b in pairwise(edges)]
    for clip, found in zip(candidates, lost, strict=True):
        oracle = [np.maximum(r - clip, 0).mean() for r in rows]
        assert found == pytest.approx(oracle, rel=1e-4, abs=1e-3)


def test_stated_bias_is_what_the_clip_takes():
    beyond = np.concatenate([np.linspace(20.1, 35, 5000), np.linspace(35.1, 72.4, 500)])  # in the first two shells
    values = np.append(np.zeros(100_000), beyond)
    # The variance determines the clipping interval.
    clip = choose(values, variance=lambda low, high: 0 * low + np.abs(high - 30.0))
    assert clip.upper == pytest.approx(30, abs=1)
    assert clip.bias == pytest.approx(np.maximum(values - clip.upper, 0).mean(), rel=0.2)
    assert clip.beyond == pytest.approx(0.052, rel=0.1)


@pytest.mark.parametrize("counts", [[60, 2, 0], [0, 0, 0], [9, -3, 4], [200, 20, 0]])
def test_expected_loss_is_that_of_its_model(counts):
    """The loss is compared with samples of the model, which are weighted by the likelihood of the counts."""
    rng = np.random.default_rng(0)
    rows, sigma, lost = 5000.0, 15.0, np.array([[1.0, 4.0, 10.0], [0.0, 2.0, 9.0]])
    draws, fall = 1_000_000, GROWTH**-TAIL_INDEX
    share = rng.choice(np.geomspace(1 / rows, MOST_BEYOND, 16), draws) * (rng.random(draws) < 0.5)
    means = rows * share[:, None] * np.array([1 - fall, fall - fall**2, fall**2])
    drawn = means * rng.exponential(size=(draws, 3))
    log = -(((np.array(counts) - drawn) / sigma) ** 2).sum(1) / 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean, square = expected_loss(np.array(counts), sigma, rows, lost)
    assert mean == pytest.approx(weights @ (drawn @ lost.T), rel=0.03)
    assert square == pytest.approx(weights @ (drawn @ lost.T) ** 2, rel=0.05)


@pytest.mark.parametrize(
    ("count", "sigma", "rows"), [(1e6, 3.0, 1e7), (-1e5, 3.0, 1e7), (0.0, 1e7, 2.0), (5.0, 1e-3, 1e9)]
)
def test_expected_loss_is_finite_far_out(count, sigma, rows):
    for found in expected_loss(np.array([count, 0.0, 0.0]), sigma, rows, np.ones((1, 3))):
        assert np.isfinite(found).all()
        assert (found >= 0).all()


def test_nothing_is_expected_where_nothing_can_lie():
    candidates, lost = _candidates([5.0])
    assert candidates.tolist() == [5.0]
    assert [part.tolist() for part in expected_loss(np.array([], dtype=np.int64), 5.0, 100.0, lost)] == [[0.0], [0.0]]


def test_rows_at_a_bound_are_counted_by_themselves():
    shells = Shells.around(Clip(-20.0, 20.0), 10.0, (-32.0, 31.0))
    values = np.concatenate([np.zeros(50), np.full(3, 25.0), np.full(7, 31.0), np.full(5, -32.0), np.full(2, -30.0)])
    purchase = GaussianCharge(Rho(1e9), Budget(Rho(1e9)), SeededNoise(1), "tail histogram")
    counts, _ = noisy_histogram(values, shells.edges, REPLACE_ONE, purchase)
    assert [side.tolist() for side in shells.sides(counts)] == [[2, 5], [3, 7]]


def test_a_top_code_at_the_bound_is_covered():
    """Up to 3 % of the wages are at the bound, which is nine declared standard deviations from the centre.

    The 400 and 540 rows are 18 and 24 standard deviations of the noise. The test uses 40 intervals at level .99. The
    probability that fewer than 37 of the intervals cover the mean is 1 in 100,000. The seeds are fixed.
    """
    coinpress = Coinpress(0, 500_000, 80_000, sizes="noisy", bounds=(0, 787_000), level=0.99)
    for share in (0.02, 0.027):
        covered = 0
        for seed in range(40):
            wages = np.minimum(np.random.default_rng(seed).lognormal(10.9, 0.6, 20_000), 500_000)
            wages[: round(share * len(wages))] = 787_000
            found = coinpress.mean(wages, 0.0125, SeededNoise(seed))
            covered += found.lower <= wages.mean() <= found.upper
        assert covered >= 37
