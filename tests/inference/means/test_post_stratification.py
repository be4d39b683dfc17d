"""Tests of means with public shares of the population: the estimate, its error and the coverage of its interval."""

import numpy as np
import pytest
from estimators import hierarchical_coinpress, stratified_coinpress
from no_noise import NoNoise

from equistrata.inference.means.post_stratification import post_stratify
from equistrata.inference.means.refinement import RowCount
from equistrata.inference.means.settings import read_groups
from equistrata.privacy.noise import SeededNoise

SETTINGS = {"lower": 0.0, "upper": 99.0, "sigma": 14.0, "bounds": (0.0, 99.0), "beta": 0.05}
BOTH = pytest.mark.parametrize("estimator", [stratified_coinpress, hierarchical_coinpress])
SIZES = np.array([4000, 2600, 700, 260, 90, 40, 13, 4])


def exact(groups, weights, absent):
    """Return Σ ωπμ/Σ ωπ, where π is the share of the rows of a stratum that have a value."""
    rows = {key: len(values) + absent.get(key, 0) for key, values in groups.items()}
    used = [key for key in groups if rows[key] and len(groups[key])]
    people = [weights[key] * len(groups[key]) / rows[key] for key in used]
    return float(np.average([groups[key].mean() for key in used], weights=people))


def made_up(seed):
    """Return hours of work in sixteen strata, most of which are small. The mean increases with the share of people who
    work.
    """
    rng = np.random.default_rng(seed)
    rows = {(sex, race): int(n * (1 + 0.1 * sex)) for sex in (0, 1) for race, n in enumerate(SIZES)}
    present = {key: rng.binomial(n, 0.35 + 0.02 * key[1] + 0.1 * key[0]) for key, n in rows.items()}
    groups = {key: np.clip(rng.normal(33 + 4 * key[0] + key[1], 12, n), 0, 99) for key, n in present.items()}
    return groups, {key: rows[key] - present[key] for key in rows}


def another_half(absent, groups, rng):
    """Return shares from a sample of the same size and population. The share of a small stratum can be 0."""
    rows = np.array([len(groups[key]) + absent[key] for key in groups])
    drawn = rng.poisson(rows)
    return dict(zip(groups, (drawn / drawn.sum()).tolist(), strict=True))


@BOTH
@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize(
    ("weights", "absent"),
    [
        ((0.5, 0.3, 0.2), (2000, 0, 500)),
        ((0.9, 0.0, 0.1), (2000, 0, 500)),  # the public share of one stratum is 0
        ((0.5, 0.3, 0.2), (0, 0, 9000)),
    ],
)
def test_a_mean_is_over_the_people_with_a_value(estimator, sizes, weights, absent):
    rng = np.random.default_rng(1)
    groups = {key: rng.normal(20 + 15 * key, 5, n) for key, n in enumerate((4000, 2000, 3000))}
    shares, without = dict(enumerate(weights)), dict(enumerate(absent))
    found = estimator(groups, shares, **SETTINGS, rho=10.0, sizes=sizes, noise=NoNoise(), absent=without)
    assert found.value == pytest.approx(exact(groups, shares, without), abs=0.05)
    assert found.lower <= exact(groups, shares, without) <= found.upper
    assert sum(found.weights.values()) == pytest.approx(1)


@BOTH
def test_a_stratum_in_which_no_one_has_a_value_has_no_part_in_the_mean(estimator):
    """The column is the hours of work by age. Children have no hours and half of the weight."""
    rng = np.random.default_rng(1)
    groups = {"child": np.empty(0), "young": rng.normal(30, 5, 3000), "old": rng.normal(50, 5, 1000)}
    shares, absent = {"child": 0.5, "young": 0.3, "old": 0.2}, {"child": 4000, "old": 1000}
    found = [
        estimator(groups, shares, **SETTINGS, rho=0.02, sizes="noisy", noise=SeededNoise(i), absent=absent)
        for i in range(20)
    ]
    truth = exact(groups, shares, absent)
    assert sum(each.lower <= truth <= each.upper for each in found) >= 16
    assert np.median([each.half_width for each in found]) < 2


