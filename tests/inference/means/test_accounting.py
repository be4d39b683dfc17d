"""Tests that the true cost of each mean, sum and count is at most its charge, and that the rest does not depend on the
rows.

The tests use `recorder` with a table and a neighbouring table. A row is added if the number of rows is private, and a
row is replaced if the number is public. The row is an extreme value, so that Gaussian noise has the full cost.
"""

from functools import partial

import numpy as np
import pytest
from estimators import (
    coinpress_mean,
    hierarchical_coinpress,
    laplace_mean,
    measure_sums,
    private_ratio,
    stratified_coinpress,
    stratified_laplace_mean,
)
from recorder import made_twice

import equistrata.inference.means.coinpress
import equistrata.inference.means.lattice
import equistrata.inference.means.refinement
import equistrata.privacy.noise
from equistrata.inference.counts.noisy_counts import noisy_count, noisy_table
from equistrata.inference.means.coinpress import RowCount
from equistrata.inference.ratios.design import PricedDesign
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import SeededNoise

RHO = Rho(0.5)
OUTSIDE, LOWEST = 1e9, -1e9
HOURS = np.append(np.random.default_rng(0).normal(38, 12, 1199), LOWEST)  # enough rows for a tail histogram
NEIGHBOUR = {"public": np.append(HOURS[:-1], OUTSIDE), "noisy": np.append(HOURS, OUTSIDE)}
GROUPS = {(1, 1): HOURS, (1, 2): HOURS[:700], (2, 1): HOURS[:30], (2, 2): HOURS[:0]}
SHARES = dict.fromkeys(GROUPS, 0.25)
MEAN = {"lower": 0, "upper": 99, "sigma": 14, "rho": RHO}
SIZES = pytest.mark.parametrize("sizes", ["public", "noisy"])


def strata(sizes, key=(1, 1)):
    """Return the strata and a neighbour, in which a row of one stratum is added or replaced."""
    first = {"public": np.append(GROUPS[key][:-1], OUTSIDE), "noisy": np.append(GROUPS[key], OUTSIDE)}
    return GROUPS, GROUPS | {key: first[sizes]}


def assert_kept(make, both, folder, charge=RHO):
    found = made_twice(make, *both, folder)
    assert found.keeps(charge)
    assert found.pure


@SIZES
@pytest.mark.parametrize("tail", ["adaptive", "gaussian"])
@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("bounds", [None, (0, 99)])
def test_one_mean(tmp_path, sizes, tail, steps, bounds):
    def make(values, noise):
        return coinpress_mean(values, **MEAN, noise=noise, sizes=sizes, tail=tail, steps=steps, bounds=bounds)

    assert_kept(make, (HOURS, NEIGHBOUR[sizes]), tmp_path)


@pytest.mark.parametrize("values", [HOURS[:0], HOURS[:3]])
def test_one_mean_of_hardly_any_row(tmp_path, values):
    make = lambda values, noise: coinpress_mean(values, **MEAN, noise=noise, sizes="noisy", bounds=(0, 99))  # noqa: E731
    assert_kept(make, (values, np.append(values, LOWEST)), tmp_path)


def test_one_mean_of_rows_that_were_counted_before(tmp_path):
    rows = RowCount(1190.0, 6.0)
    make = lambda values, noise: coinpress_mean(values, **MEAN, noise=noise, sizes="noisy", rows=rows)  # noqa: E731
    assert_kept(make, (HOURS, NEIGHBOUR["noisy"]), tmp_path)


def test_a_mean_for_what_is_left_of_a_budget(tmp_path):
    budgets = []

    def make(values, noise):
        budgets.append(Budget(Rho(0.75)))
        budgets[-1].spend(Rho(0.25), "something else")
        return coinpress_mean(values, **MEAN | {"rho": budgets[-1]}, noise=noise, sizes="noisy")

    assert_kept(make, (HOURS, NEIGHBOUR["noisy"]), tmp_path)
    assert not any(budget.remaining for budget in budgets)
    with pytest.raises(ValueError, match="rho must be positive"):
        coinpress_mean(HOURS, **MEAN | {"rho": budgets[0]}, noise=SeededNoise(0))


