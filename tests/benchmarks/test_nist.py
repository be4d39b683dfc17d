"""NIST's board: scores and bins done by hand, the drafted schema and its rules, and one small run."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.excerpts import FEATURES, declared_rules, features_named, rows_in, schema_for
from benchmarks.kmarginal import binned, density_edges, quantile_edges, score, scores_by, scores_within
from benchmarks.nist import Run, coded, main, summary
from equistrata.errors import InputError

DICTIONARY = {
    "AGEP": {"description": "age", "values": {"min": 0, "max": 99}},
    "SEX": {"description": "sex", "values": {"1": "Male", "2": "Female"}},
    "MSP": {"description": "status", "values": {"N": "N/A (age less than 15 years)", "1": "Married", "6": "Never"}},
    "RAC1P": {"description": "race", "values": {"1": "White", "2": "Black"}},
    "WORK": {"description": "work", "values": {"N": "N/A (less than 16 years old, or never worked)", "1": "Yes"}},
    "HOUSING_TYPE": {"description": "home", "values": {"1": "Housing Unit", "2": "Institutional Group Quarters"}},
    "OWN_RENT": {"description": "tenure", "values": {"0": "Group quarters", "1": "Own", "2": "Rent"}},
    "PUMA": {"description": "area", "values": {"A": "Here", "B": "There"}},
}


def people(rows):
    """An excerpt of this many rows that keeps the dictionary's rules."""
    rng = np.random.default_rng(1)
    age, home = rng.integers(0, 95, rows), rng.choice([1, 1, 1, 2], rows)
    frame = {
        "AGEP": age,
        "SEX": rng.integers(1, 3, rows),
        "MSP": np.where(age < 15, "N", rng.choice(["1", "6"], rows)),
        "RAC1P": rng.choice([1, 1, 1, 2], rows),
        "WORK": np.where((age < 16) | (age > 70), "N", "1"),
        "HOUSING_TYPE": home,
        "OWN_RENT": np.where(home == 2, 0, rng.integers(1, 3, rows)),
        "PUMA": rng.choice(["A", "B"], rows),
    }
    return pd.DataFrame(frame)


@pytest.fixture
def folder(tmp_path):
    """A folder laid out as SDNist's excerpts."""
    frame = people(1200)
    frame[:700].to_csv(tmp_path / "one2019.csv", index=False)
    frame[700:].to_csv(tmp_path / "two2019.csv", index=False)
    (tmp_path / "data_dictionary.json").write_text(json.dumps(DICTIONARY), "utf-8")
    return tmp_path


REAL = pd.DataFrame({"P": list("aaab"), "A": list("xxyy"), "B": list("uvuv"), "C": list("tttt")})
MADE = pd.DataFrame({"P": list("aabb"), "A": list("xxxy"), "B": list("uvuv"), "C": list("ttts")})


def test_whole_score_by_hand():
    # A × B: xu 1/4→1/2, yu 1/4→0: TV 1/4. A × C: xt 1/2→3/4, yt 1/2→0, ys 0→1/4: TV 1/2. B × C: vt 1/2→1/4, vs: 1/4.
    columns = ["A", "B", "C"]
    assert score(REAL[columns], MADE[columns]) == pytest.approx(1000 * (1 - (1 / 4 + 1 / 2 + 1 / 4) / 3))
    assert score(REAL, REAL) == 1000
    nothing = REAL[columns].map(lambda value: value + "?")
    assert score(REAL[columns], nothing) == 0


def test_rows_may_differ_in_number_and_a_twofold_table_is_the_same():
    assert score(REAL, pd.concat([REAL, REAL])) == pytest.approx(1000)


def test_scores_by_place_are_not_halved_and_bounded_as_in_sdnist():
    real, made = REAL[["P", "A", "B"]], MADE[["P", "A", "B"]]
    # Place a, a share of 3/4: xu 1/4→1/4, xv 1/4→1/4, yu 1/4→0: 1/4 over 3/4. Place b, 1/4: xu 0→1/4, yv 1/4→1/4: 1.
    assert scores_by(real, made, "P") == pytest.approx({"a": 1000 * (1 - 1 / 3), "b": 0})
    # All rows: (1/4 + 1/4)/2.
    assert score(real, made, "P") == pytest.approx(750)
    lost = made.assign(P="a")
    assert scores_by(real, lost, "P")["b"] == 0


def test_scores_within_groups_compare_shares_of_the_group_alone():
    found = scores_within(REAL, MADE, "P")
    # Group a: A × B: yu 1/3→0, xu and xv 1/3→1/2: TV 1/3; A × C likewise 1/3; B × C: u 2/3→1/2: 1/6.
    assert found["a"] == pytest.approx(1000 * (1 - (1 / 3 + 1 / 3 + 1 / 6) / 3))
    assert scores_within(REAL, MADE.assign(P="a"), "P")["b"] == 0


def test_numbers_are_compared_in_quantile_bins_of_the_target():
    ages = pd.DataFrame({"AGEP": np.arange(100).repeat(2), "SEX": 1})
    target, same = binned(ages, ages.astype(str), DICTIONARY)
    assert target.equals(same)
    assert target["AGEP"].value_counts().max() <= 12  # 20 bins of 10; the first closed at both ends
    assert target["AGEP"].nunique() == 20
    moved = ages.assign(AGEP=ages["AGEP"].replace({1: 2}))  # inside one bin
    assert score(*binned(ages, moved, DICTIONARY)) == 1000