@BOTH
@pytest.mark.parametrize("rho", [0.003, 0.03])
def test_a_file_of_other_people_alike_makes_a_mean_no_worse(estimator, rho):
    """Regression test: the error was 3 to 30 times larger, because the weight of a noisy mean of 13 rows was fixed.

    The test uses 40 runs of 4 tables.
    """
    rng, errors, widths, held = np.random.default_rng(2), [], [], 0
    for i in range(40):
        groups, absent = made_up(i % 4)
        shares = another_half(absent, groups, rng)
        given = SETTINGS | {"rho": rho, "sizes": "noisy", "noise": SeededNoise(i)}
        one, two = estimator(groups, None, **given), estimator(groups, shares, **given, absent=absent)
        own, truth = np.concatenate(list(groups.values())).mean(), exact(groups, shares, absent)
        errors.append((abs(one.value - own), abs(two.value - truth)))
        widths.append((one.half_width, two.half_width))
        held += two.lower <= truth <= two.upper
    (alone, weighed), (narrow, wide) = np.mean(errors, axis=0), np.median(widths, axis=0)
    assert weighed < 1.25 * alone
    assert wide < 1.2 * narrow
    assert held >= 34  # the expected number is 38, and a smaller number has a probability of 2 %


@BOTH
def test_a_table_in_which_one_sex_is_rare_stands_for_the_people_of_the_file(estimator):
    groups, absent = made_up(1)
    shares = {key: (0.2, 0.8)[key[0]] * SIZES[key[1]] / SIZES.sum() for key in groups}
    truth = exact(groups, shares, absent)
    found = [
        estimator(groups, shares, **SETTINGS, rho=0.03, sizes="noisy", noise=SeededNoise(i), absent=absent)
        for i in range(20)
    ]
    assert sum(each.lower <= truth <= each.upper for each in found) >= 16
    own = np.concatenate(list(groups.values())).mean()
    assert np.mean([abs(each.value - truth) for each in found]) < abs(own - truth)


def test_a_stratum_below_the_noise_has_the_weight_of_its_rows():
    """There is a stratum with 13 rows and a noisy count of 1 or -40. The weight of the stratum must be the weight of
    its rows instead of the public share of .05 %.

    If the stratum is large enough, the weight is the public share.
    """
    for drawn in (1.0, -40.0, 60.0):
        read = read_groups({(0,): [], (1,): [], (2,): []}, {(0,): 0.5995, (1,): 0.4, (2,): 0.0005})
        counts = {(0,): RowCount(12_000.0, 40.0), (1,): RowCount(5000.0, 40.0), (2,): RowCount(7.0, 40.0)}
        everyone = counts | {(0,): RowCount(20_000.0, 40.0), (2,): RowCount(drawn, 40.0)}
        found = post_stratify(read, counts, everyone)
        of_rows = found.factors / found.factors[0]
        assert of_rows[1] == pytest.approx(0.4 / 5000 / (0.5995 / 20_000), rel=0.05)
        assert 0.3 < of_rows[2] < 3


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}])
def test_a_share_of_people_that_no_row_is_of_widens_the_interval(weights):
    """An empty stratum is known with public sizes. With noisy sizes, the width is due to the noise."""
    groups = {"a": np.full(3000, 40.0), "b": np.empty(0)}
    for sizes in ("public", "noisy"):
        found = stratified_coinpress(groups, weights, **SETTINGS, rho=0.1, sizes=sizes, noise=SeededNoise(1))
        assert (found.half_width > 20) == (weights["b"] == 1)


def test_rows_without_a_value_are_whole_numbers():
    with pytest.raises(ValueError, match="absent"):
        stratified_coinpress({"a": [1.0]}, {"a": 1.0}, **SETTINGS, rho=1.0, noise=SeededNoise(1), absent={"a": 1.5})