@SIZES
@pytest.mark.parametrize("weights", [SHARES, None])
@pytest.mark.parametrize("estimator", [stratified_coinpress, hierarchical_coinpress])
def test_means_of_strata(tmp_path, sizes, weights, estimator):
    make = lambda groups, noise: estimator(groups, weights, **MEAN, noise=noise, sizes=sizes, bounds=(0, 99))  # noqa: E731
    assert_kept(make, strata(sizes), tmp_path)


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("estimator", [stratified_coinpress, hierarchical_coinpress])
def test_means_by_shares_of_the_people(tmp_path, present, estimator):
    """A row is added with a value, or without a value so that it changes only a single count."""
    absent = {(1, 1): 500, (1, 2): 10, (2, 1): 0, (2, 2): 300}

    def make(rows, noise):
        return estimator(rows[0], SHARES, **MEAN, noise=noise, sizes="noisy", bounds=(0, 99), absent=rows[1])

    before, after = strata("noisy")
    both = (before, absent), ((after, absent) if present else (before, absent | {(1, 1): 501}))
    found = made_twice(make, *both, tmp_path)
    assert found.pure
    assert found.cost <= float(RHO) * (1 + 1e-9)
    assert found.claimed == pytest.approx(float(RHO) if present else float(RHO) / 10)


def test_means_of_strata_of_which_one_was_empty_or_is_the_only_one(tmp_path):
    make = lambda groups, noise: hierarchical_coinpress(groups, None, **MEAN, noise=noise, sizes="noisy")  # noqa: E731
    assert_kept(make, strata("noisy", (2, 2)), tmp_path / "empty")
    assert_kept(make, ({"all": HOURS}, {"all": NEIGHBOUR["noisy"]}), tmp_path / "only")


LAPLACE = {"radius": 40, "epsilon": 1.0, "sigma": 14}


def test_laplace_means(tmp_path):
    """The cost is ε, and the recorder counts a Laplace sample as ε²/2 in zCDP."""
    out = [np.append(HOURS[:-1], place) for place in (1e9, -1e9)]
    assert_kept(lambda values, noise: laplace_mean(values, **LAPLACE, noise=noise), out, tmp_path / "one")
    groups = [GROUPS | {(1, 1): values} for values in out]
    make = lambda groups, noise: stratified_laplace_mean(groups, SHARES, **LAPLACE, noise=noise)  # noqa: E731
    assert_kept(make, groups, tmp_path / "strata")


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("composition", ["joint", "basic"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("row", [(1.0, 1.0, 3.0), (0.0, 0.0, 3.0), (1.0, 0.0, 1.7)])
def test_the_sums_of_a_ratio(tmp_path, mechanism, composition, weighted, row):
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.random(300), rng.integers(0, 2, 300), rng.uniform(0, 3, 300)])
    price = PricedDesign.of_epsilon_delta(1.0, 1e-6, mechanism, composition, weighted=weighted, binary=True)

    def make(rows, noise):
        score, label, weight = rows.T
        return measure_sums(score, label, price, weight if weighted else None, weight_bound=3.0, noise=noise)

    found = made_twice(make, table, np.vstack([table, np.array([row])]), tmp_path)
    assert found.cost <= float(price.rho) * (1 + 1e-9)
    assert found.claimed <= float(price.rho) * (1 + 1e-9)
    assert found.cost > 0.02 * float(price.rho)
    assert found.pure