def test_edges_by_hand():
    numbers = np.arange(20.0)
    assert quantile_edges(numbers, numbers, absent=False).tolist() == [*range(20)]
    assert len(quantile_edges(np.arange(1000.0), np.arange(1000.0), absent=True)) == 20  # 19 bins and the absent
    beyond = quantile_edges(np.arange(1000.0), np.array([-5.0, 2000.0]), absent=False)
    assert (beyond[0], beyond[1], beyond[-2], beyond[-1], len(beyond)) == (-5, 0, 999, 2000, 21)
    edges = density_edges(52_864.7)
    assert (len(edges), edges[1], round(edges[-1], 1)) == (15, 150, 53_364.7)
    frame = pd.DataFrame({"DENSITY": ["100", "140", "200", "4000"], "SEX": "1"})
    words = {"DENSITY": {"values": {"min": 16.3, "max": 52_864.7}}}
    assert binned(frame, frame, words)[0]["DENSITY"].tolist() == ["bin 1", "bin 1", "bin 2", "bin 8"]


def test_absent_numbers_are_a_bin_of_their_own():
    pay = {"PINCP": {"values": {"N": "N/A", "min": -9000, "max": 10**6}}}
    frame = pd.DataFrame({"PINCP": ["N", "N", *map(str, range(100))], "SEX": "1"})
    target, _ = binned(frame, frame, pay)
    assert (target["PINCP"] == "N").sum() == 2
    assert target["PINCP"].nunique() == 20


def test_feature_sets_are_those_that_are_published():
    names = "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE"
    assert " ".join(FEATURES["demographic"]) == names
    assert [len(features) for features in FEATURES.values()] == [10, 9, 21, 23, 24, 8, 8, 8]
    assert features_named("AGEP, SEX") == ("AGEP", "SEX")
    with pytest.raises(InputError, match="unknown features 'demo'"):
        features_named("demo")


def test_rules_are_those_of_the_words_and_rows_keep_them(folder):
    rules = declared_rules(DICTIONARY, list(DICTIONARY))
    assert {"AGEP": ["<15"], "MSP": ["1", "6"]} in rules
    assert {"AGEP": [">=15"], "MSP": ["N"]} in rules
    assert {"AGEP": ["<16"], "WORK": ["1"]} in rules
    assert {"AGEP": [">=16"], "WORK": ["N"]} not in rules  # older people may never have worked
    assert {"HOUSING_TYPE": [1], "OWN_RENT": [0]} in rules
    assert {"HOUSING_TYPE": [2], "OWN_RENT": [1, 2]} in rules
    rows = rows_in(folder, [], list(DICTIONARY))
    assert len(schema_for(folder, rows).impossible) == len(rules)
    assert schema_for(folder, rows, rules=False).impossible == ()


def test_rows_that_break_a_rule_are_released_without_rules(folder, capsys):
    rows = rows_in(folder, [], ["AGEP", "MSP", "SEX"])
    assert coded(folder, rows, rules=True).schema.impossible
    rows.loc[0, ["AGEP", "MSP"]] = ["90", "N"]
    assert coded(folder, rows, rules=True).schema.impossible == ()
    assert "without the dictionary's impossible combinations" in capsys.readouterr().err


def test_tables_are_pooled_or_chosen(folder):
    assert len(rows_in(folder, [], ["AGEP", "SEX"])) == 1200
    assert len(rows_in(folder, ["two2019"], ["AGEP", "SEX"])) == 500
    with pytest.raises(InputError, match="lacks the feature EDU"):
        rows_in(folder, [], ["AGEP", "EDU"])
    with pytest.raises(InputError, match="no CSV file"):
        rows_in(folder, ["three"], ["AGEP", "SEX"])


def test_summary_counts_groups_of_enough_rows_alone():
    made = [Run("x", 0, 980.0, 900.0, {"1": 950.0, "2": 500.0}, {"A": 800.0, "B": 700.0})]
    line = summary(made, {"1": 500, "2": 499}).iloc[0]
    assert (line["worst group"], line["worst PUMA"], line["within PUMAs"]) == (950, 700, 900)


def test_a_small_board(folder, capsys):
    features = "AGEP,SEX,MSP,RAC1P,PUMA"
    words = ["--data", str(folder), "--features", features, "--mechanism", "mst", "--strata", "none", "--seeds", "2"]
    assert main([*words, "--results", str(folder / "out")]) == 0
    lines = pd.read_csv(folder / "out" / "nist.csv").set_index("name")
    assert list(lines.index) == ["20% of the rows", "40% of the rows", "MST vanilla"]
    assert lines.loc["20% of the rows", "score"] < lines.loc["40% of the rows", "score"] < 1000
    assert 700 < lines.loc["MST vanilla", "score"] < 1000
    assert {"RAC1P=1", "PUMA=A", "within PUMAs", "worst PUMA", "cpu s"} <= set(lines.columns)
    assert "MST vanilla" in capsys.readouterr().out
    assert main(["--data", str(folder / "nowhere")]) == 2
    assert "CSV" in capsys.readouterr().err
