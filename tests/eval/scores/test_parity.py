"""Tests of the parity error, which is compared with a slow reference and with the code published with the paper."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from score_fixtures import parity_of, workload_in, workload_of

from equistrata.errors import InputError


def random_table(seed, rows=400, absent=0.0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "S": rng.integers(1, 3, rows),
            "R": rng.choice([1, 2, 3, 9], rows, p=[0.6, 0.3, 0.08, 0.02]),
            "A": rng.integers(0, 5, rows),
            "B": rng.integers(-2, 2, rows),
            "Z": np.zeros(rows, dtype=int),
        }
    )
    if absent:
        table["A"] = table["A"].mask(rng.random(rows) < absent)
    return table


def slow_error(truth, estimate):
    if np.isnan(truth) or np.isnan(estimate):
        return float(np.isnan(truth) != np.isnan(estimate))
    if truth == 0:
        return float(estimate != 0)
    return abs(truth - estimate) / abs(truth)


def slow_parity(real, synthetic, strata_columns, min_share=0.001, omega=None):
    """Return the parity error of Definition 11 over the columns that are not strata. This is a slow reference
    implementation.
    """
    groups = {key: rows for key, rows in real.groupby(strata_columns) if len(rows) >= min_share * len(real)}
    made = dict(iter(synthetic.groupby(strata_columns)))
    omega = 1 / len(groups) if omega is None else omega
    errors = []
    for column in real.columns.drop(strata_columns):
        error = omega * slow_error(real[column].mean(), synthetic[column].mean())
        for key, rows in groups.items():
            error += slow_error(rows[column].mean(), made[key][column].mean()) if key in made else 1.0
        errors.append(error)
    return float(np.mean(errors))


@pytest.mark.parametrize("strata_columns", [["S"], ["R"], ["S", "R"], ["R", "S", "A"]])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("min_share", "omega"), [(0.001, None), (0.03, 2.5), (0, 0)])
def test_agrees_with_plain_loops(strata_columns, seed, min_share, omega):
    real, synthetic = random_table(seed), random_table(seed + 50, rows=300)
    fast = parity_of(real, synthetic, strata_columns, min_share=min_share, omega=omega)
    assert fast.value == pytest.approx(slow_parity(real, synthetic, strata_columns, min_share, omega))
    assert list(fast.by_column) == [column for column in real.columns if column not in strata_columns]
    assert np.mean(list(fast.by_column.values())) == pytest.approx(fast.value)
    total = sum(fast.by_stratum.values()) + fast.omega * fast.population.mean()
    assert total == pytest.approx(fast.value)


def test_absent_cells_are_skipped_by_means():
    real, synthetic = random_table(1, absent=0.3), random_table(2, absent=0.5)
    fast = parity_of(real, synthetic, ["S"])
    assert fast.value == pytest.approx(slow_parity(real, synthetic, ["S"]))


def test_identical_tables_have_no_error_whatever_the_order_of_rows_and_columns():
    real = random_table(0, absent=0.1)
    shuffled = real.sample(frac=1, random_state=1)[["Z", "B", "A", "R", "S"]]
    assert parity_of(real, real, ["S", "R"]).value == 0
    assert parity_of(real, shuffled, ["S", "R"]).value == 0
    assert parity_of(real, shuffled, ["S", "R"]).maximum == 0


def test_fault_of_the_published_code_strata_paired_by_order_of_appearance():
    """If the strata are in a different order, the published code compares one group with another group."""
    real = pd.DataFrame({"G": [1] * 6 + [2] * 3 + [3], "Y": [1] * 6 + [5] * 3 + [9]})
    synthetic = real.iloc[::-1].reset_index(drop=True)
    assert synthetic["G"].unique().tolist() != real["G"].unique().tolist()
    assert parity_of(real, synthetic, ["G"]).value == 0
    assert parity_of(synthetic, real, ["G"]).value == 0
    # A stratum that is only in the synthetic table must not move the other strata.
    extra = pd.concat([pd.DataFrame({"G": [0], "Y": [1]}), real])
    assert parity_of(real, extra, ["G"]).by_stratum == {"G=1": 0, "G=2": 0, "G=3": 0}


def test_fault_of_the_published_code_lost_groups_are_left_out():
    """A group without synthetic rows has an error of 1 in each column, and is included in the number of groups k."""
    real = pd.DataFrame({"G": [1, 1, 2, 2], "Y": [4, 4, 4, 4]})
    synthetic = pd.DataFrame({"G": [1, 1], "Y": [4, 4]})
    parity = parity_of(real, synthetic, ["G"])
    assert parity.strata == ("G=1", "G=2")
    assert parity.by_stratum == {"G=1": 0.0, "G=2": 1.0}
    # The error of the population is 0, and the errors of the groups are 0 and 1.
    assert parity.by_column == pytest.approx({"Y": 1.0})
    assert parity.maximum == 1.0
    # The error must also be 1 if the real value is 0.
    nought = parity_of(real.assign(Y=0), synthetic.assign(Y=0), ["G"])
    assert nought.by_column["Y"] == 1.0


def test_by_hand_with_two_stratum_columns_and_a_tiny_stratum():
    real = pd.DataFrame({"S": [1] * 4 + [2] * 4, "R": [1, 1, 2, 2] * 2, "Y": [2, 2, 4, 4, 8, 8, 10, 10]})
    real = pd.concat([real] * 200 + [pd.DataFrame({"S": [1], "R": [9], "Y": [1000]})])
    synthetic = pd.DataFrame({"S": [1, 1, 2, 2], "R": [1, 2, 1, 2], "Y": [3, 4, 8, 5]})
    parity = parity_of(real, synthetic, ["S", "R"])
    assert parity.strata == ("S=1,R=1", "S=1,R=2", "S=2,R=1", "S=2,R=2")
    assert (parity.components, parity.errors[:, 0].tolist()) == (("Y",), [0.5, 0.0, 0.0, 0.5])
    mean = (200 * 48 + 1000) / 1601  # the ignored rows are included in the mean of the population
    assert parity.by_column["Y"] == pytest.approx(abs(mean - 5) / mean / 4 + 1.0)
    assert parity.maximum == parity_of(real, synthetic, ["S", "R"]).maximum == 0.5


def test_zero_and_negative_means():
    real = pd.DataFrame({"G": [1, 1, 2, 2], "Z": [0, 0, 0, 0], "N": [-2, -2, -1, 1]})
    synthetic = real.assign(Z=[0, 0, 0, 1], N=[-3, -3, 0, 0])
    parity = parity_of(real, synthetic, ["G"])
    assert parity.errors.T.tolist() == [[0.0, 1.0], [0.5, 0.0]]
    assert parity.population.tolist() == [1.0, 0.5]


def test_without_strata_the_whole_table_is_one_population():
    real, synthetic = random_table(0), random_table(9)
    parity = parity_of(real, synthetic, [])
    errors = [slow_error(real[c].mean(), synthetic[c].mean()) for c in real.columns]
    assert (parity.strata, parity.omega) == ((), 1.0)
    assert parity.value == pytest.approx(np.mean(errors))
    assert parity_of(real, synthetic, []).maximum == pytest.approx(max(errors))


def test_workload_as_the_statistic_sums_errors_rather_than_relating_them():
    real, synthetic = random_table(5), random_table(6).query("R != 3")
    parity = parity_of(real, synthetic, ["R"], statistic="workload3")
    strata = workload_in(real, synthetic, ["R"])
    assert strata["R=3"] == 2.0
    assert parity.value == pytest.approx(workload_of(real, synthetic) / 4 + sum(strata.values()))
    assert parity_of(real, synthetic, [], statistic="workload3").value == workload_of(real, synthetic)


def test_text_columns_count_by_their_sorted_place():
    real = pd.DataFrame({"G": ["f", "f", "m", "m"], "Y": ["no", "yes", "yes", "yes"]})
    synthetic = pd.DataFrame({"G": ["m", "m", "f", "f"], "Y": ["yes", "no", "yes", "no"]})
    parity = parity_of(real, synthetic, ["G"])
    assert parity.errors.tolist() == [[0.0], [0.5]]


def test_columns_that_define_strata_are_not_averaged_in():
    """If these columns were included, the score would be too small, because they have no error in a stratum."""
    rows = pd.DataFrame({"Y": [1, 3, 4, 4], "G": [1, 1, 2, 2]})
    real, synthetic = rows.assign(H=rows["G"]), rows.assign(Y=[1, 1, 4, 4], H=rows["G"])
    once = parity_of(real, synthetic, ["G"])
    twice = parity_of(real, synthetic, ["G", "H"])
    assert once.components == ("Y", "H")
    assert twice.components == ("Y",)
    assert twice.value == pytest.approx(1 / 6 / 2 + 0.5) == pytest.approx(2 * once.value)
    # The shares of the strata must not change the error, because the means are only for the other columns.
    moved = pd.concat([real, real[real["G"] == 2]])
    assert parity_of(real, moved, ["G", "H"], omega=0).value == 0
    with pytest.raises(InputError, match="use up every column"):
        parity_of(real, synthetic, ["G", "H", "Y"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"omega": -1}, "omega is -1"),
        ({"omega": float("nan")}, "omega is nan"),
        ({"statistic": "medians"}, "statistic is 'medians'"),
        ({"min_share": 1}, "min_share is 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    real = random_table(0)
    with pytest.raises(InputError, match=message):
        parity_of(real, real, ["S"], **settings)
