"""Tests of the noisy workload error: its value, its sensitivity and its privacy guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from no_noise import NoNoise
from refutation import HalvedNoise, empirical_epsilon

import equistrata.eval.audit.sections
import equistrata.eval.scores.workload
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.audit.sections import noisy_workload_distance
from equistrata.eval.scores.tables import Pair
from equistrata.eval.scores.workload import workload_error
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise

SCHEMA = Schema(
    "small", tuple(Column(name, values=tuple(range(size))) for name, size in zip("ABCD", (2, 3, 2, 4), strict=True))
)


def table(rows):
    return CodedTable(np.asarray(rows, dtype=np.uint8).reshape(-1, 4), SCHEMA)


def random_table(n, seed):
    rng = np.random.default_rng(seed)
    return table(np.stack([rng.choice(size, n, p=rng.dirichlet(np.ones(size))) for size in SCHEMA.sizes], axis=1))


def exact(private, synthetic, degree=3):
    return noisy_workload_distance(private, synthetic, SCHEMA.names, 0.5, NoNoise(), degree=degree).value


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_it_is_n_times_the_workload_error(degree, seed):
    private, synthetic = random_table(150, seed), random_table(90, seed + 10)
    assert exact(private, synthetic, degree) == pytest.approx(
        150 * workload_error(Pair.of(private, synthetic), degree=degree)
    )


def test_large_marginals_go_by_the_cells_that_occur(monkeypatch):
    private, synthetic = random_table(150, 1), random_table(90, 2)
    dense = exact(private, synthetic)
    monkeypatch.setattr(equistrata.eval.scores.workload, "DENSE_CELLS", 3)
    assert exact(private, synthetic) == dense


@pytest.mark.parametrize("seed", range(20))
def test_adding_a_row_moves_it_by_at_most_two(seed):
    rng = np.random.default_rng(seed)
    private, synthetic = random_table(rng.integers(0, 30), seed), random_table(rng.integers(1, 30), seed + 100)
    for row in random_table(30, seed + 200).codes:
        more = table(np.vstack([private.codes, row]))
        assert abs(exact(more, synthetic) - exact(private, synthetic)) <= 2 + 1e-9


def test_the_bound_of_two_is_reached_by_a_first_row_unlike_any_synthetic_one():
    assert exact(table([[1, 2, 1, 3]]), table([[0, 0, 0, 0]] * 5)) == 2.0
    assert exact(table([]), table([[0, 0, 0, 0]] * 5)) == 0.0


def test_noise_has_the_stated_deviation():
    """The test uses 2,000 draws. The standard error of the standard deviation is 1.6 %, and the tolerance is four
    standard errors.
    """
    private, synthetic = random_table(40, 1), random_table(30, 2)
    found = [noisy_workload_distance(private, synthetic, SCHEMA.names, 0.02, SeededNoise(i)) for i in range(2000)]
    assert found[0].deviation == pytest.approx(2 / math.sqrt(2 * 0.02))
    assert np.std([f.value for f in found]) == pytest.approx(found[0].deviation, rel=0.064)
    assert np.mean([f.value for f in found]) == pytest.approx(exact(private, synthetic), abs=4 * 10 / math.sqrt(2000))


def test_bad_settings():
    with pytest.raises(InputError, match="no rows"):
        exact(random_table(5, 0), table([]))
    with pytest.raises(InputError, match="at least one"):
        exact(random_table(5, 0), random_table(5, 0), degree=0)
    with pytest.raises(InputError, match="at least one"):
        noisy_workload_distance(random_table(5, 0), random_table(5, 0), [], 0.5, NoNoise())


def bound(noise=SeededNoise, runs=4000):
    synthetic = table([[0, 0, 0, 0]] * 5)
    sides = [
        np.array(
            [noisy_workload_distance(rows, synthetic, SCHEMA.names, 0.5, noise(start + i)).value for i in range(runs)]
        )
        for start, rows in ((0, table([])), (runs, table([[1, 2, 1, 3]])))
    ]
    return empirical_epsilon(*sides, 0.05)


@pytest.mark.slow
def test_claim_stands_and_halved_noise_is_caught():
    claim = Rho(0.5).epsilon(0.05)
    assert bound() <= claim < bound(lambda seed: HalvedNoise(SeededNoise(seed)))


@pytest.mark.slow
def test_taking_the_error_for_one_of_sensitivity_one_is_caught(monkeypatch):
    monkeypatch.setattr(equistrata.eval.audit.sections, "SENSITIVITY", 1.0)
    assert bound() > Rho(0.5).epsilon(0.05)
