"""Tests of the published score for means, with examples by hand and with a slow reference implementation."""

import json
import math

import numpy as np
import pytest
from small_tables import schema_of

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from paper.code_sums import column_errors, maximum_disparity, sums_of
from paper.comparison import read_published
from paper.synthesizers import COMMON, Line

# The columns are A, B and C, and A is the stratum.
REAL = [(0, 2, 1), (0, 4, 0), (1, 1, 0), (1, 3, 0), (1, 2, 0), (1, 2, 0)]
SYNTHETIC = [(0, 3, 1), (0, 3, 1), (0, 0, 1), (1, 2, 0), (2, 9, 1)]


def sums(rows):
    table = CodedTable(np.array(rows, dtype=np.uint8), schema_of(3, 10, 2))
    return sums_of(table, Strata.over(table.schema, ["A"]), ["B", "C"])


def test_by_hand():
    """Compute the errors of B and C by hand.

    The means of B in the two real strata are 3 and 2, and the synthetic means are 2 and 2, so the error is 1/3 + 0. For
    all rows, the means are 14/6 and 17/5, and half of the relative error 16/35 is added.

    The means of C are 1/2 and 0, and the synthetic means are 1 and 0, so the error is 1. The error is 0 if the real
    mean is 0. For all rows, the means are 1/6 and 4/5, and half of 19/5 is added.
    """
    real, synthetic = sums(REAL), sums(SYNTHETIC)
    assert real.tolist() == [[2, 6, 1], [4, 8, 0], [0, 0, 0]]
    np.testing.assert_allclose(column_errors(real, synthetic), [1 / 3 + 16 / 70, 1 + 19 / 10], rtol=1e-12)
    assert maximum_disparity(real, synthetic) == 1.0
    assert column_errors(real, real).tolist() == [0.0, 0.0]


def test_a_lost_stratum_has_the_mean_of_all_synthetic_rows():
    """Without stratum 1, the means of all synthetic rows are 15/4 and 1, so the error of B is |2 − 15/4| / 2.

    The maximum disparity ignores the stratum.
    """
    real, synthetic = sums(REAL), sums([row for row in SYNTHETIC if row[0] != 1])
    population = abs(14 / 6 - 15 / 4) / (14 / 6)
    assert column_errors(real, synthetic)[0] == pytest.approx(population / 2 + 1 / 3 + 7 / 8)
    assert maximum_disparity(real, synthetic) == 1.0
    assert maximum_disparity(real[:, :2], synthetic[:, :2]) == pytest.approx(1 / 3)


def test_small_strata_do_not_count():
    """A stratum with less than 0.1 % of the rows is ignored, also in the mean of the population."""
    real = np.array([[500, 1000], [500, 500], [1, 9]])
    synthetic = np.array([[10, 10], [10, 10], [0, 0]])
    assert column_errors(real, synthetic)[0] == pytest.approx(0.5 * (0.5 / 1.5) + 0.5)


def test_random_tables_against_a_loop():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        real, synthetic = (
            [tuple(row) for row in rng.integers(0, (3, 10, 2), (size, 3)).tolist()] for size in (300, 150)
        )
        expected = []
        for column in (1, 2):
            every = [np.mean([row[column] for row in rows]) for rows in (real, synthetic)]
            total = abs(every[0] - every[1]) / every[0] / 3
            for stratum in range(3):
                truth, found = (
                    np.mean([row[column] for row in rows if row[0] == stratum]) for rows in (real, synthetic)
                )
                total += abs(truth - found) / truth
            expected.append(total)
        np.testing.assert_allclose(column_errors(sums(real), sums(synthetic)), expected, rtol=1e-12)


def test_a_line_names_the_columns():
    texts = [json.dumps([[1, *[each] * 7, 1]]) for each in (2, 3)]
    line = Line("mst", "vanilla", "vanilla", 1.0, 0, 0.0, "ESP", *texts, 0.0, 0.0, None, None, None)
    assert line.parity == pytest.approx(
        dict.fromkeys(COMMON, 1.0) | {"ESP": 0.0}
    )  # 1/2 in the stratum and 1/2 in the population
    assert (line.score("AGEP"), line.score("+".join(COMMON)), line.score("maximum_disparity")) == (1.0, 7.0, 0.5)


def test_published_columns_have_the_published_mean():
    """The published parity error is the mean of these eight columns in all of the 72 cases."""
    table = read_published("stratification_synthesizers")
    assert len(table) == 72
    mean = table[[*COMMON, "ESP"]].mean(axis=1)
    assert max(abs(mean - table["parity_sex_rac1p"])) < 0.00055 + 0.00005
    row = table[(table.synthesizer == "MST") & (table.epsilon == 1.0)].set_index("strata")
    assert row.maximum_disparity.round(2).to_dict() == pytest.approx(
        {"SEX_RAC1P": 1.8, "vanilla": 0.43, "SEX": 0.61, "RAC1P": 1.33}
    )
    assert math.isclose(8 * row.parity_sex_rac1p["vanilla"], 8.215, abs_tol=0.005)  # the value in Figure 5 of the paper
