"""Tests of releases by MST and AIM, including their selections, with the tight audit."""

from math import sqrt

import numpy as np
import pytest
from refutation import LessNoise
from tightness import MOST, ROWS, case, neighbours
from tradeoff import DiscreteNoise, play, runs_to_refute

from equistrata.privacy.noise import SecureNoise

SEED = 21


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_the_worst_case_is_what_is_charged(name):
    """The cost of each selection is equal to the charged part of ρ, because the selections are the worst case."""
    assert case(name).charged == sqrt(6)
    assert case(name).worst == pytest.approx(case(name).charged, rel=2e-3)


@pytest.mark.parametrize(("name", "least"), [("mst", 0.75), ("aim", 0.65)])
def test_a_release_loses_nearly_what_it_is_charged(name, least):
    game = play(case(name).release, neighbours(), DiscreteNoise(SEED), 400 if name == "mst" else 150)
    assert least * case(name).charged < game.mu < case(name).worst


def test_less_noise_is_caught():
    assert runs_to_refute(
        case("mst").release, neighbours(), LessNoise(DiscreteNoise(SEED), 0.7), case("mst").worst, 700
    )


def test_a_unit_of_four_rows_charged_as_one_row_is_caught_and_as_a_group_it_is_not():
    group, one = case("mst", rows=4), case("mst")
    assert group.worst == pytest.approx(group.charged, rel=2e-3)
    assert runs_to_refute(one.release, neighbours(4), DiscreteNoise(SEED), one.worst, 150)
    assert runs_to_refute(group.release, neighbours(4), DiscreteNoise(SEED), group.worst, 150) is None


def test_rows_of_a_unit_fall_in_one_cell_or_in_two_strata():
    table, more = neighbours(4)
    assert len(more) == len(table) + 4 == sum(ROWS) + 4
    assert more.marginal(("A", "B", "C"))[0, 0, 0] == ROWS[0] + 4
    moved = neighbours(4, spread=True)[1].marginal(("A",)) - table.marginal(("A",))
    assert moved.tolist() == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("gaussian", 100_000), ("mst", 15_000), ("aim", 10_000)])
def test_the_bound_is_tight_on_the_secure_sampler(name, runs):
    """The lower bound of μ must be at least 0.95 times the true value for a measurement. For a release, it must be at
    least 0.85 times the value that is charged.

    The false alarm rate is 1 in 1000.
    """
    game, audited = play(case(name).release, neighbours(), SecureNoise(), runs), case(name)
    print(f"{name}: μ ≥ {game.mu:.3f}, charged {audited.charged:.3f}, worst case {audited.worst:.3f}, {runs} runs")
    assert game.mu > (0.95 * audited.worst if name == "gaussian" else 0.85 * audited.charged)
    assert game.mu <= audited.worst


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "mst", "aim"])
def test_a_tenth_less_noise_is_caught_ten_times_of_ten(name):
    for seed in range(10):
        noise = LessNoise(DiscreteNoise(np.random.SeedSequence([SEED, seed])), 0.9)
        assert runs_to_refute(case(name).release, neighbours(), noise, case(name).worst, MOST[name], seed=seed)
