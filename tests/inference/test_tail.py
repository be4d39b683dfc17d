"""The choice of a clip from noisy shells."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from inference.tail import _candidates, choose_clip, occupied, shell_edges
from privacy.budget import REPLACE_ONE, Rho
from privacy.noise import SeededNoise

FREE = (-math.inf, math.inf)


def choose(values, seed=1, bounds=FREE):
    return choose_clip(
        values, -20.0, 20.0, 10.0, rows=len(values), bounds=bounds, rho=Rho(0.04), rho_mean=Rho(0.3),
        relation=REPLACE_ONE, noise=SeededNoise(seed),
    )  # fmt: skip


def test_clip_stays_where_nothing_lies_beyond():
    kept = sum((c := choose(np.zeros(5000), seed)).lower == -20.0 and c.upper == 20.0 for seed in range(200))
    assert kept >= 180  # a false alarm at two standard deviations on each side: about 1 in 20


def test_clip_moves_on_the_heavy_side_only():
    values = np.append(np.zeros(5000), np.linspace(20, 150, 800))
    clip = choose(values)
    assert clip.lower == -20.0
    assert clip.upper > 100
    mirrored = choose(-values)
    assert mirrored.upper == 20.0
    assert mirrored.lower < -100


def test_clip_stays_in_the_bounds():
    values = np.append(np.zeros(5000), np.linspace(20, 150, 800))
    assert choose(values, bounds=(-20.0, 90.0)).upper <= 90.0
    assert choose(values, bounds=(-10.0, 12.0)).upper <= 20.0


def test_bias_is_what_evenly_spread_rows_lose():
    """Against a slow oracle: the loss of clipping 1,000 rows spread evenly over each shell."""
    edges = shell_edges(20.0, 10.0, math.inf)
    expected = np.array([40.0, 10.0, 5.0, 2.0, 1.0])
    clips, biases = _candidates(expected, edges)
    rows = [np.linspace(a, b, 1001)[:-1] + (b - a) / 2000 for a, b in pairwise(edges)]
    for clip, bias in zip(clips, biases, strict=True):
        oracle = sum(e * np.maximum(r - clip, 0).mean() for e, r in zip(expected, rows, strict=True))
        assert bias == pytest.approx(oracle, rel=1e-4, abs=1e-3)


def test_a_far_cluster_needs_more_evidence():
    assert occupied(np.array([0, 0, 30, 0]), 10.0).sum() == 0
    assert occupied(np.array([0, 0, 60, 0]), 10.0)[2] == 60
