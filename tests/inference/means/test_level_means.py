"""Tests of means at two levels: the privacy cost, the consistency, the errors and the intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from estimators import coinpress_mean, hierarchical_coinpress, stratified_coinpress
from no_noise import NoNoise
from refutation import HalvedNoise, empirical_epsilon
from scipy.optimize import brentq
from scipy.stats import norm

from equistrata.inference.means import coinpress
from equistrata.inference.means import hierarchical as level_means
from equistrata.inference.means.hierarchical import SPLITS, TwoLevelMeans, best_split
from equistrata.inference.means.refinement import best_step
from equistrata.inference.means.settings import CoinpressSettings
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, BudgetExceeded, Rho
from equistrata.privacy.noise import SeededNoise

SETTINGS = {"lower": 0.0, "upper": 100.0, "sigma": 12.0, "bounds": (0.0, 100.0)}


def people(k: int = 12, seed: int = 0) -> dict[tuple[int, int], np.ndarray]:
    """Return the values of each stratum, for two sexes and k/2 races. The number of rows is between about 100 and
    20,000.

    The means are the sum of two effects and a small effect of the stratum.
    """
    rng = np.random.default_rng(seed)
    return {
        (sex, race): rng.normal(
            35 + 4 * sex + (3, 0, -4, 1, -2, 5)[race % 6] + rng.normal(0, 0.3), 10, int(20_000 * 0.35**race) + 100
        )
        for sex in (0, 1)
        for race in range(k // 2)
    }


PEOPLE = people()
EVERYBODY = np.concatenate(list(PEOPLE.values()))
MEANS = {key: values.mean() for key, values in PEOPLE.items()}


def captured(monkeypatch) -> list[TwoLevelMeans]:
    """Return a list of the levels of each call."""
    kept: list[TwoLevelMeans] = []

    def keep(*given):
        kept.append(TwoLevelMeans(*given))
        return kept[-1]

    monkeypatch.setattr(level_means, "TwoLevelMeans", keep)
    return kept


# --- The privacy cost


@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize("rho", [0.001, 0.7])
def test_the_entries_add_up_to_rho_exactly(monkeypatch, sizes, rho):
    levels = captured(monkeypatch)
    found = hierarchical_coinpress(PEOPLE, None, **SETTINGS, rho=rho, sizes=sizes, noise=SeededNoise(1))
    assert sum((amount for _, amount in found.entries), start=Rho(0)) == Rho(rho) == found.rho
    for stratum in found.strata.values():
        assert sum((amount for _, amount in stratum.entries), start=Rho(0)) == Rho(rho) == stratum.rho
    spent = dict(found.entries)
    assert levels[0].whole.rho == spent["all rows"]
    assert sum((amount for _, amount in levels[0].whole.entries), start=Rho(0)) == spent["all rows"]
    assert ("counts of strata" in spent) == (sizes == "noisy")
    assert found.relation == (ADD_REMOVE if sizes == "noisy" else REPLACE_ONE)


def twice(monkeypatch):
    """Plant a fault: each level has the whole of the remaining budget."""
    monkeypatch.setattr(Rho, "split", lambda rho, shares: [rho for _ in shares])


def test_the_budget_refuses_a_level_that_is_not_paid(monkeypatch):
    twice(monkeypatch)
    with pytest.raises(BudgetExceeded, match="strata asks"):
        hierarchical_coinpress(PEOPLE, None, **SETTINGS, rho=0.5, steps=1, noise=SeededNoise(1))


class Lenient(Budget):
    """A budget that does not charge for the strata."""

    def parallel(self, rho, parts, what):
        return {part: Budget(rho) for part in parts}


RUNS, DELTA, RHO = 2500, 0.2, Rho(0.5)
LOW = np.full(8, -1e9)
CHANGES = {"noisy": (LOW, np.append(LOW, 1e9)), "public": (LOW, np.append(LOW[1:], 1e9))}


def likelihood_ratio(levels: TwoLevelMeans) -> float:
    """Return the log-likelihood ratio of all measurements for the two tables."""
    whole, stratum = levels.whole, levels.strata["changes"]
    total = 0.0
    for found, rows in ((whole, 16), (stratum, 8)):
        noisy_sum = (found.raw - found.centre) * found.rows
        moved = 1.0 if not found.count_deviation else 1 - found.centre
        total += (noisy_sum + rows * found.centre) * moved / found.sum_deviation**2
        if found.count_deviation:
            total += found.rows / found.count_deviation**2
    return total


def gaussian_epsilon(rho: Rho, delta: float) -> float:
    """Return the exact ε of Gaussian mechanisms with a total cost of ρ.

    They are √(2ρ)-GDP (Dong, Roth and Su, arXiv:1905.02383, Corollary 3.3, and 2.13 for ε). This is tighter than zCDP,
    so that a doubled ρ is detected.
    """
    mu = math.sqrt(2 * float(rho))
    return float(brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 50))


def attack(monkeypatch, sizes: str, wrap=lambda noise: noise) -> float:
    levels = captured(monkeypatch)
    settings = {"lower": 0.0, "upper": 1.0, "sigma": 1.0, "bounds": (0.0, 1.0), "rho": RHO, "steps": 1, "sizes": sizes}
    monkeypatch.setattr(level_means, "best_split", lambda *_: Fraction(1, 2))
    for side, rows in enumerate(CHANGES[sizes]):
        for i in range(side * RUNS, (side + 1) * RUNS):
            hierarchical_coinpress({"changes": rows, "stays": LOW}, None, **settings, noise=wrap(SeededNoise(i)))
    statistics = np.array([likelihood_ratio(each) for each in levels]).reshape(2, RUNS)
    return empirical_epsilon(*statistics, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["noisy", "public"])
def test_the_claim_stands_against_all_that_is_measured(monkeypatch, sizes):
    """The false alarm rate is 1e-3, and the seeds are fixed."""
    assert attack(monkeypatch, sizes) <= gaussian_epsilon(RHO, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["noisy", "public"])
def test_a_level_measured_off_the_books_is_caught(monkeypatch, sizes):
    twice(monkeypatch)
    monkeypatch.setattr(coinpress, "Budget", Lenient)
    assert attack(monkeypatch, sizes) > gaussian_epsilon(RHO, DELTA)


@pytest.mark.slow
def test_halved_noise_is_caught(monkeypatch):
    assert attack(monkeypatch, "noisy", HalvedNoise) > gaussian_epsilon(RHO, DELTA)


def test_a_centre_off_the_middle_is_paid_for(monkeypatch):
    """If the centre is close to one end, the sensitivity is the distance to the other end. The noise scale must be
    proportional to the sensitivity.
    """
    moved = float(best_step(50.0, -40.0, of_count=5.0, per_unit=1.0))
    assert -40 < moved < 0
    cost = {s: (-40 - s) ** 2 * 25 + (50 + abs(s)) ** 2 for s in (moved - 0.1, moved, moved + 0.1)}
    assert min(cost, key=cost.get) == moved
    assert best_step(50.0, [40.0, 400.0], 5.0, 1.0).tolist() == [-moved, -float(best_step(50.0, -50.0, 5.0, 1.0))]
    levels = captured(monkeypatch)
    hierarchical_coinpress(PEOPLE, None, **SETTINGS, rho=0.1, sizes="noisy", steps=1, noise=SeededNoise(1))
    stratum = levels[0].strata[0, 0]
    share = dict(stratum.entries)["step 1"]
    assert stratum.centre < 50
    assert stratum.sum_deviation == pytest.approx((100 - stratum.centre) / math.sqrt(2 * float(share)))


# --- The consistency of the two levels


@pytest.mark.parametrize("rho", [0.001, 0.1])
@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_strata_sum_to_the_population(monkeypatch, sizes, rho):
    levels = captured(monkeypatch)
    found = hierarchical_coinpress(PEOPLE, None, **SETTINGS, rho=rho, sizes=sizes, noise=SeededNoise(2))
    assert found.value == pytest.approx(float(levels[0].own @ levels[0].consistent), rel=1e-9)
    assert found.value == pytest.approx(float(levels[0].own @ levels[0].shrunk()), rel=1e-9)
    assert sum(found.weights.values()) == pytest.approx(1)


@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_agreement_is_least_squares(monkeypatch, lost):
    """The result is compared with the solution of the normal equations, also if the clipping has a bias in each
    stratum.
    """
    levels = captured(monkeypatch)
    hierarchical_coinpress(PEOPLE, None, **SETTINGS, rho=0.01, noise=SeededNoise(3))
    seen, k = levels[0], len(PEOPLE)
    bias = lost * np.arange(k)
    strata = {key: replace(found, bias=b) for (key, found), b in zip(seen.strata.items(), bias, strict=True)}
    level = TwoLevelMeans(replace(seen.whole, bias=lost / 10), strata, seen.settings, None)
    design = np.vstack([np.eye(k), level.own])
    covariance = np.diag(np.append(level._noise, level._noise_of_whole + (lost / 10) ** 2))
    covariance[:k, :k] += np.outer(bias, bias)
    precision = np.linalg.inv(covariance)
    observed = np.append(level.measured, level.whole.raw)
    expected = np.linalg.solve(design.T @ precision @ design, design.T @ precision @ observed)
    assert level.consistent == pytest.approx(expected, rel=1e-9)


def unshrunk(monkeypatch):
    monkeypatch.setattr(TwoLevelMeans, "shrunk", lambda levels: levels.consistent)


def test_the_population_s_noise_is_that_of_the_formula(monkeypatch):
    """For k equal strata with public sizes and a single step, the standard deviation is (w/n)/√(2ρ(a + (1 − a)/k)).

    The tolerance of 12 % is 3.4 standard errors for 400 runs.
    """
    rng = np.random.default_rng(1)
    groups = [rng.uniform(20, 80, 400) for _ in range(4)]
    exact, a, rho = np.concatenate(groups).mean(), 0.5, 0.001
    monkeypatch.setattr(level_means, "best_split", lambda *_: Fraction(1, 2))
    unshrunk(monkeypatch)
    runs = [
        hierarchical_coinpress(groups, None, **SETTINGS, rho=rho, steps=1, noise=SeededNoise(i)) for i in range(400)
    ]
    deviation = 100 / 1600 / math.sqrt(2 * rho * (a + (1 - a) / 4))
    assert np.sqrt(np.mean([(run.value - exact) ** 2 for run in runs])) == pytest.approx(deviation, rel=0.12)
    of_stratum = 100 / 400 / math.sqrt(2 * rho * (1 - a)) * math.sqrt(1 - a / (1 + a * 3))
    errors = [run.strata[0].value - groups[0].mean() for run in runs]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(of_stratum, rel=0.12)


# --- The errors


def errors(estimator, runs=25, **more) -> tuple[float, float]:
    """Return the mean error of the population and the sum of the mean errors of the strata."""
    found = [estimator(SeededNoise(i), **more) for i in range(runs)]
    population = np.mean([abs(value - EVERYBODY.mean()) for value, _ in found])
    return float(population), float(np.mean([sum(abs(by[k] - MEANS[k]) for k in MEANS) for _, by in found]))


def vanilla(noise, **more):
    value = coinpress_mean(EVERYBODY, **SETTINGS, **more, noise=noise).value
    return value, dict.fromkeys(PEOPLE, value)


def by_strata(estimator, **own):
    def run(noise, **more):
        found = estimator(PEOPLE, None, **SETTINGS, **more, **own, noise=noise)
        return found.value, {key: each.value for key, each in found.strata.items()}

    return run


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0003, 0.003, 0.3])
def test_it_is_nearly_as_good_as_the_better_of_both_in_both(rho):
    """The error is at most √2 times the smaller error, which is the limit for many strata, and 20 % for 25 runs.

    If ρ is at least 0.003, the error of each of the two other estimators is more than twice as large as the smaller
    error.
    """
    more = {"rho": rho, "sizes": "noisy"}
    levels = errors(by_strata(hierarchical_coinpress), **more)
    others = errors(vanilla, **more), errors(by_strata(stratified_coinpress), **more)
    best = np.min(others, axis=0)
    assert levels[0] <= best[0] * math.sqrt(2) * 1.2
    assert levels[1] <= best[1] * math.sqrt(2) * 1.2
    assert rho == 0.0003 or all(max(np.array(other) / best) > 2 for other in others)


@pytest.mark.slow
def test_shrinkage_helps_where_strata_are_noisy_and_is_nothing_where_they_are_not(monkeypatch):
    run = by_strata(hierarchical_coinpress)
    helped, sharp = errors(run, rho=0.001, sizes="noisy")[1], run(SeededNoise(1), rho=1e4, sizes="public")[1]
    unshrunk(monkeypatch)
    assert helped < 0.6 * errors(run, rho=0.001, sizes="noisy")[1]
    alone = run(SeededNoise(1), rho=1e4, sizes="public")[1]
    assert all(sharp[key] == pytest.approx(alone[key], abs=2e-3) for key in PEOPLE)


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_strata_whose_noise_hides_everything_are_told_the_mean_of_all(sizes):
    """A small state has one large stratum, and seven strata of 20 to 150 rows with similar means."""
    rng = np.random.default_rng(5)
    rows = (5000, 150, 100, 80, 60, 40, 30, 20)
    groups = {(race,): rng.normal(36 + rng.normal(0, 0.5), 12, n) for race, n in enumerate(rows)}
    everybody = np.concatenate(list(groups.values()))
    exact = {key: values.mean() for key, values in groups.items()}
    given = SETTINGS | {"rho": 0.001, "sizes": sizes}
    alone, levels = 0.0, 0.0
    for i in range(20):
        mean = coinpress_mean(everybody, **given, noise=SeededNoise(i)).value
        found = hierarchical_coinpress(groups, None, **given, noise=SeededNoise(i))
        alone += sum(abs(mean - exact[key]) for key in exact)
        levels += sum(abs(found.strata[key].value - exact[key]) for key in exact)
    assert levels < 1.3 * alone


def test_a_stratum_that_is_unlike_the_others_stays_in_its_own_interval(monkeypatch):
    """The model of the test assumes that the strata are nearly equal."""
    monkeypatch.setattr(level_means, "variances", lambda kernels, *_, **__: np.full(len(kernels), 1e-6))
    strange = PEOPLE | {(0, 5): np.random.default_rng(0).normal(90, 5, 200)}
    found = hierarchical_coinpress(strange, None, **SETTINGS, rho=0.5, noise=SeededNoise(1)).strata[0, 5]
    assert found.value == found.lower > 60


def test_without_noise_the_means_are_exact_though_sums_are_taken_off_the_middle(monkeypatch):
    """The column is skewed and has values at both ends of the clipping interval, which must not be clipped."""
    levels = captured(monkeypatch)
    groups = {"a": np.repeat([0.0, 5.0, 100.0], [50, 850, 100]), "b": np.repeat([0.0, 100.0], [900, 100])}
    given = {"lower": 0.0, "upper": 100.0, "sigma": 60.0, "bounds": (0.0, 100.0), "rho": 0.1, "sizes": "noisy"}
    found = hierarchical_coinpress(groups, None, **given, noise=NoNoise())
    assert levels[0].strata["b"].centre < 45
    assert (found.value, found.strata["a"].value, found.strata["b"].value) == pytest.approx((12.125, 14.25, 10.0))


def test_half_goes_to_all_rows_where_strata_can_be_read_and_more_where_they_cannot():
    settings = CoinpressSettings(0.0, 100.0, 12.0, bounds=(0.0, 100.0))
    splits = [best_split([9000, 800, 700, 300], settings, Rho(10.0**-e)) for e in range(8)]
    assert splits[0] == Fraction(9, 20)
    assert splits == sorted(splits)
    assert splits[-1] >= Fraction(9, 10)
    assert all(
        abs(best_split([500.0] * k, settings, Rho(1000)) - Fraction(1, 2)) <= Fraction(1, 20) for k in (2, 5, 50)
    )


def test_strata_that_cannot_be_read_do_not_decide_the_split_of_those_that_can():
    """Regression test for a stratum with only 15 rows, with which the share of ρ for all rows was .95 instead of .5."""
    settings = CoinpressSettings(0.0, 99.0, 23.0, bounds=(0.0, 99.0))
    large = [5300.0, 5700.0, 1100.0, 1300.0, 850.0]
    plain = best_split(large, settings, Rho(0.02))
    for small in ([13.0], [15.0], [15.0, 16.0], [20.0, 1.0]):
        assert abs(best_split([*large, *small], settings, Rho(0.02)) - plain) <= Fraction(1, 10)


def test_neither_the_whole_nor_the_strata_lose_more_than_root_two():
    """The theorem is in docs/proofs/hierarchical-means.md, and the test uses 300 random tables.

    The error of a single level can be more than twice as large.
    """
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(300):
        sizes = np.exp(rng.uniform(0, rng.uniform(1, 12), rng.integers(2, 40)))
        settings = CoinpressSettings(0, 99, rng.choice([3.0, 14.0, 40.0]), bounds=(0, 99))
        rho = Rho(float(10 ** rng.uniform(-6, 2)))
        losses = level_means._losses(sizes, settings, rho)
        found = SPLITS.index(best_split(sizes, settings, rho))
        assert max(loss[found] for loss in losses) <= math.sqrt(2) * (1 + 1e-9)
        worst = max(worst, *(loss.max() for loss in losses))
    assert worst > 2


# --- Intervals


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize("weights", [None, {(0, 0): 0.6, (0, 1): 0.1, (1, 0): 0.25, (1, 1): 0.05}])
def test_intervals_cover(sizes, weights):
    """The intervals must cover the true mean of the population and of each stratum with probability 1 − β = 0.8,
    although the strata are shrunk.
    """
    true = {(0, 0): 30.0, (0, 1): 45.0, (1, 0): 38.0, (1, 1): 60.0}
    rows = {(0, 0): 3000, (0, 1): 500, (1, 0): 1250, (1, 1): 250}
    population = sum(true[k] * (rows[k] / 5000 if weights is None else weights[k]) for k in true)
    runs, missed, missed_strata = 150, 0, dict.fromkeys(true, 0)
    for i in range(runs):
        rng = np.random.default_rng(i)
        groups = {key: rng.normal(true[key], 12, rows[key]) for key in true}
        found = hierarchical_coinpress(
            groups,
            weights,
            **SETTINGS,
            rho=0.003,
            beta=0.2,
            level=0.8,
            sizes=sizes,
            target="population",
            noise=SeededNoise(i),
        )
        missed += not found.lower <= population <= found.upper
        for key, stratum in found.strata.items():
            missed_strata[key] += not stratum.lower <= true[key] <= stratum.upper
    within = 4 * math.sqrt(0.2 * 0.8 * runs)  # for 20 numbers, the probability of a false alarm is 1 in 1,000
    assert abs(missed - runs * 0.2) <= within
    assert all(each <= runs * 0.2 + within for each in missed_strata.values())


# --- Special tables


def test_one_stratum_is_one_level():
    given = {**SETTINGS, "rho": 0.1}
    one = hierarchical_coinpress({"all": EVERYBODY}, None, **given, noise=SeededNoise(1))
    assert one == stratified_coinpress({"all": EVERYBODY}, None, **given, noise=SeededNoise(1))


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_empty_strata_and_empty_tables(sizes):
    groups = PEOPLE | {(0, 6): np.empty(0), (1, 6): np.empty(0)}
    found = hierarchical_coinpress(groups, None, **SETTINGS, rho=0.01, sizes=sizes, noise=SeededNoise(1))
    assert found.value == pytest.approx(EVERYBODY.mean(), abs=1)
    assert 0 <= found.strata[0, 6].value <= 100
    weights = {"a": 0.5, "b": 0.5}
    nobody = hierarchical_coinpress(
        {"a": [], "b": []}, weights, **SETTINGS, rho=0.01, sizes=sizes, noise=SeededNoise(1)
    )
    assert nobody.lower <= 50 <= nobody.upper
    assert math.isfinite(nobody.half_width)
    missing = [
        hierarchical_coinpress({"a": EVERYBODY}, weights, **SETTINGS, rho=1, sizes=sizes, noise=SeededNoise(i))
        for i in range(9)
    ]
    assert np.median([each.half_width for each in missing]) > 20  # no row has information about the mean of b


def test_the_order_of_strata_does_not_matter():
    given = {**SETTINGS, "rho": 0.01, "sizes": "noisy"}
    one = hierarchical_coinpress(PEOPLE, None, **given, noise=SeededNoise(1))
    two = hierarchical_coinpress(dict(reversed(PEOPLE.items())), None, **given, noise=SeededNoise(1))
    assert one.value == pytest.approx(two.value, rel=1e-12)
    assert all(one.strata[key].value == pytest.approx(two.strata[key].value, rel=1e-6) for key in PEOPLE)
