"""Tests of the guard for regressions: equal rows have no error, and ratios and coverage match their definitions."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.guard.__main__ import coverage, ratios
from benchmarks.guard.scores import intervals_of, scores_of
from benchmarks.guard.tables import Table


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    sex = rng.integers(1, 3, 2_000)
    rows = pd.DataFrame(
        {"SEX": sex, "JOB": (rng.random(2_000) < sex / 4).astype(int), "PAY": rng.exponential(10, 2_000)}
    )
    rows["KIDS"] = rng.integers(0, 3, 2_000)
    return Table("made", rows, ("SEX",), "JOB", {"PAY": (0.0, 200.0)})


def test_equal_rows_have_no_error(table):
    scores = scores_of(table, table.rows, table.rows, table.rows)
    assert {name for name, value in scores.items() if value > 1e-12} <= {"misclassified"}


def test_a_lost_stratum_counts_one_and_a_shift_is_in_standard_deviations(table):
    women = table.rows[table.rows["SEX"] == 2].reset_index(drop=True)
    lost = scores_of(table, table.rows, table.rows, women)
    assert 1.0 <= lost["parity"] < 1.5
    assert lost["by stratum"] == pytest.approx(1.0)  # the distance is 2 in one of the two strata
    moved = table.rows.assign(PAY=table.rows["PAY"] + table.rows["PAY"].std())
    scores = scores_of(table, table.rows, table.rows, moved)
    assert scores["W"] == pytest.approx(1.0)
    assert scores["W by stratum"] == pytest.approx(1.0)
    assert scores["means"] == pytest.approx(1.0)


def test_intervals_are_held_against_the_rows(table):
    share = float((table.rows[table.rows["SEX"] == 1]["JOB"] == 1).mean())
    answer = {
        "SEX": {"0": 1},
        "JOB": {"0": 1},
        "estimate": {"0": 0.5},
        "lower": {"0": share - 0.1},
        "upper": {"0": share + 0.1},
        "basis": {"0": "measured"},
    }
    (line,) = intervals_of(table, table.rows, ("proportion", "JOB", ("SEX",)), answer)
    assert line["inside"]
    assert line["width"] == pytest.approx(0.2)
    answer["lower"] = {"0": share + 0.01}
    assert not next(iter(intervals_of(table, table.rows, ("proportion", "JOB", ("SEX",)), answer)))["inside"]


def test_ratios_are_geometric_means_over_jobs():
    lines = [
        {"job": i, "table": f"t{i}", "mechanism": "mst", "side": side, "score": score, "value": value, "count": 10}
        for i in range(2)
        for score, base, head in (("W", 1.0, 2.0 if i else 0.5), ("coverage: x", 0.9, 0.8), ("width: x", 1.0, 0.5))
        for side, value in (("base", base), ("head", head))
    ]  # fmt: skip
    results = pd.DataFrame(lines)
    (line,) = ratios(results).to_dict("records")
    assert line["ratio"] == pytest.approx(1.0)
    assert (line["worst table"], line["its ratio"]) == ("t1", pytest.approx(2.0))
    (held,) = coverage(results).to_dict("records")
    assert (held["base coverage"], held["head coverage"], held["width ratio"]) == pytest.approx((0.9, 0.8, 0.5))
