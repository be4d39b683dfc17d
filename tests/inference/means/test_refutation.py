"""Tests that try to refute the privacy guarantee of private means, and that must detect planted faults."""

from __future__ import annotations

import numpy as np
import pytest
from estimators import coinpress_mean, laplace_mean, stratified_coinpress, stratified_laplace_mean
from refutation import HalvedNoise, empirical_epsilon

from equistrata.inference.means.lattice import GaussianCharge, noisy_histogram, noisy_sum
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import SeededNoise

RUNS = 4000
DELTA = 0.05
RHO = Rho(0.5)
MEAN = {"lower": 0.0, "upper": 1.0, "sigma": 1.0, "rho": RHO}
LAPLACE = {"radius": 1.0, "epsilon": 1.0}


def bound(statistic, table, neighbour, delta=DELTA, fault=False, count=RUNS):
    """Return the empirical ε of a statistic for two neighbouring tables. If `fault` is True, the noise is half as
    large.
    """
    runs = [
        [statistic(rows, HalvedNoise(SeededNoise(i)) if fault else SeededNoise(i)) for i in range(start, start + count)]
        for rows, start in ((table, 0), (neighbour, count))
    ]
    return empirical_epsilon(*(np.array(side) for side in runs), delta)


LOW = np.full(8, -1e9)
REPLACED = np.append(LOW[1:], 1e9)
ADDED = np.append(LOW, 1e9)
LONE_LOW, LONE_HIGH = np.array([-1e9]), np.array([1e9])
LARGE = np.append(np.full(999, 0.5), -1e9)
LARGE_OUT = np.append(np.full(999, 0.5), 1e9)
HIGH = np.ones(200)


def one_step(rows, noise):
    return coinpress_mean(rows, **MEAN, steps=1, tail="gaussian", noise=noise).value


def two_steps(rows, noise):
    return coinpress_mean(rows, **MEAN, noise=noise).raw


def noisy_size(rows, noise):
    """Return a weighted sum of the noisy sum and the noisy count. The weights are given by the privacy costs."""
    found = coinpress_mean(rows, **MEAN, steps=1, sizes="noisy", bounds=(0, 1), noise=noise)
    return 0.9 * (found.raw - 0.5) * found.rows / 0.5 + 0.1 * found.rows


def off_the_middle(rows, noise):
    """Return a statistic of both steps, in which the first step selects the centre of the second.

    All of the rows are near one end of the clipping interval. The new row is at the other end.
    """
    found = coinpress_mean(rows, **MEAN, sizes="noisy", bounds=(0, 1), noise=noise)
    # A row at 0 changes the sum of differences by -centre and the number of rows by one.
    total = (found.raw - found.centre) * found.rows - (1 - found.centre) * len(HIGH)
    return found.rows / found.count_deviation**2 - found.centre * total / found.sum_deviation**2


def one_stratum_changes(rows, noise):
    groups = {"changes": rows, "stays": LOW}
    return (
        stratified_coinpress(groups, {"changes": 0.9, "stays": 0.1}, **MEAN, steps=1, noise=noise).strata["changes"].raw
    )


# The exact cost of all estimators is tested in test_accounting.py, so two of them are enough for the fast tests.
SLOW = pytest.mark.slow
CLAIMS = [
    pytest.param(one_step, LOW, REPLACED, id="one step"),
    pytest.param(two_steps, LONE_LOW, LONE_HIGH, id="two steps", marks=SLOW),
    pytest.param(two_steps, LARGE, LARGE_OUT, id="with a tail histogram", marks=SLOW),
    pytest.param(noisy_size, LOW, ADDED, id="noisy size"),
    pytest.param(noisy_size, np.empty(0), LONE_HIGH, id="noisy size, from no row to one", marks=SLOW),
    pytest.param(off_the_middle, HIGH, np.append(HIGH, 0.0), id="noisy size, about a point near an end", marks=SLOW),
    pytest.param(one_stratum_changes, LOW, REPLACED, id="strata", marks=SLOW),
]


@pytest.mark.parametrize(("statistic", "table", "neighbour"), CLAIMS)
def test_claim_stands(statistic, table, neighbour):
    assert bound(statistic, table, neighbour) <= RHO.epsilon(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize(("statistic", "table", "neighbour"), CLAIMS)
def test_halved_noise_is_caught(statistic, table, neighbour):
    assert bound(statistic, table, neighbour, fault=True) > RHO.epsilon(DELTA)


def histogram(relation):
    """A row moves from the first bin to the second bin, so the difference of the counts changes by 2 and its noise is
    √2·σ.
    """

    def statistic(rows, noise):
        counts, _ = noisy_histogram(rows, [0.0, 1.0, 2.0], relation, GaussianCharge(RHO, Budget(RHO), noise, "shells"))
        return counts[1] - counts[0]

    return statistic


def test_the_second_sum_is_off_the_middle():
    """The centre of the second step is different from the first centre, which is 1/2."""
    assert coinpress_mean(HIGH, **MEAN, sizes="noisy", bounds=(0, 1), noise=SeededNoise(1)).centre > 0.6


@pytest.mark.parametrize(("relation", "caught"), [(REPLACE_ONE, False), (ADD_REMOVE, True)])
def test_histogram_needs_the_sensitivity_of_its_relation(relation, caught):
    """It is a fault to charge for an added row if a row is replaced, and the test must detect it."""
    found = bound(histogram(relation), np.full(9, 0.5), np.append(np.full(8, 0.5), 1.5), count=6 * RUNS)
    assert (found > RHO.epsilon(DELTA)) == caught


@pytest.mark.parametrize(("relation", "caught"), [(REPLACE_ONE, False), (ADD_REMOVE, True)])
def test_sum_needs_the_sensitivity_of_its_relation(relation, caught):
    def statistic(rows, noise):
        return noisy_sum(rows, 0.0, 1.0, relation, GaussianCharge(RHO, Budget(RHO), noise, "sum"))

    assert (bound(statistic, LOW, REPLACED) > RHO.epsilon(DELTA)) == caught


def laplace(rows, noise):
    return laplace_mean(rows, **LAPLACE, noise=noise).value


def laplace_stratum(rows, noise):
    return stratified_laplace_mean([rows, LOW], **LAPLACE, noise=noise).strata[0].value


@pytest.mark.slow
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("statistic", [laplace, laplace_stratum])
def test_laplace_mean(statistic, fault):
    assert (bound(statistic, LONE_LOW, LONE_HIGH, delta=0.0, fault=fault) > LAPLACE["epsilon"]) == fault
