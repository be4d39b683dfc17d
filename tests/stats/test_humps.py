"""Curves beside a heavy bin: the likelihood is that of every measured level, and few rows behind noise stay near."""

import numpy as np
import pytest

from equistrata.stats.humps import known_beyond, nearest_curves
from equistrata.stats.trees import Tree, levels_of


def noisy(counts, sigma, seed):
    rng = np.random.default_rng(seed)
    found = {}
    for level in levels_of(len(counts)):
        sums = np.add.reduceat(counts, range(0, len(counts), 1 << level))
        found[level] = (sums + rng.normal(0, sigma, len(sums)), sigma)
    return found


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("bins", [64, 200, 333])
def test_what_levels_say_beyond_each_other_is_all_that_was_measured(bins, level):
    """Sums of squares of a curve that is even within nodes of `level`, up to a constant: of each measured level, by
    itself, and of the levels of the tree."""
    measured = noisy(np.random.default_rng(bins).uniform(0, 50, bins), 7.0, 1)
    tree = Tree.of(bins, measured)
    width = 1 << level
    masses = np.random.default_rng(2).uniform(0, 90, len(tree.sums[level]))
    masses *= np.arange(len(masses)) < bins // width

    def squares(times):
        curve = np.repeat(times * masses / width, width)[:bins]
        return sum(
            float(((values - np.add.reduceat(curve, range(0, bins, 1 << each))) ** 2).sum()) / sigma**2
            for each, (values, sigma) in measured.items()
        )

    def beyond(times):
        total, nodes = 0.0, times * masses
        for place, (precision, weighed) in enumerate(known_beyond(tree.sums, tree.variances, level)):
            nodes = nodes.reshape(-1, 2).sum(1) if place else nodes
            total += float((precision * nodes**2 - 2 * weighed * nodes).sum())
        return total

    for times in (0.5, 1.0, 3.0):
        assert beyond(times) == pytest.approx(squares(times) - squares(0.0), rel=1e-9)


def test_a_curve_on_each_side_is_found():
    """Normal rows to the left of a node and falling ones to its right, with next to no noise."""
    nodes = np.arange(128.0)
    left, right = np.exp(-(((nodes - 34) / 6) ** 2) / 2), np.exp(-(nodes - 64) / 8) * (nodes >= 64)
    rows = 300 * left / left.sum() + 500 * right / right.sum()
    found = nearest_curves([(np.full(128, 1e6), rows * 1e6)], 128, 64)
    assert found[:60].sum() == pytest.approx(300, rel=0.02)
    assert found[64:].sum() == pytest.approx(500, rel=0.02)
    assert np.abs(np.cumsum(found - rows)).max() < 25


@pytest.mark.parametrize(("part", "sigma"), [(0.02, 30.0), (0.04, 30.0), (0.04, 70.0)])
def test_a_few_rows_behind_noise_are_no_tail_to_the_bound(part, sigma):
    """8,000 rows, nearly all zero, the others around the 120th of 600 bins, and their number known. In 40 draws, rows
    beyond the 300th bin: 7 to 15 in the mean and 53 to 117 at most as long as the tail fell as noise allows."""
    bins = np.arange(600.0)
    counts = np.exp(-(((bins - 120) / 25) ** 2) / 2)
    counts *= 8000 * part / counts.sum()
    counts[0] += 8000 * (1 - part)
    far = [
        Tree.of(600, noisy(counts, sigma, seed)).with_total(8000.0, sigma**2).posterior()[300:].sum()
        for seed in range(40)
    ]
    assert np.mean(far) < 2
    assert max(far) < 20


def test_noise_of_a_last_node_of_few_bins_is_no_mode():
    """577 bins are 72 nodes of eight and one of a bin, whose density has eight times the noise. Rows are seen in the
    others."""
    bins = np.arange(577.0)
    counts = 2000 * np.exp(-(((bins - 200) / 60) ** 2) / 2) / 150
    measured = noisy(counts, 10.0, 0)
    for values, _ in measured.values():
        values[-1] = 20.0  # two standard deviations, and more than a bin has anywhere
    density = Tree.of(577, measured).unimodal
    assert 150 < int(density.argmax()) < 250
    assert density[570:].max() < density.max() / 100
