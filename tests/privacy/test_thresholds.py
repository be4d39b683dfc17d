"""Tests of the threshold for the number of rows of a value. The value of δ and its cost are also tested."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from no_noise import ForbiddenNoise
from recorder import Recorder, true_cost

from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, BudgetExceeded, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise
from equistrata.privacy.thresholds import MOST_PART, Threshold, bought, often


def discrete_tail(sigma: float, least: int) -> float:
    """Return P[N ≥ least] for discrete Gaussian noise as a sum."""
    reach = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
    mass = np.exp(-(reach.astype(float) ** 2) / (2 * sigma**2))
    return math.fsum(mass[reach >= least]) / math.fsum(mass)


@pytest.mark.parametrize("rho", [0.0001, 0.01, 0.5, 5.0])
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-9, 1e-14])
def test_one_row_reaches_the_threshold_with_a_chance_of_at_most_delta(rho: float, delta: float) -> None:
    found = Threshold.of(Rho(rho), delta)
    assert discrete_tail(found.sigma, found.least - 1) <= delta
    # The threshold is not much too high.
    assert discrete_tail(found.sigma, found.least - 3) > delta / 2 or found.sigma < 3
    for rows in (1, 2, 5):
        assert discrete_tail(found.sigma, found.least - rows) * rows <= found.chance(rows) or found.chance(rows) == 1


def test_neighbours_differ_by_rho_and_by_delta() -> None:
    """The exact probabilities of the selected set are used, for a value with 3 or 4 rows and with 0 or 1 row."""
    rho, delta = Rho(0.5), 0.01
    found = Threshold.of(rho, delta)
    known = [discrete_tail(found.sigma, found.least - count) for count in (3, 4)]
    for alpha in (1.5, 2.0, 5.0, 20.0):
        for p, q in (known, known[::-1]):
            moment = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
            assert math.log(moment) / (alpha - 1) <= alpha * float(rho) + 1e-12
    assert discrete_tail(found.sigma, found.least - 1) <= delta  # otherwise, the sets have the same distribution


def test_a_value_of_one_row_is_kept_as_rarely_as_stated() -> None:
    delta = 0.01
    kept, found = often(np.ones(4000, dtype=np.int64), Rho(0.5), delta, Budget(Rho(0.5)), SecureNoise(), "jobs")
    assert len(kept) <= 4000 * delta + 5 * math.sqrt(4000 * delta)
    low = Threshold(found.sigma, found.least - 3, delta)  # the test would detect a threshold that is lower by 3
    noisy, _ = SecureNoise().gaussian(np.ones(4000, dtype=np.int64), 1.0, Rho(0.5), Budget(Rho(0.5)), "jobs")
    assert (noisy >= low.least).sum() > 4000 * delta + 5 * math.sqrt(4000 * delta)


def test_the_noise_costs_what_is_charged(tmp_path) -> None:
    rho, counts = Rho(0.01), np.array([10, 900, 3, 300])
    budget = Budget(rho)
    for name, answers, given in (("a", None, counts), ("b", tmp_path / "a", counts + np.array([0, 1, 0, 0]))):
        kept, _ = often(given, rho, 1e-6, Budget(rho), Recorder(tmp_path / name, answers), "jobs")
        assert kept.tolist() == [1, 3]
    assert true_cost(tmp_path / "a", tmp_path / "b") == pytest.approx((0.01, 0.01))
    with pytest.raises(BudgetExceeded):
        often(lambda: pytest.fail("a row was read"), Rho(0.02), 1e-6, budget, SeededNoise(0), "jobs")
    for delta in (0.0, 0.5, math.nan):
        with pytest.raises(InputError, match=r"between 0 and 0\.5"):
            often(counts, rho, delta, budget, ForbiddenNoise(), "jobs")
    assert budget.remaining == rho


def test_nothing_is_there_to_be_found() -> None:
    kept, _ = often(np.zeros(0, dtype=np.int64), Rho(1), 1e-6, Budget(Rho(1)), SeededNoise(0), "jobs")
    assert kept.tolist() == []


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, MOST_PART])
def test_rho_that_buys_delta_leaves_the_budget_whole(epsilon: float, delta: float, share: float) -> None:
    """Check that the rest of the budget is not larger than the budget for the given ε and the rest of δ.

    The total is therefore (ε, δ)-DP.
    """
    whole = Rho.from_epsilon_delta(epsilon, delta)
    small = bought(whole * share, [(epsilon, delta)])
    assert small == pytest.approx(share * delta)
    assert Fraction(small) <= Fraction(share) * Fraction(delta)
    assert whole * (1 - Fraction(share)) <= Rho.from_epsilon_delta(epsilon, delta - small)


def test_delta_is_bought_at_the_rate_of_the_budget_where_it_is_dearest() -> None:
    part = Rho.from_epsilon_delta(1, 1e-9) * 0.01
    alone, both = bought(part, [(1, 1e-9)]), bought(part, [(1, 1e-9), (3, 1e-9)])
    small, large = (float(Rho.from_epsilon_delta(epsilon, 1e-9)) for epsilon in (1, 3))
    assert both == pytest.approx(alone * small / large)
    with pytest.raises(InputError, match=r"delta = 0\.1 is too large"):
        bought(part, [(1, 1e-9), (1, 0.1)])
    with pytest.raises(InputError, match=r"delta = 0\.95 is too large"):
        bought(part, [(1, 0.95)])