def test_a_ratio(tmp_path):
    table = np.column_stack([np.linspace(0, 1, 300), np.arange(300) % 2])
    make = lambda rows, noise: private_ratio(*rows.T, epsilon=1.0, delta=1e-6, noise=noise)  # noqa: E731
    charge = PricedDesign.of_epsilon_delta(1.0, 1e-6, "gaussian", "joint", weighted=False, binary=True).rho
    assert_kept(make, (table, np.vstack([table, [[1.0, 1.0]]])), tmp_path, charge)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_counts(tmp_path, relation):
    codes = np.array([[0, 1], [1, 1], [1, 0], [0, 0]])
    replaced, added = np.vstack([codes[:-1], [[1, 2]]]), np.vstack([codes, [[1, 2]]])
    make = partial(noisy_table, shape=(2, 3), epsilon=1.0, relation=relation)
    both = codes, replaced if relation == REPLACE_ONE else added
    assert_kept(lambda rows, noise: make(rows, noise=noise), both, tmp_path / "table")
    make = lambda values, noise: noisy_count(values, epsilon=1.0, noise=noise)  # noqa: E731
    assert_kept(make, (np.array([0, 1, 1]), np.array([1, 1, 1])), tmp_path / "count")


# --- Planted faults


def test_noise_too_small_by_a_tenth_is_caught(monkeypatch, tmp_path):
    honest = equistrata.privacy.noise.gaussian_sigma
    monkeypatch.setattr(equistrata.privacy.noise, "gaussian_sigma", lambda *price: 0.9 * honest(*price))
    with pytest.raises(AssertionError, match="costs"):
        test_means_of_strata(tmp_path, "noisy", None, hierarchical_coinpress)


def test_a_count_that_is_not_charged_is_caught(monkeypatch, tmp_path):
    honest = equistrata.inference.means.refinement.noisy_rows
    off_the_books = lambda rows, rho, budget, noise: honest(rows, rho, Budget(rho), noise)  # noqa: E731
    monkeypatch.setattr(equistrata.inference.means.refinement, "noisy_rows", off_the_books)
    monkeypatch.setattr(
        equistrata.inference.means.refinement,
        "_finish",
        partial(_finish, equistrata.inference.means.refinement._finish),
    )
    found = made_twice(
        lambda values, noise: coinpress_mean(values, **MEAN, noise=noise, sizes="noisy"),
        HOURS, NEIGHBOUR["noisy"], tmp_path,
    )  # fmt: skip
    assert found.pure
    assert not found.keeps(RHO)


def _finish(honest, budget, *rest, **named):
    """The remaining budget is charged, so that the total is correct although there is a fault."""
    budget.spend(budget.remaining, "hidden")
    return honest(budget, *rest, **named)


@pytest.mark.parametrize("present", [True, False])
def test_an_exact_number_of_all_rows_is_caught(monkeypatch, tmp_path, present):
    honest, made = equistrata.inference.means.coinpress.row_counts, []

    def counts(rows, cost, budgets, streams):
        made.append(honest(rows, cost, budgets, streams))
        every_other = len(made) % 2 == 0
        return {
            key: RowCount(float(rows[key]) if every_other else each.drawn, each.sigma) for key, each in made[-1].items()
        }

    monkeypatch.setattr(equistrata.inference.means.coinpress, "row_counts", counts)
    with pytest.raises(AssertionError):
        test_means_by_shares_of_the_people(tmp_path, present, stratified_coinpress)


def test_a_sum_of_another_sensitivity_is_caught(monkeypatch, tmp_path):
    """The sum is charged for an added row instead of a replaced row."""
    monkeypatch.setattr(equistrata.inference.means.lattice, "REPLACE_ONE", None)
    with pytest.raises(AssertionError, match=r"\(gaussian\) moves by"):
        test_means_of_strata(tmp_path, "public", SHARES, stratified_coinpress)


def test_an_exact_number_of_rows_is_caught(tmp_path):
    """The sizes are declared as public for two tables of different sizes."""
    make = lambda values, noise: len(values) + laplace_mean(HOURS, **LAPLACE, noise=noise).value  # noqa: E731
    assert not made_twice(make, HOURS, NEIGHBOUR["noisy"], tmp_path).pure
