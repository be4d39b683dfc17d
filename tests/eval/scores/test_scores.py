"""Tests of all scores: names, conventions and errors."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from score_fixtures import parity_of, scores_of, workload_in, workload_of

from equistrata.data.columns.column import Column
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.classifiers import classifier_utility
from equistrata.eval.scores.scores import score, table_scores, weighted_scores
from equistrata.eval.scores.tables import Pair, code_with_same_schema

SCORES = ["parity_error", "workload3", "workload3_by_stratum", "accuracy", "dpr", "fnr_diff"]


def random_table(seed, rows=500):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.integers(0, 3, rows) for name in "SRAB"})
    table["Y"] = (table["A"] + rng.random(rows) > 1.5).astype(int)
    return table


@pytest.fixture(scope="module")
def tables():
    return random_table(0), random_table(1), random_table(2)


def test_every_score_is_that_of_its_own_function(tables):
    real, test, synthetic = tables
    scores = scores_of(real, test, synthetic[list("YBARS")], ["S", "R"], "Y", classifiers=["random_forest"])
    forest = classifier_utility(synthetic, test, "Y", ["S", "R"], models=["random_forest"])["random_forest"]
    assert scores.parity_error == parity_of(real, synthetic, ["S", "R"]).value
    assert scores.workload3 == workload_of(real, synthetic)
    assert scores.workload3_by_stratum == np.mean(list(workload_in(real, synthetic, ["S", "R"]).values()))
    assert (scores.accuracy, scores.dpr, scores.fnr_diff) == (forest.accuracy, forest.dpr, forest.fnr_diff)
    assert scores.baseline == classifier_utility(real, test, "Y", ["S", "R"], models=["random_forest"])


def test_the_dictionary_is_json_with_the_agreed_names(tables):
    real, test, synthetic = tables
    scores = scores_of(real, test, synthetic, ["S"], "Y", classifiers=["random_forest", "logistic_regression"])
    document = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert all(isinstance(document[name], float) for name in SCORES)
    assert set(document["classifiers"]) == {"random_forest", "logistic_regression"}
    assert document["classifiers"]["random_forest"]["synthetic"]["accuracy"] == document["accuracy"]
    assert set(document["classifiers"]["logistic_regression"]) == {"synthetic", "real"}
    assert set(document["parity_by_stratum"]) == {"S=0", "S=1", "S=2"} == set(document["workload3_strata"])
    assert set(document["parity_by_column"]) == set("RABY") == set(document["population_by_column"])


@pytest.mark.parametrize(
    "settings",
    [{"classifiers": ()}, {"test": None}, {"target": None}, {"classifiers": ["gradient_boosting"]}],
)
def test_forest_scores_are_none_when_no_forest_was_asked_for(tables, settings):
    real, test, synthetic = tables
    given = {"test": test, "target": "Y", "strata": ["S"], "synthetic": synthetic} | settings
    document = scores_of(real, **given).to_dict()
    assert [document[name] for name in ("accuracy", "dpr", "fnr_diff")] == [None] * 3
    assert set(document) >= set(SCORES)
    assert list(document["classifiers"]) == list(settings.get("classifiers", ()))


def test_identical_tables_score_perfectly(tables):
    real, test, _ = tables
    for strata_columns in ([], ["S"], ["S", "R"]):
        scores = scores_of(real, test, real.sample(frac=1, random_state=0), strata_columns, "Y")
        found = (scores.parity_error, scores.maximum_disparity, scores.workload3, scores.workload3_by_stratum)
        assert found == (0, 0, 0, 0)


def test_without_strata_columns(tables):
    real, test, synthetic = tables
    scores = scores_of(real, test, synthetic, [], "Y", classifiers=["random_forest"], baseline=False)
    assert scores.workload3_by_stratum == scores.workload3
    assert scores.parity_error == pytest.approx(np.mean(list(scores.population_by_column.values())))
    assert (scores.dpr, scores.fnr_diff, scores.baseline) == (1.0, 0.0, {})


def test_a_synthetic_target_of_one_class(tables):
    real, test, synthetic = tables
    scores = scores_of(real, test, synthetic.assign(Y=0), ["S"], "Y", baseline=False)
    assert scores.accuracy == (test["Y"] == 0).mean()
    assert (scores.dpr, scores.fnr_diff) == (1.0, 0.0)


def test_scores_are_frozen(tables):
    scores = scores_of(*tables, ["S"], "Y")
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.parity_error = 0.0


def test_bad_input_is_refused(tables):
    real, test, synthetic = tables
    cases = [
        ((real, test, synthetic.drop(columns="A"), ["S"], "Y"), {}, "synthetic table has no column 'A'"),
        ((real, test.assign(Q=1), synthetic, ["S"], "Y"), {}, "test table has columns"),
        ((real.iloc[:0], test, synthetic, ["S"], "Y"), {}, "real table holds no rows"),
        ((real, test, synthetic.iloc[:0], ["S"], "Y"), {}, "synthetic table holds no rows"),
        ((real, test, synthetic, ["S"], "Q"), {}, "no column 'Q'"),
        ((real, test, synthetic, ["Q"], "Y"), {}, "no column 'Q'"),
        ((real, test, synthetic.assign(A="x"), ["S"], "Y"), {}, "column 'A' holds numbers in one table"),
        ((real, test, synthetic, ["S"], "Y"), {"classifiers": ["tarot"]}, "unknown classifier"),
        ((real, test, synthetic, ["S"], "Y"), {"min_share": -0.1}, "min_share is -0.1"),
    ]
    for arguments, settings, message in cases:
        with pytest.raises(InputError, match=message):
            scores_of(*arguments, **settings)


def distinct(table):
    """Return the unique rows of a table, including rows with missing cells, and the count of each row."""
    counted = table.groupby(list(table.columns), dropna=False, sort=False).size()
    return counted.index.to_frame(index=False), counted.to_numpy()


@pytest.mark.parametrize("strata", [["G", "H"], ["G"], []])
def test_distinct_rows_with_their_numbers_score_as_the_whole_tables(strata):
    rng = np.random.default_rng(5)
    tables = [
        pd.DataFrame(
            {
                "G": rng.choice([1, 2, 3], n, p=p),
                "H": rng.choice(["x", "y"], n),
                "A": rng.choice([0, 1, 5, np.nan], n),
                "T": rng.choice(["a", "b", None], n),
                "Y": rng.integers(0, 2, n),
            }
        )
        for n, p in ((4000, [0.9, 0.0995, 0.0005]), (3000, [0.5, 0.25, 0.25]))
    ]
    (real, real_times), (synthetic, synthetic_times) = map(distinct, tables)
    assert len(real) < 100
    whole = scores_of(tables[0], None, tables[1], strata, None, min_share=0.01)
    short = scores_of(real, None, synthetic, strata, None, min_share=0.01, times=(real_times, synthetic_times))
    assert short.workload3 == whole.workload3 > 0
    assert short.workload3_by_stratum == whole.workload3_by_stratum
    assert short.parity_error == pytest.approx(whole.parity_error, abs=1e-12)
    assert short.parity_by_stratum == pytest.approx(whole.parity_by_stratum, abs=1e-12)
    assert len(short.parity_by_stratum) == {2: 4, 1: 2, 0: 0}[len(strata)]
    as_workload = {"statistic": "workload3", "min_share": 0.01}
    assert parity_of(
        real, synthetic, strata, times=(real_times, synthetic_times), **as_workload
    ).value == pytest.approx(parity_of(*tables, strata, **as_workload).value, abs=1e-12)


@pytest.mark.parametrize("times", [np.ones(2), np.array([1, 0, 1]), np.array([1, 1])])
def test_numbers_of_occurrences_are_checked(times):
    table, ones = pd.DataFrame({"A": [1, 2, 3], "B": [0, 0, 1]}), np.ones(3, dtype=np.int64)
    with pytest.raises(InputError, match="positive whole number for each"):
        scores_of(table, None, table, [], None, times=(times, ones))
    with pytest.raises(InputError, match="classifiers need whole tables"):
        scores_of(table, table, table, [], "B", times=(ones, ones))


def test_a_weight_counts_as_so_many_rows(tables):
    real, _, synthetic = tables
    rng, (first, second) = (
        np.random.default_rng(5),
        code_with_same_schema({"real": real, "synthetic": synthetic}).values(),
    )
    weights = tuple(rng.integers(0, 9, len(table)) for table in (first, second))
    pairs = zip((first, second), weights, strict=True)
    repeated = [table.take(np.repeat(np.arange(len(table)), often)) for table, often in pairs]
    expected = table_scores(Pair.of(*repeated, ["S"]))
    found = weighted_scores(first, second, ["S"], tuple(0.25 * each for each in weights))
    assert found["weighted_parity_error"] == pytest.approx(expected.parity_error, rel=1e-12)
    assert found["weighted_workload3"] == pytest.approx(expected.workload3, rel=1e-12)
    assert not any(name.startswith("weighted") for name in expected.to_dict())
    assert weighted_scores(first, second, ["S"], (weights[0].astype(float), np.zeros(len(second)))) == {}


def test_survey_weight_of_data_frames():
    rng = np.random.default_rng(5)
    real, made = (
        pd.DataFrame({"S": rng.integers(1, 3, n), "A": rng.integers(0, 4, n), "B": rng.integers(0, 2, n)})
        for n in (80, 60)
    )
    heavy, light = rng.uniform(0, 9, len(real)), rng.integers(0, 5, len(made))
    found = score(real.assign(W=heavy), made.assign(W=light), ["S"], survey_weight="W", held_out=real.assign(W=heavy))
    plain = score(real, made, ["S"])
    assert found.parity_error == plain.parity_error
    assert set(found.parity_by_column) == {"A", "B"}
    people = score(real, made.loc[made.index.repeat(light)], ["S"])
    often = score(real.assign(W=1), made.assign(W=light), ["S"], survey_weight="W")
    assert often.weighted_parity_error == pytest.approx(people.parity_error)
    assert often.weighted_workload3 == pytest.approx(people.workload3)
    real = real.assign(W=heavy)
    once, ones = (score(real, each, ["S"], survey_weight="W") for each in (made, made.assign(W=1)))
    assert once.weighted_workload3 == ones.weighted_workload3
    assert plain.weighted_workload3 is None


@pytest.mark.parametrize("wrong", [-1, None, "many", float("inf")])
def test_wrong_survey_weights_are_refused(wrong):
    rows = pd.DataFrame({"S": [1, 2], "A": [0, 1], "W": [1, wrong]})
    with pytest.raises(InputError, match="'W' of the synthetic table must be a number of 0 or more in each row"):
        score(rows.assign(W=1), rows, ["S"], survey_weight="W")
    with pytest.raises(InputError, match="real table has no column 'V'"):
        score(rows, rows, ["S"], survey_weight="V")
    coded = CodedTable.encode(rows[["S", "A"]], Schema("s", (Column("S", values=(1, 2)), Column("A", values=(0, 1)))))
    with pytest.raises(InputError, match="real table is coded"):
        score(coded, rows, ["S"], survey_weight="W")
