"""Tails beyond what is seen: falling curves by how well they fit, against a loop over them, and against plain falls."""

from dataclasses import replace
from itertools import product
from math import exp, log

import numpy as np
import pytest

from equistrata.stats import tails
from equistrata.stats.tails import expected_beyond
from equistrata.stats.trees import Tree, levels_of


def noisy(counts, levels, sigma, seed):
    """Counts of a tree's levels with noise."""
    rng, found = np.random.default_rng(seed), {}
    for level in levels:
        nodes = np.bincount(np.arange(len(counts)) >> level, counts)
        found[level] = (nodes + rng.normal(0, sigma, len(nodes)), sigma)
    return found


def test_it_is_the_mean_of_all_curves_by_their_likelihood():
    sizes, first = np.array([8.0, 8, 8, 8, 5]), 12.0
    own = (np.arange(5), np.array([90.0, 70, 20, 30, -10]), np.full(5, 300.0))
    pairs = (np.array([0, 0, 1, 1, -1]), np.array([170.0, 40]), np.array([100.0, 150.0]))
    total, found = 0.0, np.zeros(5)
    for amplitude, power, half in product(tails._AMPLITUDES, tails._POWERS, tails._HALF_LIVES):
        density = [first * amplitude * 2 ** -((t / half) ** power) for t in range(5)]
        rows, likelihood = [size * each for size, each in zip(sizes, density, strict=True)], 0.0
        for groups, values, variances in (own, pairs):
            for place, (value, variance) in enumerate(zip(values, variances, strict=True)):
                inside = [row for row, group in zip(rows, groups, strict=True) if group == place]
                spread = variance + tails._APART**2 * sum(row**2 for row in inside)
                likelihood -= ((value - sum(inside)) ** 2 / spread + log(spread)) / 2
        total, found = total + exp(likelihood), found + exp(likelihood) * np.array(density)
    np.testing.assert_allclose(expected_beyond([own, pairs], first, sizes), found / total)


def test_what_a_level_was_measured_to_hold_comes_back():
    measured = noisy(np.full(500, 40.0), (0, 3, 6), 20.0, 1)
    tree = Tree.of(500, measured)
    values, variances = tree._measured(6)
    np.testing.assert_allclose(values[:8], measured[6][0])
    np.testing.assert_allclose(variances, 400.0)
    for level in (4, 5, 7):
        assert np.isinf(tree._measured(level)[1]).all()


def pareto_counts(draws, seed):
    """Amounts whose logarithms are normal and, of one in four, Pareto's beyond; 90 bins to a factor of ten."""
    rng = np.random.default_rng(seed)
    logs = np.where(rng.random(draws) < 0.25, 2.3 + rng.exponential(1 / (1.6 * np.log(10)), draws), 0)
    logs = np.where(logs > 0, logs, rng.normal(2.0, 0.35, draws))
    return np.bincount(np.clip(logs * 90, 0, 449).astype(int), minlength=450).astype(float)


def spread(counts):
    """The standard deviation of amounts."""
    amounts = 10 ** (np.arange(450) / 90)
    mean = counts @ amounts / counts.sum()
    return float(np.sqrt(counts @ (amounts - mean) ** 2 / counts.sum()))


def test_a_long_tail_on_a_widening_scale_is_longer_and_nearer():
    """24 tables of 6,000 rows: root mean square of the logarithm of the standard deviation over the real one."""
    off = []
    for seed in range(24):
        counts = pareto_counts(6_000, seed)
        tree = Tree.of(450, noisy(counts, levels_of(450), 35.0, 100 + seed))
        sides = (tree.posterior(), replace(tree, widening=True).posterior())
        off.append([log(spread(each) / spread(counts)) for each in sides])
    before, now = np.sqrt((np.array(off) ** 2).mean(0))
    assert now < 0.9 * before


@pytest.mark.parametrize("widening", [False, True])
def test_a_column_whose_tail_is_at_its_bound_has_none_beyond(widening):
    counts = np.linspace(500, 20, 256)
    tree = Tree.of(256, noisy(counts, levels_of(256), 10.0, 3), widening)
    np.testing.assert_allclose(tree.posterior().sum(), counts.sum(), rtol=0.01)
    assert np.abs(tree.posterior() - counts).sum() < 0.05 * counts.sum()
