"""Tests of the classifier of the audit, which is the same forest as in the scores."""

from __future__ import annotations

import numpy as np
import pytest
from score_fixtures import coded_frame
from sklearn.ensemble import RandomForestClassifier

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.eval.scores.classifiers import classifier_utility, train_classifier, truth_of
from equistrata.eval.scores.fairness import group_fairness

SCHEMA = Schema(
    "people",
    (
        Column("G", values=("x", "y")),
        Column("A", values=(3, 1, 2)),
        Column("B", lower=0, upper=9, edges=(0, 4, 9), missing="own"),
        Column("Y", values=(0, 1)),
    ),
    target="Y",
)


def people(n, seed=0, schema=SCHEMA):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in schema.sizes], axis=1)
    codes[:, -1] = (codes[:, 1] + codes[:, 0] + rng.integers(0, 2, n)) % 4 > 1
    return CodedTable(codes.astype(np.uint8), schema)


def test_scores_are_scikit_learns():
    synthetic, private = people(300), people(200, 1)
    forest = train_classifier(synthetic)
    frames = [coded_frame(table) for table in (synthetic, private)]
    numbers = [frame.drop(columns="Y").to_numpy() for frame in frames]
    expected = RandomForestClassifier(n_estimators=100, random_state=42).fit(numbers[0], frames[0]["Y"].astype(int))
    found = forest.predict(private)
    assert found.score == pytest.approx(expected.predict_proba(numbers[1])[:, 1])
    assert np.array_equal(found.selected, expected.predict(numbers[1]) == 1)
    assert (forest.name, forest.target, forest.positive) == ("random_forest", "Y", 1)


def test_it_is_the_forest_of_the_internal_scores():
    synthetic, private = people(300), people(400, 1)
    forest = train_classifier(synthetic)
    labels = np.array(["G=x", "G=y"])[private.column("G")]
    ours = group_fairness(truth_of(private, forest), forest.predict(private).selected, labels, positive=True)
    theirs = classifier_utility(coded_frame(synthetic), coded_frame(private), "Y", ["A"], models=["random_forest"])[
        "random_forest"
    ]
    assert ours.accuracy == theirs.accuracy


def test_one_value_against_the_rest():
    forest = train_classifier(people(300), "A", positive=1)
    private = people(50, 1)
    assert np.array_equal(truth_of(private, forest), private.column("A") == 1)
    assert train_classifier(people(30), "A").positive == 3  # the largest value, and not the last declared value


def test_constant_answers_and_empty_tables():
    rows = people(20)
    codes = rows.codes.copy()
    for answer in (0, 1):
        codes[:, -1] = answer
        found = train_classifier(CodedTable(codes, SCHEMA)).predict(rows)
        assert found.score.tolist() == [float(answer)] * 20
        assert found.selected.tolist() == [bool(answer)] * 20
    empty = train_classifier(rows).predict(rows.take(np.zeros(0, dtype=int)))
    assert len(empty.score) == len(empty.selected) == 0


def test_bad_settings():
    rows = people(20)
    with pytest.raises(InputError, match="declares no target"):
        train_classifier(people(20, schema=SCHEMA.select(["G", "A", "B"])))
    with pytest.raises(InputError, match="positive is 7"):
        train_classifier(rows, positive=7)
    with pytest.raises(InputError, match="unknown column 'Z'"):
        train_classifier(rows, "Z")
    with pytest.raises(InputError, match="only column"):
        train_classifier(rows.select(["Y"]))
    with pytest.raises(InputError, match="no rows"):
        train_classifier(rows.take(np.zeros(0, dtype=int)))
