"""Tests of the independence test for noisy tables: the level by simulation, the power and the sample size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from equistrata.errors import InputError
from equistrata.inference.counts.independence import IndependenceDesign, independence_test
from equistrata.inference.counts.noisy_counts import NoisyTable, noisy_table
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import SeededNoise

MARGINS = {
    "even": ([0.5, 0.5], [0.5, 0.5]),
    "uneven": ([0.9, 0.1], [0.6, 0.3, 0.1]),
    "rare": ([0.02, 0.98], [0.25] * 4),
    "nearly one cell": ([0.97, 0.01, 0.01, 0.01], [0.97, 0.01, 0.01, 0.01]),
}


def noisy(joint, rows, epsilon, relation, rng):
    """Return a noisy table of rows from the distribution `joint`, with the same distribution as `noisy_table`."""
    scale = (2 if relation == REPLACE_ONE else 1) / epsilon
    counts = rng.multinomial(rows, np.ravel(joint)).reshape(np.shape(joint))
    known = rows if relation == REPLACE_ONE else None
    return NoisyTable(
        values=counts + rng.laplace(0, scale, counts.shape), rows=known, epsilon=epsilon, rho=Rho(epsilon**2 / 2),
        entries=(), relation=relation, scale=scale, private=False,
    )  # fmt: skip


def rejections(joint, rows, epsilon, relation, runs, resamples=199):
    rng = np.random.default_rng(0)
    tables = (noisy(joint, rows, epsilon, relation, rng) for _ in range(runs))
    tests = (independence_test(table, rng=rng, resamples=resamples) for table in tables)
    return np.mean([test.p_value <= 0.05 for test in tests])


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("margins", MARGINS)
@pytest.mark.parametrize(
    ("rows", "epsilon"), [(30, 0.3), (300, 0.1), (300, 1.0), pytest.param(5000, 0.1, marks=pytest.mark.slow)]
)
def test_level(margins, rows, epsilon, relation):
    """The level must be at most 0.05, with a tolerance of 3.5 standard errors for 800 runs.

    The probability of a false alarm is 0.8 % for all of the 32 settings. The level is exactly 0.05 for 99 and 199
    resamples.
    """
    joint = np.outer(*MARGINS[margins])
    assert rejections(joint, rows, epsilon, relation, 800, resamples=99) <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 800)


def test_the_classical_test_would_not_keep_its_level():
    """The rejection rate of Pearson's χ² test is too large, because the counts are assumed to be exact."""
    rng = np.random.default_rng(0)
    joint = np.outer([0.5, 0.5], [0.6, 0.4])
    tables = (noisy(joint, 500, 0.1, REPLACE_ONE, rng).values for _ in range(300))
    classical = [stats.chi2_contingency(np.maximum(table, 1), correction=False).pvalue <= 0.05 for table in tables]
    assert np.mean(classical) > 0.3
    assert rejections(joint, 500, 0.1, REPLACE_ONE, 300) <= 0.1


def test_without_noise_it_is_pearsons():
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, 2, 400), rng.integers(0, 3, 400)])
    table = noisy_table(codes, (2, 3), epsilon=1e7, noise=SeededNoise(0))
    found = independence_test(table, rng=rng, resamples=20_000)
    theirs = stats.chi2_contingency(np.rint(table.values), correction=False)
    assert found.statistic == pytest.approx(theirs.statistic, rel=1e-4)
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.02)
    assert found.least_expected == pytest.approx(theirs.expected_freq.min(), rel=1e-4)


def test_no_verdict_where_a_cell_expects_less_than_one_row():
    joint = np.outer(*MARGINS["nearly one cell"])
    table = noisy(joint, 300, 5.0, REPLACE_ONE, np.random.default_rng(0))
    found = independence_test(table, rng=np.random.default_rng(1))
    assert found.least_expected < 1
    assert not found.verdict
    assert found.p_value == 1


DEPENDENT = {
    "even": np.array([[0.3, 0.2], [0.2, 0.3]]),
    "2 by 3": np.array([[0.35, 0.25, 0.2], [0.15, 0.05, 0.0001]]),
    "3 by 3": np.array([[0.2, 0.1, 0.05], [0.1, 0.2, 0.05], [0.05, 0.05, 0.2]]),
}


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1.0])
def test_the_planned_rows_give_the_planned_power(name, epsilon, relation):
    """The power with the planned number of rows must be 0.8, or more if the rule of five needs more rows.

    There are 800 runs, and four standard errors are allowed. In addition, 0.02 is allowed for estimated margins and 199
    resamples.
    """
    joint = DEPENDENT[name] / DEPENDENT[name].sum()
    design = IndependenceDesign(joint, alpha=0.05, epsilon=epsilon, relation=relation)
    rows = design.sample_size(beta=0.2)
    power = design.power(rows)
    assert power >= 0.8
    seen = rejections(joint, rows, epsilon, relation, 800)
    assert abs(seen - power) <= 4 * math.sqrt(power * (1 - power) / 800) + 0.02
    five = 5 / np.outer(joint.sum(1), joint.sum(0)).min()
    if rows > five + 1:
        fewer = design.power(int(rows * 0.95))
        assert fewer < 0.81  # the number of rows is not too large, up to 1 % for the search and 1 % for the simulation


def test_sample_size_without_noise_is_the_classical_one():
    """The formula is n = λ/w² with λ = 7.849 for one degree of freedom (α = 0.05, power 0.8) and w = 0.2."""
    found = IndependenceDesign(DEPENDENT["even"], alpha=0.05, epsilon=100).sample_size(beta=0.2)
    assert found == pytest.approx(7.849 / 0.04, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"joint": [[0.25, 0.25], [0.25, 0.25]]}, "are independent"),
        ({"joint": [[0.5, 0.5]]}, "two columns"),
        ({"joint": [[0.5, 0.5], [0.0, 0.0]]}, "positive probabilities"),
        ({"joint": [[0.5, 0.2], [0.2, 0.2]]}, "sum to 1"),
        ({"alpha": 0.0}, "alpha"),
        ({"beta": 0.95}, "beta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"relation": "both"}, "relation"),
        ({"draws": 10}, "draws"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    good = {"joint": [[0.3, 0.2], [0.2, 0.3]], "alpha": 0.05, "epsilon": 1.0} | settings
    beta = good.pop("beta", 0.2)
    with pytest.raises(InputError, match=message):
        IndependenceDesign(**good).sample_size(beta)


def test_a_table_that_is_not_one_of_two_columns_is_refused():
    for codes, shape in (([0, 1], (2,)), ([[0, 0]], (1, 2)), ([[0, 0, 0]], (2, 2, 2))):
        table = noisy_table(codes, shape, epsilon=1.0, noise=SeededNoise(0))
        with pytest.raises(InputError, match="two columns"):
            independence_test(table, rng=np.random.default_rng(0))
    table = noisy_table([[0, 0]], (2, 2), epsilon=1.0, noise=SeededNoise(0))
    with pytest.raises(InputError, match="resamples"):
        independence_test(table, rng=np.random.default_rng(0), resamples=0)
