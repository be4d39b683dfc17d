"""Strata, and strata of one value, that are unlike all others: found by their noisy counts, and believed."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.stats.random_effects import project
from equistrata.synth.measurements import Measurement
from equistrata.synth.strata import outliers
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.outliers import Looks, levels_of, shifts, widest_variance

WARDS = Schema(
    "wards",
    (
        Column("WARD", values=("a", "b", "c", "children")),
        Column("SEX", values=(1, 2)),
        Column("AGE", values=("young", "middle", "old")),
        Column("STAY", values=("short", "long")),
    ),
)
ROWS = np.array([2500.0, 2000.0, 1200.0, 300.0])
AGES = np.array([[0.25, 0.33, 0.42]] * 3 + [[1.0, 0.0, 0.0]])
STAYS = np.array([[0.6, 0.4]] * 3 + [[0.7, 0.3]])


def joined(strata, ages, sigma, rng):
    """Each stratum's shares of AGE by its own noisy counts and what it borrows, shape (k, 3)."""
    wards = [key[strata.columns.index("WARD")] for key in strata.keys]
    places = [["a", "b", "c", "children"].index(ward) for ward in wards]
    rows = ROWS[places] / (len(places) / 4)
    noisy = {
        key: [
            Measurement((), np.array(rows[n]), 1e-3),
            *(
                Measurement((name,), share[places[n]] * rows[n] + rng.normal(0, sigma, share.shape[1]), sigma)
                for name, share in (("AGE", ages), ("STAY", STAYS))
            ),
        ]
        for n, key in enumerate(strata.keys)
    }
    everybody = (ages * ROWS[:, None]).sum(0) + rng.normal(0, sigma, 3)
    told = borrow(strata, noisy, [Measurement(("AGE",), everybody, sigma)])
    found = []
    for n, key in enumerate(strata.keys):
        parts = [m for m in (*noisy[key], *told[key]) if m.columns == ("AGE",)]
        weights = [m.sigma**-2 for m in parts]
        found.append(np.average([m.values for m in parts], axis=0, weights=weights) / rows[n])
    return np.array(found)


@pytest.mark.parametrize("columns", [("WARD",), ("WARD", "SEX")])
def test_a_ward_of_children_beside_three_wards_of_adults_is_believed(columns):
    """300 of 6,000 rows, and noise of a fifth of them in a cell: four standard deviations, of which the mixed model
    alone believes half (.48 and .52 of 1). By sex, it is all strata of that ward that are unlike others."""
    rng, strata = np.random.default_rng(0), Strata.over(WARDS, columns)
    children = np.array([key[0] == "children" for key in strata.keys])
    found = np.array([joined(strata, AGES, 60.0 / len(columns) ** 0.5, rng) for _ in range(20)])
    assert found[:, children, 0].mean() > 0.7
    assert np.abs(found[:, ~children] - AGES[0]).mean() < 0.025


def test_wards_that_are_alike_are_taken_to_be_so():
    """The noise of a share of the smallest ward is .2, and what is left of it .014: .012 if no ward could be unlike."""
    rng, strata, alike = np.random.default_rng(1), Strata.over(WARDS, ("WARD",)), np.tile(AGES[:1], (4, 1))
    off = np.array([joined(strata, alike, 60.0, rng)[3] for _ in range(40)]) - AGES[0]
    assert np.sqrt((off**2).mean()) < 0.025


def looks(rng, k=6, cells=4, shift=0.0):
    """Of strata and of all together, with a prior of 0.02 between strata; the last stratum has a shift."""
    levels = levels_of([(place,) for place in range(k)])
    design = np.vstack([np.eye(k), np.full(k, 1 / k)])
    covariance = design @ (0.02**2 * np.eye(k)) @ design.T + np.diag(rng.uniform(0.02, 0.2, k + 1) ** 2)
    observed = rng.multivariate_normal(np.zeros(k + 1), covariance, cells - 1).T
    observed[:, 0] += shift * design[:, -1]
    return covariance, Looks(project(covariance)[1], observed, levels @ design.T, 0.4)


def likelihood(covariance, observed):
    """The logarithm of the restricted likelihood, but for a constant."""
    inverse, projection = project(covariance)
    constant = np.linalg.slogdet(covariance)[1] + np.log(inverse.sum())
    return -(observed.shape[1] * constant + (observed * (projection @ observed)).sum()) / 2


def test_factors_are_ratios_of_restricted_likelihoods_with_a_shift_and_without():
    covariance, seen = looks(np.random.default_rng(2), shift=0.3)
    logs, kept, information = outliers._factors(outliers._Pushed.of(seen))
    for level, place in enumerate(seen.levels):
        for width, variance in enumerate(0.4 * outliers._WIDTHS):
            shifted = covariance + variance * np.outer(place, place)
            ratio = likelihood(shifted, seen.observed) - likelihood(covariance, seen.observed)
            assert logs[level, width] + np.log(4) == pytest.approx(ratio, abs=1e-9)
            known = 1 / information[level]  # the variance with which generalised least squares sees the shift
            assert kept[level, width] == pytest.approx(variance / (variance + known))


def test_a_level_that_has_its_shift_is_one_with_more_variance():
    covariance, seen = looks(np.random.default_rng(3), shift=0.5)
    pushed = outliers._Pushed.of(seen)
    pushed.shift(5, 0.07, float(outliers._factors(pushed)[2][5]))
    shifted = covariance + 0.07 * np.outer(seen.levels[5], seen.levels[5])
    np.testing.assert_allclose(pushed.pushed, seen.levels @ project(shifted)[1], atol=1e-9)


def test_what_is_off_in_one_column_is_sooner_believed_in_another():
    rng = np.random.default_rng(4)
    _, clear = looks(rng, shift=0.9)
    _, doubtful = looks(rng, shift=0.25)
    alone = shifts({("AGE",): doubtful})["AGE",]
    beside = shifts({("AGE",): doubtful, ("JOB",): clear})["AGE",]
    itself = shifts({("AGE",): doubtful, ("AGE", "JOB"): clear})["AGE",]  # a pair holds the column: it is no other
    assert beside[5] > 3 * alone[5]
    np.testing.assert_array_equal(itself, alone)


def test_levels_are_strata_and_the_strata_of_a_value():
    assert levels_of([(1,), (2,), (3,)]).tolist() == np.eye(3).tolist()
    by_two = levels_of([(sex, race) for sex in (1, 2) for race in (1, 2, 3)])
    assert by_two.sum(1).tolist() == [3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_the_widest_shift_is_to_a_single_cell():
    """Squares of the distance from even shares to one cell are 1 − 1/c; from one cell to another two."""
    for shares, distance in ((np.full(5, 0.2), 0.8), (np.array([1.0, 0, 0]), 2.0)):
        assert distance <= widest_variance(shares) * (len(shares) - 1) <= 1.5 * distance
