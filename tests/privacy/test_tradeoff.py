"""Tests of the tight audit, which must have the stated false alarm probability and detect planted faults.

The units are people with several rows. A table is an array of pairs of a unit and a cell, and one of the tables has an
additional unit.
"""

from math import exp, inf, sqrt, tanh

import numpy as np
import pytest
import tradeoff
from refutation import LessNoise
from scipy.stats import norm
from tradeoff import DiscreteNoise, Game, evidence, play, runs_to_refute, worst_case_mu

from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SecureNoise, gaussian_sigma, selection_epsilon

RHO, CLAIM = Rho(0.5), 1.0
SEED, CELLS, AT_MOST = 20261124, 4, 3


def people(units, rows, cell=None):
    """Return the rows of each unit, which are in the given cell or in all of the cells."""
    ids = np.repeat(np.arange(units), rows)
    cells = np.arange(len(ids)) % CELLS if cell is None else np.full(len(ids), cell)
    return np.stack([ids, cells], axis=1)


def with_unit(table, rows, spread=False):
    """Return a neighbouring table with an additional unit at the beginning.

    The rows of the unit are in the last cell, or in all of the cells if `spread` is True.
    """
    cells = np.arange(rows) % CELLS if spread else np.full(rows, CELLS - 1)
    return np.vstack([np.stack([np.full(rows, -1), cells], axis=1), table])


def bounded(table, at_most=AT_MOST):
    """Return at most a given number of rows of each unit, which does not depend on the other units."""
    kept = [table[table[:, 0] == unit][:at_most] for unit in np.unique(table[:, 0])]
    return np.vstack(kept)


def counted(table, noise, sensitivity):
    counts = np.bincount(table[:, 1], minlength=CELLS)
    return noise.gaussian(counts, sensitivity, RHO, Budget(RHO), "cells")


def honest(table, noise):
    return counted(bounded(table), noise, AT_MOST)


def counted_once(table, noise):
    return counted(bounded(table), noise, 1.0)


def cut_by_file_order(table, noise):
    """Use the first rows of the file, so that a new unit removes rows of other units."""
    return counted(bounded(table[:20]), noise, AT_MOST)


def size_read_off(table, noise):
    return counted(table, noise, float(np.bincount(table[:, 0] + 1).max()))


TABLE = people(10, 2, cell=0)
PAIR = (TABLE, with_unit(TABLE, AT_MOST))


def test_a_bound_reaches_most_of_the_true_mu_and_stays_below():
    game = play(honest, PAIR, DiscreteNoise(SEED), 4000)
    assert game.estimate == pytest.approx(CLAIM, abs=0.12)
    assert 0.8 < game.mu < CLAIM
    exact = Game(100_000, round(100_000 * norm.cdf(CLAIM / 2)))
    assert 0.97 * CLAIM < exact.mu < exact.estimate == pytest.approx(CLAIM, abs=1e-4)


def test_a_bound_of_few_or_of_no_right_guesses():
    assert Game(10, 0).mu == Game(10, 4).mu == 0.0
    assert 0 < Game(50, 50).mu < inf


def test_false_alarms_are_as_rare_as_stated():
    """The test uses 4,000 games with the largest probability that is allowed. The probability of more than 261 alarms
    at 5 % is less than 10⁻⁵.
    """
    right = np.random.default_rng(1).binomial(500, norm.cdf(CLAIM / 2), 4000)
    alarms = sum(Game(500, int(each), 0.05).mu > CLAIM for each in right)
    assert 100 < alarms <= 261


def test_false_alarms_are_as_rare_as_stated_where_runs_stop_early(monkeypatch):
    """The number of alarms has the distribution Binomial(400, ≤ 0.05). The probability of more than 42 alarms is less
    than 10⁻⁵.
    """
    claim = 2.5

    def fair(release, tables, noise, seed):
        return iter(np.random.default_rng(seed).random(1500) < norm.cdf(claim / 2))

    monkeypatch.setattr(tradeoff, "guesses", fair)
    found = [runs_to_refute(None, None, None, claim, 1500, false_alarm=0.05, seed=seed) for seed in range(400)]
    assert 2 < sum(each is not None for each in found) <= 42


@pytest.mark.parametrize("seed", range(3))
def test_less_noise_is_caught_and_honest_noise_is_not(seed):
    noise = DiscreteNoise(SEED + seed)
    assert runs_to_refute(honest, PAIR, LessNoise(noise, 0.8), CLAIM, 6000, seed=seed) is not None
    assert runs_to_refute(honest, PAIR, noise, worst_case_mu([0.5 / 9], [], 3), 1500, seed=seed) is None


@pytest.mark.parametrize("fault", [counted_once, cut_by_file_order, size_read_off])
def test_faults_of_units_are_caught(fault):
    assert runs_to_refute(fault, PAIR, DiscreteNoise(SEED), CLAIM, 3000) is not None


def test_a_unit_over_the_bound_is_no_more_than_one_within_it():
    longer = with_unit(TABLE, AT_MOST + 2)
    assert evidence(honest, PAIR[1], longer, DiscreteNoise(SEED)) == 0.0


def test_a_unit_that_is_spread_over_strata_charged_in_parallel():
    """If strata are charged in parallel, the loss of a unit with a row in two strata is √2 times as large. The audit
    must detect this.
    """

    def strata(table, noise):
        return [
            noise.gaussian(np.array([part]), 1.0, RHO, Budget(RHO), "a stratum") for part in np.bincount(table[:, 1])
        ]

    pair = (people(8, 1), with_unit(people(8, 1), 2, spread=True))
    one = (people(8, 1), with_unit(people(8, 1), 1, spread=True))
    assert runs_to_refute(strata, pair, DiscreteNoise(SEED), worst_case_mu([0.5], []), 6000) is not None
    assert runs_to_refute(strata, one, DiscreteNoise(SEED), worst_case_mu([0.5], []), 1000) is None
    assert play(strata, pair, DiscreteNoise(SEED), 1000).mu < worst_case_mu([0.5, 0.5], [])


