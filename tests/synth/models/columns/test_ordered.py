"""Pairs of ordered columns that are smoothed, and all that is left as it was measured."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.stats.copulas import normal_copula
from equistrata.synth.measurements import Filtered, Measurement, Smoothed, total_estimate
from equistrata.synth.models.columns.ordered import ordered_codes, smoothed_pairs

AGE = Column("AGE", values=tuple(range(12)), type="ordinal")
PAY = Column("PAY", lower=0, upper=12, edges=tuple(range(13)), missing="own")
KIND = Column("KIND", values=tuple("abcdefghijkl"))
SCHEMA = Schema("people", (AGE, PAY, KIND))
ROWS, SIGMA = 24_000, 40.0


def measured(columns, shares, seed, sigma=SIGMA):
    return Measurement(columns, shares * ROWS + np.random.default_rng(seed).normal(0, sigma, shares.shape), sigma)


def people():
    """AGE × PAY with a sixth of the rows without PAY, and their columns alone."""
    inside = normal_copula(np.full(12, 1 / 12), np.full(12, 1 / 12), 0.8) * 5 / 6
    truth = np.column_stack([inside, np.full(12, 1 / 72)])
    alone = [measured(("AGE",), truth.sum(1), 1, 10.0), measured(("PAY",), truth.sum(0), 2, 10.0)]
    return truth, alone


def smoothed(measurements, schema=SCHEMA):
    return smoothed_pairs(schema, schema, {}, measurements)


def test_only_pairs_of_ordered_columns_are_smoothed_and_they_come_nearer():
    truth, alone = people()
    pair, other = measured(("AGE", "PAY"), truth, 3), measured(("AGE", "KIND"), truth[:, :12], 4)
    given = [*alone, pair, other]
    *kept, found, last = smoothed(given)
    assert kept == alone
    assert last is other
    assert isinstance(found, Smoothed)
    error, before = (np.square(each.values - truth * ROWS)[:, :12].sum() for each in (found, pair))
    assert error < 0.35 * before
    assert (found.values[:, 12] == pair.values[:, 12]).all()
    assert (found.cell_sigma[:, 12] == SIGMA).all()
    assert (found.cell_sigma[:, :12] < 0.6 * SIGMA).all()


def test_it_does_not_count_towards_the_number_of_rows():
    truth, alone = people()
    found = smoothed([*alone, measured(("AGE", "PAY"), truth, 3)])
    assert total_estimate(found) == total_estimate(alone)


def test_a_stated_sigma_is_no_less_than_the_errors_of_cells_and_sums():
    """Root mean squares over 30 draws, within a fourth of what is stated; sums of twelve cells share the margin's."""
    truth, _ = people()
    cells, sums, stated = [], [], []
    for seed in range(30):
        alone = [measured(("AGE",), truth.sum(1), 2 * seed, 10.0), measured(("PAY",), truth.sum(0), 2 * seed + 1, 10.0)]
        found = smoothed([*alone, measured(("AGE", "PAY"), truth, 100 + seed)])[-1]
        error = (found.values - truth * ROWS)[:, :12]
        cells.append(np.square(error).mean())
        sums.append(np.square(error.sum(1)).mean())
        stated.append(np.square(found.cell_sigma[:, :12]).mean())
    assert np.mean(cells) < 1.25**2 * np.mean(stated)
    assert np.mean(sums) < 1.25**2 * np.mean(stated) * 12


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": ("AGE", "PAY", "KIND")[:1], "values": np.ones(12)},
        {"sigma": 0.0},
    ],
)
def test_what_has_no_noise_or_one_column_is_as_it_was(changed):
    truth, alone = people()
    pair = Measurement(**{"columns": ("AGE", "PAY"), "values": truth * ROWS, "sigma": SIGMA} | changed)
    assert smoothed([*alone, pair])[-1] is pair


def test_codes_of_a_rule_are_left_as_they_were_measured():
    """The youngest have no pay above the first: their row is no part of what is smoothed."""
    truth, alone = people()
    schema = Schema("people", SCHEMA.columns, impossible=(Impossible(("AGE", "PAY"), ((0,), tuple(range(3, 12)))),))
    pair = measured(("AGE", "PAY"), truth, 3)
    found = smoothed([*alone, pair], schema)[-1]
    assert (found.values[0] == pair.values[0]).all()
    assert (found.values[1:, :12] != pair.values[1:, :12]).all()


def test_a_pair_that_keeps_nearly_all_of_its_noise_is_as_it_was_measured():
    """So tables of few codes and little noise are not changed."""
    rough = np.where((np.arange(12)[:, None] * 5 + np.arange(13) * 7) % 11 < 3, 1.0, 0.02)
    rough /= rough.sum()
    alone = [measured(("AGE",), rough.sum(1), 1, 10.0), measured(("PAY",), rough.sum(0), 2, 10.0)]
    pair = measured(("AGE", "PAY"), rough, 3, 1.0)
    assert smoothed([*alone, pair])[-1] is pair


def test_groups_that_are_in_order():
    assert ordered_codes(AGE, None).tolist() == list(range(12))
    assert ordered_codes(PAY, [0] * 4 + [1] * 4 + [2] * 4 + [3]).tolist() == [0, 1, 2]
    assert ordered_codes(PAY, [0] * 4 + [1] * 4 + [0] * 4 + [2]).tolist() == []
    assert ordered_codes(PAY, [0] * 4 + [1] * 4 + [2] * 4 + [2]).tolist() == [0, 1]
    assert ordered_codes(KIND, None).tolist() == []


def test_a_pair_joined_with_former_months_is_smoothed_as_the_first_month_was():
    """Else a relation would weaken from the first month of a series to the second."""
    truth, alone = people()
    pair = measured(("AGE", "PAY"), truth, 3)
    joined = Filtered(pair.columns, pair.values, SIGMA, pair.groups, sigmas=np.full(pair.values.shape, SIGMA))
    first, later = (smoothed([*alone, each])[-1] for each in (pair, joined))
    assert isinstance(later, Smoothed)
    np.testing.assert_allclose(later.values, first.values)
