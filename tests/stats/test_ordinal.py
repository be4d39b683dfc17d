"""Counts of ordered codes from noisy sums: nearer than the sums alone, for smooth laws and for round numbers."""

import numpy as np
import pytest

from equistrata.stats.ordinal import Sums, _Law, ordinal_counts
from equistrata.stats.trees import Tree, levels_of

CODES = 96
PLACES = np.arange(CODES)
ROUND = (PLACES % 5 == 0).astype(int) + (PLACES % 10 == 0)


def ages(rng):
    law = 1 + np.sin(PLACES / 15) / 3 - (PLACES / 96) ** 3
    return rng.multinomial(20_000, law / law.sum()).astype(float)


def hours(rng):
    law = 0.03 + np.exp(-(((PLACES - 38) / 16) ** 2)) * np.select([ROUND == 2, ROUND == 1], [6, 3], 0.3)
    law[40] += 30
    return rng.multinomial(12_000, law / law.sum()).astype(float)


def rough(rng):
    return np.round(400 * rng.gamma(0.3, 1.0, CODES))


def measured(counts, seed, sigma=40.0):
    """The levels of a tree of these counts, noisy, as sums and as a tree."""
    rng, sums, levels = np.random.default_rng(seed), Sums.of(len(counts)), {}
    for level in levels_of(len(counts)):
        groups = np.arange(len(counts)) >> level
        values = np.bincount(groups, counts) + rng.normal(0, sigma, groups[-1] + 1)
        sums, levels[level] = sums.added(groups, values, sigma**2), (values, sigma)
    return sums, Tree.of(len(counts), levels)


def apart(counts, true):
    """The Wasserstein distance of two laws of the codes."""
    return float(np.abs(np.cumsum(counts) / counts.sum() - np.cumsum(true) / true.sum()).sum())


def found(sums, tree, kinds=None):
    peaks = tree.peaks
    return np.maximum(ordinal_counts(sums, tree.without(peaks).unimodal, peaks > 0, kinds).counts, 0.0)


def test_sums_are_the_normal_equations():
    rng, sums = np.random.default_rng(0), Sums.of(6)
    rows, values, weights = [], [], []
    for groups, variance in (([0, 1, 2, 3, 4, 5], 4.0), ([0, 0, 1, 1, 2, 2], 1.0), ([0, 0, 0, 1, 1, 1], 9.0)):
        noisy = rng.normal(10, 3, max(groups) + 1)
        sums = sums.added(np.array(groups), noisy, variance)
        rows += [(np.array(groups) == group).astype(float) for group in range(max(groups) + 1)]
        values, weights = [*values, *noisy], [*weights, *[variance**-0.5] * len(noisy)]
    scaled = np.array(rows) * np.array(weights)[:, None]
    best = np.linalg.lstsq(scaled, np.array(values) * weights, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.solve(sums.precision, sums.weighed), best)


def mean_distances(law, draws, *ways):
    """How far each way to find counts, from sums and a tree, is from those of a law: the mean over draws."""
    distances = []
    for seed in range(draws):
        counts = law(np.random.default_rng(seed))
        noisy = measured(counts, 100 + seed)
        distances.append([apart(way(*noisy), counts) for way in ways])
    return np.mean(distances, axis=0)


def knowing(sums, tree):
    return found(sums, tree, ROUND)


@pytest.mark.parametrize(("law", "most"), [pytest.param(ages, 1.03, marks=pytest.mark.slow), (hours, 0.85)])
def test_hours_come_nearer_than_by_the_tree_and_ages_as_near(law, most):
    """20 draws, fixed seeds: .76 and .98 of the tree's distance. The standard error of a ratio is .06 for hours."""
    before, after = mean_distances(law, 20, lambda sums, tree: tree.posterior(), knowing)
    assert after < most * before


@pytest.mark.parametrize(("law", "most"), [pytest.param(ages, 1.03, marks=pytest.mark.slow), (hours, 0.97)])
def test_round_numbers_are_apart_where_people_round(law, most):
    """Which numbers are round helps hours, and does not hurt ages."""
    helped, ignorant = mean_distances(law, 12, knowing, found)
    assert helped < most * ignorant


def test_without_noise_the_counts_themselves():
    counts = hours(np.random.default_rng(3))
    sums, tree = measured(counts, 4, sigma=0.05)
    np.testing.assert_allclose(found(sums, tree, ROUND), counts, atol=0.5)


def test_a_free_code_is_known_by_the_sums_alone():
    """Its neighbours say nothing of it: 40 hours stay as least squares has them, to a tenth of their noise."""
    counts = hours(np.random.default_rng(5))
    sums, tree = measured(counts, 6)
    assert tree.peaks[40] > 0
    rest = np.delete(np.arange(CODES), 40)
    law = found(sums, tree, ROUND)
    known = sums.weighed[40] - sums.precision[40, rest] @ law[rest]
    assert abs(law[40] - known / sums.precision[40, 40]) < 4


def test_a_tail_of_no_rows_gets_few():
    """The most that is expected of a code holds: else the noise of 66 codes would be rows."""
    counts = np.round(2000 * 0.8**PLACES)
    off = []
    for seed in range(8):
        sums, tree = measured(counts, seed)
        most = np.where(PLACES < 20, np.inf, 0.1)
        laws = [ordinal_counts(sums, tree.unimodal, most=each).counts for each in (most, None)]
        off.append([np.maximum(each, 0)[30:].sum() for each in laws])
    bounded, free = np.mean(off, axis=0)
    assert 5 < bounded < 15 < 60 < free  # of 11


@pytest.mark.parametrize("counts", [np.zeros(20), np.full(20, 0.0) + np.eye(20)[7] * 5000, np.full(3, 50.0)])
def test_hardly_any_rows_or_codes(counts):
    sums, tree = measured(counts, 0)
    law = ordinal_counts(sums, tree.unimodal, kinds=np.arange(len(counts)) % 2).counts
    assert np.isfinite(law).all()


@pytest.mark.parametrize(("law", "smooth"), [(ages, True), (rough, False)])
def test_the_sums_say_whether_a_law_is_smooth(law, smooth):
    """The marginal likelihood of the model with a smooth part is the higher one for ages, and the lower one where
    neighbours have nothing in common: with each of these six seeds."""
    for seed in range(6):
        sums, tree = measured(law(np.random.default_rng(seed)), 100 + seed)
        nearby, most = tree.without(tree.peaks).unimodal, np.full(CODES, np.inf)
        having, lacking = (_Law(sums, tree.peaks > 0, ROUND, each, most).fitted(nearby)[1] for each in (True, False))
        assert (having > lacking) == smooth
    assert (ordinal_counts(sums, nearby, tree.peaks > 0, ROUND).smooth > 0.5) == smooth