# --- The evidence


def test_evidence_is_the_log_likelihood_ratio():
    table, more = np.array([5, 1]), np.array([6, 1])

    def release(counts, noise):
        noisy, _ = noise.gaussian(counts, 1.0, RHO, Budget(RHO), "counts")
        return noisy, noise.select(counts / 1.0, 1.0, RHO, Budget(RHO), "choice")

    def both(counts, noise):
        answers.append(release(counts, noise))
        return answers[-1]

    answers = []
    found = evidence(both, table, more, DiscreteNoise(SEED))
    noisy, choice = answers[0]
    scale = 2 / selection_epsilon(RHO)
    chances = [np.exp(counts / scale) / np.exp(counts / scale).sum() for counts in (table, more)]
    gaussian = ((noisy[0] - 6) ** 2 - (noisy[0] - 5) ** 2) / 2
    assert found == pytest.approx(gaussian + np.log(chances[0][choice] / chances[1][choice]))


def test_evidence_of_laplace_noise():
    found = evidence(
        lambda x, noise: noise.laplace(np.array([x]), 1.0, 0.5, Budget(Rho(1)), "x"), 0.0, 1.0, DiscreteNoise(SEED)
    )
    assert 0 < abs(found) <= 0.5


@pytest.mark.parametrize(
    "release",
    [
        lambda x, noise: x,  # the value without noise
        lambda x, noise: [noise.gaussian(np.array([0]), 1.0, RHO, Budget(RHO), "x") for _ in range(x)],
        lambda x, noise: noise.gaussian(np.zeros(x, dtype=int), 1.0, RHO, Budget(RHO), "x")[1],
        lambda x, noise: (
            noise.gaussian(np.array([1]), 1.0, RHO, Budget(RHO), "x")[1]
            if x == 1
            else noise.laplace(np.array([1.0]), 1.0, 1.0, Budget(RHO), "x")[1]
        ),
    ],
    ids=["exact", "how many draws", "how many cells", "which noise"],
)
def test_what_only_one_table_would_publish_gives_it_away(release):
    assert evidence(release, 1, 2, DiscreteNoise(SEED)) == inf
    assert evidence(release, 2, 1, DiscreteNoise(SEED)) == inf
    assert play(release, (1, 2), DiscreteNoise(SEED), 50).right == 50


def test_a_mechanism_that_looks_at_nothing_tells_nothing():
    game = play(lambda x, noise: 0, (1, 2), DiscreteNoise(SEED), 400)
    assert 150 < game.right < 250
    assert game.mu == 0.0


# --- The exact worst case


def test_the_worst_case_of_one_draw_is_known():
    """The best test of a discrete Gaussian with a shift of one uses the sign of the noise.

    The worst case of a choice is randomised response.
    """
    noise = np.arange(-60, 61)
    chances = np.exp(-(noise**2) / 2) / np.exp(-(noise**2) / 2).sum()
    assert worst_case_mu([0.5], []) == pytest.approx(2 * norm.ppf(chances[noise >= 0].sum()), rel=1e-4)
    epsilon = selection_epsilon(0.02)
    assert worst_case_mu([], [0.02]) == pytest.approx(2 * norm.ppf((1 + tanh(epsilon / 4)) / 2), rel=1e-3)


def test_no_other_choice_of_the_same_range_tells_more():
    """The alternatives are the generalised randomised responses of Dong, Durfee and Rogers, with losses t and t − ε."""
    epsilon = selection_epsilon(0.1)
    for t in np.linspace(0.01, 0.99, 21) * epsilon:
        first = (1 - exp(t - epsilon)) / (exp(t) - exp(t - epsilon))  # the probability of the loss t on the other table
        assert first * exp(t) - first <= tanh(epsilon / 4) + 1e-12


def test_many_small_draws_are_gaussian_and_choices_cost_what_they_are_charged():
    mu = sqrt(2 * 0.5)
    assert worst_case_mu([0.05] * 10, []) == pytest.approx(mu, rel=2e-3)
    assert worst_case_mu([0.05] * 9, [0.025] * 2) == pytest.approx(mu, rel=2e-3)
    assert worst_case_mu([0.05 / 4] * 10, [], rows=2) == pytest.approx(mu, rel=2e-3)


def test_seeded_noise_has_the_secure_samplers_law():
    """The probabilities of 0 and ±1 are compared for σ = 0.7, because an error due to rounding would be large."""
    price, counts = Rho(1 / (2 * 0.49)), np.zeros(20_000, dtype=np.int64)
    assert gaussian_sigma(price) == pytest.approx(0.7)
    noise = np.arange(-20, 21)
    chances = np.exp(-(noise**2) / 0.98) / np.exp(-(noise**2) / 0.98).sum()
    for source in (DiscreteNoise(SEED), SecureNoise()):
        drawn, _ = source.gaussian(counts, 1.0, price, Budget(price), "noise")
        for most in (0, 1):
            share = chances[np.abs(noise) <= most].sum()
            assert np.mean(np.abs(drawn) <= most) == pytest.approx(share, abs=5 * sqrt(share * (1 - share) / 20_000))
    assert DiscreteNoise(1).spawn(2).gaussian(counts, 1.0, price, Budget(price), "noise")[0].std() > 0
